"""``python -m tests.fuzz.programs --count 20000 --seed S``: random programs of many stages through
``tl.compile`` for this machine and others.

Declaring, compiling or calling a program may raise errors of ours alone; what is computed equals the
reference. Each case runs in a process that others watch, its arrays and temporaries between guard pages, at
either end of them: what ends the process is a failure of the seed.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import ops, te
from tensorlang.codegen.llvm import parallel
from tensorlang.schedule.trace import Trace
from tensorlang.te import reference
from tensorlang.te.axis import dims_of
from tensorlang.te.graph import inputs
from tests.plain import let_pass

from ..guard.arena import Arena
from ..threshold import OF_USERS
from . import crew, functions, harness, open_sizes
from .program import Program

TARGETS = (
    "llvm -mcpu=x86-64",
    "llvm -mcpu=haswell",
    "llvm -mcpu=skylake-avx512",
    "llvm -mcpu=znver5",
    "llvm -mtriple=aarch64-linux-gnu",
    "llvm -mtriple=riscv64-linux-gnu -mattr=+v",
)
SLOW = 5.0  # seconds of the processor
REGISTERED = functions.GEMV  # the module registers what programs call by name


def values(
    program: Program, tensors: list[Any], sizes: dict[str, int], seed: int
) -> tuple[list[Any], dict[Any, int]]:
    """Values for inputs as the program takes them, rubbish for outputs."""
    rng = np.random.default_rng(seed)
    dims = {v: sizes[v.name] for t in tensors for e in t.shape for v in dims_of(e)} if any(sizes) else {}
    out = []
    for t in tensors:
        shape = tuple(reference.size_value(e, dims) for e in t.shape)
        bounds = program.bounds(t.name) if t.name in program.inputs else (0, 2)
        a = rng.integers(*bounds, shape).astype(t.dtype.to_numpy())
        if program.full and t.dtype.is_int:
            a = any_size(rng, a)
        if program.special and t.dtype.is_float:
            a = np.where(
                rng.random(shape) < 0.1, rng.choice((np.nan, np.inf, -np.inf, -0.0), shape), a
            ).astype(a.dtype)
        out.append(a)
    return out, dims


def any_size(rng: np.random.Generator, small: Any) -> Any:
    """An array like one of small numbers, half of its elements of any size, the extremes among them."""
    limits = np.iinfo(small.dtype)
    out = rng.integers(limits.min, limits.max, small.shape, small.dtype, endpoint=True)
    ends = rng.choice(
        np.array([limits.min, limits.min + 1, limits.max - 1, limits.max], small.dtype), small.shape
    )
    which = rng.integers(0, 4, small.shape)
    return np.where(which == 0, out, np.where(which == 1, ends, small)).astype(small.dtype)


def declared(program: Program) -> tuple[list[Any], list[Any]]:
    """The arguments and the outputs of the program of that text."""
    scope: dict[str, Any] = {"te": te, "ops": ops}
    exec(program.text(), scope)
    args, outputs = scope["program"]()
    return args, outputs


def processor() -> float:
    """Seconds of this process and of the children that LLVM may run in."""
    return sum(os.times()[:4])


def run(seed: int, ended: Counter[str], arena: Arena | None = None) -> None:
    """One program. Raises AssertionError for a wrong answer; any error that is not ours passes through.

    The seed says which ways of making a kernel are tried beside ``tl.compile``: constants, a file, no
    schedule at all, checked indices, another target.
    """
    program = Program(seed)
    start = processor()
    try:
        args, outputs = declared(program)
    except tl.TensorLangError as error:
        ended[refusal(error)] += 1
        return
    try:
        ways = kernels(seed, program, args, outputs)
    # nobody asked for a schedule, and what is declared is declared
    except (tl.CompileError, tl.ScheduleError, tl.DeclareError):
        raise
    except tl.TensorLangError as error:
        ended[refusal(error)] += 1
        return
    took = processor() - start
    assert took < SLOW, f"{took:.1f} s to compile in {len(ways)} ways"
    if seed % 8 == 0:
        another(args, TARGETS[seed // 8 % len(TARGETS)], ended)
    func = None if program.sizes == [{}] else tl.lower(tl.create_schedule([t.op for t in outputs]), args)
    for sizes in program.sizes:
        given, dims = values(program, args, sizes, seed)
        if func is not None and harness.refused(func, ways["compiled"][0], args, given, dims):
            ended["calls refused"] += 1
            continue
        want = reference.evaluate(
            outputs,
            {t: a for t, a in zip(args, given, strict=True) if isinstance(t.op, te.PlaceholderOp)},
            dims,
        )
        for how, (f, known) in ways.items():
            for at_end in (False, True) if arena else (False,):
                if arena:
                    arena.place(at_end)
                with arena.copies(given) if arena else nullcontext([a.copy() for a in given]) as got:
                    f(*[a for t, a in zip(args, got, strict=True) if t not in known])
                    agree(f"{how}, {sizes}", args, outputs, given, got, want)
        ended["right"] += 1
    ended["programs"] += 1
    ended.update(list(ways)[1:])


def agree(
    how: str, args: list[Any], outputs: list[Any], given: list[Any], got: list[Any], want: list[Any]
) -> None:
    """Outputs are as wanted, inputs as they were."""
    right = dict(zip(outputs, want, strict=True))
    for t, before, after in zip(args, given, got, strict=True):
        a = right.get(t, before)
        same = (a == after) | ((a != a) & (after != after))
        assert np.all(same), f"{how}: {t.name} differs in {int((~same).sum())} of {a.size}"


def kernels(
    seed: int, program: Program, args: list[Any], outputs: list[Any]
) -> dict[str, tuple[Any, list[Any]]]:
    """How a kernel was made, the kernel, and the inputs whose values it knows."""
    ways: dict[str, tuple[Any, list[Any]]] = {"compiled": (tl.compile(args, name="k"), [])}
    if seed % 6 == 0:
        ways["without a schedule"] = tl.build(tl.create_schedule([t.op for t in outputs]), args, name="k"), []
    if seed % 5 == 0 and program.sizes == [{}]:
        given, _ = values(program, args, {}, seed)
        value = dict(zip(args, given, strict=True))
        constants = {t: value[t] for t in [t for t in inputs(outputs) if t in value][seed // 5 % 2 :: 2]}
        ways["with constants"] = tl.compile(args, name="k", constants=constants), list(constants)
    if seed % 7 == 0 and not any("call_packed" in line for line in program.lines):
        with tempfile.TemporaryDirectory() as place:
            ways["compiled"][0].save(f"{place}/k.tl")
            ways["from a file"] = tl.load(f"{place}/k.tl"), []
    if seed % 11 == 0:
        ways["with checked indices"] = tl.compile(args, name="k", bounds_check=True), []
    if seed % 13 == 0:
        s = tl.recipes.default_schedule(outputs)
        again = Trace.from_json(s.trace.to_json()).apply(tl.create_schedule([t.op for t in outputs]))
        assert str(tl.lower(again, args)) == str(tl.lower(s, args)), (
            "the trace of the default schedule, replayed, gives another kernel"
        )
    return ways


def refusal(error: tl.TensorLangError) -> str:
    """The kind of a refusal, without what is peculiar to the program."""
    return "refused: " + re.sub(r"\b\w*\d+\b|\([\d, ]*\)", "_", str(error).splitlines()[0])[:70]


def another(args: list[Any], target: str, ended: Counter[str]) -> None:
    """The program as assembly for another machine."""
    start = processor()
    try:
        assert len(tl.compile(args, target, name="k").get_source("asm")) > 50
    except (tl.CompileError, tl.ScheduleError):
        raise
    except tl.TensorLangError as error:
        ended[f"{refusal(error)} for {target}"] += 1
        return
    took = processor() - start
    assert took < SLOW, f"{took:.1f} s to compile for {target}"
    ended["for another target"] += 1


def tune(seed: int, ended: Counter[str]) -> None:
    """A search of four trials for one program; those with symbolic sizes are none for it."""
    program = Program(seed)
    if program.sizes != [{}]:
        return
    try:
        task = autosched.SearchTask(lambda: declared(program)[0], ())
        result = autosched.tune(task, trials=4, progress=False, measurer=_measurer())
    except tl.TensorLangError as error:
        ended[refusal(error)] += 1
        return
    assert not result.failures, f"candidates failed: {result.failures}"
    ended["tuned" if result.best is not None else "tuned, no candidate measured"] += 1


@functools.cache
def _measurer() -> Any:
    return autosched.measure.Measurer()


@functools.cache
def _arena() -> Arena:
    arena = Arena()
    arena.serve_kernels()
    return arena


def one(seed: int) -> tuple[Counter[str], str]:
    """How one program ended, and what went wrong."""
    parallel.PIECE = 1 if seed % 2 else OF_USERS
    return _tried(lambda ended: run(seed, ended, _arena()))


def one_tuned(seed: int) -> tuple[Counter[str], str]:
    """How the search for one program ended, and what went wrong."""
    return _tried(lambda ended: tune(seed, ended))


def one_open(seed: int) -> tuple[Counter[str], str]:
    """How one chain over open sizes ended, and what went wrong."""
    parallel.PIECE = 1 if seed % 2 else OF_USERS
    return _tried(lambda ended: open_sizes.run(seed, ended, _arena()))


def _tried(run_: Callable[[Counter[str]], None]) -> tuple[Counter[str], str]:
    ended: Counter[str] = Counter()
    try:
        run_(ended)
    except Exception as error:  # wrong, slow, or not an error of ours
        return ended, f"{type(error).__name__}: {str(error)[:1000]}"
    return ended, ""


def main(argv: list[str] | None = None) -> int:
    let_pass()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tune", action="store_true", help="a search of four trials for each, instead")
    parser.add_argument("--open", action="store_true", help="chains of ops over two open sizes, instead")
    options = parser.parse_args(argv)
    work = one_open if options.open else one_tuned if options.tune else one
    text_of = open_sizes.Chain if options.open else Program
    ended: Counter[str] = Counter()
    bad, start = 0, time.perf_counter()
    seeds = range(options.seed, options.seed + options.count)
    for seed, result in crew.outcomes(work, seeds, options.jobs):
        some, wrong = result if isinstance(result, tuple) else (Counter(), result.why)
        ended += some
        ended["drawn"] += 1
        if wrong:
            bad += 1
            print(f"=== seed {seed}: {wrong}\n{text_of(seed).text()}", flush=True)
        if ended["drawn"] % 500 == 0:
            print(
                f"{time.perf_counter() - start:.0f} s, seed {seed}: {dict(ended.most_common())}, {bad} failure(s)",
                flush=True,
            )
        if time.perf_counter() - start > options.seconds:
            break
    print(dict(ended.most_common()), f"{bad} failure(s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
