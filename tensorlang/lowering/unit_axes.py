"""Parameters with the last dimensions of size 1 that a kernel was lowered without (see te.unit_axes):
``x[i]`` of a parameter that is declared ``[n, 1, 1]`` becomes ``x[i, 0, 0]``. Knows loop IR; no schedules."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import make
from ..expr.nodes import Expr, Var
from ..expr.walk import rewrite as rewrite_expr
from ..loopir.stmt import Buffer, Func, Load, Stmt, Store, load, map_exprs, rewrite
from ..te.tensor import Tensor

ZERO = make.const(0, "int32")


def as_declared(
    func: Func, declared: Sequence[Tensor | Var], present: Sequence[Tensor | Var], constants: Sequence[Tensor]
) -> Func:
    """The kernel of the arguments ``present``, but for ``constants``, with parameters of the shapes of
    ``declared``, dimensions of size 1 behind theirs included."""
    passed = [t for t, a in zip(declared, present, strict=True) if not any(a is c for c in constants)]
    longer = {
        p: Buffer(p.name, p.dtype, t.shape, p.scope)
        for p, t in zip(func.params, passed, strict=False)
        if isinstance(p, Buffer) and isinstance(t, Tensor) and len(p.shape) < t.ndim
    }
    if not longer:
        return func

    def place(b: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (*indices, *[ZERO] * (len(longer[b].shape) - len(indices)))

    def in_expr(e: Expr) -> Expr | None:
        if type(e) is Load and e.buffer in longer:
            return load(longer[e.buffer], place(e.buffer, e.indices), e.mask)
        return None

    def in_stmt(s: Stmt) -> Stmt | None:
        if isinstance(s, Store) and s.buffer in longer:
            return Store(longer[s.buffer], s.value, place(s.buffer, s.indices), s.mask)
        return None

    done: dict[Expr, Expr] = {}
    body = rewrite(map_exprs(func.body, lambda e: rewrite_expr(e, in_expr, done)), in_stmt)
    changed = func.changed(
        params=tuple(longer.get(p, p) if isinstance(p, Buffer) else p for p in func.params),
        body=body,
        outputs=tuple(longer.get(b, b) for b in func.outputs),
    )
    changed.updates = tuple(longer.get(b, b) for b in func.updates)
    return changed
