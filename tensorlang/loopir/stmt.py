"""The loop IR on one screen. Statements are immutable; buffers and variables are known by identity.

::

    func   = Func(name, params: (Buffer | Var)*, body, attrs, needs)
                                                   needs: what the sizes of a call must be like
    stmt   = Seq(stmt*)                            one after the other; Seq(()) does nothing
           | For(var, begin, extent, kind, body)   var in begin .. begin+extent-1; nothing when extent <= 0
           | If(cond, then, orelse?)               cond: scalar bool
           | Store(buffer, value, indices, mask?)  buffer[indices] = value, only in the lanes where mask holds
           | Alloc(buffer, body)                   lives while body runs; contents undefined at first
           | Let(var, value, body)
           | Evaluate(value)                       for effects only: Call("prefetch", ...)
           | Report(access, dim, index, extent, ...)  ends the kernel: an index is out of bounds
           | Extern(kind, name, args, outputs)     a call of somebody else's function on whole buffers
    kind   = serial | parallel | vectorized | unrolled
    expr   = the nodes of expr.nodes | Load(buffer, indices, mask?) | Reduction(op, vector)
           | Packed(vector, mask)                  its lanes where mask holds, in front, zeros behind
    index  = scalar int expr | vector int expr     the lanes of an access are those of its indices (all equal
                                                   or scalar); vector access = gather unless it is a Ramp
    buffer = Buffer(name, dtype, shape: expr*, strides: expr* | None, scope)

``vectorized`` and ``unrolled`` loops have constant extents and exist only before the passes that expand them.
A masked-off lane of a Load is neither read nor defined (it holds zero); a masked-off lane of a Store is not
written. All indices count elements; ``strides`` None means compact row-major.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import is_
from typing import Any, NoReturn

from .. import signposts
from ..core.dtype import INT64, DType
from ..core.node import intern
from ..core.recursion import Steps, run
from ..entries import public
from ..errors import LowerError
from ..expr import make
from ..expr.deep import is_deep
from ..expr.nodes import READS, REDUCED, Access, Expr, Var, over, together
from ..expr.walk import preorder as expr_preorder
from .buffer import Buffer as Buffer

SERIAL, PARALLEL, VECTORIZED, UNROLLED = "serial", "parallel", "vectorized", "unrolled"
KINDS = (SERIAL, PARALLEL, VECTORIZED, UNROLLED)


class Load(Access):
    """``buffer[indices]``; with vector indices a vector of elements, zero in lanes where ``mask`` is
    false."""

    __slots__ = ("buffer", "mask")
    _fields = ("buffer", "indices", "mask")
    buffer: Buffer
    mask: Expr | None

    def __init__(self, buffer: Buffer, indices: tuple[Expr, ...], mask: Expr | None) -> None:
        self._memo = None
        self._height = over(indices if mask is None else (*indices, mask))
        self.contains = together(READS if mask is None else READS | mask.contains, indices)
        self.buffer = buffer
        self.indices = indices
        self.mask = mask
        lanes = max((i.dtype.lanes for i in indices), default=1)
        if mask is not None:
            lanes = max(lanes, mask.dtype.lanes)
        self.dtype = buffer.dtype.with_lanes(lanes)

    def label(self) -> str:
        return self.buffer.name

    def children(self) -> tuple[Expr, ...]:
        return self.indices if self.mask is None else (*self.indices, self.mask)

    def with_children(self, *kids: Expr) -> Expr:
        n = len(self.indices)
        return load(self.buffer, kids[:n], kids[n] if len(kids) > n else None)


def load(buffer: Buffer, indices: tuple[Expr, ...], mask: Expr | None = None) -> Expr:
    """Build a Load; a mask that is true everywhere is dropped, one scalar load serves a uniform unmasked
    vector."""
    if mask is not None and make.uniform(mask, True):
        mask = None
    return intern(Load, buffer, tuple(indices), mask)


def loads(e: Expr) -> tuple[Load, ...]:
    """The reads in an expression, each once. Cached on the node."""
    if not e.contains & READS:
        return ()
    memo = e._memo
    if memo is None:
        memo = e._memo = {}
    found = memo.get("loads")
    if found is None:
        if is_deep(e):
            found = tuple([n for n in expr_preorder(e, _reading) if type(n) is Load])
        else:
            # of parts that are asked, too: parents first, as they are read
            below = [loads(k) for k in e.children() if k.contains & READS]
            found = below[0] if len(below) == 1 else tuple(dict.fromkeys([n for b in below for n in b]))
            if type(e) is Load:
                found = (e, *found)
        memo["loads"] = found
    return found  # type: ignore[no-any-return]


def _reading(e: Expr) -> tuple[Expr, ...]:
    """The children that may read."""
    return tuple([k for k in e.children() if k.contains & READS])


class Reduction(Expr):
    """The lanes of one vector combined into a scalar by ``op``: add, mul, min, max, and, or."""

    __slots__ = ("op", "value")
    _fields = ("op", "value")

    def __init__(self, op: str, value: Expr) -> None:
        self._memo = None
        self._height = value._height + 1
        self.contains = value.contains | REDUCED
        self.op = op
        self.value = value
        self.dtype = value.dtype.element

    def children(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_children(self, *kids: Expr) -> Expr:
        return reduction(self.op, kids[0])


def reduction(op: str, value: Expr) -> Expr:
    return value if value.dtype.lanes == 1 else intern(Reduction, op, value)


class Stmt:
    """Base of statements."""

    __slots__ = ()

    def parts(self) -> tuple[Stmt, ...]:
        """The statements directly below."""
        return ()

    def with_parts(self, *parts: Stmt) -> Stmt:
        return self

    def exprs(self) -> tuple[Expr, ...]:
        """The expressions of this statement itself (not of statements below)."""
        return ()

    def written(self) -> tuple[Buffer, ...]:
        """The buffers that this statement itself writes."""
        return ()

    def with_exprs(self, *exprs: Expr) -> Stmt:
        return self


class Seq(Stmt):
    __slots__ = ("stmts",)

    def __init__(self, stmts: tuple[Stmt, ...]) -> None:
        self.stmts = stmts

    def parts(self) -> tuple[Stmt, ...]:
        return self.stmts

    def with_parts(self, *parts: Stmt) -> Stmt:
        return seq(*parts)


NOTHING = Seq(())


def seq(*stmts: Stmt) -> Stmt:
    """A sequence, flattened; one statement stands for itself."""
    flat: list[Stmt] = []
    for s in stmts:
        if isinstance(s, Seq):
            flat.extend(s.stmts)
        else:
            flat.append(s)
    return flat[0] if len(flat) == 1 else (Seq(tuple(flat)) if flat else NOTHING)


class For(Stmt):
    """``for var in begin .. begin + extent - 1``. ``attrs`` holds pragmas as sorted (key, value) pairs."""

    __slots__ = ("attrs", "begin", "body", "extent", "kind", "var")

    def __init__(
        self,
        var: Var,
        begin: Expr,
        extent: Expr,
        kind: str,
        body: Stmt,
        attrs: tuple[tuple[str, Any], ...] = (),
    ) -> None:
        self.var = var
        self.begin = begin
        self.extent = extent
        self.kind = kind
        self.body = body
        self.attrs = attrs

    def parts(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_parts(self, *parts: Stmt) -> Stmt:
        return For(self.var, self.begin, self.extent, self.kind, parts[0], self.attrs)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.begin, self.extent)

    def with_exprs(self, *exprs: Expr) -> Stmt:
        return For(self.var, exprs[0], exprs[1], self.kind, self.body, self.attrs)


class If(Stmt):
    __slots__ = ("cond", "orelse", "then")

    def __init__(self, cond: Expr, then: Stmt, orelse: Stmt | None = None) -> None:
        self.cond = cond
        self.then = then
        self.orelse = orelse

    def parts(self) -> tuple[Stmt, ...]:
        return (self.then,) if self.orelse is None else (self.then, self.orelse)

    def with_parts(self, *parts: Stmt) -> Stmt:
        return If(self.cond, parts[0], parts[1] if len(parts) > 1 else None)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.cond,)

    def with_exprs(self, *exprs: Expr) -> Stmt:
        return If(exprs[0], self.then, self.orelse)


class Store(Stmt):
    """``of`` names what is stored where the buffer, memory that several share, has the name of another."""

    __slots__ = ("buffer", "indices", "mask", "of", "value")

    def __init__(
        self,
        buffer: Buffer,
        value: Expr,
        indices: tuple[Expr, ...],
        mask: Expr | None = None,
        of: str | None = None,
    ) -> None:
        self.of = of
        self.buffer = buffer
        self.value = value
        self.indices = indices
        self.mask = mask

    def written(self) -> tuple[Buffer, ...]:
        return (self.buffer,)

    def exprs(self) -> tuple[Expr, ...]:
        base = (self.value, *self.indices)
        return base if self.mask is None else (*base, self.mask)

    def with_exprs(self, *exprs: Expr) -> Stmt:
        n = len(self.indices)
        return self.of_same(exprs[0], tuple(exprs[1 : n + 1]), exprs[n + 1] if len(exprs) > n + 1 else None)

    def of_same(self, value: Expr, indices: tuple[Expr, ...], mask: Expr | None = None) -> Store:
        """Another value, or at another place, of what this one stores."""
        return Store(self.buffer, value, indices, mask, self.of)


class Alloc(Stmt):
    """``within`` is a parameter that has the memory, where a caller gives it: rows of bytes enough, one for
    each thread that may be here at a time. A thread that finds no row free has memory of its own."""

    __slots__ = ("body", "buffer", "within")

    def __init__(self, buffer: Buffer, body: Stmt, within: Buffer | None = None) -> None:
        self.buffer = buffer
        self.body = body
        self.within = within

    def parts(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_parts(self, *parts: Stmt) -> Stmt:
        return Alloc(self.buffer, parts[0], self.within)


class Let(Stmt):
    __slots__ = ("body", "value", "var")

    def __init__(self, var: Var, value: Expr, body: Stmt) -> None:
        self.var = var
        self.value = value
        self.body = body

    def parts(self) -> tuple[Stmt, ...]:
        return (self.body,)

    def with_parts(self, *parts: Stmt) -> Stmt:
        return Let(self.var, self.value, parts[0])

    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_exprs(self, *exprs: Expr) -> Stmt:
        return Let(self.var, exprs[0], self.body)


class Evaluate(Stmt):
    __slots__ = ("value",)

    def __init__(self, value: Expr) -> None:
        self.value = value

    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,)

    def with_exprs(self, *exprs: Expr) -> Stmt:
        return Evaluate(exprs[0])


class View(Expr):
    """An argument of an Extern: the box of ``buffer`` that begins at ``corner``, with these ``extents`` and
    ``strides`` in elements."""

    __slots__ = ("buffer", "corner", "extents", "strides")
    _fields = ("buffer", "corner", "extents", "strides")

    def __init__(
        self, buffer: Buffer, corner: tuple[Expr, ...], extents: tuple[Expr, ...], strides: tuple[Expr, ...]
    ) -> None:
        self._memo = None
        self._height = over((*corner, *extents, *strides))
        self.contains = together(0, (*corner, *extents, *strides))
        self.buffer = buffer
        self.corner = corner
        self.extents = extents
        self.strides = strides
        self.dtype = INT64

    def children(self) -> tuple[Expr, ...]:
        return (*self.corner, *self.extents, *self.strides)

    def with_children(self, *kids: Expr) -> Expr:
        n, m = len(self.corner), len(self.extents)
        return intern(View, self.buffer, tuple(kids[:n]), tuple(kids[n : n + m]), tuple(kids[n + m :]))


class Extern(Stmt):
    """``name(args)``: a registered Python function (kind ``packed``), a C symbol (kind ``c``, returning
    ``result``), or a nest of the same kernel that is compiled apart (kind ``nest``). It may read every buffer
    among its arguments and writes those in ``outputs``: whole, or the box of a View; whole buffers are
    compact."""

    __slots__ = ("args", "kind", "name", "outputs", "result")

    def __init__(
        self,
        kind: str,
        name: str,
        args: tuple[Buffer | Expr, ...],
        outputs: tuple[Buffer, ...],
        result: DType | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.args = args
        self.outputs = outputs
        self.result = result

    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers among the arguments."""
        return tuple(
            a if isinstance(a, Buffer) else a.buffer for a in self.args if isinstance(a, Buffer | View)
        )

    def written(self) -> tuple[Buffer, ...]:
        return self.outputs

    def exprs(self) -> tuple[Expr, ...]:
        return tuple(a for a in self.args if isinstance(a, Expr))

    def with_exprs(self, *exprs: Expr) -> Stmt:
        new = iter(exprs)
        return Extern(
            self.kind,
            self.name,
            tuple(a if isinstance(a, Buffer) else next(new) for a in self.args),
            self.outputs,
            self.result,
        )


class Report(Stmt):
    """Ends the kernel with a report: ``index``, number ``dim`` of the access with the text ``access``, is not
    in 0 .. ``extent`` (number ``DIVISION``: a divisor is zero, and ``extent`` is what was to be divided);
    ``position`` says in which iteration, as pairs of a loop's name and its variable."""

    __slots__ = ("access", "dim", "extent", "index", "names", "position")

    def __init__(
        self,
        access: str,
        dim: int,
        index: Expr,
        extent: Expr,
        names: tuple[str, ...],
        position: tuple[Expr, ...],
    ) -> None:
        self.access = access
        self.dim = dim
        self.index = index
        self.extent = extent
        self.names = names
        self.position = position

    def site(self) -> tuple[str, int, tuple[str, ...]]:
        """What is known of it before the kernel runs."""
        return self.access, self.dim, self.names

    def exprs(self) -> tuple[Expr, ...]:
        return (self.index, self.extent, *self.position)

    def with_exprs(self, *exprs: Expr) -> Stmt:
        return Report(self.access, self.dim, exprs[0], exprs[1], self.names, tuple(exprs[2:]))


@public(LowerError, "Func", signposts.FUNC, text="plain", page="func")
class Func:
    """A kernel: ``params`` are its buffers and scalar values in call order, ``dims`` the symbolic sizes their
    shapes speak of (solved from the arrays at the call), ``outputs`` the names of buffers that are written,
    ``constants`` those of ``params`` (the last ones) that the kernel comes with: they are read, and no call
    passes them, ``needs`` conditions on dims, each with the reason: a call with other sizes is refused before
    anything is written; ``updates`` those of ``params`` that are read and changed in place."""

    __slots__ = (
        "attrs",
        "body",
        "constants",
        "dims",
        "name",
        "needs",
        "outputs",
        "params",
        "ready",
        "updates",
    )

    def __call__(self, *args: Any, **named: Any) -> NoReturn:
        raise LowerError(
            f"{self.name}(…): lowered loops are text to read, and no code yet",
            try_="f = tl.build(func), then f(a, b)",
        )

    def __init__(
        self,
        name: str,
        params: tuple[Buffer | Var, ...],
        body: Stmt,
        dims: tuple[Var, ...] = (),
        outputs: tuple[Buffer, ...] = (),
        attrs: tuple[tuple[str, Any], ...] = (),
        constants: tuple[Buffer, ...] = (),
        needs: tuple[tuple[Expr, str], ...] = (),
        updates: tuple[Buffer, ...] = (),
    ) -> None:
        self.name = name
        self.params = params
        self.body = body
        self.dims = dims
        self.outputs = outputs
        self.attrs = attrs
        self.constants = constants
        self.updates = updates
        self.ready = False  # whether it is what the last pass made, for code to be generated
        self.needs = needs

    def with_body(self, body: Stmt) -> Func:
        return self.changed(body=body)

    def changed(
        self,
        *,
        name: str | None = None,
        params: tuple[Buffer | Var, ...] | None = None,
        body: Stmt | None = None,
        outputs: tuple[Buffer, ...] | None = None,
    ) -> Func:
        """The kernel with other parts, which is not ``ready``."""
        return Func(
            self.name if name is None else name,
            self.params if params is None else params,
            self.body if body is None else body,
            self.dims,
            self.outputs if outputs is None else outputs,
            self.attrs,
            self.constants,
            self.needs,
            self.updates,
        )

    def writes(self, b: Buffer) -> bool:
        """Whether the kernel may write that parameter."""
        return any(b is x for x in (*self.outputs, *self.updates))

    def buffers(self) -> tuple[Buffer, ...]:
        """The parameters that are buffers."""
        return tuple(p for p in self.params if isinstance(p, Buffer))


def preorder(s: Stmt) -> Iterator[Stmt]:
    """Every statement below and including ``s``, parents first."""
    stack = [s]
    while stack:
        node = stack.pop()
        yield node
        parts = node.parts()
        if parts:
            stack += parts[::-1]


def touched(s: Stmt) -> Iterator[Buffer]:
    """The buffers that ``s`` itself writes or reads, one several times perhaps."""
    yield from s.written()
    if isinstance(s, Extern):
        yield from s.buffers()
    for e in s.exprs():
        for node in loads(e):
            yield node.buffer


class OpenedWithin:
    """The buffers that the items of a block open within themselves. The copies of a loop all open the same:
    opened for the whole block, that of the last would stand for those of the others too."""

    def __init__(self) -> None:
        self._seen = 0
        self._buffers: set[Buffer] = set()

    def have(self, b: Buffer, items: Sequence[Stmt]) -> bool:
        """Whether one of the items opens ``b``. Each item is looked through once."""
        for item in items[self._seen :]:
            self._buffers.update(s.buffer for s in preorder(item) if isinstance(s, Alloc))
        self._seen = len(items)
        return b in self._buffers


def rewrite(s: Stmt, change: Callable[[Stmt], Stmt | None]) -> Stmt:
    """Bottom-up rebuild; ``change`` sees each statement after its parts were rebuilt. Unchanged statements
    are the same objects."""
    return run(_rewrite(s, change))


def _rewrite(s: Stmt, change: Callable[[Stmt], Stmt | None]) -> Steps[Stmt]:
    parts = s.parts()
    if parts:
        new = []
        for p in parts:
            if p.parts():
                new.append((yield _rewrite(p, change)))
            else:  # most statements; a generator for each would be half of the time
                other = change(p)
                new.append(p if other is None else other)
        s = rebuilt(s, new)
    replaced = change(s)
    return s if replaced is None else replaced


def rebuilt(s: Stmt, parts: Sequence[Stmt]) -> Stmt:
    """``s`` with other statements below, itself when they are the same."""
    return s if all(map(is_, s.parts(), parts)) else s.with_parts(*parts)


def map_exprs(s: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """Apply ``change`` to every whole expression of every statement."""

    def one(node: Stmt) -> Stmt | None:
        old = node.exprs()
        if not old:
            return None
        new = [change(e) for e in old]
        return None if all(map(is_, old, new)) else node.with_exprs(*new)

    return rewrite(s, one)
