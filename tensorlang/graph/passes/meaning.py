"""What tensors mean, as sums of products: two that are written differently and are the same in exact
arithmetic of reals have one form. Knows te; no graphs.

A form is that of one element: monomials with their coefficients. A factor of a monomial is a read of a
placeholder, a sum or another function of forms, each with its exponent. What a sum does not depend on stands
before it, so ``softmax(s) v`` and ``(exp(s - max) v) / sum`` have one form. Elements of integers, conditions
and casts are compared as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...arith.facts import Facts
from ...arith.simplify import simplify_expr
from ...expr import make
from ...expr.nodes import Add, Call, Const, Div, Expr, Mul, Sub, Var, const_int
from ...expr.walk import preorder, substitute, variables
from ...te import ComputeOp, Tensor
from ...te.axis import var
from ...te.extern import OpaqueOp
from ...te.reducers import Reduce
from ...te.tensor import TensorRead
from ..sizes import same_sizes

MOST = 64  # monomials of a form
# significant digits of numbers: a model says 0.7071068 where an operator means sqrt(1 / 2)
DIGITS = {"float32": 6, "float64": 13}

Factor = tuple[Any, ...]
Monomial = frozenset[tuple[Factor, float]]  # factors with their exponents
Form = frozenset[tuple[Monomial, float]]


class Unknown(Exception):
    """What has no form."""


def form_of(t: Tensor) -> Form | None:
    """The form of an element of ``t`` in terms of the placeholders below it; None where it has none."""
    digits = DIGITS.get(t.dtype.name)
    if digits is None:
        return None
    axes: list[Expr] = [axis(d) for d in range(t.ndim)]
    try:
        reader = _Reader(digits, t)
        return reader.compared(reader.read(t, axes))
    except Unknown:
        return None


def alike(a: Tensor, b: Tensor) -> bool:
    """Whether both are the same function of the same placeholders, but for rounding."""
    if a.dtype != b.dtype or not same_sizes(a.shape, b.shape):
        return False
    form = form_of(a)
    return form is not None and form == form_of(b)


_AXES: list[Var] = []
_BOUND: list[Var] = []


def _numbered(known: list[Var], letter: str, d: int) -> Var:
    while len(known) <= d:
        known.append(var(f"{letter}{len(known)}"))
    return known[d]


def axis(d: int) -> Var:
    """The index of an element along dimension ``d``, in every form."""
    return _numbered(_AXES, "i", d)


class _Reader:
    def __init__(self, digits: int, t: Tensor) -> None:
        self.digits = digits
        zero = make.const(0, "int32")
        self.facts = Facts().bind_all([(axis(d), zero, n - 1) for d, n in enumerate(t.shape)])
        self.fresh = 0

    def read(self, t: Tensor, at: list[Expr]) -> Form:
        """The form of the element there."""
        op = t.op
        if isinstance(op, ComputeOp) and not isinstance(op, OpaqueOp):
            if len(op.body) != 1 or op.needs:
                raise Unknown
            return self.form(op.body[0], {a.var: i for a, i in zip(op.axis, at, strict=True)})
        if isinstance(op, ComputeOp) or op.input_tensors:
            raise Unknown
        return self.factor(("read", t, *at))

    def form(self, e: Expr, at: Mapping[Var, Expr]) -> Form:
        """The form of an expression whose axes stand for these indices."""
        if isinstance(e, TensorRead):
            indices = [simplify_expr(substitute(i, at), self.facts) for i in e.indices]
            ends = zip(indices, e.tensor.shape, strict=True)
            return self.read(e.tensor, [make.const(0, i.dtype) if const_int(n) == 1 else i for i, n in ends])
        if isinstance(e, Reduce):
            return self._reduced(e, at)
        if isinstance(e, Const) and e.dtype.is_float:
            return self.number(float(e.value))
        if e.dtype.is_float:
            if isinstance(e, Add):
                return self.plus(self.form(e.a, at), self.form(e.b, at))
            if isinstance(e, Sub):
                return self.plus(self.form(e.a, at), self.times(self.number(-1.0), self.form(e.b, at)))
            if isinstance(e, Mul):
                return self.times(self.form(e.a, at), self.form(e.b, at))
            if isinstance(e, Div):
                return self.times(self.form(e.a, at), self.power(self.form(e.b, at), -1.0))
            if isinstance(e, Call) and (found := self._powers(e, at)) is not None:
                return found
        return self._as_written(e, at)

    def _powers(self, e: Call, at: Mapping[Var, Expr]) -> Form | None:
        if e.name in _ROOTS:
            return self.power(self.form(e.args[0], at), _ROOTS[e.name])
        if e.name == "pow":
            exponent = self.form(e.args[1], at)
            number = next((c for m, c in exponent if not m), 0.0)
            if len(exponent) == 1 and number in _EXPONENTS:
                return self.power(self.form(e.args[0], at), number)
        return None

    def _as_written(self, e: Expr, at: Mapping[Var, Expr]) -> Form:
        if not any(isinstance(k, TensorRead | Reduce) for k in preorder(e)):
            inside = simplify_expr(substitute(e, at), self.facts)
            if isinstance(inside, Const) and inside.dtype.is_float:
                return self.number(float(inside.value))
            return self.factor(("size", inside))
        name = e.name if isinstance(e, Call) else type(e).__name__
        return self.factor((name, str(e.dtype), *(self.form(k, at) for k in e.children())))

    # -- reductions

    def _reduced(self, e: Reduce, at: Mapping[Var, Expr]) -> Form:
        kind = e.reducer.kind
        if len(e.sources) != 1 or e.condition is not None or e.init is not None or kind == "custom":
            raise Unknown
        inner, bound = dict(at), []
        for a in e.axes:
            if a.dom is None or const_int(a.dom[0]) != 0:
                raise Unknown
            v = var(f"k{self.fresh}")
            self.fresh += 1
            inner[a.var] = v
            bound.append((v, a.extent))
        before = self.facts
        self.facts = before.bind_all([(v, make.const(0, "int32"), n - 1) for v, n in bound])
        found = self.form(e.sources[0], inner)
        self.facts = before
        for v, n in reversed(bound):
            found = self._summed(found, v, n) if kind == "add" else self._folded(kind, found, v, n)
        return found

    def _folded(self, kind: str, f: Form, v: Var, n: Expr) -> Form:
        level = _level(f)
        return self.factor((kind, level + 1, n, _renamed(f, v, _numbered(_BOUND, "r", level))))

    def _summed(self, f: Form, v: Var, n: Expr) -> Form:
        """A sum, monomial by monomial: what does not depend on the index stands before it."""
        total: Form = frozenset()
        for monomial, c in f:
            inside = frozenset((a, x) for a, x in monomial if _mentions(a, v))
            outside: Form = frozenset([(monomial - inside, c)])
            if inside:
                alone: Form = frozenset([(inside, 1.0)])
                part = self._folded("add", alone, v, n)
            else:
                size = const_int(n)
                part = self.factor(("size", n)) if size is None else self.number(float(size))
            total = self.plus(total, self.times(outside, part))
        return total

    # -- arithmetic

    def number(self, x: float) -> Form:
        return frozenset() if x == 0 else frozenset([(frozenset(), x)])

    def factor(self, f: Factor, exponent: float = 1.0) -> Form:
        """The form of one factor."""
        parts = tuple(self.compared(p) if isinstance(p, frozenset) else p for p in f)
        return frozenset([(frozenset([(parts, exponent)]), 1.0)])

    def compared(self, f: Form) -> Form:
        """The form with numbers of as many digits as are compared."""
        return frozenset((m, float(f"{c:.{self.digits}g}")) for m, c in f)

    def plus(self, a: Form, b: Form) -> Form:
        found = dict(a)
        for m, c in b:
            found[m] = found.get(m, 0.0) + c
        return self._made(found)

    def times(self, a: Form, b: Form) -> Form:
        if len(a) * len(b) > MOST:
            raise Unknown
        found: dict[Monomial, float] = {}
        for m, c in a:
            for n, d in b:
                both = _product(m, n)
                found[both] = found.get(both, 0.0) + c * d
        return self._made(found)

    def _made(self, found: Mapping[Monomial, float]) -> Form:
        most = max((abs(c) for c in found.values()), default=0.0)
        kept = {m: c for m, c in found.items() if abs(c) > most * 10.0**-self.digits}
        if len(kept) > MOST:
            raise Unknown
        return frozenset(kept.items())

    def power(self, f: Form, x: float) -> Form:
        if x in (2.0, 3.0):
            square = self.times(f, f)
            return square if x == 2.0 else self.times(square, f)
        if len(f) == 1:
            ((monomial, c),) = f
            if x == -1.0 and c:
                return frozenset([(frozenset((a, -y) for a, y in monomial), 1 / c)])
        return self.factor(("of", f), x)


_ROOTS = {"sqrt": 0.5, "rsqrt": -0.5}
_EXPONENTS = (3.0, 2.0, 0.5, -0.5, -1.0)


def _product(a: Monomial, b: Monomial) -> Monomial:
    found = dict(a)
    for f, x in b:
        found[f] = found.get(f, 0.0) + x
    return frozenset((f, x) for f, x in found.items() if x)


def _factors(f: Form) -> Iterator[Factor]:
    """The factors of a form, and those of the forms in them."""
    for monomial, _ in f:
        for factor, _ in monomial:
            yield from _within(factor)


def _within(f: Factor) -> Iterator[Factor]:
    """A factor, and those of the forms in it."""
    yield f
    for part in f:
        if isinstance(part, frozenset):
            yield from _factors(part)


def _mentions(f: Factor, v: Var) -> bool:
    return any(isinstance(p, Expr) and v in variables(p) for x in _within(f) for p in x)


def _level(f: Form) -> int:
    """How many reductions are nested in a form."""
    kinds = ("add", "mul", "min", "max", "and", "or")
    return max((x[1] for x in _factors(f) if x[0] in kinds and type(x[1]) is int), default=0)


def _renamed(f: Form, old: Var, new: Var) -> Form:
    def factor(x: Factor) -> Factor:
        return tuple(
            _renamed(p, old, new)
            if isinstance(p, frozenset)
            else substitute(p, {old: new})
            if isinstance(p, Expr)
            else p
            for p in x
        )

    return frozenset((frozenset((factor(a), x) for a, x in monomial), c) for monomial, c in f)
