"""unroll: an unrolled loop is written out, one copy of the body per iteration.

``for i in unrolled 0..2: S(i)`` → ``S(0); S(1)``

What would grow beyond ``BUDGET`` statements, or beyond ``CODE_BUDGET`` instructions, stays a plain loop,
which computes the same; a note at the loop says so: ``for i in range(0, 4096):  # kept: unrolling 4096 x 20
statements exceeds the budget of 20000`` What is megabytes of code even so is refused.
"""

from __future__ import annotations

from ..core.text import bytes_text
from ..errors import LowerError
from ..expr import make
from ..expr.nodes import const_int
from ..loopir.code_size import BYTES, instructions, written_out
from ..loopir.stmt import For, Func, Seq, Stmt, preorder, rewrite, seq
from .simplify import replace_var

BUDGET = 20_000
# instructions of one loop: LLVM makes some 10,000 a second where a target has no masks and gathers
CODE_BUDGET = 30_000
MOST_CODE = 16 << 20  # bytes of one nest


def unroll(func: Func) -> Func:
    """The pass."""
    most = written_out(func.body)
    body = rewrite(func.body, lambda s: _loop(s, most > CODE_BUDGET))
    stack = [body] if most * BYTES > MOST_CODE else []
    while stack:
        s = stack.pop()
        if isinstance(s, For):
            _refuse_megabytes(s)
        else:
            stack += s.parts()
    return func.with_body(body)


def _loop(s: Stmt, large: bool) -> Stmt | None:
    """``large``: there may be more instructions than the budget has."""
    if not isinstance(s, For) or s.kind != "unrolled":
        return None
    n = const_int(s.extent)
    each = _count(s.body)
    if n is None or n * each > BUDGET:
        note = f"unrolling {n} x {each} statements exceeds the budget of {BUDGET}"
        return For(
            s.var, s.begin, s.extent, "serial", s.body, tuple(sorted({**dict(s.attrs), "kept": note}.items()))
        )
    size = instructions(s.body) if large else 0
    if n > 1 and n * size > CODE_BUDGET:
        note = f"unrolling {n} x {size} instructions exceeds the budget of {CODE_BUDGET}"
        return For(
            s.var, s.begin, s.extent, "serial", s.body, tuple(sorted({**dict(s.attrs), "kept": note}.items()))
        )
    return seq(*[replace_var(s.body, s.var, make.add(s.begin, i)) for i in range(n)])


def _refuse_megabytes(s: For) -> None:
    size = instructions(s) * BYTES
    if size > MOST_CODE:
        raise LowerError(
            f"the nest of loop {s.var.name} would be about {bytes_text(size)} of code",
            because=f"the limit is {bytes_text(MOST_CODE)}",
            try_="smaller vectors, less unrolling, or fewer stages computed in one loop",
        )


def _count(s: Stmt) -> int:
    return sum(not isinstance(st, Seq) for st in preorder(s))
