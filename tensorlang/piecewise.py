"""Kernels of a search: built nest by nest, so that what candidates share is compiled once. Knows the whole
flow, as ``build`` does.

A search tries hundreds of kernels of one computation, which pack operands and finish results by the same few
nests. Where a nest stands apart (see ``codegen.llvm.nests``), what is kept is its object code, by all that
its loop IR says before loops are written out, and by the target. So is the whole kernel: schedules that
differ may say the same loops (a transposed convolution's 64 candidates are 51 kernels). What users call is
built whole.
"""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from .build import NOT_LOADED, lower
from .build import build as build_whole
from .codegen import CompiledCode, compile_ll, emit, emit_nest, kernel_signature
from .codegen.llvm.nests import taken_apart
from .core.collector import uncollected
from .expr.nodes import Var
from .interface.signature import Signature
from .loopir.digest import digest
from .loopir.stmt import Alloc, Extern, For, Func, Seq, Stmt, preorder
from .passes.base import TimeTable
from .passes.pipeline import PIPELINE
from .runtime import Module
from .runtime.elf_join import joined
from .schedule.schedule import Schedule
from .target import Target, as_target
from .te.tensor import Tensor

# the first pass whose result is many times as long as what it is given: what stands before tells nests apart
_FIRST, _REST = PIPELINE.cut("unroll")


class Kept(Protocol):
    """Object code by name, of one version of the compiler."""

    def get(self, name: str) -> bytes | None:
        """What was put, None where it is there no more."""

    def put(self, name: str, code: bytes) -> None:
        """Keep it, as long as there is room."""


def build(
    schedule: Schedule,
    args: Sequence[Tensor | Var],
    target: str | Target | None,
    name: str,
    kept: Kept,
    times: TimeTable | None = None,
) -> Module:
    """As ``tl.build`` with ``load=False``, of nests in ``kept`` where they are there. Raises what it
    raises."""
    where, hooks = as_target(target), () if times is None else (times,)
    with uncollected():
        lowered = lower(schedule, args, name, simple=True, hooks=hooks)
        if lowered.constants:  # a kernel that brings tables along is not put together of others
            return build_whole(schedule, args, target, name, times=times, load=False)
        called = [name, *[v.name for v in (*lowered.params, *lowered.dims)]]
        known = None if lowered.dims else digest(lowered, str(where), *called)
        found = None if known is None else _found(kept.get(f"whole_{known}"), str(where))
        if found is not None:
            return found
        func = _FIRST.run(lowered, hooks)
        signature = kernel_signature(func)
        main, nests = taken_apart(func, functools.partial(_name, str(where)))
        codes = [_nest(n, where, kept, times) for n in {n.name: n for n in nests}.values()]
        main = _REST.run(main, hooks)
        # what only calls is compiled in a third of the time without optimising, and takes as long
        whole = _timed(times, main, lambda: emit(main, where), where, 2 if _computes(main.body) else 0)
        code = joined([whole.object, *codes], [signature.name]) if codes else whole.object
    if known is not None:
        facts = {"signature": signature.to_json(), "features": whole.instruction_sets}
        kept.put(f"whole_{known}", json.dumps(facts).encode() + b"\n" + code)
    return _module(code, signature, str(where), whole.instruction_sets)


def _found(kept: bytes | None, target: str) -> Module | None:
    """A whole kernel as it was put."""
    if kept is None:
        return None
    line, _, code = kept.partition(b"\n")
    facts = json.loads(line)
    return _module(code, Signature.from_json(facts["signature"]), target, facts["features"])


def _module(code: bytes, signature: Signature, target: str, features: Sequence[str]) -> Module:
    return Module(code, signature, None, target, refused=NOT_LOADED, constants={}, features=features)


def _name(target: str, nest: Func) -> str | None:
    known = digest(nest, target)
    return None if known is None else f"nest_{known}"


def _nest(nest: Func, where: Target, kept: Kept, times: TimeTable | None) -> bytes:
    """The object code of a nest."""
    code = kept.get(nest.name)
    if code is None:
        func = _REST.run(nest, () if times is None else (times,))
        code = _timed(times, func, lambda: emit_nest(func, where), where).object
        kept.put(nest.name, code)
    return code


def _computes(s: Stmt) -> bool:
    """Whether there is anything but buffers, loops and calls of nests."""
    return not all(isinstance(x, Alloc | Seq | Extern | For) for x in preorder(s))


def _timed(
    times: TimeTable | None, func: Func, text: Callable[[], str], where: Target, opt_level: int = 2
) -> CompiledCode:
    """The code of a text, and what both took."""
    start = time.perf_counter()
    code = compile_ll(text(), where, opt_level, program=lambda: str(func))
    if times is not None:
        times.add("emit LLVM text", time.perf_counter() - start - sum(code.seconds.values()))
        for stage, seconds in code.seconds.items():
            times.add(f"LLVM {stage}", seconds)
    return code
