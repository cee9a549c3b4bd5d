"""Control flow: one rule for each statement. Values and addresses are the business of other files.

Loops are written with their test at the end and a guard in front, so that what is placed in front of the body
runs only if the body does. Run-time allocations that fail end the kernel with code 1 after giving back what
was allocated.
"""

from __future__ import annotations

from ...core.recursion import Steps, run
from ...core.visit import TypeTable
from ...expr import make
from ...expr.nodes import READS, Call, Const, Expr, Var, const_int
from ...expr.walk import substitute, variables
from ...interface.signature import OUT_OF_BOUNDS
from ...loopir.stmt import (
    PARALLEL,
    SERIAL,
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    For,
    If,
    Let,
    Load,
    Report,
    Seq,
    Stmt,
    Store,
    map_exprs,
    rebuilt,
)
from . import (
    aligned,
    apart,
    bounds_report,
    carried,
    extern,
    folded,
    memory,
    moved,
    pairs,
    parallel,
    rows,
    streaming,
    stretches,
    tiles,
    transposed,
    types,
)
from .emitter import Emitter, Live, Storage
from .expression import counts, uniform_apart
from .index import interval, known_by
from .text import Block

rules = TypeTable("llvm statement")

STACK_LIMIT = 64 << 10  # bytes of one buffer that may live on the stack
# bytes of one whose size only a call knows that live there. Measured (Zen 5, one thread), int8 of open sizes:
# 16 × 64 × 16 0.80 of the time, 64 × 64 × 64 0.87, 256 × 64 × 256 1.01
SMALL = 8 << 10
STACK_TOTAL = 256 << 10  # bytes of all buffers of one function


def emit(em: Emitter, s: Stmt) -> None:
    """Write the code of a statement into the current scope."""
    em.at = em.depth
    before = em.mark(s)
    inner = rules(s)(em, s)
    if inner is not None:
        run(inner)
    em.unmark(before)


def emitted(em: Emitter, s: Stmt) -> Steps[None]:
    """The same in steps, of which the rules for statements that hold others are made."""
    em.at = em.depth
    before = em.mark(s)
    inner = rules(s)(em, s)
    if inner is not None:
        yield inner
    em.unmark(before)


def written(s: Stmt) -> frozenset[Buffer]:
    """The buffers that a statement writes."""
    found: set[Buffer] = set()
    stack = [s]
    while stack:  # asked of every loop: a generator would take half of the time
        n = stack.pop()
        stack += n.parts()
        kind = type(n)
        if kind is Store:
            found.add(n.buffer)  # type: ignore[attr-defined]
        elif kind is Alloc:
            if n.within is not None:  # type: ignore[attr-defined]
                found.add(n.within)  # type: ignore[attr-defined]
        elif kind is Extern:
            found.update(n.outputs)  # type: ignore[attr-defined]
    return frozenset(found)


@rules.on(Seq)
def _seq(em: Emitter, s: Seq) -> Steps[None]:
    stmts = transposed.together(em, s.stmts)
    stores = transposed.rows(em, stmts) if len(stmts) > 1 else {}
    at = 0
    while at < len(stmts):
        one = stmts[at]
        # before the first of a row: their loads are found as if they had been made before
        if at in stores:
            transposed.prepare(em, stores[at])
        following = stmts[at + 1] if at + 1 < len(stmts) else None
        if type(following) is For and tiles.noted(following):
            products = tiles.zeros(em, one, following)
            if products is not None:
                em.fresh.add(following)
                if products.columns == products.lanes:  # else memory has more of them
                    at += 1
                    continue
        count = 0
        if type(one) is Store:
            count = (
                pairs.store_together(em, stmts[at : at + pairs.MOST])
                or pairs.store_rest(em, stmts[at : at + pairs.MOST])
                or folded.store_together(em, stmts[at : at + 2 * folded.TOGETHER])
            )
        if type(one) is Store and count:
            # what was read of the buffer is not what it holds now
            em.forget(one.buffer)
            at += count
            continue
        at += 1
        if one.parts():
            yield emitted(em, one)
        else:
            emit(em, one)


@rules.on(apart.Apart)
def _apart(em: Emitter, s: apart.Apart) -> Steps[None]:
    writes = written(s.body)
    yield apart.emit(em, s.body, writes, emitted, leave_if)
    for b in writes:
        em.forget(b)


@rules.on(Store)
def _store(em: Emitter, s: Store) -> None:
    if s.mask is not None and s.mask.dtype.lanes == 1:
        emit(em, If(s.mask, Store(s.buffer, s.value, s.indices)))
        return
    value = uniform_apart(s.value)
    em.counting = value if counts(value, s.buffer, s.indices) else None
    memory.store(em, s.buffer, value, s.indices, s.mask)
    em.counting = None
    em.forget(s.buffer)


@rules.on(tiles.Step)
def _step(em: Emitter, s: tiles.Step) -> None:
    tiles.step(em, s.products)


@rules.on(Evaluate)
def _evaluate(em: Emitter, s: Evaluate) -> None:
    if type(s.value) is Call and s.value.name == "prefetch":
        what, *how = s.value.args
        assert type(what) is Load
        write, locality = [const_int(x) for x in how] + [0, 3][len(how) :]
        memory.prefetch(em, what, write or 0, 3 if locality is None else locality)
        return
    em.value(s.value)


@rules.on(Extern)
def _extern(em: Emitter, s: Extern) -> None:
    em.at = em.depth
    if s.kind == "c":
        extern.call_symbol(em, s)
    elif s.kind == "nest":
        leave_if(em, extern.call_nest(em, s))
    else:
        status = extern.call_packed(em, s)
        leave_if(em, status, str(extern.RAISED))
    for b in s.outputs:
        em.forget(b)


@rules.on(Report)
def _report(em: Emitter, s: Report) -> None:
    values = bounds_report.values(em, s)
    here = em.block
    failed, never = em.function.block("outside"), em.function.block("never")
    # an error ends the kernel: what follows is written into a block that nobody reaches
    here.end = f"  br label %{failed.label}"
    leave(em, bounds_report.record(em, failed, s, values), str(OUT_OF_BOUNDS))
    em.scopes[-1].block = never


@rules.on(Let)
def _let(em: Emitter, s: Let) -> Steps[None]:
    v, body = s.var, s.body
    if v in em.vars:
        # bound before, beside this one: unrolled copies share it, and what is remembered speaks of the other
        # value
        v = Var(v.name, v.dtype, v.kind)
        done: dict[Expr, Expr] = {}
        body = map_exprs(body, lambda e: substitute(e, {s.var: v}, done))
    lo, hi = interval(em, s.value) if v.dtype.is_index else (None, None)
    operand = em.index(s.value) if v.dtype.is_index else em.value(s.value)
    em.bind(v, operand, em.home(s.value), lo, hi)
    if v.dtype.lanes > 1 and v.dtype.is_bool:
        em.masks[v] = s.value
    yield emitted(em, body)


@rules.on(If)
def _if(em: Emitter, s: If) -> Steps[None]:
    if type(s.cond) is Const:
        taken = s.then if s.cond.value else s.orelse
        if taken is not None:
            yield emitted(em, taken)
        return
    cond = em.value(s.cond)
    here = em.block
    sides = [("then", s.then)] + ([("else", s.orelse)] if s.orelse is not None else [])
    done = em.function.block("endif")
    labels = []
    for word, side in sides:
        start = em.function.block(word)
        labels.append(start.label)
        # what is computed here must not be placed ahead of the condition, nor what reads a buffer that this
        # side writes
        em.push(start, conditional=True, written=written(side))
        before = em.ranges, em.harmless
        known = known_by(em, s.cond) if side is s.then else {}
        if known:
            em.ranges, em.harmless = known, {}
        yield emitted(em, side)
        if known:
            em.ranges, em.harmless = before
        em.block.end = f"  br label %{done.label}"
        em.pop(here)
    if len(labels) == 1:
        labels.append(done.label)
    here.end = f"  br i1 {cond}, label %{labels[0]}, label %{labels[1]}"
    em.scopes[-1].block = done


@rules.on(For)
def _for(em: Emitter, s: For) -> Steps[None]:
    extent = const_int(s.extent)
    # not even an empty loop: bounds of its body may be meaningless
    if extent is not None and extent <= 0:
        return
    tiled = tiles.stepped(em, s)
    if tiled is not None:
        steps, products = tiled
        asked = None if s in em.some else tiles.some(em, products)
        if asked is not None:
            em.some.add(s)
            yield emitted(em, If(asked, s))
            return
        inside = _iterations(em, steps, extent) if type(steps) is For else emitted(em, steps)
        yield tiles.emit(em, products, inside, s in em.fresh)
        return
    streamed = streaming.buffers(em, s)
    before, em.streamed = em.streamed, em.streamed | streamed
    yield tiles.kept(em, s, _iterations(em, s, extent))
    em.streamed = before
    if streamed:
        em.at = em.depth
        streaming.fence(em)


def _iterations(em: Emitter, s: For, extent: int | None) -> Steps[None]:
    cut = parallel.cut(em, s) if s.kind == PARALLEL and extent != 1 else None
    if cut is not None:
        writes = written(s.body)
        yield parallel.emit(em, s, cut, writes, loop, leave_if)
        for b in writes:
            em.forget(b)
        return
    if s.kind not in (SERIAL, PARALLEL):
        raise AssertionError(f"a {s.kind} loop over {s.var.name} reached the code generator")
    apart_loops = stretches.stretches(s)
    if apart_loops is not None:
        for part in apart_loops:
            yield _iterations(em, part, const_int(part.extent))
        return
    first, count = interval(em, s.begin), interval(em, s.extent)
    hi = None if first[1] is None or count[1] is None else first[1] + max(0, count[1] - 1)
    if extent == 1:
        em.bind(s.var, em.index(s.begin), em.home(s.begin), first[0], hi)
        yield emitted(em, s.body)
        return
    yield loop(
        em,
        s.var,
        em.index(s.begin),
        em.index(make.add(s.begin, s.extent)),
        (first[0], hi),
        extent is not None,
        s.body,
    )


def loop(
    em: Emitter, var: Var, begin: str, end: str, bounds: tuple[int | None, int | None], runs: bool, body: Stmt
) -> Steps[None]:
    """``for var in begin .. end - 1``; ``runs`` when there is at least one iteration for sure."""
    known = begin.isdigit() and end.isdigit()
    parts = None if known else stretches.of_a_piece(var, *bounds, body)
    if parts is not None:
        yield stretches.emit(em, parts, begin, end, loop)
        return
    every, rest = run(_of_every_iteration(em, body, {var}))
    count = int(end) - int(begin) if known else None
    copied = moved.run_of(em, var, count, rest)
    in_a_row = aligned.elements(em, var, count, rest) if copied is None or count is None else None
    if in_a_row is None:
        inside = _repeated(em, var, begin, end, bounds, runs, rest)
    else:
        inside = aligned.emit(em, in_a_row, var, begin, end, bounds, _repeated)
    if copied is not None:
        inside = moved.emit(em, copied, var, begin, end, bounds, None if count is not None else inside)
    for buffer in every:
        inside = _allocated(em, buffer, inside)
    yield inside


def _repeated(
    em: Emitter, var: Var, begin: str, end: str, bounds: tuple[int | None, int | None], runs: bool, body: Stmt
) -> Steps[None]:
    """A loop, when what all its iterations share is allocated."""
    writes = written(body)
    for b in writes:
        em.forget(b)
    here = em.block
    ahead, start, done = (em.function.block(w) for w in ("ahead", "loop", "done"))
    if runs:
        here.end = f"  br label %{ahead.label}"
    else:
        em.at = em.depth
        some = em.ins(f"icmp slt i64 {begin}, {end}")
        here.end = f"  br i1 {some}, label %{ahead.label}, label %{done.label}"
    em.push(ahead, conditional=not runs)
    ahead.end = f"  br label %{start.label}"
    wheels = carried.wheels(em, var, begin, bounds[0], body)
    em.push(start, written=writes)
    counter, following = em.function.fresh(), em.function.fresh()
    em.bind(var, counter, em.depth, *bounds)
    carried.turning(em, wheels)
    yield emitted(em, body)
    latch = em.block
    carried.turned(em, wheels, start, ahead, latch)
    start.lines.insert(
        0, f"  {counter} = phi i64 [ {begin}, %{ahead.label} ], [ {following}, %{latch.label} ]"
    )
    em.do(f"{following} = add nsw i64 {counter}, 1")
    # compared with the end and not counted down: the counter is what addresses are made of
    more = em.ins(f"icmp slt i64 {following}, {end}")
    asked = _asked_each_time(body)
    if asked is not None and var not in variables(asked):
        # once it does not hold nothing changes any more
        more = em.ins(f"and i1 {more}, {em.value(asked)}")
    latch.end = f"  br i1 {more}, label %{start.label}, label %{done.label}{_times(em, begin, end)}"
    em.pop(ahead)
    em.pop(done)


def _asked_each_time(body: Stmt) -> Expr | None:
    """The condition without which an iteration does nothing, if there is one, as that none is found yet."""
    if not isinstance(body, If):
        return None
    if body.orelse is None:
        return body.cond if body.cond.contains & READS else None
    then, other = _asked_each_time(body.then), _asked_each_time(body.orelse)
    return then if then is other else None


def _times(em: Emitter, begin: str, end: str) -> str:
    """How often a loop goes round, where that is known, for LLVM to spill what is used least. Otherwise it
    takes all for equally long, and deeper ones for those that count. Measured (Zen 5): an attention of 1024
    keys, 48 wide, kept the coefficients of the exponential in registers, and not the sums, 0.87 of the time;
    products, softmax and other attention 1.00."""
    if not (begin.isdigit() and end.isdigit()) or int(end) - int(begin) < 2:
        return ""
    again = min(int(end) - int(begin) - 1, (1 << 31) - 1)
    weights = em.module.note(f'!"branch_weights", i32 {again}, i32 1')
    return f", !prof {weights}"


def _of_every_iteration(em: Emitter, s: Stmt, changing: set[Var]) -> Steps[tuple[dict[Buffer, None], Stmt]]:
    """The buffers of the heap that each iteration of a loop allocates anew, in a size in which none of the
    variables ``changing`` occurs, and the body without them: a block for all iterations saves 0.1 µs each. A
    loop of threads in the body keeps its own, one for each thread."""
    if isinstance(s, Alloc) and s.within is None and _on_heap_in_one_size(em, s.buffer, changing):
        found, rest = yield _of_every_iteration(em, s.body, changing)
        return {s.buffer: None, **found}, rest
    if isinstance(s, Let):
        changing = {*changing, s.var}
    elif isinstance(s, For):
        changing = {*changing, s.var}
        if s.kind != SERIAL:
            return {}, s
    elif not isinstance(s, Alloc | Seq) and (not isinstance(s, If) or s.orelse is not None):
        return {}, s
    buffers: dict[Buffer, None] = {}
    parts: list[Stmt] = []
    for part in s.parts():
        more, rest = yield _of_every_iteration(em, part, changing)
        buffers.update(more)
        parts.append(rest)
    return buffers, rebuilt(s, parts) if buffers else s


def _on_heap_in_one_size(em: Emitter, b: Buffer, changing: set[Var]) -> bool:
    return _on_stack(em, b) is None and changing.isdisjoint(variables(size_in_elements(b)))


def size_in_elements(b: Buffer) -> Expr:
    """Elements the buffer spans, from its shape and strides."""
    if b.strides is None:
        total: Expr = make.const(1, "int64")
        for extent in b.shape:
            total = make.mul(total, extent)
        return total
    reach: Expr = make.const(1, "int64")
    for extent, stride in zip(b.shape, b.strides, strict=True):
        reach = make.add(reach, make.mul(make.sub(extent, 1), stride))
    return reach


@rules.on(Alloc)
def _alloc(em: Emitter, s: Alloc) -> Steps[None]:
    inside = emitted(em, s.body)
    yield _allocated(em, s.buffer, inside) if s.within is None else _lent(em, s.buffer, s.within, inside)


def _lent(em: Emitter, b: Buffer, space: Buffer, inside: Steps[None]) -> Steps[None]:
    """What ``inside`` emits, with ``b`` in this thread's row of ``space``."""
    em.forget(b)
    pointer = em.storage[space].pointer
    if em.row is None:
        em.storage[b] = Storage(pointer, em.depth)
        yield inside
        return
    size = em.ins(f"mul i64 {em.index(space.shape[1])}, {b.dtype.bytes}")
    memory, own = rows.row_or_memory(em, pointer, size)
    yield _held(em, b, memory, own, inside)


def _held(em: Emitter, b: Buffer, memory: str, own: str, inside: Steps[None]) -> Steps[None]:
    """What ``inside`` emits, with ``b`` in memory that may be missing, and of which ``own`` is freed."""
    _checked(em, memory)
    em.storage[b] = Storage(memory, em.depth)
    em.live.append(Live(own))
    yield inside
    em.live.pop()
    _free(em, own)


def _on_stack(em: Emitter, b: Buffer) -> int | None:
    """The elements of a buffer that has room on the stack; of a symbolic size, the most it can be: a buffer
    of a known limit needs no allocation in the call."""
    count = interval(em, size_in_elements(b))[1]
    if count is None:
        return None
    count = max(1, count)
    # to the end of its last vector, which may be masked: a blend takes the place of a masked access then, and
    # registers that of the block. Measured (Granite Rapids): softmax of rows of 23 and 25 takes 0.8 of the
    # time
    vector = em.target.vector_bits // 8 // b.dtype.bytes
    if count > vector:
        count = -(-count // vector) * vector
    size = count * b.dtype.bytes
    return count if size <= STACK_LIMIT and em.stack_bytes + size <= STACK_TOTAL else None


def _allocated(em: Emitter, b: Buffer, inside: Steps[None]) -> Steps[None]:
    """What ``inside`` emits, with memory for ``b`` around it."""
    em.forget(b)
    count = _on_stack(em, b)
    if count is not None:
        em.stack_bytes += count * b.dtype.bytes
        name = em.function.fresh()
        element = types.memory_element(b.dtype, em.target)
        # in the entry block, for ``sroa`` looks nowhere else, and in a loop it would take new stack at each
        # iteration
        em.function.entry.lines[:0] = [
            f"  {name} = alloca [{count} x {element}], align 64",
            *_end_cleared(em, b, name, count),
        ]
        em.storage[b] = Storage(name, 0, count)
        yield inside
        return
    elements = size_in_elements(b)
    size_text = em.ins(f"mul i64 {em.index(elements)}, {b.dtype.bytes}")
    lowest = interval(em, elements)[0]
    if lowest is None or lowest < 0:  # a box that symbolic sizes leave empty may have a negative extent
        size_text = em.call("i64", "llvm.smax.i64", ("i64", size_text), ("i64", "0"))
    memory, own = _small_on_stack(em, size_text)
    yield _held(em, b, memory, own, inside)


def _small_on_stack(em: Emitter, size: str) -> tuple[str, str]:
    """Memory of ``size`` bytes, which are few in a small call and lie on the stack then; and what of it is to
    be given back, perhaps null."""
    if em.stack_bytes + SMALL > STACK_TOTAL or min(SMALL, STACK_LIMIT) <= 0:
        memory = em.call("ptr", "tensorlang_alloc", ("i64", size))
        return memory, memory
    em.stack_bytes += SMALL
    stack = em.function.fresh()
    em.function.entry.lines.insert(0, f"  {stack} = alloca [{SMALL} x i8], align 64")
    return rows.or_memory(em, em.ins(f"icmp ule i64 {size}, {SMALL}"), stack, size)


def _end_cleared(em: Emitter, b: Buffer, name: str, count: int) -> list[str]:
    """Zeros behind a buffer that ends within its last vector on the stack: what no store writes is computed
    with all the same where masks became blends, and what lay there before is likely to be subnormal
    numbers, of which each operation takes 150 cycles. Measured (Granite Rapids): softmax of rows of 77, 100
    and 197 takes 0.40, 0.43 and 0.54 of the time. What stores do write is left alone, or its last row would
    be no register: a product of 32 × 60 × 49 in tiles of 4 × 49 took twice as long."""
    vector, size = em.target.vector_bits // 8 // b.dtype.bytes, const_int(size_in_elements(b))
    if not b.dtype.is_float or count <= vector or size in (None, count):
        return []
    element, end = types.memory_element(b.dtype, em.target), em.function.fresh()
    # no store of a vector: ``sroa`` would put those of the buffer together where that is, before they come
    set_to = em.module.declare("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1 immarg")
    left = (count - size) * b.dtype.bytes
    return [
        f"  {end} = getelementptr {element}, ptr {name}, i64 {size}",
        f"  call void {set_to}(ptr align {b.dtype.bytes} {end}, i8 0, i64 {left}, i1 false)",
    ]


def _checked(em: Emitter, block: str) -> None:
    """Go on where there is memory, else leave."""
    leave_where(em, em.ins(f"icmp eq ptr {block}, null"), "1")


def _free(em: Emitter, block: str) -> None:
    em.do(_freed(em, block))


def _freed(em: Emitter, block: str) -> str:
    return f"call void {em.module.declare('tensorlang_free', 'void', 'ptr')}(ptr {block})"


def leave_if(em: Emitter, status: str, code: str = "") -> None:
    """Leave the function where a status is not 0: with that status, or with ``code``."""
    leave_where(em, em.ins(f"icmp ne i32 {status}, 0"), code or status)


def leave_where(em: Emitter, bad: str, status: str) -> None:
    """Leave the function with that status where ``bad`` holds, else go on."""
    here = em.block
    failed, go_on = em.function.block("failed"), em.function.block("ran")
    here.end = f"  br i1 {bad}, label %{failed.label}, label %{go_on.label}"
    leave(em, failed, status)
    em.scopes[-1].block = go_on


def leave(em: Emitter, failed: Block, status: str) -> None:
    """End block ``failed``: give back what is allocated, and leave the function with that status. The ways
    out join, so that many allocations are not as many times given back."""
    em.may_fail = True
    if not em.live:
        failed.end = f"  ret i32 {status}"
        return
    if em.status is None:
        em.status = em.function.fresh()
        em.function.entry.lines.insert(0, f"  {em.status} = alloca i32, align 4")
    failed.lines.append(f"  store i32 {status}, ptr {em.status}, align 4")
    failed.end = f"  br label %{_way_out(em).label}"


def _way_out(em: Emitter) -> Block:
    """The block that gives back what lives, the newest first, and leaves with what is in ``em.status``."""
    inner: Block | None = None
    for live in reversed(em.live):
        # what an earlier error made of the outer ones is used again
        known, block = live.leaves, live.leaves or em.function.block("undo")
        if inner is not None:
            inner.end = f"  br label %{block.label}"
        if known is not None:
            break
        live.leaves = inner = block
        block.lines.append(f"  {_freed(em, live.pointer)}")
    else:
        assert inner is not None
        found = em.function.fresh()
        inner.lines.append(f"  {found} = load i32, ptr {em.status}, align 4")
        inner.end = f"  ret i32 {found}"
    newest = em.live[-1].leaves
    assert newest is not None
    return newest
