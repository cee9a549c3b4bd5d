"""Parameters with the last dimensions of size 1 that a kernel was lowered without (see te.unit_axes):
``x[i]`` of a parameter that is declared ``[n, 1, 1]`` becomes ``x[i, 0, 0]``. Knows loop IR; no schedules."""

from __future__ import annotations

from collections.abc import Sequence

from ..expr import make
from ..expr.nodes import Var
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import Buffer, Func
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

    def place(at: Place) -> Place | None:
        new = longer.get(at.buffer)
        behind = len(new.shape) - len(at.indices) if new else 0
        return Place(new, (*at.indices, *[ZERO] * behind), at.mask) if new else None

    changed = func.changed(
        params=tuple(longer.get(p, p) if isinstance(p, Buffer) else p for p in func.params),
        body=relocate(func.body, place),
        outputs=tuple(longer.get(b, b) for b in func.outputs),
    )
    changed.updates = tuple(longer.get(b, b) for b in func.updates)
    return changed
