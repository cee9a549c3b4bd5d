"""Takes the time of loop nests: a kernel with one more output, a table of nanoseconds and counts, and calls
of a clock around each nest.

The outermost nests are marked; ``deep`` marks also the nests inside them, at the first place where one does
more than run the next loop. The clock is a C function, so nothing of it is known here. For a kernel that went
through the whole pipeline: it is not one of its passes.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.dtype import INT32, INT64
from ..core.recursion import Steps, run
from ..expr import make
from ..interface.timed_nests import START, STOP, Nest
from ..loopir.printer import Names, lines_of
from ..loopir.stmt import PARALLEL, Alloc, Buffer, Extern, For, Func, Seq, Stmt, preorder, rewrite, seq

TABLE = "profile"


def instrument(func: Func, deep: bool) -> tuple[Func, tuple[Nest, ...]]:
    """The kernel with the table as its last parameter, int64[rows, 2], to which each row's nanoseconds and
    runs are added; and its rows: the first is the whole kernel."""
    names = Names()
    lines_of(func, names)  # the names of the printed loop IR
    marks = _Marks(deep, names)
    body = run(marks.timed(Nest(func.name, shown=False), lambda row: marks.nests(func.body, None)))
    table = Buffer(TABLE, INT64, (make.const(len(marks.rows), "int64"), make.const(2, "int64")))
    body = rewrite(body, lambda s: _with_table(s, marks.table, table))
    params, outputs = (*func.params, table), (*func.outputs, table)
    return func.changed(params=params, body=body, outputs=outputs), tuple(marks.rows)


class _Marks:
    def __init__(self, deep: bool, names: Names) -> None:
        self.deep = deep
        self.names = names
        self.rows: list[Nest] = []
        self.table = Buffer(TABLE, INT64, ())  # its size is known when all rows are

    def timed(self, nest: Nest, body: Callable[[int], Steps[Stmt]]) -> Steps[Stmt]:
        """What ``body(row)`` makes, between two looks at the clock."""
        row = len(self.rows)
        self.rows.append(nest)
        began = Buffer(f"{TABLE}.began", INT64, (make.const(1, "int64"),), "local")
        made = yield body(row)
        start = Extern("c", START, (began,), (began,), INT32)
        stop = Extern("c", STOP, (began, self.table, make.const(row, "int64")), (self.table,), INT32)
        return Alloc(began, seq(start, made, stop))

    def nests(self, s: Stmt, within: int | None) -> Steps[Stmt]:
        """Every outermost loop of ``s`` marked."""
        if isinstance(s, For):
            nest = Nest(_loops(s, self.names), _written(s, self.names), within)
            return (yield self.timed(nest, lambda row: self.inner(s, row, self.deep and within is None)))
        parts = []
        for p in s.parts():
            parts.append((yield self.nests(p, within)))
        return s.with_parts(*parts) if parts else s

    def inner(self, s: Stmt, row: int, marked: bool) -> Steps[Stmt]:
        """The nests inside the loop ``s`` of this row ``marked``, where it comes to more than one thing."""
        if not marked or not _divided(s):
            return s
        if isinstance(s, For):
            return For(s.var, s.begin, s.extent, s.kind, (yield self.inner(s.body, row, True)), s.attrs)
        return (yield self.timed(Nest("", within=row, shown=False), lambda whole: self.nests(s, whole)))


def _divided(s: Stmt) -> bool:
    """Whether a single chain of loops leads to several things, one of them a loop."""
    while not isinstance(s, Seq):
        if len(s.parts()) != 1:
            return False
        (s,) = s.parts()
    return any(isinstance(n, For) for n in preorder(s))


def _loops(s: Stmt, name: Names) -> str:
    """The names of the loops from ``s`` inwards, as long as each does nothing but run the next."""
    names = []
    while isinstance(s, For):
        names.append(f"{name(s.var)} (parallel)" if s.kind == PARALLEL else name(s.var))
        s = s.body
    return ", ".join(names)


def _written(s: Stmt, name: Names) -> tuple[str, ...]:
    made = {n.buffer for n in preorder(s) if isinstance(n, Alloc)}
    stored = [(b, getattr(n, "of", None)) for n in preorder(s) for b in n.written()]
    return tuple(dict.fromkeys(of or name.buffer(b) for b, of in stored if b not in made))


def _with_table(s: Stmt, old: Buffer, new: Buffer) -> Stmt | None:
    if isinstance(s, Extern) and any(a is old for a in s.args):
        return Extern(s.kind, s.name, tuple(new if a is old else a for a in s.args), (new,), s.result)
    return None
