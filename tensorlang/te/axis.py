"""Axes of operations and loops of schedules, and symbolic sizes. Knows expressions only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from ..arith.conditions import conjuncts
from ..core.dtype import INT32, DType, dtype
from ..core.names import NameSupply
from ..core.text import type_of
from ..errors import DeclareError
from ..expr import make
from ..expr.linear import sort_key
from ..expr.make import ExprLike
from ..expr.nodes import EQ, LE, LT, Access, Const, Expr, Var, const_int
from ..expr.operators import Operators
from ..expr.walk import preorder, variables
from ..protocols import no_name

DATA, REDUCE = "data", "reduce"


class AxisSeparator:
    """TVM's mark between the axes of a memory of several dimensions, which a CPU has not."""

    def __repr__(self) -> str:
        return "AXIS_SEPARATOR"


AXIS_SEPARATOR = AxisSeparator()


class Range(NamedTuple):
    """Where an axis runs: from ``min``, ``extent`` values. A pair, so ``begin, extent = axis.dom`` works
    too."""

    min: Expr
    extent: Expr

    @property
    def begin(self) -> Expr:
        """The first value; another word for ``min``."""
        return self.min

    def __repr__(self) -> str:
        return f"Range({self.min}, extent={self.extent})"


class IterVar(Operators):
    """An axis: a variable that runs over ``dom = Range(min, extent)``. ``kind`` is ``data`` or ``reduce``.
    Usable as an index.

    ``declared`` is the range as it was written, where it is not the same for all elements (``dom`` is the
    largest then)."""

    __slots__ = ("__weakref__", "declared", "dom", "kind", "name", "var")

    def __init__(
        self, var: Var | None = None, dom: tuple[Expr, Expr] | None = None, kind: str = DATA
    ) -> None:
        if not isinstance(var, Var):
            raise DeclareError(
                "te.IterVar(…): it is not made by calling its class",
                try_="te.reduce_axis((0, 8), name='k'); data axes are those of a compute, C.op.axis",
            )
        self.var = var
        self.name = var.name  # loops are looked for by name in lists of hundreds
        self.dom = None if dom is None else Range(*dom)
        self.declared: Range | None = None
        self.kind = kind

    @property
    def dtype(self) -> DType:
        """The type of the index, that of ``var``, as it counts in expressions."""
        return self.var.dtype

    @property
    def extent(self) -> Expr:
        """How many values the axis takes (of an operation's axis; a loop's extent depends on where its stage
        is computed).

        >>> te.reduce_axis((0, 16), name="k").extent
        16
        """
        assert self.dom is not None
        return self.dom.extent

    def as_expr(self) -> Expr:
        """The axis as an index: its variable."""
        return self.var

    def __repr__(self) -> str:
        span = "" if self.dom is None else f", {self.dom.min}..+{self.dom.extent}"
        return f"IterVar({self.name}{span}, {self.kind})"


def var(name: str = "tindex", dtype: str | DType = "int32") -> Var:
    """A symbolic value of which nothing is known. As a size it is solved from the shapes of the arguments.
    Raises DeclareError for a name that is no text.

    >>> n = te.var("n")
    >>> te.placeholder((n, 8), name="A")
    Tensor(A: float32[n, 8])
    """
    return _checked("var", name, dtype, None, None, 1, None)


def size_var(name: str = "size", dtype: str | DType = "int32") -> Var:
    """A symbolic size: an integer, never negative, known at the call. ``te.dim`` says more of one. Raises
    DeclareError for a type that is no size's.

    >>> te.size_var("n")
    n
    """
    return _checked("size_var", name, dtype, 0, None, 1, None)


_MOST = 2**63 - 1  # what an int64 holds


def dim(
    name: str,
    lo: int = 0,
    hi: int | None = None,
    multiple_of: int = 1,
    hint: int | None = None,
    dtype: str | DType = "int32",
) -> Var:
    """A symbolic size with facts: ``lo <= name <= hi``, a multiple of ``multiple_of``; ``hint`` a typical
    value for cost.

    The facts are checked when a kernel is called and used for proofs when it is built.
    Raises DeclareError when the facts contradict each other.

    >>> m = te.dim("m", 1, 4096, multiple_of=8)
    >>> te.placeholder((m, 8), name="A")
    Tensor(A: float32[m, 8])
    """
    for what, fact in (("lo", lo), ("hi", hi), ("multiple_of", multiple_of), ("hint", hint)):
        # True is an int for Python
        if not (isinstance(fact, int) or (fact is None and what in ("hi", "hint"))) or isinstance(fact, bool):
            raise DeclareError(
                f"dim({name!r}, {what}={fact!r}): not an int",
                because="what is known of a size is known while the kernel is declared",
                try_="te.dim('m', 1, 8192, multiple_of=8, hint=128)",
            )
        if fact is not None and fact > _MOST:
            raise DeclareError(
                f"dim({name!r}, {what}={fact}): more than any size can be",
                because=f"a size is a number of 64 bits, at most {_MOST}",
                try_="leave it out where nothing is known" if what in ("hi", "hint") else None,
            )
    if lo < 0:
        raise DeclareError(
            f"dim({name!r}, lo={lo}): a size is never negative", try_=f"te.dim({name!r}, 0, …)"
        )
    if hi is not None and hi < lo:
        raise DeclareError(
            f"dim({name!r}, {lo}, {hi}): the upper bound is below the lower one",
            because="the order is te.dim(name, lo, hi)",
            try_=f"te.dim({name!r}, {hi if hi >= 0 else 0}, {lo})",
        )
    if multiple_of < 1:
        raise DeclareError(
            f"dim({name!r}, multiple_of={multiple_of}): needs a positive number",
            try_="leave it out, or 8, 16, …",
        )
    # no size at all would fit, and every call would be refused
    if hi is not None and hi // multiple_of * multiple_of < lo:
        raise DeclareError(
            f"dim({name!r}, {lo}, {hi}, multiple_of={multiple_of}): no size fits",
            because=f"{lo}..{hi} holds no multiple of {multiple_of}",
        )
    if hint is not None and (hint < lo or (hi is not None and hint > hi)):
        raise DeclareError(
            f"dim({name!r}, hint={hint}): the hint lies outside {lo}..{'' if hi is None else hi}",
            because="the hint is the size one expects most often",
        )
    if not _type(f"dim({name!r})", dtype).is_index:
        raise DeclareError(
            f"dim({name!r}, dtype={dtype}): a size is an int32 or int64",
            try_="te.var(name, dtype) for a value that is not a size",
        )
    return _checked("dim", name, dtype, lo, hi, multiple_of, hint)


def assume(*conditions: Any) -> None:
    """States how symbolic sizes are related: ``te.assume(n <= m, k == 2 * m)``.

    The facts are used in proofs, so that no guard is needed where they tell that a tile fits, and checked
    when a kernel is called that has one of these sizes: a call that contradicts them raises CallError. State
    them before the computation is scheduled. Raises DeclareError for what is not a comparison of sizes by
    ``<``, ``<=``, ``>``, ``>=`` or ``==``, and for what never holds.

    >>> n, m = te.var("n"), te.var("m")
    >>> te.assume(n <= m)
    >>> A, B = te.placeholder((n,), name="A"), te.placeholder((m,), name="B")
    >>> f = tl.compile([A, B, te.compute((n,), lambda i: A[i] + B[i])])  # no read of B leaves it
    >>> f(np.ones(2, np.float32), np.ones(3, np.float32))
    array([2., 2.], dtype=float32)
    """
    for given in conditions:
        cond = make.as_expr(given)
        # proofs use comparisons one at a time
        for part in conjuncts(cond):
            if type(part) is Const and part.dtype.is_bool:
                if not part.value:
                    raise DeclareError(
                        "assume: the condition never holds", try_="te.assume(n <= m) of two sizes"
                    )
                continue
            names = variables(part)
            if (
                not isinstance(part, LT | LE | EQ)
                or not part.a.dtype.is_index
                # a loop's variable has its facts from its range, and others at each place
                or any(v.kind not in ("dim", "value") for v in names)
            ):
                raise DeclareError(
                    f"assume({part}): no relation of sizes",
                    because="sizes are compared by <, <=, >, >= or ==, and known when a kernel is called",
                    try_="te.assume(n <= m) with n = te.var('n') and m = te.var('m')",
                )
            fixed("assume: the condition", part)
            for v in names:
                if not any(part is c for c in v.assumed):
                    # kept at each size it speaks of: a proof meets it by whichever of them it meets first
                    v.assumed = (*v.assumed, part)


def known_dtype(where: str, dt: str | DType, because: str | None = None) -> DType:
    """The dtype; the error for an unknown one names ``where`` it stands."""
    try:
        return dtype(dt)
    except DeclareError as e:
        raise DeclareError(f"{where}: {e.what}", because=because, legal=e.legal, try_=e.try_) from None


def _type(where: str, dt: str | DType) -> DType:
    t = known_dtype(where, dt)
    if t.lanes != 1:
        raise DeclareError(
            f"{where}: dtype {t} is a vector",
            because="what is declared is scalar; vectors come from s[T].vectorize",
            try_=f"dtype={t.element.name!r}",
        )
    return t


def _checked(
    word: str, name: str, dt: str | DType, lo: int | None, hi: int | None, multiple: int, hint: int | None
) -> Var:
    plain_name(f"te.{word}", name)
    t = _type(f"{word}({name!r})", dt)
    if word == "size_var" and not t.is_index:
        raise DeclareError(
            f"size_var({name!r}, dtype={t}): a size is an int32 or int64",
            try_="te.var(name, dtype) for a value that is not a size",
        )
    # a float may be a variable too, but no size
    return Var(name, t, "dim" if t.is_index else "value", lo, hi, multiple, hint)


def plain_name(where: str, name: Any) -> str:
    """A name as it may stand in programs: text without blanks. Raises DeclareError."""
    checked_name(where, name)
    if not name.isprintable() or " " in name:
        plain = "_".join(name.split()) or "x"
        raise DeclareError(
            f"{where}(name={name!r}): a name has no blanks",
            because="trees and programs are read with it in them, and loops are called by it",
            try_=f"name={plain!r}" if plain.isprintable() else "name='x'",
        )
    return str(name)


def checked_name(where: str, name: Any) -> str:
    """A name as it may stand in messages: text, not empty. Raises DeclareError."""
    if not isinstance(name, str) or not name:
        raise DeclareError(
            f"{where}(name={name!r}): a name is text, and not empty",
            because="trees, programs and messages call things by their names",
            try_=f"{where}(…, name='x')",
        )
    return name


class FloatArgument(float):
    """A float that a function which declares a computation was given: no quotient of sizes."""


def exact(value: Any) -> Any:
    """The int that a quotient of ints such as ``1024 / 32`` stands for when it is exact; anything else as it
    is."""
    # 1024 / 32 is a float in Python, where TVM's users mean 32; a float that a caller passed is none of those
    quotient = isinstance(value, float) and not isinstance(value, FloatArgument)
    return int(value) if quotient and value.is_integer() else value


def size(value: ExprLike, where: str) -> Expr:
    """A checked size: an int (also as an exact quotient, ``N / 8``) or an integer expression of dims. Zero is
    a size like any other."""
    if isinstance(value, FloatArgument):
        raise DeclareError(
            f"{where}: {float(value)} is not a size",
            because="it was given as a float; a size is a whole number",
            try_=_whole_numbers(value) if math.isfinite(value) else None,
        )
    value = exact(value)
    try:
        e = make.as_expr(value, INT32)
    except DeclareError:
        kind = "" if value is None or not isinstance(value, str | complex) else f" ({type(value).__name__})"
        name = getattr(value, "name", "") if hasattr(value, "shape") else ""
        raise DeclareError(
            f"{where}: {_written(value)}{kind} is not a size",
            because="a size is a whole number, or a symbol for one",
            try_=f"{name}.shape[0]"
            if name
            else "an int, te.var('n'), te.dim('n', 1, 8192), or arithmetic on these",
        ) from None
    if not e.dtype.is_index:
        raise DeclareError(
            f"{where}: {e} is not a size",
            because=f"it is {e.dtype}; a size is an int32 or int64",
            try_=_whole_numbers(e.value)
            if isinstance(e, Const) and math.isfinite(e.value)
            else "te.var('n'), or .astype('int32')",
        )
    n = const_int(e)
    if n is not None and n < 0:
        raise DeclareError(
            f"{where}: the size is {n}", because="a size is never negative; zero is a size like any other"
        )
    fixed(f"{where}: the size", e)
    return e


def _whole_numbers(value: float) -> str:
    """The ints that may have been meant by a number."""
    low, high = math.floor(value), math.ceil(value)
    return str(low) if low == high else f"{low} or {high}; `//` rounds down"


def fixed(what: str, e: Expr, axes: bool = False) -> None:
    """Raises DeclareError when ``e`` is not known before any element is computed, and unless ``axes`` when it
    is not the same for all."""
    for node in preorder(e):
        # shapes are known before any loop runs
        if type(node) is Var and node.kind == "loop" and not axes:
            raise DeclareError(
                f"{what} {e} depends on the axis `{node.name}`",
                because="shapes and ranges are the same at every element",
                try_="the largest range, and te.if_then_else or where= to leave out the rest",
            )
        if isinstance(node, Access):
            raise DeclareError(
                f"{what} {e} depends on the tensor {node.label()}",  # type: ignore[attr-defined]
                because="sizes are known before any element is read",
                try_="te.var('n') as the size",
            )


def _written(value: Any) -> str:
    if isinstance(value, str | int | float | complex | None):
        return repr(value)
    name = getattr(value, "name", None)
    return f"the {type(value).__name__.lower()} {name}" if isinstance(name, str) else type_of(value)


def fresh_axis(name: str, extent: Expr, kind: str = DATA, begin: Expr | None = None) -> IterVar:
    """A new axis over ``begin .. begin + extent - 1`` (begin is zero when left out), counted in int32 where
    that is sure to do."""
    start = make.const(0, extent.dtype) if begin is None else begin
    start, extent = make.unify(start, extent)
    lo, n = const_int(start), const_int(extent)
    t = (
        INT32
        if lo is not None and n is not None and lo >= -0x80000000 and lo + n <= 0x7FFFFFFF
        else extent.dtype
    )
    return IterVar(Var(name, t, "loop"), (make.cast(t, start), make.cast(t, extent)), kind)


def tell_apart(axes: Sequence[IterVar]) -> None:
    """Gives the axes of one operation names of their own: of two called ``rv`` the second becomes ``rv_1``.

    Called when an operation is born. Trees, programs and traces speak of loops by name; the axis itself stays
    the one the user holds.
    """
    # printed programs name loops by their axes: two of one name could not be told apart
    names = NameSupply(tuple(a.name for a in axes))
    seen: set[str] = set()
    for a in axes:
        if a.name in seen:
            sort_key(a.var)
            # where it stands in sums is settled: expressions that hold it were put in order by its first name
            a.name = a.var.name = names.fresh(a.name)
        seen.add(a.name)


def reduce_axis(dom: Range | tuple[ExprLike, ExprLike], name: str = "rv") -> IterVar:
    """An axis to reduce over: ``dom = (begin, end)``, end exclusive, as in TVM; or the ``dom`` of another
    axis.

    Inside the function of a ``te.compute`` the range may depend on its axes, ``te.reduce_axis((0, i + 1))``,
    and be data, as that of a sparse row: ``te.reduce_axis((indptr[i], indptr[i + 1]))``. Then it ends where
    the tensors that are read with it end, whatever the numbers say; where none tells how long it may be,
    ``te.min(length[i], largest)`` does. Raises DeclareError when the range is not a pair or runs backwards.

    >>> A = te.placeholder((8, 4), name="A")
    >>> k = te.reduce_axis((0, 4), name="k")
    >>> te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="S")
    Tensor(S: float32[8])
    """
    plain_name("te.reduce_axis", name)
    if isinstance(dom, Range):
        return fresh_axis(name, dom.extent, REDUCE, dom.min)
    if not isinstance(dom, tuple | list) or len(dom) != 2:
        raise DeclareError(
            f"reduce_axis({dom!r}): the range is a pair (begin, end)",
            try_=f"te.reduce_axis((0, {dom if isinstance(dom, int) else 'K'}), name={name!r})",
        )
    begin = make.as_expr(exact(dom[0]), INT32)
    end = make.as_expr(exact(dom[1]), INT32)
    for e in (begin, end):
        if not e.dtype.is_index:
            raise DeclareError(
                f"reduce_axis(({begin}, {end})): bounds are integers, not {e.dtype}",
                try_="int(…), or .astype('int32')",
            )
    begin, end = make.unify(begin, end)
    extent = make.sub(end, begin)
    n = const_int(extent)
    if n is not None and n < 0:
        raise DeclareError(
            f"reduce_axis(({begin}, {end})): the range runs backwards",
            because="the pair is (begin, end), not (begin, extent)",
            try_=f"te.reduce_axis(({end}, {begin}))",
        )
    return fresh_axis(name, extent, REDUCE, begin)


def dims_of(*exprs: Expr) -> tuple[Var, ...]:
    """The symbolic sizes named in these expressions, in order of appearance."""
    found: dict[Var, None] = {}
    for e in exprs:
        for node in preorder(e):
            if type(node) is Var:
                found[node] = None
    return tuple(found)


class AxisError(DeclareError, IndexError):
    """An axis that an operation does not have."""


class Axes(tuple[IterVar, ...]):
    """The axes of an operation, or those that it reduces over: a tuple that says what there is when it is
    asked for another one."""

    of = word = ""

    @staticmethod
    def listed(axes: Iterable[IterVar], of: str, word: str = "axis") -> Axes:
        """The axes of the operation called ``of``."""
        made = Axes(axes)
        made.of, made.word = of, word
        return made

    def __getitem__(self, index: Any) -> Any:
        try:
            return super().__getitem__(index)
        except IndexError:
            names = ", ".join(a.name for a in self)
            raise AxisError(
                f"{self.of}: {self.word}[{index}] of {len(self)}",
                because=f"it has {names}" if names else NONE[self.word],
                try_=f"{self.word}[0] to {self.word}[{len(self) - 1}]" if names else None,
            ) from None
        except TypeError:
            raise DeclareError(
                f"{self.of}: {self.word}[{index!r}]", legal=f"numbers from 0 to {len(self) - 1}, and slices"
            ) from None

    def __getattr__(self, name: str) -> NoReturn:
        raise no_name(f"{self.of}: {self.word}", name, "a tuple, which stays as it was made")


NONE = {
    "axis": "it is an argument, or a step that is done whole: it has no loops; the axes are those of what is "
    "computed of it",
    "reduce_axis": "it reduces over no axis",
}
