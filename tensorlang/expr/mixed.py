"""Elements of tensors of different types in one operation: what may lose values is refused. Knows nodes;
called by the smart constructors.

Indices, sizes, scalar arguments and Python's numbers follow TVM's promotion. Two elements of tensors do so
only where the common type holds every value of both: ``int8 + int32``, ``float16 + float32``, but not ``int32
+ float32`` (rounded) nor ``int8 + uint8`` (-1 becomes 255).
"""

from __future__ import annotations

from ..core.dtype import KNOWN, DType, dtype
from ..errors import DeclareError
from .nodes import Access, Cast, Choice, Expr
from .printer import show
from .walk import preorder


def refuse_loss(a: Expr, b: Expr, common: DType) -> None:
    """Raises DeclareError when ``a`` and ``b`` are both made of elements of tensors and ``common`` does not
    hold all their values."""
    sides = [_narrowest(e) for e in (a, b)]
    lost = next((e for e, s in zip((a, b), sides, strict=True) if not common.holds(s)), None)
    if lost is None or not (_has_elements(a) and _has_elements(b)):
        return
    both = next((t for t in (dtype(name) for name in KNOWN) if t.holds(sides[0]) and t.holds(sides[1])), None)
    exact = (
        ""
        if both is None
        else ", ".join(_cast(e, both) for e in (a, b) if e.dtype is not both) + " to keep every value, or "
    )
    raise DeclareError(
        f"`{show(a)}` is {a.dtype}, `{show(b)}` is {b.dtype}: which type is meant?",
        because=f"together they would be {common}, which does not hold every {lost.dtype}",
        try_=f"{exact}{_cast(lost, common)} to convert it as it is",
    )


def _cast(e: Expr, t: DType) -> str:
    text = show(e)
    return f"{text if isinstance(e, Access) else f'({text})'}.astype('{t}')"


def _narrowest(e: Expr) -> DType:
    """The type the values of ``e`` have come from: a cast that holds them all adds none."""
    while type(e) is Cast and e.dtype.holds(e.a.dtype):
        e = e.a
    return e.dtype


def _has_elements(e: Expr) -> bool:
    """Whether the value of ``e`` is made of elements of tensors; what it is chosen by does not count."""
    nodes = preorder(e, lambda n: n.children()[1:] if isinstance(n, Choice) else n.children())
    return any(isinstance(n, Access) for n in nodes)
