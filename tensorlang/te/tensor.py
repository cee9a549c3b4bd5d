"""Tensors, their elements, and the operations that produce them. Knows axes and expressions, no schedules.

A Tensor is known by its operation and never changes: schedules that rewrite a computation keep the tensor and
replace the *definition* of its stage, so that every reader goes on reading the same tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from .. import signposts
from ..boundary import missing
from ..core.dtype import DType
from ..core.node import intern
from ..entries import public
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import READS, Access, Expr, const_int, over, together
from ..expr.operators import Operators
from ..expr.walk import preorder
from ..protocols import Entries, Row, element
from .axis import Axes, IterVar, tell_apart


@public(DeclareError, "Operation")
class Operation:
    """What produces tensors. Known by identity. ``tag`` and ``attrs`` carry notes for recipes; they change no
    meaning."""

    __slots__ = ("__weakref__", "attrs", "name", "outputs", "tag")
    name: str
    outputs: tuple[Tensor, ...]
    if TYPE_CHECKING:
        axis: tuple[IterVar, ...]
        reduce_axis: tuple[IterVar, ...]
    else:

        @property
        def axis(self) -> Axes:
            """Those of a compute; an argument has no loops."""
            return Axes.listed((), self.name)

        @property
        def reduce_axis(self) -> Axes:
            """The axes that a compute reduces over."""
            return Axes.listed((), self.name, "reduce_axis")

    body: tuple[Any, ...] = ()  # an expression for each output, all of them Reduce or none
    spatial: tuple[IterVar, ...] = ()  # axes of what an opaque step reads whole
    strides: tuple[Expr, ...] | None = None  # of an argument that need not be compact

    def __init__(self, name: str, tag: str = "", attrs: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.tag = tag
        self.attrs: dict[str, Any] = Entries("op.attrs", attrs)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors this operation reads, each once, in order of appearance.

        >>> x = te.placeholder((8, 4), name="x")
        >>> ops.relu(x).op.input_tensors
        (Tensor(x: float32[8, 4]),)
        """
        return Row("op.input_tensors")

    def output(self, index: int) -> Tensor:
        """Output number ``index``.

        >>> x = te.placeholder((8, 4), name="x")
        >>> x.op.output(0) is x
        True
        """
        return element(f"{self.name}.output", self.outputs, index)  # type: ignore[no-any-return]

    @property
    def num_outputs(self) -> int:
        """How many tensors the operation computes."""
        return len(self.outputs)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


class PlaceholderOp(Operation):
    """An argument of the computation. ``strides`` counts elements between neighbours; None: its arrays are
    compact in C order."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(
        self, name: str, shape: tuple[Expr, ...], dtype: DType, strides: tuple[Expr, ...] | None = None
    ) -> None:
        super().__init__(name)
        self.dtype = dtype
        self.strides = strides
        self.outputs = Row("op.outputs", [Tensor(self, 0, shape, dtype)])
        self.shape = self.outputs[0].shape


class Composed:
    """A definition as parts of which its body is written when it is asked for (see ``inlined``)."""

    __slots__ = ()

    @property
    def parts(self) -> tuple[ComputeOp, ...]:
        """The definitions that it is put together of, which have all operations of the whole."""
        raise NotImplementedError

    def reads(self) -> tuple[TensorRead, ...]:
        """What the body reads, each once, in order of appearance."""
        raise NotImplementedError

    def body(self) -> tuple[Expr, ...]:
        """The expressions."""
        raise NotImplementedError


class ComputeOp(Operation):
    """``axis`` are the data axes of every output, ``reduce_axis`` those reduced over, ``body`` one expression
    per output: all are Reduce nodes of one reduction, or none is. ``needs`` are conditions on symbolic sizes,
    each with the reason: a call with other sizes is refused. ``composed`` holds the parts of a body that
    nobody has asked for yet."""

    __slots__ = ("_found", "axis", "body", "composed", "needs", "reduce_axis")

    def __init__(
        self,
        name: str,
        axis: tuple[IterVar, ...],
        reduce_axis: tuple[IterVar, ...],
        body: tuple[Expr, ...] | Composed,
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
        outputs: tuple[Tensor, ...] | None = None,
        needs: tuple[tuple[Expr, str], ...] = (),
    ) -> None:
        super().__init__(name, tag, attrs)
        self.needs = needs
        self.axis = Axes.listed(axis, name)
        self.reduce_axis = Axes.listed(reduce_axis, name, "reduce_axis")
        self.composed = body if isinstance(body, Composed) else None
        if not isinstance(body, Composed):
            self.body = Row("op.body", body)
        self._found: tuple[tuple[TensorRead, ...], tuple[Tensor, ...]] | None = None
        if outputs is None:
            # once, when the tensors are new: later definitions keep the axes, and their names stand in traces
            tell_apart((*axis, *reduce_axis))
            shape = tuple(a.extent for a in axis)
            outputs = tuple(Tensor(self, i, shape, e.dtype) for i, e in enumerate(self.body))
        self.outputs = Row("op.outputs", outputs)

    def __getattr__(self, name: str) -> Any:
        """The body, when it is first asked for."""
        composed = self.composed if name == "body" else None
        if composed is None:
            if name.startswith("_") or name == "body":
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)
            raise missing(type(self).__name__, name, type(self), {})
        self.body = Row("op.body", composed.body())
        # what it was put together of can go now
        self.composed = None
        return self.body

    def redefined(
        self,
        body: tuple[Expr, ...] | Composed,
        axis: tuple[IterVar, ...] | None = None,
        reduce_axis: tuple[IterVar, ...] | None = None,
    ) -> ComputeOp:
        """The same tensors with another definition: for schedules. The outputs keep their identity."""
        return ComputeOp(
            self.name,
            self.axis if axis is None else axis,
            self.reduce_axis if reduce_axis is None else reduce_axis,
            body,
            self.tag,
            self.attrs,
            self.outputs,
            self.needs,
        )

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the bodies read, each once, in order of appearance."""
        return self._read()[1]

    @property
    def reads(self) -> tuple[TensorRead, ...]:
        """The reads in the bodies, each once, in order of appearance."""
        return self._read()[0]

    def _read(self) -> tuple[tuple[TensorRead, ...], tuple[Tensor, ...]]:
        if self._found is None:
            composed = self.composed
            nodes = reads_in(self.body) if composed is None else composed.reads()
            self._found = nodes, Row("op.input_tensors", dict.fromkeys([n.tensor for n in nodes]))
        return self._found


def reads_in(body: tuple[Expr, ...]) -> tuple[TensorRead, ...]:
    """The reads in these expressions, each once, in order of appearance."""
    return tuple(dict.fromkeys([n for e in body for n in preorder(e) if type(n) is TensorRead]))


@public(DeclareError, "Tensor", signposts.TENSOR, page="tensor")
class Tensor(Operators):
    """A value with a shape. ``A[i, j]`` (or ``A(i, j)``) is an element, to be used inside another compute.

    Known by identity: ``A == B`` asks whether they are one tensor. A tensor of rank 0 is used like a number.
    Other arithmetic of tensors, ``A + B``, ``-A``, ``A * 2.0``, declares the tensor of its elements,
    broadcast (see ``whole``).
    """

    if TYPE_CHECKING:  # a tensor, or an expression when all operands have rank 0

        def _either(self, other: Any) -> Any: ...
        def _one(self) -> Any: ...
        def astype(self, dtype: str | DType) -> Any: ...

        __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = (
            __floordiv__
        ) = __rfloordiv__ = _either
        __mod__ = __rmod__ = __pow__ = __rpow__ = __lt__ = __le__ = __gt__ = __ge__ = _either
        __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = __rshift__ = (
            __rrshift__
        ) = _either
        __neg__ = __abs__ = __invert__ = __pos__ = _one

    __slots__ = ("__weakref__", "dtype", "op", "shape", "value_index")

    def __init__(self, op: Operation, value_index: int, shape: tuple[Expr, ...], dtype: DType) -> None:
        self.op = op
        self.value_index = value_index
        self.shape: tuple[Expr, ...] = Row(f"{op.name}.shape", shape)
        self.dtype = dtype

    @property
    def name(self) -> str:
        """The name of the tensor, which is that of its operation; of one of several, with its number."""
        name = self.op.name
        return name if len(self.op.outputs) == 1 else f"{name}.v{self.value_index}"

    @property
    def ndim(self) -> int:
        """How many axes the tensor has.

        >>> te.placeholder((8, 4)).ndim
        2
        """
        return len(self.shape)

    @property
    def axis(self) -> tuple[IterVar, ...]:
        """The data axes of the compute that makes it."""
        return self.op.axis

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return self is other

    def __ne__(self, other: object) -> bool:  # type: ignore[override]
        return self is not other

    # by identity: a tensor is a place in a program, and == of two would be one of all elements
    __hash__ = object.__hash__

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        word = getattr(func, "__name__", "function").strip("_")
        raise DeclareError(
            f"torch's {word} of a declared tensor",
            because="it has no elements until a kernel has run",
            try_=f"tl.ops.{word}(A), if there is one, or te.compute; tensors of torch go to the kernel",
        )

    def __bool__(self) -> NoReturn:
        raise DeclareError(
            f"the truth of the tensor {self.name}",
            because="it has no elements until a kernel has run",
            try_="`A is None`, or len(A.shape)",
        )

    def __len__(self) -> int:
        """The size of the first dimension, as of an array. Raises DeclareError where it is open."""
        first = const_int(self.shape[0]) if self.shape else None
        if first is None:
            raise DeclareError(f"len({self.name}): {self!r} has no known first size", try_="A.shape, A.ndim")
        return first

    def __array__(self, *args: Any, **named: Any) -> NoReturn:
        raise DeclareError(
            f"np.asarray({self.name}): a tensor has no elements until a kernel has run",
            because="it is a declaration",
            try_=f"tl.compile([…, {self.name}]), whose result is an array",
        )

    def __iter__(self) -> NoReturn:
        raise DeclareError(
            f"a loop over the tensor {self.name}",
            because="its elements are computed by kernels, not by Python",
            try_=f"te.compute({self.name}.shape, lambda *i: {self.name}(*i) * 2)",
        )

    def as_expr(self) -> Expr:
        """The one element of a tensor of rank 0. Raises DeclareError for any other.

        >>> x = te.placeholder((), name="x")
        >>> x.as_expr()
        x[]
        """
        if self.shape:
            indices = ", ".join(letters(self.ndim))
            raise DeclareError(
                f"the whole tensor {self.name} stands where one element is meant",
                because=f"a compute is declared element by element, and {self.name} has shape "
                f"{self._shape_text()}",
                try_=f"{self.name}[{indices}] inside te.compute(shape, lambda {indices}: …)",
            )
        return self._element(())

    def __repr__(self) -> str:
        return f"Tensor({self.name}: {self.dtype}[{', '.join(map(str, self.shape))}])"

    def __call__(self, *indices: ExprLike, **named: Any) -> TensorRead:
        if named:
            raise DeclareError(f"{self.name}({next(iter(named))}=…): indices have no names", try_="A[i, j]")
        return self._element(indices)

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> TensorRead:
        given = indices if isinstance(indices, tuple) else (indices,)
        for i in given:
            # numpy's ways to take a part: te speaks of one element at a time
            if isinstance(i, slice) or i is Ellipsis or i is None:
                raise DeclareError(
                    f"{self.name}[{_shown(given)}]: a slice is not an element",
                    because="a compute is declared one element at a time",
                    try_=f"te.compute(part, lambda i: {self.name}[begin + i]) for a part of {self.name}",
                )
        if len(given) < self.ndim:
            self._checked(given)  # now, where they stand, and not when the last one comes
            return TensorSlice(self, given)  # type: ignore[return-value]  # an element once the other indices follow
        return self._element(given)

    def _element(self, given: tuple[ExprLike, ...]) -> TensorRead:
        if len(given) != self.ndim:
            count = f"{counted(len(given), 'index', 'indices')} for {counted(self.ndim, 'dimension')}"
            raise DeclareError(
                f"{self.name}[{_shown(given)}]: {count}",
                because=f"{self.name} has shape {self._shape_text()}",
                try_=f"{self.name}[{', '.join(letters(self.ndim))}]" if self.ndim else f"{self.name}()",
            )
        return intern(TensorRead, self, self._checked(given))  # type: ignore[no-any-return]

    def _checked(self, given: tuple[ExprLike, ...]) -> tuple[Expr, ...]:
        """The indices of the first dimensions. Raises DeclareError for one that is none."""
        indices = []
        for d, (i, extent) in enumerate(zip(given, self.shape, strict=False)):
            try:
                e = make.as_expr(i)
            except DeclareError as error:
                raise DeclareError(
                    f"{self.name}[{_shown(given)}], index {d}: {error.what}",
                    because=error.because,
                    try_="an int, an axis, or an element of an integer tensor",
                ) from None
            if not e.dtype.is_int:
                raise DeclareError(
                    f"{self.name}[{_shown(given)}]: index {d} is {e.dtype}, not an integer",
                    because=f"it is {e}",
                    try_="te.floor(…).astype('int32')"
                    if e.dtype.is_float
                    else "cond.astype('int32'), or te.if_then_else",
                )
            n, limit = const_int(e), const_int(extent)
            # of numbers now, of what moves when the extents of its axes are known
            if n is not None and (n < 0 or (limit is not None and n >= limit)):
                raise DeclareError(
                    f"{self.name}[{_shown(given)}]: index {d} is {n}, out of range 0..{extent}",
                    because=f"{self.name} has shape {self._shape_text()}; ranges exclude their end",
                    try_=f"{self.name}.shape[{d}] - {-n} to count from the end" if n < 0 else None,
                )
            indices.append(e)
        return tuple(indices)

    def _shape_text(self) -> str:
        return f"({', '.join(map(str, self.shape))}{',' if self.ndim == 1 else ''})"


def letters(n: int) -> list[str]:
    """Names for indices in examples."""
    return [("i", "j", "k", "l")[d] if n <= 4 else f"i{d}" for d in range(n)]


def _shown(given: tuple[ExprLike, ...]) -> str:
    def one(i: ExprLike) -> str:
        if isinstance(i, slice):
            ends = [i.start, i.stop] + ([] if i.step is None else [i.step])
            return ":".join("" if e is None else one(e) for e in ends)
        return (
            "…"
            if i is Ellipsis
            else i.name
            if isinstance(i, IterVar | Tensor)
            else repr(i)
            if isinstance(i, str)
            else str(i)
        )

    return ", ".join(map(one, given))


class TensorSlice(Operators):
    """``A[i]`` of a tensor with more dimensions: waits for the other indices."""

    __slots__ = ("given", "tensor")

    def __init__(self, tensor: Tensor, given: tuple[ExprLike, ...]) -> None:
        self.tensor = tensor
        self.given = given

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.tensor.dtype

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> TensorRead:
        return self.tensor[(*self.given, *(indices if isinstance(indices, tuple) else (indices,)))]

    def as_expr(self) -> Expr:
        """Raises DeclareError: indices are missing."""
        return self.tensor._element(self.given)

    def __repr__(self) -> str:
        return f"{self.tensor.name}[{_shown(self.given)}, …]"


class TensorRead(Access):
    """The expression of one element of a tensor, by scalar indices: what ``A[i, j]`` gives."""

    __slots__ = ("tensor",)
    _fields = ("tensor", "indices")
    tensor: Tensor

    def __init__(self, tensor: Tensor, indices: tuple[Expr, ...]) -> None:
        self._memo = None
        self._height = over(indices)
        self.contains = together(READS, indices)
        self.tensor = tensor
        self.indices = indices
        self.dtype = tensor.dtype

    def label(self) -> str:
        """The name of the tensor that is read, as it prints."""
        return self.tensor.name

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> TensorRead:
        """Raises DeclareError: every index is given already."""
        return self.tensor._element((*self.indices, *(indices if isinstance(indices, tuple) else (indices,))))

    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def with_children(self, *kids: Expr) -> Expr:
        return intern(TensorRead, self.tensor, tuple(kids))
