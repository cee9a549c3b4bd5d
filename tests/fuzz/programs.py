"""``python -m tests.fuzz.programs --count 20000 --seed S``: random programs of many stages through
``tl.compile`` for this machine and others.

A program is a list of lines in TE's words and those of ``ops``: maps, statistics that several stages read,
products, windows, scans, indices that are data, scalars, empty and symbolic sizes, several outputs, axes
without names, every dtype. Values are small whole numbers, so every order of summation gives the same bits.
Declaring, compiling or calling it may raise errors of ours alone; what is computed equals the reference.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import ops, te
from tensorlang.te import reference
from tensorlang.te.axis import dims_of

from . import harness

DTYPES = (
    "float32",
    "float32",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bool",
)
TARGETS = (
    "llvm -mcpu=x86-64",
    "llvm -mcpu=haswell",
    "llvm -mcpu=skylake-avx512",
    "llvm -mcpu=znver5",
    "llvm -mtriple=aarch64-linux-gnu",
    "llvm -mtriple=riscv64-linux-gnu -mattr=+v",
)
SLOW = 5.0  # seconds of the processor


class Program:
    """The lines of one program, with the rank and dtype of each name."""

    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        self.lines: list[str] = []
        self.sizes: list[dict[str, int]] = [{}]
        if r.random() < 0.25:
            kind = r.choice(
                ('te.var("n")', 'te.size_var("n")', 'te.dim("n", 1, 40)', 'te.dim("n", 0, 64, multiple_of=4)')
            )
            self.lines.append(f"n = {kind}")
            self.sizes = [
                {"n": k}
                for k in ((0, 4, 12) if "multiple" in kind else (1, 2, 13) if "dim" in kind else (0, 1, 13))
            ]
        self.pool = [r.choice((1, 2, 3, 5, 8, 13, 16, 17, 32, 33)) for _ in range(3)]
        self.names: dict[str, tuple[tuple[Any, ...], str]] = {}
        self.inputs: list[str] = []
        for _ in range(r.randint(1, 3)):
            self.input(self.shape(), r.choice(DTYPES))
        for _ in range(r.randint(2, 9)):
            self.stage()
        made = [name for name in self.names if name not in self.inputs] or [self.map(self.inputs[0])]
        self.outputs = list(
            dict.fromkeys([made[-1], *r.sample(made, min(len(made), r.choice((0, 0, 1, 2))))])
        )

    def text(self) -> str:
        body = "\n".join(f"    {line}" for line in self.lines)
        return f"def program():\n{body}\n    return [{', '.join(self.inputs + self.outputs)}], [{', '.join(self.outputs)}]\n"

    def shape(self) -> tuple[Any, ...]:
        r = self.random
        out: list[Any] = [r.choice(self.pool) for _ in range(r.choice((0, 1, 1, 2, 2, 2, 3)))]
        if out and self.sizes != [{}] and r.random() < 0.6:
            out[0] = "n"
        elif out and r.random() < 0.03:
            out[r.randrange(len(out))] = 0
        return tuple(out)

    def add(self, code: str, shape: tuple[Any, ...], t: str, wish: str = "T") -> str:
        name = f"{wish}{len(self.names)}"
        self.lines.append(f"{name} = {code}")
        self.names[name] = (shape, t)
        return name

    def input(self, shape: tuple[Any, ...], t: str) -> str:
        tail = "," if len(shape) == 1 else ""
        name = self.add(
            f'te.placeholder(({", ".join(map(str, shape))}{tail}), "{t}", "A{len(self.names)}")',
            shape,
            t,
            "A",
        )
        self.inputs.append(name)
        return name

    def some(self, least: int = 0, numbers: bool = False) -> str | None:
        found = [
            n for n, (shape, t) in self.names.items() if len(shape) >= least and not (numbers and t == "bool")
        ]
        return self.random.choice(found) if found else None

    def map(self, x: str) -> str:
        """A compute over the indices of ``x``, perhaps with those of others that broadcast to it."""
        r = self.random
        shape, t = self.names[x]
        at = ", ".join("ijlm"[: len(shape)])
        element = f"{x}[{at}]" if shape else f"{x}()"
        like = [
            n
            for n, (s, u) in self.names.items()
            if u == t and (s == shape or (s and s == shape[-len(s) :]) or not s)
        ]
        y = r.choice(like)
        rank = len(self.names[y][0])
        other = f"{y}[{', '.join('ijlm'[len(shape) - rank : len(shape)])}]" if rank else f"{y}()"
        if t == "bool":
            body = r.choice(
                (
                    f"te.any({element}, {other})",
                    f"te.all({element}, {other})",
                    f"te.if_then_else({element}, {other}, {element})",
                )
            )
        else:
            body = r.choice(
                (
                    f"te.max(te.min({element} + {other}, 9), -9)"
                    if not t.startswith("u")
                    else f"te.min({element} + {other}, 9)",
                    f"te.max({element}, {other})",
                    f"te.if_then_else({element} > {other}, {element}, 1)",
                    f"te.select({other} < 3, {element}, {other})",
                    f"te.min({element}, 4)",
                )
            )
        if shape and r.random() < 0.3 and t != "bool":
            body = f"te.if_then_else({r.choice('ijlm'[: len(shape)])} % 3 == 1, {body}, {element})"
        args = f"lambda {at}: {body}" if shape else f"lambda: {body}"
        tail = "," if len(shape) == 1 else ""
        named = f', "C{len(self.names)}"' if r.random() < 0.6 else ""
        return self.add(f"te.compute(({', '.join(map(str, shape))}{tail}), {args}{named})", shape, t)

    def stage(self) -> None:
        r = self.random
        kind = r.choice(
            (
                "map",
                "map",
                "op",
                "op",
                "statistic",
                "statistic",
                "reduce",
                "product",
                "shape",
                "take",
                "scan",
                "cast",
                "compare",
            )
        )
        x = self.some(
            1 if kind in ("statistic", "reduce", "take", "scan") else 2 if kind == "product" else 0,
            kind in ("scan", "product", "reduce"),
        )
        if x is None:
            return
        shape, t = self.names[x]
        if kind == "map":
            self.map(x)
        elif kind == "op":
            name = (
                r.choice(("maximum", "minimum")) if t != "bool" else r.choice(("logical_or", "logical_and"))
            )
            y = r.choice([n for n, (s, u) in self.names.items() if u == t and (s == shape or not s)])
            self.add(f"ops.{name}({x}, {y})", shape, t)
        elif kind == "statistic":
            axis, keep = r.randrange(len(shape)), r.random() < 0.4
            name = r.choice(("max", "min", "sum")) if t != "bool" else r.choice(("any", "all"))
            rest = tuple(1 if keep and d == axis else n for d, n in enumerate(shape) if keep or d != axis)
            y = self.add(f"ops.{name}({x}, axis={axis}, keepdims={keep})", rest, t)
            self.names[y] = (rest, "?")
            if name != "sum":
                self.names[y] = (rest, t)
                if keep:
                    self.add(f"ops.{'maximum' if t != 'bool' else 'logical_or'}({x}, {y})", shape, t)
            else:
                del self.names[y]
                self.lines[-1] = f'{y} = ops.cast({self.lines[-1].partition(" = ")[2]}, "float64")'
                self.names[y] = (rest, "float64")
        elif kind == "reduce":
            axis = r.randrange(len(shape))
            k, letters = f"k{len(self.lines)}", [*"ijlm"[: len(shape)]]
            self.lines.append(
                f"{k} = te.reduce_axis((0, {shape[axis]})"
                + (")" if r.random() < 0.5 else f', "{r.choice("ik")}")')
            )
            rest = tuple(n for d, n in enumerate(shape) if d != axis)
            free = [c for d, c in enumerate(letters) if d != axis]
            letters[axis] = k
            where = f", where={k} % 2 == 0" if r.random() < 0.2 else ""
            tail = "," if len(rest) == 1 else ""
            self.add(
                f"te.compute(({', '.join(map(str, rest))}{tail}), lambda {', '.join(free)}: te.{r.choice(('max', 'min'))}({x}[{', '.join(letters)}], "
                f"axis={k}{where}))",
                rest,
                t,
            )
        elif kind == "product":
            if t not in ("float32", "float64") or len(shape) != 2:
                return
            columns = r.choice(self.pool)
            w = self.input((shape[1], columns), t)
            y = self.add(f"ops.matmul({x}, {w})", (shape[0], columns), t)
            self.add(
                f'ops.minimum(ops.maximum({y}, ops.full((), -5, "{t}")), ops.full((), 5, "{t}"))',
                (shape[0], columns),
                t,
            )
        elif kind == "shape":
            self.reshaped(x, shape, t)
        elif kind == "take":
            axis = r.randrange(len(shape))
            index = self.input((r.choice(self.pool),), r.choice(("int32", "int64")))
            self.add(
                f"ops.take({x}, {index}, {axis}, {r.choice(('clip', 'wrap'))!r})",
                (*shape[:axis], *self.names[index][0], *shape[axis + 1 :]),
                t,
            )
        elif kind == "scan":
            axis = r.randrange(len(shape))
            self.add(f'ops.cumsum({x}, {axis}, dtype="{t}")', shape, t)
        elif kind == "cast":
            u = r.choice(("float32", "float64", "int32", "int64"))
            self.add(f'ops.cast({x}, "{u}")', shape, u)
        elif t != "bool":
            y = r.choice([n for n, (s, u) in self.names.items() if u == t and (s == shape or not s)])
            self.add(f"ops.{r.choice(('greater', 'less_equal', 'equal'))}({x}, {y})", shape, "bool")

    def reshaped(self, x: str, shape: tuple[Any, ...], t: str) -> None:
        r = self.random
        how = r.choice(("transpose", "flip", "concat", "pad", "expand", "flatten"))
        if how == "transpose":
            self.add(f"ops.transpose({x})", shape[::-1], t)
        elif how == "flip" and shape:
            self.add(f"ops.flip({x}, {r.randrange(len(shape))})", shape, t)
        elif how == "concat" and shape and shape[0] != "n":
            self.add(f"ops.concat([{x}, {x}], 0)", (2 * shape[0], *shape[1:]), t)
        elif how == "pad" and shape and shape[-1] != "n" and t != "bool":
            mode = r.choice(("constant", "edge", "reflect"))
            margins = "".join(f"(0, {int(d == len(shape) - 1)}), " for d in range(len(shape)))
            if mode == "constant" or shape[-1] > 1:
                self.add(f"ops.pad({x}, ({margins}), {mode!r})", (*shape[:-1], shape[-1] + 1), t)
        elif how == "expand":
            self.add(f"ops.expand_dims({x}, 0)", (1, *shape), t)
        elif how == "flatten" and len(shape) == 2 and "n" not in shape:
            self.add(f"ops.reshape({x}, ({shape[0]} * {shape[1]},))", (shape[0] * shape[1],), t)


def values(tensors: list[Any], sizes: dict[str, int], seed: int) -> tuple[list[Any], dict[Any, int]]:
    """Small whole numbers for inputs, rubbish for outputs."""
    rng = np.random.default_rng(seed)
    dims = {v: sizes[v.name] for t in tensors for e in t.shape for v in dims_of(e)} if any(sizes) else {}
    out = []
    for t in tensors:
        shape = tuple(reference.size_value(e, dims) for e in t.shape)
        kind = t.dtype.to_numpy()
        low = 0 if t.dtype.code == "uint" or t.dtype.is_bool else -3
        out.append(rng.integers(low, 2 if t.dtype.is_bool else 4, shape).astype(kind))
    return out, dims


def run(seed: int, ended: Counter[str]) -> None:
    """One program. Raises AssertionError for a wrong answer; any error that is not ours passes through."""
    program = Program(seed)
    scope: dict[str, Any] = {"te": te, "ops": ops}
    start = sum(os.times()[:4])  # children, in which LLVM runs, are counted
    try:
        exec(program.text(), scope)
        args, outputs = scope["program"]()
        f = tl.compile(args, name="k")
        if seed % 4 == 0:
            assert len(tl.compile(args, TARGETS[seed // 4 % len(TARGETS)], name="k").get_source("asm")) > 50
            ended["for another target"] += 1
    except (tl.CompileError, tl.ScheduleError):  # nobody asked for a schedule
        raise
    except tl.TensorLangError as error:
        ended["refused: " + str(error).split("\n")[0].split(":")[0][:40]] += 1
        return
    took = sum(os.times()[:4]) - start
    assert took < SLOW, f"{took:.1f} s to compile"
    func = tl.lower(tl.create_schedule([t.op for t in outputs]), args)
    inputs = len(program.inputs)
    for sizes in program.sizes:
        given, dims = values(args, sizes, seed)
        if harness.refused(func, f, args, given, dims):
            ended["calls refused"] += 1
            continue
        want = reference.evaluate(outputs, dict(zip(args[:inputs], given, strict=False)), dims)
        f(*given)
        for t, a, b in zip(outputs, want, given[inputs:], strict=True):
            assert np.array_equal(a, b, equal_nan=a.dtype.kind == "f"), (
                f"{t.name} with {sizes} differs in {int((a != b).sum())} of {a.size}"
            )
        ended["right"] += 1
    ended["programs"] += 1


def tune(seed: int, ended: Counter[str]) -> None:
    """A search of four trials for one program; those with symbolic sizes are none for it."""
    program = Program(seed)
    if program.sizes != [{}]:
        return
    scope: dict[str, Any] = {"te": te, "ops": ops}
    try:
        exec(program.text(), scope)
        result = autosched.tune(
            autosched.SearchTask(lambda: scope["program"]()[0], ()), trials=4, progress=False
        )
        ended["tuned" if result.best is not None else "tuned, no candidate measured"] += 1
    except tl.TensorLangError as error:
        ended["refused: " + str(error).split("\n")[0].split(":")[-1][:40]] += 1


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--tune", action="store_true", help="a search of four trials for each, instead")
    options = parser.parse_args(argv)
    os.environ["TENSORLANG_ISOLATE"] = "1"  # an abort of LLVM is a failure like others
    ended: Counter[str] = Counter()
    bad, start = 0, time.perf_counter()
    for seed in range(options.seed, options.seed + options.count):
        if time.perf_counter() - start > options.seconds:
            break
        if seed % 500 == 0:
            print(f"seed {seed}: {dict(ended.most_common())}, {bad} failure(s)", flush=True)
        try:
            (tune if options.tune else run)(seed, ended)
        except Exception as error:  # wrong, slow, or not an error of ours
            bad += 1
            print(
                f"=== seed {seed} after {ended['programs']} programs: {type(error).__name__}: {str(error)[:300]}\n{Program(seed).text()}",
                flush=True,
            )
    print(dict(ended.most_common()), f"{bad} failure(s)")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
