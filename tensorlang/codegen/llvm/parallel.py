"""Parallel loops: the body becomes a function of its own, and the thread pool calls it on parts of the range.

``@name.parallel.N(ptr ctx, i64 begin, i64 end)`` is what the pool calls. It reads what the body needs from
``ctx``, a struct on the stack of the caller, and calls an inner function that takes it as arguments again,
because only on arguments can LLVM be told that buffers do not overlap. The first field of ``ctx`` is a
status: a body that runs out of memory sets it to 1 and the caller looks at it after the loop. Knows nothing
of threads: the pool is behind ``void tensorlang_parallel(ptr fn, ptr ctx, i64 begin, i64 end)``, and behind
``tensorlang_parallel_awake`` with the same arguments for regions that are too short to wake a thread.

To hand work to a thread takes about a microsecond, and ten or more when the thread sleeps. So the pool is
given not the iterations of the loop but pieces that are each worth it, by the estimate of ``work``:
neighbouring iterations, evenly cut. What is one piece for certain is a plain loop; where the sizes tell, the
number of pieces is computed, and the pool runs one piece in the calling thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...core.dtype import FLOAT64
from ...core.recursion import Steps
from ...expr import make
from ...expr.nodes import Expr, Var, const_int
from ...loopir.stmt import Alloc, Buffer, Extern, For, Let, Load, Stmt, Store, preorder
from . import streaming, tiles, types
from .emitter import Emitter, Storage, sized
from .index import interval
from .rows import MOST_ROWS, NONE, claimed, given_back, rows_of
from .text import Function
from .work_estimate import ENDLESS, estimate

PIECE = 4096  # least work of a piece in the unit of ``work``, 0.2 to 1 ns each
# least pieces of a region. Measured (Zen 4, two threads that are awake, calls in a row): relu of 120,000
# elements takes 5.7 µs (one thread 10), gelu of 32,000 8.7 (14), softmax of 250 × 64 4.7 (8). With two pieces
# such loops gain too, but a detector of speech of 50 µs, whose layers hand over what they make, loses 9 %
REGION = 3
# least pieces of one for which workers are woken: one that sleeps comes 70 µs later in a virtual machine and
# 10 elsewhere, and waking it takes the caller up to 15. Measured (calls 1 ms apart): relu of 160,000 takes
# 32 µs, not 19, of 10 pieces
WAKING = 24
SHORT = "tensorlang_parallel_awake"
_RANGE = "i64 %begin, i64 %end"


def captured(s: Stmt) -> tuple[list[Buffer], list[Var]]:
    """Buffers and variables that ``s`` uses and does not make itself, in order of first use."""
    buffers: dict[Buffer, None] = {}
    names: dict[Var, None] = {}
    made: set[object] = set()
    seen: set[Expr] = set()

    def use_buffer(b: Buffer) -> None:
        if b in buffers:
            return
        buffers[b] = None
        # the body computes addresses with them
        for e in (*b.shape, *b.element_strides()):
            use(e)

    def use(e: Expr) -> None:
        stack = [e]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            if type(node) is Var:
                names[node] = None
            elif type(node) is Load:
                use_buffer(node.buffer)
            stack.extend(reversed(node.children()))

    for node in preorder(s):
        for e in node.exprs():
            if e not in seen:
                use(e)
        if type(node) is Extern:
            for b in node.buffers():
                use_buffer(b)
        elif type(node) is Store:
            use_buffer(node.buffer)
        elif type(node) is Alloc:
            use_buffer(node.buffer)
            made.add(node.buffer)
            if node.within is not None:
                use_buffer(node.within)
        elif type(node) is For or type(node) is Let:
            made.add(node.var)
    own = {id(m) for m in made}
    return [b for b in buffers if b not in made], [v for v in names if id(v) not in own]


def cut(em: Emitter, s: For) -> Cut | None:
    """How to hand out the iterations of a parallel loop; None for a plain loop."""
    if PIECE <= 1:
        return Cut(None, _pool(em))
    symbols = {v: i for i, v in enumerate(v for v in em.vars if v.dtype.is_index)}
    terms = estimate(s, symbols)
    # the work is not known: let every iteration be stolen by itself
    if any(abs(c) >= ENDLESS for c in terms.values()):
        return Cut(None, _pool(em))
    count, total = const_int(s.extent), terms.get((), 0.0) / PIECE
    if count is not None and all(mono == () for mono in terms):
        worth = min(count, int(total))
        if total < REGION or worth <= 1:
            return None
        return Cut(None if worth == count else worth, _pool(em) if total >= WAKING else _pool(em, SHORT))
    em.at = em.depth
    operands = [em.vars[v] for v in symbols]
    number = {
        v: em.ins(f"sitofp i64 {operands[v]} to double") for v in sorted({v for mono in terms for v in mono})
    }
    # in doubles, for products of sizes overflow integers long before they are absurd
    worthwhile = _double(em, 0.0)
    for mono, c in terms.items():
        product = _double(em, c / PIECE)
        for v in mono:
            product = em.ins(f"fmul double {product}, {number[v]}")
        worthwhile = em.ins(f"fadd double {worthwhile}, {product}")
    long = em.ins(f"fcmp oge double {worthwhile}, {_double(em, float(WAKING))}")
    by = em.ins(f"select i1 {long}, ptr {_pool(em)}, ptr {_pool(em, SHORT)}")
    enough = em.ins(f"fcmp oge double {worthwhile}, {_double(em, float(REGION))}")
    least = em.ins(f"select i1 {enough}, double {worthwhile}, double {_double(em, 1.0)}")
    most = em.call("i64", "llvm.smax.i64", ("i64", em.index(s.extent)), ("i64", "0"))
    iterations = em.ins(f"sitofp i64 {most} to double")
    whole = em.call("double", "llvm.minnum.f64", ("double", least), ("double", iterations))
    return Cut(em.ins(f"fptosi double {whole} to i64"), by)


def _double(em: Emitter, value: float) -> str:
    return types.literal(value, FLOAT64, em.target)


def name_within(em: Emitter, what: str) -> str:
    """A fresh name for a function that a part of the present one becomes."""
    return em.module.unique(em.function.head.split("@")[1].split("(")[0].removesuffix(".body") + f".{what}")


def inner_function(
    em: Emitter,
    name: str,
    buffers: Sequence[Buffer],
    names: Sequence[Var],
    writes: frozenset[Buffer],
    *more: str,
    row: str | None = None,
) -> tuple[Function, Emitter]:
    """A function of the kernel's own that gets what it uses of its surroundings as typed arguments, and
    ``more``; with its emitter. ``row`` is what it knows its thread's rows of workspaces by."""
    arguments = [pointer_argument(b, f"%b{i}", b not in writes) for i, b in enumerate(buffers)]
    arguments += [f"{variable_type(em, v)} %s{i}" for i, v in enumerate(names)]
    inner = Function(f"define internal i32 @{name}({', '.join([*arguments, *more])}) #0")
    body = Emitter(em.module, inner, em.math)
    body.row = row
    for i, b in enumerate(buffers):
        body.storage[b] = Storage(f"%b{i}", 0)
    for i, v in enumerate(names):
        body.bind(v, f"%s{i}", 0, *(em.ranges.get(v) or (v.lo, v.hi)))
    body.ranges |= {e: known for e, known in em.given_ranges().items() if sized(e)}
    return inner, body


def emit(
    em: Emitter,
    s: For,
    cut: Cut,
    writes: frozenset[Buffer],
    loop: Callable[..., Steps[None]],
    leave_if: Callable[[Emitter, str], None],
) -> Steps[None]:
    """The loop ``s``, handed out as ``cut`` says, by a call of the pool. ``loop`` and ``leave_if`` are
    those of ``statement``, which knows this file."""
    begin, end = em.index(s.begin), em.index(make.add(s.begin, s.extent))
    buffers, names = captured(For(s.var, s.begin, s.extent, s.kind, s.body))
    names = [v for v in names if v is not s.var]
    # one parallel loop in another runs where it stands, in the thread that has come to it
    rows = rows_of(s.body) if em.row is None else 0
    passed = [*("ptr" for _ in buffers), *(variable_type(em, v) for v in names)]
    context = _Context(name_within(em, "parallel"), tuple(passed), cut.pieces is not None, rows)

    # The inner function: the loop over typed arguments.
    more, row = ((_RANGE, "i64 %row"), "%row") if rows else ((_RANGE,), NONE)
    inner, body = inner_function(em, f"{context.name}.body", buffers, names, writes, *more, row=row)
    first, count = interval(em, s.begin), interval(em, s.extent)
    hi = None if first[1] is None or count[1] is None else first[1] + max(0, count[1] - 1)
    body.streamed = em.streamed
    yield tiles.kept(body, s.body, loop(body, s.var, "%begin", "%end", (first[0], hi), False, s.body))
    if body.streamed:
        streaming.fence(body)
    body.block.end = "  ret i32 0"

    thunk = _thunk(em, context, body.may_fail)
    values = [f"ptr {em.storage[b].pointer}" for b in buffers]
    values += [f"{variable_type(em, v)} {em.vars[v]}" for v in names]
    memory = _memory(em, context)
    parts = cut.pieces
    if parts is not None:
        divisor = parts
        if isinstance(parts, str):
            divisor = em.call("i64", "llvm.smax.i64", ("i64", parts), ("i64", "1"))
        values += [f"i64 {begin}", f"i64 {em.index(s.extent)}", f"i64 {divisor}"]
    what = f"i64 {begin}, i64 {end}" if parts is None else f"i64 0, i64 {parts}"
    _call_pool(em, context, memory, values, cut.by, what)
    em.module.add(inner)
    em.module.add(thunk)
    if body.may_fail:
        status = em.ins(f"load i32, ptr {memory}, align 8")
        leave_if(em, status)


class Cut(NamedTuple):
    """How the iterations of a loop are handed out: in so many ``pieces`` (a number, or the operand that holds
    it, 0 for a loop without iterations, which a program's own ``tensorlang_parallel`` may hand on all the
    same; None: every iteration is one), by the pool's function ``by``."""

    pieces: int | str | None
    by: str


def _pool(em: Emitter, name: str = "tensorlang_parallel") -> str:
    return em.module.declare(name, "void", "ptr, ptr, i64, i64")


class _Context(NamedTuple):
    """What a call of the pool hands to its pieces: a status, what is ``passed`` (types), of a loop that is
    ``cut`` its first iteration, the iterations and the pieces, and a bit for each of ``rows`` that a thread
    may have."""

    name: str
    passed: tuple[str, ...]
    cut: bool
    rows: int

    @property
    def fields(self) -> list[str]:
        return ["i32", *self.passed, *(["i64"] * 3 if self.cut else []), *(["i64"] if self.rows else [])]

    @property
    def struct(self) -> str:
        return "{ " + ", ".join(self.fields) + " }"


def _thunk(em: Emitter, context: _Context, may_fail: bool) -> Function:
    """What the pool calls: the inner function with what the context holds."""
    name, struct, fields = context.name, context.struct, context.fields
    thunk = Function(f"define internal void @{name}(ptr %ctx, i64 %begin, i64 %end) #0")
    glue = Emitter(em.module, thunk, em.math)
    loaded = []
    for i, field in enumerate(fields[1 : len(fields) - bool(context.rows)], 1):
        address = glue.ins(f"getelementptr {struct}, ptr %ctx, i32 0, i32 {i}")
        loaded.append(f"{field} {glue.ins(f'load {field}, ptr {address}')}")
    operands, how_cut = loaded[: len(context.passed)], loaded[len(context.passed) :]
    operands.append(_iterations(glue, *(text.split()[1] for text in how_cut)) if context.cut else _RANGE)
    if context.rows:
        taken = glue.ins(f"getelementptr {struct}, ptr %ctx, i32 0, i32 {len(fields) - 1}")
        found = claimed(glue, taken)
        operands.append(f"i64 {found}")
    status = glue.ins(f"call i32 @{name}.body({', '.join(operands)})")
    if context.rows:
        given_back(glue, taken, found)
    if may_fail:
        bad, done = thunk.block("bad"), thunk.block("done")
        glue.block.end = (
            f"  br i1 {glue.ins(f'icmp ne i32 {status}, 0')}, label %{bad.label}, label %{done.label}"
        )
        # pieces that fail at once write one status or the other, and no half of each
        bad.lines.append(f"  store atomic i32 {status}, ptr %ctx monotonic, align 8")
        bad.end = f"  br label %{done.label}"
        done.end = "  ret void"
    else:
        glue.block.end = "  ret void"
    return thunk


def _memory(em: Emitter, context: _Context) -> str:
    """The context of this call, on the stack of the caller, which waits for all pieces."""
    memory = em.function.fresh()
    # in the entry block: an alloca inside a loop takes new stack at each iteration
    em.function.entry.lines.insert(0, f"  {memory} = alloca {context.struct}, align 8")
    em.at = em.depth
    em.do(f"store i32 0, ptr {memory}, align 8")
    return memory


def _call_pool(
    em: Emitter, context: _Context, memory: str, values: Sequence[str], by: str, what: str
) -> None:
    if context.rows:
        values = [*values, f"i64 {-1 << context.rows if context.rows < MOST_ROWS else 0}"]
    for i, text in enumerate(values, 1):
        em.do(f"store {text}, ptr {em.ins(f'getelementptr {context.struct}, ptr {memory}, i32 0, i32 {i}')}")
    em.do(f"call void {by}(ptr @{context.name}, ptr {memory}, {what})")


def _iterations(glue: Emitter, first: str, count: str, cut: str) -> str:
    """The iterations of pieces ``%begin`` … ``%end``: those that are longer by one are spread evenly, as
    neighbours are a thread's."""
    least, longer = glue.ins(f"udiv i64 {count}, {cut}"), glue.ins(f"urem i64 {count}, {cut}")
    ends = []
    for piece in ("%begin", "%end"):
        extra = glue.ins(f"udiv i64 {glue.ins(f'mul i64 {piece}, {longer}')}, {cut}")
        before = glue.ins(f"add i64 {glue.ins(f'mul i64 {piece}, {least}')}, {extra}")
        ends.append(f"i64 {glue.ins(f'add i64 {first}, {before}')}")
    return ", ".join(ends)


def variable_type(em: Emitter, v: Var) -> str:
    """The LLVM type in which a variable is held: i64 for index variables."""
    return "i64" if v.dtype.is_index else types.register_type(v.dtype, em.target)


def pointer_argument(b: Buffer, name: str, read_only: bool) -> str:
    """A buffer as an argument that overlaps no other."""
    return (
        f"ptr noalias nonnull align {b.dtype.bytes} captures(none){' readonly' if read_only else ''} {name}"
    )
