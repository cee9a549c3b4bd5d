"""Kernels to be proved: what the fuzzer makes of a seed, and which outputs of a schedule are written by plain
computes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tensorlang as tl
from tensorlang.errors import LowerError
from tensorlang.loopir.stmt import Buffer, Func
from tests.fuzz import harness
from tests.guard.pairs import pair

from .prove import Report, prove

BIG = 350  # statements of a kernel that isl is asked about


def plain_outputs(s: tl.Schedule, func: Func) -> tuple[Buffer, ...]:
    """The outputs whose stage is not a reduction: as lowered, each element is stored once; not so with tails
    that begin earlier."""
    plain = {
        t.name
        for st in s.state.stages
        if st.is_output
        and not st.is_opaque
        and not st.compute.reduce_axis
        and not any(getattr(r, "tail", "") == "shift" for r in st.relations)
        for t in st.op.outputs
    }
    return tuple(b for b in func.outputs if b.name in plain)


def prove_schedule(s: tl.Schedule, args: list[Any], passes: bool = True) -> Report:
    """The proofs of the lowered kernel, and of the one after all passes, where elements may be written more
    than once: an output serves as the memory of a stage it is computed from."""
    total = Report(Counter(), Counter(), [])
    for simple in (True, False) if passes else (True,):
        func = tl.lower(s, args, simple=simple)
        if harness.count(func) > BIG:
            total.unknown["too large"] += 1
            continue
        one = prove(func, plain_outputs(s, func) if simple else ())
        total.proved += one.proved
        total.unknown += one.unknown
        total.wrong += [f"{'as lowered' if simple else 'after all passes'}: {w}" for w in one.wrong]
    return total


def prove_seed(seed: int, family: str | None = None, most: int = 12) -> Report:
    """The proofs of the pair that a seed of the fuzzer gives."""
    _, args, _, _, s = pair(seed, family, most)
    try:
        return prove_schedule(s, args)
    except LowerError:
        return Report()
