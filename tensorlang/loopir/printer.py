"""The loop IR as text that reads like Python: ``show_func``, ``show_stmt``, and the ``str()`` of functions
and statements.

Names are made unique only here, in reading order, so the same tree always gives the same text. Knows
statements and expressions; must not know tensors of the language, schedules or passes.

::

    def matmul(A: float32[M, K], B: float32[K, 48], C: float32[M, 48] out, *, M: dim(1..), K: dim(1..)):
        for i in parallel(0, M):
            acc: float32[48] local                  # Alloc; lives to the end of its block, or to `del acc`
            acc[0 : 48] = x48(0.0)  # a Ramp as an index is a slice, start : stop or start : stop : step
            for k in range(0, K):
                acc[0 : 48] = acc[0 : 48] + x48(A[i, k]) * B[k, 0 : 48]
            C[i, 0 : 48] = acc[0 : 48] if mask              # a masked store; a masked load is (A[i] if mask)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.names import NameSupply
from ..core.recursion import Steps, run
from ..core.visit import TypeTable
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, Ramp, Var
from ..expr.printer import Piece, Pieces, enclosed, listed, rules, show, text_of
from .packed import Packed
from .stmt import (
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    For,
    Func,
    If,
    Let,
    Load,
    Reduction,
    Report,
    Seq,
    Stmt,
    Store,
    View,
)

Line = tuple[int, str, Stmt | None]  # indentation, text, the statement it shows
_RESERVED = (
    "def",
    "del",
    "for",
    "in",
    "if",
    "else",
    "pass",
    "and",
    "or",
    "not",
    "range",
    "parallel",
    "vectorized",
    "unrolled",
)
_LOOP_WORDS = {"serial": "range"}
_REDUCTION_WORDS = {"add": "sum", "mul": "prod", "min": "min", "max": "max", "and": "all", "or": "any"}
_WIDTH = 118


class Names:
    """The printed names of variables and buffers: one supply, so that no two things in one text share a
    name."""

    def __init__(self) -> None:
        self._supply = NameSupply(_RESERVED)

    def __call__(self, var: Var) -> str:
        return self._supply.of(var, var.name or "v")

    def buffer(self, buffer: Buffer) -> str:
        return self._supply.of(buffer, buffer.name or "buf")


def _index(index: Expr) -> Pieces:
    """One index: a scalar as it is, a Ramp as a slice, any other vector (a gather) as the expression it
    is."""
    if type(index) is not Ramp:
        return ((index, 0),)
    stop = make.add(index.base, make.mul(index.stride, index.lanes))
    step: Pieces = () if make.uniform(index.stride, 1) else (" : ", (index.stride, 0))
    return (index.base, 0), " : ", (stop, 0), *step


def access_text(buffer: Buffer, indices: tuple[Expr, ...], name: Any) -> str:
    """``buffer[indices]``."""
    return text_of(_access(buffer, indices, name), name)


def _access(buffer: Buffer, indices: tuple[Expr, ...], name: Any) -> Iterator[Piece]:
    yield f"{_buffer_name(buffer, name)}["
    for n, i in enumerate(indices):
        if n:
            yield ", "
        yield from _index(i)
    yield "]"


def _buffer_name(buffer: Buffer, name: Any) -> str:
    return name.buffer(buffer) if isinstance(name, Names) else buffer.name


@rules.on(Load)
def _load(e: Load, outer: int, name: Any) -> Pieces:
    pieces = tuple(_access(e.buffer, e.indices, name))
    return pieces if e.mask is None else enclosed((*pieces, " if ", (e.mask, 1)), outer > 0)


@rules.on(View)
def _view(e: View, outer: int, name: Any) -> Pieces:
    box = [
        piece
        for n, (extent, step) in enumerate(zip(e.extents, e.strides, strict=True))
        for piece in ((", " if n else "", (extent, 0), " by ", (step, 0)))
    ]
    return f"&{_buffer_name(e.buffer, name)}[", *listed(e.corner), "] (", *box, ")"


@rules.on(Reduction)
def _reduction(e: Reduction, outer: int, name: Any) -> Pieces:
    return f"{_REDUCTION_WORDS.get(e.op, e.op)}(", (e.value, 0), ")"


@rules.on(Packed)
def _packed(e: Packed, outer: int, name: Any) -> Pieces:
    return "packed(", (e.value, 0), " if ", (e.mask, 0), ")"


statements = TypeTable("text of a statement")


class _Writer:
    """Collects the lines of one text."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.lines: list[Line] = []

    def text(self, e: Expr, outer: int = 0) -> str:
        return show(e, self.names, outer)

    def buffer_type(self, b: Buffer) -> str:
        text = f"{b.dtype}[{', '.join(map(self.text, b.shape))}]"
        return text if b.strides is None else f"{text} strides [{', '.join(map(self.text, b.strides))}]"

    def end(self, s: For) -> str:
        try:
            return self.text(make.add(s.begin, s.extent))
        except DeclareError:  # a malformed loop is shown too: the verifier wants to point at it
            return f"{self.text(s.begin, 5)} + {self.text(s.extent, 6)}"

    def add(self, depth: int, text: str, s: Stmt | None) -> None:
        self.lines.append((depth, text, s))

    def write(self, s: Stmt, depth: int, last: bool = True) -> Steps[None]:
        """``last``: nothing follows in this block, so that what ``s`` allocates need not be seen to die."""
        inner = statements(s)(self, s, depth, last)
        if inner is not None:
            yield inner

    def branch(self, s: If, depth: int, word: str) -> Steps[None]:
        self.lines.append((depth, f"{word} {self.text(s.cond)}:", s))
        yield self.write(s.then, depth + 1)
        if isinstance(s.orelse, If):
            yield self.branch(s.orelse, depth, "elif")
        elif s.orelse is not None:
            self.lines.append((depth, "else:", None))
            yield self.write(s.orelse, depth + 1)

    def dim(self, v: Var) -> str:
        facts = (
            [f"{'' if v.lo is None else v.lo}..{'' if v.hi is None else v.hi}"]
            if (v.lo, v.hi) != (None, None)
            else []
        )
        facts += [f"multiple_of={v.multiple_of}"] if v.multiple_of != 1 else []
        return f"{self.names(v)}: dim({', '.join(facts)})"

    def header(self, func: Func) -> list[str]:
        """The ``def`` line; one parameter to a line when it would be too long."""
        parts = []
        for p in func.params:
            if isinstance(p, Buffer):
                out = next(
                    (
                        word
                        for word, some in (
                            (" out", func.outputs),
                            (" updated", func.updates),
                            (" constant", func.constants),
                        )
                        if any(p is b for b in some)
                    ),
                    "",
                )
                parts.append(f"{self.names.buffer(p)}: {self.buffer_type(p)}{out}")
            else:
                parts.append(f"{self.names(p)}: {p.dtype}")
        dims = [self.dim(d) for d in func.dims]
        if dims:
            parts += ["*, " + dims[0], *dims[1:]]
        line = f"def {func.name}({', '.join(parts)}):"
        if len(line) <= _WIDTH:
            return [line]
        margin = " " * (len(func.name) + 5)
        return [
            f"def {func.name}({parts[0]},",
            *[f"{margin}{p}," for p in parts[1:-1]],
            f"{margin}{parts[-1]}):",
        ]


# --- statements: one rule each, given the writer, the statement, its depth, whether it is the last ----------


@statements.on(Seq)
def _seq(w: _Writer, s: Seq, depth: int, last: bool) -> Steps[None]:
    if not s.stmts:
        w.add(depth, "pass", s)
    for i, part in enumerate(s.stmts):
        yield w.write(part, depth, last and i == len(s.stmts) - 1)


@statements.on(For)
def _for(w: _Writer, s: For, depth: int, last: bool) -> Steps[None]:
    # the extent is written before the variable is named: a bound cannot speak of the variable itself
    span = f"{w.text(s.begin)}, {w.end(s)}"
    pragmas = "".join(f"  # {k}: {v}" if k == "kept" else f"  # {k}={v}" for k, v in s.attrs)
    w.add(depth, f"for {w.names(s.var)} in {_LOOP_WORDS.get(s.kind, s.kind)}({span}):{pragmas}", s)
    return w.write(s.body, depth + 1)


@statements.on(If)
def _if(w: _Writer, s: If, depth: int, last: bool) -> Steps[None]:
    return w.branch(s, depth, "if")


@statements.on(Store)
def _store(w: _Writer, s: Store, depth: int, last: bool) -> None:
    mask = "" if s.mask is None else f" if {w.text(s.mask, 1)}"
    w.add(depth, f"{access_text(s.buffer, s.indices, w.names)} = {w.text(s.value, 1)}{mask}", s)


@statements.on(Alloc)
def _alloc(w: _Writer, s: Alloc, depth: int, last: bool) -> Steps[None]:
    name = w.names.buffer(s.buffer)
    within = "" if s.within is None else f" in {w.names.buffer(s.within)}"
    w.add(depth, f"{name}: {w.buffer_type(s.buffer)} {s.buffer.scope}{within}", s)
    yield w.write(s.body, depth, last)
    if not last:
        w.add(depth, f"del {name}", None)


@statements.on(Let)
def _let(w: _Writer, s: Let, depth: int, last: bool) -> Steps[None]:
    value = w.text(s.value)  # before the variable has a name, as for a loop's bounds
    w.add(depth, f"{w.names(s.var)} = {value}", s)
    return w.write(s.body, depth, last)


@statements.on(Extern)
def _extern(w: _Writer, s: Extern, depth: int, last: bool) -> None:
    args = [w.names.buffer(a) if isinstance(a, Buffer) else w.text(a) for a in s.args]
    word = "packed" if s.kind == "packed" else "extern"
    w.add(depth, f"call_{word}({', '.join([repr(s.name), *args])})", s)


@statements.on(Evaluate)
def _evaluate(w: _Writer, s: Evaluate, depth: int, last: bool) -> None:
    w.add(depth, w.text(s.value), s)


@statements.on(Report)
def _report(w: _Writer, s: Report, depth: int, last: bool) -> None:
    index, extent = w.text(s.index), w.text(s.extent)
    w.add(depth, f"report({s.access!r}, dim={s.dim}, index={index}, extent={extent})", s)


def lines_of(func: Func, names: Names | None = None) -> list[Line]:
    """The lines of a function with the statement each stands for (None for the header and for ``else``,
    ``del``)."""
    writer = _Writer(names or Names())
    for p in func.params:  # parameters keep their names: what comes later gets the suffix
        if isinstance(p, Buffer):
            writer.names.buffer(p)
        else:
            writer.names(p)
    for d in func.dims:
        writer.names(d)
    head: list[Line] = [(0, line, None) for line in writer.header(func)]
    notes: list[Line] = [(1, f"# {k}={v}", None) for k, v in func.attrs]
    notes += [(1, f"require {writer.text(cond)}  # {why}", None) for cond, why in func.needs]
    run(writer.write(func.body, 1))
    return head + notes + writer.lines


def show_func(func: Func) -> str:
    """The function as text."""
    return "\n".join("    " * depth + text for depth, text, _ in lines_of(func))


def show_stmt(stmt: Stmt) -> str:
    """The statement as text."""
    writer = _Writer(Names())
    run(writer.write(stmt, 0))
    return "\n".join("    " * depth + text for depth, text, _ in writer.lines)


def _install() -> None:
    Func.__str__ = show_func  # type: ignore[assignment]
    Stmt.__str__ = show_stmt  # type: ignore[assignment]
    Stmt.__repr__ = show_stmt  # type: ignore[assignment]


_install()
