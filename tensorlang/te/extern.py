"""``extern``: a step of a computation done by somebody else, a Python function or a C symbol. Knows tensors;
runs nothing.

Such a step reads its inputs and writes its outputs whole, as compact arrays in row-major order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from ..boundary import misfit
from ..core.dtype import DType, dtype
from ..core.names import COMPILERS, identifier, is_symbol
from ..core.node import intern
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..protocols import Row
from .axis import IterVar, fresh_axis, size
from .tensor import ComputeOp, Tensor, TensorRead


class OpaqueOp(ComputeOp):
    """A step that reads whole tensors: ``body`` holds the reads, over ``spatial`` axes that stand for all
    their elements. ``kind`` says in messages what it is and why it is left alone."""

    __slots__ = ("spatial",)
    kind = "an extern: foreign code writes it whole"
    spatial: tuple[IterVar, ...]

    def whole(self, spatial: list[IterVar], t: Tensor, first: Expr | None = None) -> Expr:
        """A read of every element of ``t``; of one row only when ``first`` is its index. The axes it takes
        are added to ``spatial``."""
        index: list[Expr] = []
        for d, extent in enumerate(t.shape):
            if d == 0 and first is not None:
                index.append(first)
            else:
                spatial.append(fresh_axis(f"{t.name}.ax{d}", extent))
                index.append(spatial[-1].var)
        return intern(TensorRead, t, tuple(index))  # type: ignore[no-any-return]


class WholeOp(OpaqueOp):
    """One or several tensors of given shapes, written from all of ``inputs`` at once."""

    __slots__ = ("inputs",)

    def __init__(
        self,
        name: str,
        inputs: tuple[Tensor, ...],
        shapes: tuple[tuple[Expr, ...], ...],
        dtypes: tuple[DType, ...],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.inputs = inputs
        spatial: list[IterVar] = []
        body = tuple(self.whole(spatial, t) for t in inputs)
        self.spatial = tuple(spatial)
        # no axes of its own: nothing can be split or moved inside it, while its reads tell producers what is
        # needed
        super().__init__(name, (), (), body, tag, attrs, ())
        given = enumerate(zip(shapes, dtypes, strict=True))
        self.outputs = Row("op.outputs", [Tensor(self, i, shape, t) for i, (shape, t) in given])


class ExternBuffer:
    """A tensor as seen by the function of ``te.extern``: its ``name``, ``shape``, ``dtype``; passed on to a
    call it is a pointer."""

    __slots__ = ("dtype", "name", "output", "position", "shape")

    def __init__(self, name: str, shape: tuple[Expr, ...], dtype: DType, position: int, output: bool) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.position = position
        self.output = output

    @property
    def data(self) -> ExternBuffer:
        """The pointer to the first element."""
        return self

    def access_ptr(self, mask: str = "r") -> ExternBuffer:
        """The pointer to the first element; what ``mask`` says is known already."""
        return self


@dataclass(frozen=True, slots=True)
class ExternCall:
    """The call an extern makes. ``kind`` is ``packed`` (a registered Python function) or ``c`` (a symbol,
    returning ``result``)."""

    kind: str
    name: str
    args: tuple[ExternBuffer | Expr, ...]
    result: DType | None = None

    def as_expr(self) -> Expr:
        """A C function of numbers as the value that it gives. Raises DeclareError for any other call."""
        if self.kind != "c" or not all(isinstance(a, Expr) for a in self.args):
            raise DeclareError(
                f"the call of {self.name!r} stands where one element is meant",
                because="only C functions of numbers give one; others are whole steps",
                try_="te.extern(shape, inputs, …)",
            )
        return call_pure_extern(
            self.result or "int32", self.name, *[a for a in self.args if isinstance(a, Expr)]
        )


def _arguments(args: tuple[Any, ...]) -> tuple[ExternBuffer | Expr, ...]:
    return tuple(a if isinstance(a, ExternBuffer) else make.as_expr(a) for a in args)


def call_packed(name: str, *args: ExternBuffer | ExprLike) -> ExternCall:
    """Call the Python function that ``tl.register_func`` knows by that name, with arrays and numbers. Raises
    DeclareError for a name that is no text."""
    return ExternCall("packed", _named("call_packed", name), _arguments(args))


def call_extern(result: str | DType, name: str, *args: ExternBuffer | ExprLike) -> ExternCall:
    """Call a C function: buffers are passed as pointers, numbers in their own type (int32, float32, …). What
    it returns is dropped. Raises DeclareError for a name that is no text."""
    return ExternCall("c", _symbol("call_extern", name), _arguments(args), dtype(result))


def call_pure_extern(result: str | DType, name: str, *args: ExprLike) -> Expr:
    """What a C function of numbers gives, as an element of a compute: ``te.call_pure_extern("float32",
    "expf", A[i])``.

    It must depend on its arguments alone: it may be called in any order, by several threads, and for elements
    that nobody needs. Arguments are passed in their own types. Raises DeclareError for types that C lacks,
    and for a name that is no text.
    """
    made = dtype(result)
    _symbol("call_pure_extern", name)
    es = [make.as_expr(a) for a in args]
    for t in (made, *(e.dtype for e in es)):
        # half has no calling convention that all C compilers agree on
        if t.lanes != 1 or (t.is_float and t.bits not in (32, 64)):
            raise DeclareError(f"call_pure_extern({name!r}): C has no {t}", try_=".astype('float32')")
    return make.c_call(made, name, *es)


def _named(call: str, name: Any) -> str:
    """The name of a function. Raises DeclareError for anything but text."""
    if not isinstance(name, str) or not name:
        raise DeclareError(
            f"{call}(…, {name!r}): the name of a function is text",
            try_='te.call_packed("name", *arrays), te.call_extern("int32", "name", *arrays)',
        )
    return name


def _symbol(call: str, name: Any) -> str:
    """The name of a C function. Raises DeclareError for what no C function is called."""
    _named(call, name)
    if name.startswith(f"{COMPILERS}."):
        raise DeclareError(
            f"{call}(…, {name!r}): that is no C function",
            because="it is an operation of the compiler, which ends the process where types do not fit",
            try_="te.sqrt, te.popcount, te.clz, te.floor, …: what such operations compute has a name in te",
        )
    if not is_symbol(name):
        raise DeclareError(
            f"{call}(…, {name!r}): no C function can be called so",
            because="the names of functions in machine code are made of letters, digits, _ and $",
            try_=f"tl.register_symbol({identifier(name)!r}, address), and {call}(…, {identifier(name)!r}, …)",
        )
    return name


class ExternOp(WholeOp):
    """One or several tensors that a call writes as a whole: a C function or Python. Made by ``te.extern``."""

    __slots__ = ("call",)

    def __init__(
        self,
        name: str,
        inputs: tuple[Tensor, ...],
        shapes: tuple[tuple[Expr, ...], ...],
        dtypes: tuple[DType, ...],
        call: ExternCall,
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.call = call
        super().__init__(name, inputs, shapes, dtypes, tag, attrs)


@overload
def extern(
    shape: Sequence[Sequence[ExprLike]],
    inputs: Sequence[Tensor],
    fcompute: Callable[..., ExternCall],
    name: str = "extern",
    dtype: str | DType | Sequence[str | DType] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> list[Tensor]: ...
@overload
def extern(
    shape: ExprLike | Sequence[ExprLike],
    inputs: Sequence[Tensor],
    fcompute: Callable[..., ExternCall],
    name: str = "extern",
    dtype: str | DType | Sequence[str | DType] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor: ...
def extern(
    shape: Any,
    inputs: Sequence[Tensor],
    fcompute: Callable[..., ExternCall],
    name: str = "extern",
    dtype: str | DType | Sequence[str | DType] | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> Tensor | list[Tensor]:
    """A tensor (or several, for a list of shapes) that foreign code computes from whole ``inputs``.

    ``fcompute(ins, outs)`` gets a handle for each input and output and returns ``te.call_packed(…)`` or
    ``te.call_extern(…)``. ``dtype`` is that of the outputs, by default that of the inputs when they have one.
    Raises DeclareError for anything else.

    >>> tl.register_func("doc.sorted", lambda x, y: np.copyto(y, np.sort(x)))  # doctest: +ELLIPSIS
    <function ...>
    >>> X = te.placeholder((3,), name="X")
    >>> Y = te.extern((3,), [X], lambda ins, outs: te.call_packed("doc.sorted", ins[0], outs[0]))
    >>> tl.compile([X, Y])(np.array([3, 1, 2], np.float32))
    array([1., 2., 3.], dtype=float32)
    """
    where = f"extern {name!r}"
    many = isinstance(shape, list | tuple) and len(shape) > 0 and isinstance(shape[0], list | tuple)
    shapes = tuple(
        tuple(
            size(e, f"{where}, dimension {d}")
            for d, e in enumerate(s if isinstance(s, list | tuple) else (s,))
        )
        for s in (shape if many else [shape])
    )
    for t in inputs:
        if not isinstance(t, Tensor):
            raise DeclareError(f"{where}: {t!r} is not a tensor")
    dtypes = _dtypes(where, dtype, inputs, len(shapes))
    ins = [ExternBuffer(t.name, t.shape, t.dtype, i, False) for i, t in enumerate(inputs)]
    outs = [
        ExternBuffer(name if len(shapes) == 1 else f"{name}.v{i}", s, t, i, True)
        for i, (s, t) in enumerate(zip(shapes, dtypes, strict=True))
    ]
    # asked before the call, whose own TypeError would speak of a lambda
    wrong = misfit(fcompute, ins, outs) if callable(fcompute) else None
    if wrong:
        raise DeclareError(
            f"extern {name!r}: the function does not take (ins, outs)",
            because=None if "lambda" in str(wrong) else str(wrong),
            try_="lambda ins, outs: te.call_packed('name', ins[0], outs[0])",
        )
    call = fcompute(ins, outs)
    if not isinstance(call, ExternCall):
        raise DeclareError(
            f"{where}: the function returned {call!r}",
            try_="return te.call_packed(name, …) or te.call_extern(dtype, symbol, …)",
        )
    # an output that the call never sees would hold whatever was in memory
    written = {a.position for a in call.args if isinstance(a, ExternBuffer) and a.output}
    if written != set(range(len(shapes))):
        raise DeclareError(
            f"{where}: the call does not get every output", because=f"it gets {len(written)} of {len(shapes)}"
        )
    op = ExternOp(name, tuple(inputs), shapes, dtypes, call, tag, attrs)
    return list(op.outputs) if many else op.outputs[0]


def _dtypes(where: str, given: Any, inputs: Sequence[Tensor], n: int) -> tuple[DType, ...]:
    if given is None:
        found = {t.dtype for t in inputs}
        # no promotion: what a function in C writes is a matter of its signature
        if len(found) != 1:
            raise DeclareError(
                f"{where}: the dtype of the outputs is not clear",
                because=f"the inputs have {len(found)} dtypes",
                try_="dtype='float32'",
            )
        return (found.pop(),) * n
    listed = list(given) if isinstance(given, list | tuple) else [given] * n
    if len(listed) != n:
        raise DeclareError(f"{where}: {counted(len(listed), 'dtype')} for {n} output(s)")
    return tuple(dtype(t) for t in listed)
