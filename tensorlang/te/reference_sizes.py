"""The values of symbolic sizes, solved from the shapes of arrays, for the reference. Knows expressions of
sizes, no elements.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import CallError
from ..expr import linear
from ..expr.nodes import Const, Expr, Var, const_int
from ..expr.walk import substitute, variables
from .tensor import Tensor


def solve_dims(
    shapes: Mapping[Tensor, tuple[int, ...]], dims: Mapping[Var, int] | None = None
) -> dict[Var, int]:
    """The values of the symbolic sizes that make the declared shapes equal to the given ones, beginning with
    ``dims``.

    Raises CallError when there are none.
    """
    known: dict[Var, int] = dict(dims or {})
    equations: list[tuple[Tensor, int, int]] = []
    for t, shape in shapes.items():
        if len(shape) != t.ndim:
            raise CallError(
                f"{t.name}: an array of {len(shape)} dimension(s) for a tensor of {t.ndim}",
                because=_shape_text(t),
            )
        equations += [(t, d, int(n)) for d, n in enumerate(shape)]
    progress = True
    # an equation may need a dim that a later one gives: round after round, until one learns nothing
    while progress:
        progress = False
        for t, d, n in equations:
            progress |= _solve_one(t.shape[d], n, known)
    for t, d, n in equations:
        value = size_value(t.shape[d], known)
        if value is not None and value != n:
            raise CallError(f"{t.name}: dimension {d} is {n}, should be {value}", because=_shape_text(t))
    for v, n in known.items():
        below, above = v.lo is not None and n < v.lo, v.hi is not None and n > v.hi
        if v.kind == "dim" and (below or above or n % v.multiple_of):
            raise CallError(
                f"{v.name} is {n}",
                because=f"declared with {v.lo} <= {v.name} <= {v.hi}, a multiple of {v.multiple_of}",
            )
    for cond in {c: None for v in known for c in v.assumed}:
        if all(v in known for v in variables(cond)):
            holds = substitute(cond, {v: _literal(v, known[v]) for v in variables(cond)})
            if not (isinstance(holds, Const) and holds.value):
                raise CallError(
                    f"{', '.join(f'{v.name} is {known[v]}' for v in known if v in variables(cond))}",
                    because=f"te.assume({cond})",
                )
    return known


def _shape_text(t: Tensor) -> str:
    return f"{t.name} is declared with shape ({', '.join(map(str, t.shape))})"


def _solve_one(e: Expr, n: int, known: dict[Var, int]) -> bool:
    """Bind the one unknown of ``e == n`` when ``e`` is linear in it; tells whether something was learnt."""
    if const_int(e) is not None:
        return False
    free = [v for v in variables(e) if v not in known]
    if len(free) != 1:
        return False
    p = linear.poly(substitute(e, {v: _literal(v, known[v]) for v in variables(e) if v in known}))
    c = p.get((free[0],), 0)
    rest = n - p.get((), 0)
    # c * v + constant = n has one solution, when it is a whole number
    if not c or len(p) > 2 or (len(p) == 2 and () not in p) or rest % c:
        return False
    known[free[0]] = rest // c
    return True


def _literal(v: Var, value: int) -> Expr:
    literal: Expr = Const.make(value, v.dtype)
    return literal


def size_value(e: Expr, known: Mapping[Var, int]) -> int | None:
    """The value of a size, or None when a symbol in it has none."""
    n = const_int(e)
    if n is not None:
        return n
    if any(v not in known for v in variables(e)):
        return None
    return const_int(substitute(e, {v: _literal(v, known[v]) for v in variables(e)}))


def extent(where: str, e: Expr, known: Mapping[Var, int]) -> int:
    n = size_value(e, known)
    if n is None:
        unknown = ", ".join(sorted(v.name for v in variables(e) if v not in known))
        raise CallError(
            f"{where}: the size {e} is not known",
            because=f"nothing gives a value to {unknown}",
            try_="evaluate(…, dims={n: 128})",
        )
    return max(n, 0)
