"""Loop IR written statement by statement, as programs of loops (``te.loops``) are: the builder behind
``te.LoopBuilder``. Knows the loop IR; no tensors and no schedules.

A block is a list of statements and of what begins at a place and lives to the end of it: names and memory.
When the block ends these are wrapped around what follows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..core.dtype import BOOL, DType
from ..core.dtype import dtype as as_dtype
from ..errors import LowerError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, IfThenElse, Var
from ..expr.walk import preorder, rewrite
from .stmt import PARALLEL, SERIAL, VECTORIZED, Alloc, Buffer, For, If, Let, Stmt, Store, load, loads, seq
from .stmt import preorder as statements

# bits of the vectors of the processor that loops are built for; where nobody knows it those that most have
_vector_bits: ContextVar[int] = ContextVar("vector_bits", default=256)


@contextmanager
def vectors_of(bits: int) -> Iterator[None]:
    """Inside, and in a function that this decorates, programs of loops are for vectors of so many bits."""
    before = _vector_bits.set(bits)
    try:
        yield
    finally:
        _vector_bits.reset(before)


def packs() -> bool:
    """Whether the processor that loops are built for puts lanes that are kept one behind the other."""
    return _vector_bits.get() >= 512


class Elements:
    """A buffer by index."""

    def __init__(self, builder: Builder, buffer: Buffer) -> None:
        self._builder = builder
        self.buffer = buffer
        self.shape = buffer.shape
        self.dtype = buffer.dtype

    def _index(self, index: Any) -> tuple[Expr, ...]:
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.shape):
            raise LowerError(
                f"a program of loops: {counted(len(given), 'index', 'indices')} of {self.buffer.name}",
                because=f"it has {len(self.shape)} dimension(s)",
            )
        return tuple(make.as_expr(i) for i in given)

    def __getitem__(self, index: Any) -> Expr:
        return load(self.buffer, self._index(index))

    def __setitem__(self, index: Any, value: ExprLike) -> None:
        # a Python number takes the type of the memory
        e = make.as_expr(value, self.dtype if not isinstance(value, Expr) else None)
        self._builder.emit(Store(self.buffer, make.cast(self.dtype, e), self._index(index)))


class Variable:
    """A variable: one element of local memory, which the code generator keeps in a register."""

    def __init__(self, elements: Elements) -> None:
        self._elements = elements

    @property
    def value(self) -> Expr:
        return self._elements[0]

    def set(self, value: ExprLike) -> None:
        self._elements[0] = value


class Builder:
    """See ``te.LoopBuilder``; ``body()`` is what was built."""

    def __init__(self) -> None:
        self._blocks: list[list[Any]] = [[]]
        self.vector_bits = _vector_bits.get()
        self.packs = packs()

    def elements(self, buffer: Buffer) -> Elements:
        """The handle of memory that exists already."""
        return Elements(self, buffer)

    def emit(self, s: Stmt) -> None:
        """Add a statement to the block."""
        self._blocks[-1].append(s)

    def body(self) -> Stmt:
        """All statements of the outermost block."""
        return _closed(self._blocks[0])

    @contextmanager
    def _block(self) -> Iterator[list[Any]]:
        inside: list[Any] = []
        self._blocks.append(inside)
        yield inside
        self._blocks.pop()

    @contextmanager
    def loop(
        self,
        name: str,
        extent: ExprLike,
        begin: ExprLike = 0,
        *,
        parallel: bool = False,
        vector: bool = False,
    ) -> Iterator[Expr]:
        first, count = make.unify(begin, extent)
        var = Var(name, first.dtype, "loop")
        with self._block() as inside:
            yield var
        kind, body = PARALLEL if parallel else VECTORIZED if vector else SERIAL, _closed(inside)
        # bounds are read once, before the loop, whatever its body writes
        (first, count), named = _as_before((first, count), body)
        self.emit(named(For(var, first, count, kind, body)))

    @contextmanager
    def when(self, condition: Expr) -> Iterator[None]:
        with self._block() as inside:
            yield
        body = _closed(inside)
        (condition,), named = _as_before((make.cast(BOOL, condition),), body)
        self.emit(named(If(condition, body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        before = self._blocks[-1][-1] if self._blocks[-1] else None
        names = []  # of what the condition reads
        # the names that the condition before was given stand around it
        while isinstance(before, Let):
            names.append(before)
            before = before.body
        if not isinstance(before, If) or before.orelse is not None:
            raise LowerError("a program of loops: otherwise without a when before it")
        with self._block() as inside:
            yield
        orelse = _closed(inside)
        (condition,), named = _as_before((before.cond,), orelse)
        made = named(If(condition, before.then, orelse))
        for let in reversed(names):
            made = Let(let.var, let.value, made)
        self._blocks[-1][-1] = made

    def let(self, name: str, value: ExprLike) -> Expr:
        e = make.as_expr(value)
        var = Var(name, e.dtype, "data")
        self._blocks[-1].append((var, e))
        return var

    def cell(self, name: str, dtype: str | DType, value: ExprLike) -> Variable:
        buffer = Buffer(name, as_dtype(dtype), (make.const(1, "int32"),), "local")
        self._blocks[-1].append(buffer)
        variable = Variable(Elements(self, buffer))
        variable.set(value)
        return variable

    def memory(self, name: str, shape: Sequence[ExprLike], dtype: str | DType) -> Elements:
        buffer = Buffer(name, as_dtype(dtype), tuple(make.as_expr(n) for n in shape), "global")
        self._blocks[-1].append(buffer)
        return Elements(self, buffer)


def _as_before(exprs: Sequence[Expr], body: Stmt) -> tuple[list[Expr], Callable[[Stmt], Stmt]]:
    """Expressions that hold in ``body``, which may write to what they read: such elements get names, for of
    the elements themselves no more is known inside; and what puts the names around a statement. An element
    that is read in one case only has none: then the whole expression gets one."""
    written = {w for s in statements(body) for w in s.written()} if any(map(loads, exprs)) else set()
    names: dict[Expr, Var] = {}
    for x in exprs:
        changed: list[Expr] = [e for e in loads(x) if e.buffer in written]
        if changed and any(isinstance(e, IfThenElse) for e in preorder(x)):
            changed = [x]
        names |= {e: Var("before", e.dtype, "data") for e in changed}

    def named(s: Stmt) -> Stmt:
        for e, var in names.items():
            s = Let(var, e, s)
        return s

    return [rewrite(x, names.get) for x in exprs], named


def _closed(items: Sequence[Any]) -> Stmt:
    """The statements of a block, what lives to its end around what follows."""
    out: Stmt = seq()
    for item in reversed(items):
        if isinstance(item, Buffer):
            out = Alloc(item, out)
        elif isinstance(item, tuple):
            out = Let(item[0], item[1], out)
        else:
            out = seq(item, out)
    return out
