"""``placeholder``, ``compute`` and ``tag_scope``: how a user declares what to compute. Knows no schedules."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FunctionType
from typing import Any, TypeAlias, TypeVar, overload

from ..core.dtype import FLOAT32, DType
from ..core.text import type_of
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, Var
from ..expr.operators import declaring
from ..expr.walk import preorder, variables
from .axis import IterVar, checked_name, fresh_axis, known_dtype, plain_name, size
from .ragged import straightened
from .reducers import Reduce, forbid_nested
from .strides import BufferDecl, Strides, checked_strides
from .tensor import ComputeOp, PlaceholderOp, Tensor, TensorSlice, letters

# the tag of a stage whose elements are read more often than there are of them: of one that reads nothing a
# kernel holds the values
TABLE = "table"
# what a product reads, copied so that its rows are one dimension
LINES = "lines"

_R = TypeVar("_R")
_I: TypeAlias = IterVar
# Callable[..., R] fits every function of axes; these tell type checkers what the parameters of a lambda are
_OfAxes: TypeAlias = (
    Callable[[_I], _R]
    | Callable[[_I, _I], _R]
    | Callable[[_I, _I, _I], _R]
    | Callable[[_I, _I, _I, _I], _R]
    | Callable[[_I, _I, _I, _I, _I], _R]
    | Callable[[_I, _I, _I, _I, _I, _I], _R]
)

_tag: ContextVar[str] = ContextVar("tag", default="")


def tag_scope(tag: str) -> AbstractContextManager[None]:
    """Gives every compute declared inside that tag: ``with te.tag_scope("conv2d"): …``, or as a decorator.
    Tags do not nest.

    A tag changes no meaning; recipes and users find operations by it (``op.tag``). Raises DeclareError for a
    tag that is no text.
    """
    return _scope(checked_name("te.tag_scope", tag))


@contextmanager
def _scope(tag: str) -> Iterator[None]:
    if _tag.get():
        raise DeclareError(
            f"tag_scope({tag!r}) inside tag_scope({_tag.get()!r})",
            because="an operation has one tag",
            try_="leave the outer scope first",
        )
    # a context variable: scopes of other threads are not seen here
    before = _tag.set(tag)
    try:
        yield
    finally:
        _tag.reset(before)


def tag_around() -> str:
    """The tag of the scope around, or none."""
    return _tag.get()


def current_tag(where: str, tag: str) -> str:
    """The tag of an operation being declared: its own or that of the scope around it."""
    around = _tag.get()
    if not isinstance(tag, str):
        raise DeclareError(
            f"{where}: tag={tag!r} is not text", try_="tag='conv2d', and attrs={…} for anything else"
        )
    if tag and around:
        raise DeclareError(
            f"{where}: tag={tag!r} inside tag_scope({around!r})",
            because="an operation has one tag",
            try_="leave one of them out",
        )
    return tag or around


def _shape(what: str, shape: ExprLike | Sequence[ExprLike]) -> tuple[Expr, ...]:
    listed = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    return tuple(size(s, f"{what}, dimension {d}") for d, s in enumerate(listed))


def placeholder(
    shape: ExprLike | Sequence[ExprLike],
    dtype: str | DType | None = None,
    name: str = "placeholder",
    strides: Strides = None,
) -> Tensor:
    """An argument of that shape and dtype (float32 when left out); sizes may be symbolic.

    Its arrays are compact in C order, unless ``strides`` says otherwise: ``"any"``, or for each axis the
    number of elements between neighbours as an int, an expression of sizes, or None for any; solved from the
    array at the call, 0 and negative ones too. Raises DeclareError for an unknown dtype, a negative size, or
    strides that are none.

    >>> te.placeholder((8, 8), "float32", name="A")
    Tensor(A: float32[8, 8])
    >>> te.placeholder((8, 8), name="A", strides=(-8, 1))  # of a compact array, a[::-1]
    Tensor(A: float32[8, 8])
    """
    where = f"placeholder {plain_name('te.placeholder', name)!r}"
    sizes = _shape(where, shape)
    return PlaceholderOp(
        name,
        sizes,
        FLOAT32 if dtype is None else _dtype(where, dtype),
        checked_strides(where, name, strides, sizes),
    ).outputs[0]


def decl_buffer(
    shape: Any,
    dtype: str | DType | None = None,
    name: str = "buffer",
    strides: Strides = None,
    *,
    data: Any = None,
    elem_offset: Any = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
) -> BufferDecl:
    """TVM's way to say how an argument lies in memory: ``tl.build(s, [A, C], binds={A:
    te.decl_buffer(A.shape, A.dtype, strides="any")})``.

    ``strides`` as in ``te.placeholder``. The other names are accepted when they ask for nothing: an array is
    passed with the address of its first element, aligned to its type. Raises DeclareError.

    >>> A = te.placeholder((8, 8), name="A")
    >>> te.decl_buffer(A.shape, A.dtype, strides="any").strides
    (buffer.stride0, buffer.stride1)
    """
    for word, value, plain in (
        ("data", data, (None,)),
        ("elem_offset", elem_offset, (None, 0)),
        ("scope", scope, ("", "global")),
        ("buffer_type", buffer_type, ("", "default")),
    ):
        # what TVM's GPUs and accelerators need; on a CPU only the plain values mean anything
        if not any(value is p or (isinstance(value, type(p)) and value == p) for p in plain):
            raise DeclareError(
                f"decl_buffer({name!r}, {word}={value!r}): not here",
                because="an argument is an array of the caller",
                try_=f"leave {word} out",
            )
    for word, number, least in (("data_alignment", data_alignment, -1), ("offset_factor", offset_factor, 0)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise DeclareError(
                f"decl_buffer({name!r}, {word}={number!r}): a whole number from {least} is needed",
                try_=f"leave {word} out",
            )
    t = placeholder(shape, dtype, name, strides=strides)
    return BufferDecl(name, t.shape, t.dtype, t.op.strides)  # type: ignore[attr-defined]


def _dtype(where: str, t: str | DType) -> DType:
    result = known_dtype(where, t, "the order is te.placeholder(shape, dtype, name)")
    if result.lanes != 1:
        raise DeclareError(
            f"{where}: dtype {result} is a vector",
            because="a tensor's elements are scalars; vectors come from s[T].vectorize",
            try_=f"dtype={result.element.name!r}",
        )
    return result


@overload
def compute(
    shape: ExprLike | Sequence[ExprLike],
    fcompute: _OfAxes[ExprLike],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor: ...
@overload
def compute(
    shape: ExprLike | Sequence[ExprLike],
    fcompute: _OfAxes[tuple[ExprLike, ...]],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> tuple[Tensor, ...]: ...
@overload
def compute(
    shape: ExprLike | Sequence[ExprLike],
    fcompute: Callable[..., ExprLike],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor: ...
@overload
def compute(
    shape: ExprLike | Sequence[ExprLike],
    fcompute: Callable[..., tuple[ExprLike, ...] | list[ExprLike]],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> tuple[Tensor, ...]: ...
def compute(
    shape: ExprLike | Sequence[ExprLike],
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    varargs_names: Sequence[str] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The tensor whose element at ``(i, j, …)`` is ``fcompute(i, j, …)``.

    ``fcompute`` takes one argument per dimension (or ``*indices``) and returns an expression, or a tuple of
    expressions for several outputs (then a tuple of tensors comes back). A reduction must be its whole
    result. Axes are called like the parameters, those of ``*indices`` ``i0, i1, …`` or by ``varargs_names``.
    ``tag`` and ``attrs`` are notes that change no meaning. Raises DeclareError with the place in the user's
    code for anything else.

    >>> A = te.placeholder((8, 8), name="A")
    >>> te.compute((8,), lambda i: A[i, i] * 2, name="D")
    Tensor(D: float32[8])
    """
    where = f"compute {plain_name('te.compute', name)!r}"
    extents = _shape(where, shape)
    if not callable(fcompute):
        raise DeclareError(
            f"{where}: {fcompute if isinstance(fcompute, Expr) else type_of(fcompute)} is not a function",
            because="it is called once, with the axes as arguments",
            try_="te.compute(shape, lambda i, j: A[i, j] + 1)",
        )
    if attrs is not None and not isinstance(attrs, Mapping):
        raise DeclareError(
            f"{where}: attrs is not a mapping",
            because=f"it is {type_of(attrs)}; attrs are notes by name",
            try_="attrs={'layout': 'NCHW'}",
        )
    tag = current_tag(where, tag)
    names = axis_names(where, fcompute, len(extents), varargs_names)
    axes = tuple(fresh_axis(n, e) for n, e in zip(names, extents, strict=True))
    # once, with variables: what the function does in Python happens at the declaration, not at each element
    result = _called(where, fcompute, axes)
    many = isinstance(result, tuple | list)
    body = tuple(_body(where, e) for e in (result if many else (result,)))
    if not body:
        raise DeclareError(
            f"{where}: the function returned an empty tuple",
            because="each expression in it is one output",
            try_="return one or more",
        )
    # ranges that depend on an outer axis become conditions: a loop nest has ranges of its own sizes
    body = straightened(where, axes, body)
    op = ComputeOp(name, axes, _reduction_axes(where, body), body, tag, attrs)
    _known_variables(where, op)
    return op.outputs if many else op.outputs[0]


def _called(where: str, fcompute: Callable[..., Any], axes: Sequence[IterVar]) -> Any:
    """What the user's function makes of the axes. ``declaring`` tells what it calls that elements are being
    described, so that a mistake is answered as one of a declaration."""
    before = declaring.set(True)
    try:
        return fcompute(*axes)
    except IndexError as e:
        # numpy's own words: any other IndexError is the user's
        if "only integers, slices" not in str(e):
            raise
        raise DeclareError(
            f"{where}: an array of numpy's is read at an index that is not known yet",
            because="axes have values when the kernel runs, and arrays are given to it then",
            try_="X = te.placeholder(x.shape, str(x.dtype), name='X'), and X[i, j] in its place",
        ) from None
    finally:
        declaring.reset(before)


def _body(where: str, value: Any) -> Expr:
    if value is None:
        raise DeclareError(
            f"{where}: the function returned None",
            because="its result is the expression of one element",
            try_="return A[i, j] + 1",
        )
    if isinstance(value, Tensor | TensorSlice) and (isinstance(value, TensorSlice) or value.ndim):
        tensor, given = (value.tensor, value.given) if isinstance(value, TensorSlice) else (value, ())
        what = f"a part of {tensor.name}" if given else f"the whole tensor {tensor.name}"
        whole = next(
            (t for t in tensor.op.input_tensors if tensor.op.name.startswith("T_")), tensor
        )  # in arithmetic: that of its elements
        raise DeclareError(
            f"{where}: the function returned {what}",
            because=f"its result is one element, and {tensor.name} has {tensor.ndim} dimension(s), "
            f"of which {len(given)} are indexed",
            try_=f"{whole.name}[{', '.join(letters(whole.ndim))}]"
            + ("" if whole is tensor else f" instead of {whole.name}"),
        )
    try:
        return make.as_expr(value)
    except DeclareError as e:
        raise DeclareError(
            f"{where}: {e.what}",
            because=e.because or "what the function returns is the expression of one element",
            try_=e.try_,
            at=e.at,
        ) from None


def axis_names(where: str, f: Callable[..., Any], rank: int, varargs: Sequence[str] | None) -> list[str]:
    """The names of the axes that a function of ``rank`` indices is called with: those of its parameters.
    Raises DeclareError."""
    if varargs is None and (known := _plain_names(f, rank)) is not None:
        return known
    try:
        params = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return [f"i{d}" for d in range(rank)]
    named = [
        p.name
        for p in params
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    star = any(p.kind is p.VAR_POSITIONAL for p in params)
    must = [p.name for p in params if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if must:
        raise DeclareError(
            f"{where}: the function needs {must[0]}= by keyword",
            because="it is called with the axes alone",
            try_=f"a value for {must[0]} in its definition",
        )
    if len(named) > rank or (len(named) < rank and not star):
        takes = f"{len(named)} {'index' if len(named) == 1 else 'indices'}" + (" and more" if star else "")
        raise DeclareError(
            f"{where}: the function takes {takes}, the shape has {counted(rank, 'dimension')}",
            because=f"its parameters are ({', '.join([*named, '*…'] if star else named)}): one index each",
            try_="one parameter per dimension, or *indices",
        )
    rest = [f"i{d}" for d in range(len(named), rank)]
    if varargs is not None:
        if len(varargs) != len(rest) or any(not isinstance(n, str) or not n for n in varargs):
            raise DeclareError(
                f"{where}: varargs_names={list(varargs)}: {len(rest)} name(s) needed",
                because=f"the shape has {rank} dimension(s), "
                f"{len(named)} of them named by the function's own parameters",
            )
        rest = list(varargs)
    twice = next((n for n in rest if (named + rest).count(n) > 1), None)
    if twice is not None:
        if varargs is not None:
            raise DeclareError(f"{where}: two axes are called `{twice}`", try_="other varargs_names")
        # a parameter may be called i0, as the axes of ``*indices`` are
        rest = [n if n not in named else f"{n}_" for n in rest]
    return named + rest


def _plain_names(f: Callable[..., Any], rank: int) -> list[str] | None:
    """The same for a function that takes just the indices, or any number of them: what declares operators,
    hundreds of times in a model. ``inspect`` takes longer than the rest of a small one."""
    # anything unusual goes by inspect.signature, which is slow and knows all of it
    if type(f) is not FunctionType or f.__dict__ or f.__defaults__ or f.__kwdefaults__:
        return None
    code = f.__code__
    if code.co_kwonlyargcount or code.co_argcount not in (0, rank):
        return None
    if code.co_argcount == rank:
        return list(code.co_varnames[:rank])
    return [f"i{d}" for d in range(rank)] if code.co_flags & inspect.CO_VARARGS else None


def _reduction_axes(where: str, body: tuple[Expr, ...]) -> tuple[IterVar, ...]:
    reduces = [e for e in body if type(e) is Reduce]
    if not reduces:
        for e in body:
            forbid_nested(where, e)
        return ()
    first = reduces[0]
    # several sums of one compute share its loops: the same ranges, the same condition, one reducer
    same = all(
        type(e) is Reduce
        and e.reducer is first.reducer
        and e.axes == first.axes
        and e.condition is first.condition
        for e in body
    )
    if not same:
        raise DeclareError(
            f"{where}: its outputs are not one reduction",
            because=f"outputs of one compute share their loops; they are {'; '.join(map(str, body))}",
            try_="one te.comm_reducer over a tuple, or a te.compute for each",
        )
    # a reducer of pairs gives both results, and in order: argmax has a value and a place
    if len(body) != len(first.sources) or [e.index for e in reduces] != list(range(len(body))):
        raise DeclareError(
            f"{where}: the function returned {len(body)} of {len(first.sources)} results of "
            f"{first.reducer.name}, "
            "or not in order",
            because="the results of a tuple reduction are computed together",
            try_=f"return all of {first.reducer.name}((…), axis=…) as it is",
        )
    return first.axes


def _known_variables(where: str, op: ComputeOp) -> None:
    own = {a.var for a in (*op.axis, *op.reduce_axis)}
    for e in op.body:
        # the sets are kept with the nodes; the walk below is for the message alone
        if all(v in own or v.kind not in ("loop", "knob") for v in variables(e)):
            continue
        for node in preorder(e):  # the first of them
            if type(node) is Var and node.kind == "loop" and node not in own:
                raise DeclareError(
                    f"{where}: uses the axis `{node.name}`, which is not its own",
                    because="its axes are "
                    + (", ".join(a.name for a in (*op.axis, *op.reduce_axis)) or "none"),
                    try_=f"te.sum(…, axis={node.name}) to reduce over it, or the parameters of the function",
                )
            if type(node) is Var and node.kind == "knob":
                raise DeclareError(
                    f"{where}: uses `{node.name}`, a sampled value of a schedule",
                    because="what is computed does not depend on how",
                    try_="te.var for a number given at the call",
                )
