"""``loops``: a step of a computation that te cannot say, sorting or whatever else goes where data lead it,
written as a program of loops. Knows tensors; knows no loop IR.

A program is a Python function that is called once when a kernel is lowered, with a builder
(:class:`LoopBuilder`), the memory of its inputs and that of its outputs. What it builds is loop IR like any
other: printed, verified, interpreted, compiled. Beside it stands what it means in numpy. Programs are known
by name, so that a computation that uses them travels as text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..core.dtype import DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError, counted
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from .axis import plain_name, size
from .extern import WholeOp
from .reference_numbers import from_outside, to_outside
from .tensor import Tensor


class Memory(Protocol):
    """Elements by index: ``m[i, j]`` is read where the expression stands, ``m[i, j] = e`` writes."""

    shape: tuple[Expr, ...]
    dtype: DType

    def __getitem__(self, index: Any) -> Expr: ...
    def __setitem__(self, index: Any, value: ExprLike) -> None: ...


class Cell(Protocol):
    """A variable of a program: ``c.value`` reads it where the expression stands, ``c.set(e)`` changes it."""

    @property
    def value(self) -> Expr: ...
    def set(self, value: ExprLike) -> None: ...


class LoopBuilder(Protocol):
    """What a program is written with. Statements follow one another as the calls do; those made inside of a
    ``with`` stand inside of its loop or condition."""

    vector_bits: int  # of the processor that the loops are built for, 256 where nobody knows it
    # whether it packs lanes that are kept: a vector loop of 8 or 16, `with b.when(c): m[n.value] = x;
    # n.set(n.value + 1)`, is as fast as one that keeps all. Elsewhere it runs lane by lane, behind a branch.
    # Without one, `m[n.value] = x; n.set(n.value + te.cast(n.dtype, c))`, as many are written as there are
    # lanes, and what is behind those that count may be anything
    packs: bool

    def loop(
        self,
        name: str,
        extent: ExprLike,
        begin: ExprLike = 0,
        *,
        parallel: bool = False,
        vector: bool = False,
    ) -> AbstractContextManager[Expr]:
        """``extent`` iterations, none if it is not positive; the value is the place, from ``begin`` on.
        Iterations of a ``parallel`` loop must not meet in memory, and those of a ``vector`` loop, so many as
        a number says, only in a sum, product, minimum or maximum, or in the number of elements that were
        kept before (``packs``): they are done at once."""

    def when(self, condition: Expr) -> AbstractContextManager[None]:
        """What stands inside is done where the condition holds."""

    def otherwise(self) -> AbstractContextManager[None]:
        """What is done where the condition of the ``when`` before does not hold."""

    def let(self, name: str, value: ExprLike) -> Expr:
        """The value as it is here, under a name, to the end of the block."""

    def cell(self, name: str, dtype: str | DType, value: ExprLike) -> Cell:
        """A variable of that type, which begins with ``value`` and lives to the end of the block."""

    def memory(self, name: str, shape: Sequence[ExprLike], dtype: str | DType) -> Memory:
        """Memory to the end of the block, its contents undefined at first."""


Emit = Callable[..., None]  # (builder, inputs, outputs, **attrs)
Numpy = Callable[..., Sequence[Any]]  # (*arrays, **attrs) → the arrays of the outputs


@dataclass(frozen=True, slots=True)
class LoopProgram:
    """``emit(b, inputs, outputs, **attrs)`` builds the loops, ``numpy(*arrays, **attrs)`` is their
    meaning."""

    name: str
    emit: Emit
    numpy: Numpy


PROGRAMS: dict[str, LoopProgram] = {}


def loop_program(name: str, numpy: Numpy) -> Callable[[Emit], LoopProgram]:
    """Make a function a program of that name, the decorator's argument its meaning in numpy::

        @te.loop_program("first_negative", lambda x: [np.argmax(x < 0)])
        def first_negative(b, inputs, outputs):
            (x,), (out,) = inputs, outputs
            out[()] = 0
            with b.loop("i", x.shape[0]) as i:
                at = b.let("at", x.shape[0] - 1 - i)
                with b.when(x[at] < 0):
                    out[()] = at

    Raises DeclareError for a name that is taken by another function.
    """
    name = plain_name("te.loop_program", name)

    def made(emit: Emit) -> LoopProgram:
        known = PROGRAMS.get(name)
        # a module that is loaded again defines the same program
        if known is not None and known.emit.__code__ is not emit.__code__:
            raise DeclareError(f"te.loop_program({name!r}): the name is taken", try_="another name")
        PROGRAMS[name] = LoopProgram(name, emit, numpy)
        return PROGRAMS[name]

    return made


class LoopsOp(WholeOp):
    """One or several tensors written by a program from whole ``inputs``; the op's ``attrs`` are its
    arguments."""

    __slots__ = ("program",)
    kind = "loops: a program writes it whole"

    def __init__(
        self,
        name: str,
        program: LoopProgram,
        inputs: tuple[Tensor, ...],
        shapes: tuple[tuple[Expr, ...], ...],
        dtypes: tuple[DType, ...],
        tag: str = "",
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.program = program
        super().__init__(name, inputs, shapes, dtypes, tag, attrs)


def loops(
    program: LoopProgram,
    inputs: Sequence[Tensor],
    shapes: Sequence[Sequence[ExprLike]],
    dtypes: Sequence[str | DType],
    *,
    name: str | None = None,
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
) -> list[Tensor]:
    """The tensors that a program computes from whole ``inputs``, by their shapes and dtypes.

    ``attrs`` are plain data, handed to the program by name. It runs at root. Where the size of a result
    depends on data, give an upper bound as its shape and the size as another result. Raises DeclareError for
    anything that is not a program, a tensor or a shape. ``y, = te.loops(first_negative, [x], [()],
    ["int32"])``
    """
    if not isinstance(program, LoopProgram):
        raise DeclareError(f"te.loops: {program!r} is not a program", try_="a function under te.loop_program")
    name = plain_name("te.loops", program.name if name is None else name)
    what = f"loops {name!r}"
    for t in inputs:
        if not isinstance(t, Tensor):
            raise DeclareError(f"{what}: {t!r} is not a tensor")
    if len(shapes) != len(dtypes) or not shapes:
        raise DeclareError(
            f"{what}: {counted(len(shapes), 'shape')} and {counted(len(dtypes), 'dtype')} of outputs"
        )
    sizes = tuple(tuple(size(e, f"{what}, dimension {d}") for d, e in enumerate(s)) for s in shapes)
    kinds = tuple(as_dtype(t) for t in dtypes)
    op = LoopsOp(name, program, tuple(inputs), sizes, kinds, tag, attrs)
    return list(op.outputs)


def meant(op: LoopsOp, arrays: Mapping[Tensor, Any], number: Callable[[Expr], int]) -> tuple[Any, ...]:
    """The meaning in numpy. Of results with fewer elements than their bound the rest is zeros."""
    results = op.program.numpy(*[to_outside(arrays[t], t.dtype) for t in op.inputs], **op.attrs)
    outs = []
    for t, a in zip(op.outputs, results, strict=True):
        # how many results there are is data: shapes are bounds, and the rest is zeros in the kernel too
        out, part = np.zeros(tuple(number(e) for e in t.shape), t.dtype.to_numpy()), np.asarray(a)
        out[tuple(slice(0, n) for n in part.shape)] = part
        outs.append(from_outside(out, t.dtype))
    return tuple(outs)
