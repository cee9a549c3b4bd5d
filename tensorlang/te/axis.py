"""Axes of operations and loops of schedules, and symbolic sizes. Knows expressions only."""

from __future__ import annotations

from ..core.dtype import INT32, INT64, DType, dtype
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Const, Expr, Var, const_int
from ..expr.operators import Operators
from ..expr.walk import preorder

DATA, REDUCE = "data", "reduce"


class IterVar(Operators):
    """An axis: a variable that runs over ``dom = (begin, extent)``. ``kind`` is ``data`` or ``reduce``. Usable as an index."""

    __slots__ = ("__weakref__", "dom", "kind", "var")

    def __init__(self, var: Var, dom: tuple[Expr, Expr] | None, kind: str = DATA) -> None:
        self.var = var
        self.dom = dom
        self.kind = kind

    @property
    def name(self) -> str:
        return self.var.name

    @property
    def dtype(self) -> DType:
        return self.var.dtype

    @property
    def extent(self) -> Expr:
        """How many values the axis takes (of an operation's axis; a loop's extent depends on where its stage is computed)."""
        assert self.dom is not None
        return self.dom[1]

    def as_expr(self) -> Expr:
        return self.var

    def __repr__(self) -> str:
        span = "" if self.dom is None else f", {self.dom[0]}..+{self.dom[1]}"
        return f"IterVar({self.name}{span}, {self.kind})"


def var(name: str = "n", dtype: str | DType = "int32") -> Var:
    """A symbolic value of which nothing is known. As a size it is solved from the shapes of the arguments."""
    return _checked(name, dtype, None, None, 1, None)


def size_var(name: str = "n", dtype: str | DType = "int32") -> Var:
    """A symbolic size: never negative."""
    return _checked(name, dtype, 0, None, 1, None)


def dim(name: str, lo: int = 0, hi: int | None = None, multiple_of: int = 1, hint: int | None = None,
        dtype: str | DType = "int32") -> Var:
    """A symbolic size with facts: ``lo <= name <= hi``, a multiple of ``multiple_of``; ``hint`` a typical value for cost.

    The facts are checked when a kernel is called and used for proofs when it is built.
    Raises DeclareError when the facts contradict each other.
    """
    if lo < 0:
        raise DeclareError(f"dim({name!r}, lo={lo}): a size is never negative", try_=f"dim({name!r}, 0, …)")
    if hi is not None and hi < lo:
        raise DeclareError(f"dim({name!r}, {lo}, {hi}): the upper bound is below the lower one")
    if multiple_of < 1:
        raise DeclareError(f"dim({name!r}, multiple_of={multiple_of}): needs a positive number")
    if hint is not None and (hint < lo or (hi is not None and hint > hi)):
        raise DeclareError(f"dim({name!r}, hint={hint}): the hint lies outside {lo}..{'' if hi is None else hi}")
    return _checked(name, dtype, lo, hi, multiple_of, hint)


def _checked(name: str, dt: str | DType, lo: int | None, hi: int | None, multiple: int, hint: int | None) -> Var:
    if not isinstance(name, str) or not name:
        raise DeclareError(f"a variable's name is a non-empty string, not {name!r}")
    t = dtype(dt)
    return Var(name, t, "dim" if t.is_index else "value", lo, hi, multiple, hint)


def size(value: ExprLike, where: str) -> Expr:
    """A checked size: an int or an integer expression of dims. Zero is a size like any other."""
    try:
        e = make.as_expr(value, INT32)
    except DeclareError:
        raise DeclareError(f"{where}: {value!r} is not a size", try_="an int, te.var(...) or te.dim(...)") from None
    if not e.dtype.is_index:
        raise DeclareError(f"{where}: a size is an int32 or int64, not {e.dtype}", because=f"got {e}")
    n = const_int(e)
    if n is not None and n < 0:
        raise DeclareError(f"{where}: negative size {n}")
    return e


def fresh_axis(name: str, extent: Expr, kind: str = DATA, begin: Expr | None = None) -> IterVar:
    """A new axis over ``begin .. begin + extent - 1`` (begin is zero when left out)."""
    t = extent.dtype
    n = const_int(extent)
    if n is not None and n <= 0x7FFFFFFF:
        t = INT32
        extent = make.cast(t, extent)
    v = Var(name, t, "loop")
    return IterVar(v, (begin if begin is not None else make.const(0, t), extent), kind)


def reduce_axis(dom: tuple[ExprLike, ExprLike], name: str = "k") -> IterVar:
    """An axis to reduce over: ``dom = (begin, end)``, end exclusive, as in TVM.

    Raises DeclareError when the range is no pair or runs backwards.
    """
    if not isinstance(dom, tuple | list) or len(dom) != 2:
        raise DeclareError(f"reduce_axis({dom!r}): the range is a pair (begin, end)", try_="te.reduce_axis((0, K), name='k')")
    begin = make.as_expr(dom[0], INT32)
    end = make.as_expr(dom[1], INT32)
    for e in (begin, end):
        if not e.dtype.is_index:
            raise DeclareError(f"reduce_axis({dom!r}): bounds are integers, not {e.dtype}")
    begin, end = make.unify(begin, end)
    extent = make.sub(end, begin)
    n = const_int(extent)
    if n is not None and n < 0:
        raise DeclareError(f"reduce_axis(({begin}, {end})): the range runs backwards")
    if begin.dtype is INT64 and isinstance(begin, Const):
        begin = make.const(int(begin.value), INT64)
    return fresh_axis(name, extent, REDUCE, begin)


def dims_of(*exprs: Expr) -> tuple[Var, ...]:
    """The symbolic sizes named in these expressions, in order of appearance."""
    found: dict[Var, None] = {}
    for e in exprs:
        for node in preorder(e):
            if type(node) is Var:
                found[node] = None
    return tuple(found)
