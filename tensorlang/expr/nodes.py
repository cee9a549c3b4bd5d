"""The expression nodes. Build them with ``expr.make`` (which folds and canonicalises), never by their
classes.

``>`` and ``>=`` do not exist here: they are ``<`` and ``<=`` with the sides swapped at birth. Every node has
``dtype``; a node whose dtype has several lanes is a vector, and scalars meet vectors only through
:class:`Broadcast`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.dtype import DType
from ..core.dtype import dtype as known_dtype
from ..core.node import Node, intern
from ..errors import DeclareError

if TYPE_CHECKING:
    from .operators import Operators  # what `expr.operators` puts on Expr when the package is imported
else:
    Operators = object


# What kinds of operations stand in an expression, as bits of ``contains``.
READS = 1  # of a tensor or a buffer
CALLS = 2  # of a function
DATA = 4  # names given to what was read
RANGED = 8  # operations that the ranges of their operands may decide
REDUCED = 16  # lanes of one vector put together


class Expr(Node, Operators):
    """Base of scalar and vector expressions. ``==`` builds a comparison; ``a is b`` tells whether two are the
    same. ``contains`` is known from birth, for every pass asks it of every node."""

    __slots__ = ("_height", "_memo", "contains", "dtype")
    dtype: DType
    contains: int
    kind_bit: ClassVar[int] = 0  # what an operation adds to ``contains``
    _memo: dict[str, Any] | None
    _height: int  # how many operations stand in one another; known from birth too, see ``expr.deep``
    make: ClassVar[Callable[..., Expr]]

    def children(self) -> tuple[Expr, ...]:
        """The expressions directly below, in reading order."""
        return ()

    def with_children(self, *kids: Expr) -> Expr:
        """The same kind of node over other children, canonicalised again."""
        return self

    def memo(self, key: str, compute: Callable[[], Any]) -> Any:
        """A fact about this node, computed once in its life."""
        table = self._memo
        if table is None:
            table = self._memo = {}
        elif key in table:
            return table[key]
        value = table[key] = compute()
        return value


def together(own: int, parts: Iterable[Expr]) -> int:
    """What ``parts`` contain, and ``own``."""
    for e in parts:
        own |= e.contains
    return own


def over(parts: Iterable[Expr]) -> int:
    """The height of what stands over ``parts``."""
    tallest = -1
    for e in parts:
        if e._height > tallest:
            tallest = e._height
    return tallest + 1


_serial = itertools.count()


class Var(Expr):
    """A named value: a loop variable, a symbolic size, a tuning knob. Two variables of one name are two
    variables.

    ``lo``, ``hi`` are inclusive bounds known for every use (None: unknown), ``multiple_of`` a known divisor,
    ``hint`` a typical value for cost, never for legality. ``kind`` is one of ``loop``, ``dim``, ``knob``,
    ``value``, ``data`` (a name for what was read). ``assumed`` are conditions between it and other sizes that
    hold for every use (``te.assume``), checked where they are given values.
    """

    __slots__ = ("assumed", "hi", "hint", "kind", "lo", "multiple_of", "name", "serial")

    def __init__(
        self,
        name: str = "",
        dtype: DType | str = "int32",
        kind: str = "value",
        lo: int | None = None,
        hi: int | None = None,
        multiple_of: int = 1,
        hint: int | None = None,
    ) -> None:
        if type(name) is not str or type(dtype) is not DType:  # a user's, in TVM's way
            dtype, kind = _of_user(name, dtype)
        self._memo = None
        self._height = 0
        self.contains = DATA if kind == "data" else 0
        self.name = name
        self.dtype = dtype
        self.kind = kind
        self.lo = lo
        self.hi = hi
        self.multiple_of = multiple_of
        self.hint = hint
        self.serial = next(_serial)
        self.assumed: tuple[Expr, ...] = ()


def _of_user(name: Any, kind: DType | str) -> tuple[DType, str]:
    """The dtype and kind of a variable that a user makes by its class: ``tir.Var("n", "int32")``."""
    if not isinstance(name, str) or not name:
        raise DeclareError(
            f"Var({name!r}): a name is text, and not empty", try_="te.var('n'), te.size_var('n')"
        )
    known = known_dtype(kind)
    return known, "dim" if known.is_index else "value"


class Const(Expr):
    """A literal. Compared by dtype and bits, so 0.0 and -0.0 differ and NaN equals itself."""

    __slots__ = ("value",)

    def __init__(self, dtype: DType, value: int | float | bool) -> None:
        self._memo = None
        self._height = 0
        self.contains = 0
        self.dtype = dtype
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return _literal, (self.value, self.dtype)


def _literal(value: int | float | bool, kind: DType) -> Expr:
    return Const.make(value, kind)


class Binary(Expr):
    __slots__ = ("a", "b")
    _fields: ClassVar[tuple[str, ...]] = ("a", "b")
    symbol: ClassVar[str] = "?"
    a: Expr
    b: Expr

    def __init__(self, a: Expr, b: Expr) -> None:
        self._memo = None
        one, other = a._height, b._height
        self._height = one + 1 if one > other else other + 1
        self.contains = a.contains | b.contains | self.kind_bit
        self.a = a
        self.b = b
        self.dtype = a.dtype

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(*kids)


class Add(Binary):
    __slots__ = ()
    symbol = "+"


class Sub(Binary):
    __slots__ = ()
    symbol = "-"


class Mul(Binary):
    __slots__ = ()
    symbol = "*"


class Div(Binary):
    """True division of floats."""

    __slots__ = ()
    symbol = "/"


class FloorDiv(Binary):
    __slots__ = ()
    symbol = "//"
    kind_bit = RANGED


class FloorMod(Binary):
    """Python's ``%``: the sign of the divisor."""

    __slots__ = ()
    symbol = "%"
    kind_bit = RANGED


class TruncDiv(Binary):
    """C's ``/`` on integers: rounds towards zero."""

    __slots__ = ()
    symbol = "truncdiv"
    kind_bit = RANGED


class TruncMod(Binary):
    """C's ``%``: the sign of the dividend."""

    __slots__ = ()
    symbol = "truncmod"
    kind_bit = RANGED


class Min(Binary):
    __slots__ = ()
    symbol = "min"
    kind_bit = RANGED


class Max(Binary):
    __slots__ = ()
    symbol = "max"
    kind_bit = RANGED


class Compare(Binary):
    __slots__ = ()

    def __init__(self, a: Expr, b: Expr, dtype: DType) -> None:
        self._memo = None
        one, other = a._height, b._height
        self._height = one + 1 if one > other else other + 1
        self.contains = a.contains | b.contains | RANGED
        self.a = a
        self.b = b
        self.dtype = dtype

    _fields = ("a", "b", "dtype")


class EQ(Compare):
    __slots__ = ()
    symbol = "=="


class NE(Compare):
    __slots__ = ()
    symbol = "!="


class LT(Compare):
    __slots__ = ()
    symbol = "<"


class LE(Compare):
    __slots__ = ()
    symbol = "<="


class And(Binary):
    __slots__ = ()
    symbol = "and"
    kind_bit = RANGED


class Or(Binary):
    __slots__ = ()
    symbol = "or"
    kind_bit = RANGED


class Not(Expr):
    __slots__ = ("a",)
    _fields = ("a",)

    def __init__(self, a: Expr) -> None:
        self._memo = None
        self._height = a._height + 1
        self.contains = a.contains | RANGED
        self.a = a
        self.dtype = a.dtype

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(*kids)


class Choice(Expr):
    """``cond ? a : b``. :class:`Select` evaluates both sides, :class:`IfThenElse` only the one that is
    taken."""

    __slots__ = ("a", "b", "cond")
    _fields = ("cond", "a", "b")
    cond: Expr
    a: Expr
    b: Expr

    def __init__(self, cond: Expr, a: Expr, b: Expr) -> None:
        self._memo = None
        self._height = over((cond, a, b))
        self.contains = cond.contains | a.contains | b.contains | RANGED
        self.cond = cond
        self.a = a
        self.b = b
        self.dtype = a.dtype

    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.a, self.b)

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(*kids)


class Select(Choice):
    __slots__ = ()


class IfThenElse(Choice):
    __slots__ = ()


class Cast(Expr):
    __slots__ = ("a",)
    _fields = ("dtype", "a")

    def __init__(self, dtype: DType, a: Expr) -> None:
        self._memo = None
        self._height = a._height + 1
        self.contains = a.contains
        self.dtype = dtype
        self.a = a

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def with_children(self, *kids: Expr) -> Expr:
        lanes = kids[0].dtype.lanes
        return type(self).make(self.dtype.with_lanes(lanes), kids[0])


class Call(Expr):
    """An intrinsic of ``expr.intrinsics``, by name."""

    __slots__ = ("args", "name")
    _fields = ("dtype", "name", "args")

    def __init__(self, dtype: DType, name: str, args: tuple[Expr, ...]) -> None:
        self._memo = None
        self._height = over(args)
        self.contains = together(CALLS, args)
        self.dtype = dtype
        self.name = name
        self.args = args

    def children(self) -> tuple[Expr, ...]:
        return self.args

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(self.name, *kids)


class CCall(Call):
    """A C function of numbers without effects, by its symbol: arguments in their own types; of vectors lane
    by lane."""

    __slots__ = ()

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(self.dtype, self.name, *kids)


class Ramp(Expr):
    """The vector ``base, base + stride, …`` of ``lanes`` index values."""

    __slots__ = ("base", "lanes", "stride")
    _fields = ("base", "stride", "lanes")

    def __init__(self, base: Expr, stride: Expr, lanes: int) -> None:
        self._memo = None
        one, other = base._height, stride._height
        self._height = one + 1 if one > other else other + 1
        self.contains = base.contains | stride.contains
        self.base = base
        self.stride = stride
        self.lanes = lanes
        self.dtype = base.dtype.with_lanes(lanes)

    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.stride)

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(kids[0], kids[1], self.lanes)


class Broadcast(Expr):
    """``lanes`` copies of one scalar."""

    __slots__ = ("lanes", "value")
    _fields = ("value", "lanes")

    def __init__(self, value: Expr, lanes: int) -> None:
        self._memo = None
        self._height = value._height + 1
        self.contains = value.contains
        self.value = value
        self.lanes = lanes
        self.dtype = value.dtype.with_lanes(lanes)

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, *kids: Expr) -> Expr:
        return type(self).make(kids[0], self.lanes)


class Access(Expr):
    """Base of reads of a tensor (``te``) or a buffer (``loopir``): the children begin with one index per
    dimension."""

    __slots__ = ("indices",)
    indices: tuple[Expr, ...]


def lane_of(e: Expr) -> Expr:
    """What is in every lane of a Broadcast; any other expression itself."""
    return e.value if type(e) is Broadcast else e


def is_const(e: Expr, value: int | float | None = None) -> bool:
    """Whether ``e`` is a literal (equal to ``value``, when given)."""
    return type(e) is Const and (value is None or e.value == value)


def const_int(e: object) -> int | None:
    """The value of an integer literal, or None."""
    if type(e) is Const:
        return e.value if e.dtype.code != "float" else None  # type: ignore[return-value]
    return e if isinstance(e, int) else None


def build(cls: type[Any], *fields: Any) -> Any:
    """Intern a node as it is, without folding: for constructors and for code that knows its form is
    canonical."""
    return intern(cls, *fields)
