"""Parameters in the shapes that they are declared in, where a kernel was lowered with others (see
te.unit_axes and te.reshaped): ``x[i]`` of a parameter that is declared ``[n, 1, 1]`` becomes ``x[i, 0, 0]``,
and ``x[i // n, i % n]`` of one that has rows. Knows loop IR; no schedules."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import make
from ..expr.nodes import Var
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import Buffer, Func
from ..te.row_major import place as place_in
from ..te.row_major import same
from ..te.tensor import Tensor


def as_declared(
    func: Func, declared: Sequence[Tensor | Var], present: Sequence[Tensor | Var], constants: Sequence[Tensor]
) -> Func:
    """The kernel of the arguments ``present``, but for ``constants``, with parameters of the shapes of
    ``declared``."""
    passed = [p for p in zip(declared, present, strict=True) if not any(p[1] is c for c in constants)]
    other = {
        p: Buffer(p.name, p.dtype, t.shape, p.scope)
        for p, (t, a) in zip(func.params, passed, strict=False)
        if isinstance(p, Buffer)
        and isinstance(t, Tensor)
        and isinstance(a, Tensor)
        and not same(t.shape, a.shape)
    }
    if not other:
        return func

    def place(at: Place) -> Place | None:
        new = other.get(at.buffer)
        if new is None:
            return None
        return Place(new, tuple(map(make.as_expr, place_in(new.shape, at.buffer.shape, at.indices))), at.mask)

    changed = func.changed(
        params=tuple(other.get(p, p) if isinstance(p, Buffer) else p for p in func.params),
        body=relocate(func.body, place),
        outputs=tuple(other.get(b, b) for b in func.outputs),
    )
    changed.updates = tuple(other.get(b, b) for b in func.updates)
    return changed
