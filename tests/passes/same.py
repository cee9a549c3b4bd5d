"""Whether a pass kept the meaning of a kernel: both sides are verified and interpreted on the same numbers.
No test lives here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tensorlang.expr import make
from tensorlang.expr.nodes import Expr, const_int
from tensorlang.expr.walk import substitute
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import Buffer, Func
from tensorlang.loopir.verify import verify


def body_text(func: Func) -> str:
    """The printed body, its indentation taken back by one."""
    return "\n".join(line[4:] for line in str(func).splitlines() if line.startswith("    "))


def arrays(func: Func, sizes: Mapping[str, int], seed: int = 0) -> list[Any]:
    """Small whole numbers for the inputs, a mark for the outputs."""
    rng = np.random.default_rng(seed)

    def extent(e: Expr) -> int:
        n = const_int(substitute(e, {d: make.const(sizes[d.name], d.dtype) for d in func.dims}))
        assert n is not None
        return n

    out: list[Any] = []
    for p in func.params:
        if not isinstance(p, Buffer):
            out.append(int(rng.integers(0, 5)))
            continue
        shape = tuple(map(extent, p.shape))
        kind = p.dtype.to_numpy()
        values = rng.integers(0 if kind.kind in "ub" else -4, 5, shape).astype(kind)
        out.append(np.full(shape, 99, kind) if any(p is o for o in func.outputs) else values)
    return out


def run(func: Func, sizes: Mapping[str, int], *, coverage: bool = True) -> list[Any]:
    """The arguments after the kernel ran on them in the interpreter."""
    args = arrays(func, sizes)
    interpret(func, *args, dims=sizes, coverage=coverage)
    return args


def same(
    before: Func, after: Func, sizes: Sequence[Mapping[str, int]] = ({},), *, coverage: bool = True
) -> None:
    """Assert that both are well formed and write the same numbers, for each of these symbolic sizes."""
    verify(before)
    verify(after)
    for chosen in sizes:
        for p, a, b in zip(
            before.params,
            run(before, chosen, coverage=coverage),
            run(after, chosen, coverage=coverage),
            strict=True,
        ):
            assert np.array_equal(a, b), f"{p.name} differs for {dict(chosen)}\n{after}"
