"""What a statement ought to cost: cycles of the multiply-adds, loads, stores and loops, and of the bytes that
move through the caches, by the numbers of a present-day core. Wrong by a factor now and then; but it is in
one unit for all tasks, and it puts together what trees learn separately only from many examples: a sum over
statements of products.

The form is the roofline of Williams, Waterman and Patterson (CACM 52, 2009) with the latency of a chain of
sums (Fog, "Instruction tables").
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from tensorlang import Target
from tensorlang.analysis import (
    Access,
    Expr,
    Statement,
    absolute,
    amount,
    ceil_quotient,
    choose,
    constant,
    cost_of,
    least,
    minus,
    most,
    plus,
    quotient,
    times,
)

from .registers import tile_of, vector_loop

SCALE = 16  # of cycles: an eighth of a load is an amount too
REMEMBERED = 64  # statements
T = TypeVar("T")
PAGE, PAGES, MISSED = 4096, 72, 6  # bytes; pages whose places a core knows; cycles to ask for another's
FIRST = 16  # bytes a cycle of lines that are touched for the first time in a run
HIDDEN = 2  # one part in so many of what takes less time, the core or the caches, is not hidden by the other


def _once(made: Callable[[Statement, Target], T]) -> Callable[[Statement, Target], T]:
    """Remembers what was made of the last statements: several blocks ask, and so does the sum of all."""
    known: OrderedDict[tuple[int, Target], tuple[Statement, T]] = OrderedDict()

    @wraps(made)
    def asked(st: Statement, target: Target) -> T:
        key = id(st), target
        found = known.get(key)
        if found is None:  # what is kept holds the statement, and so its number is its own
            found = known[key] = st, made(st, target)
            if len(known) > REMEMBERED:
                known.popitem(last=False)
        return found[1]

    return asked


def estimate(st: Statement, target: Target) -> dict[str, Expr]:
    """Sixteenths of cycles on the critical path, all threads working: ``compute`` of the core, ``memory`` of
    the caches, ``starts`` of parallel loops, ``time`` all of it together."""
    return _costs(st, target)[0]


def parts(st: Statement, target: Target) -> dict[str, Expr]:
    """What the estimate is made of, each by itself, and vector accesses that cross lines, lanes that are
    loaded one by one, and lines touched for the first time; ``sum`` of all. Where the estimate says that the
    longest of several decides, the sum puts more pairs in order (70 % instead of 67 %, of operators on a
    Granite Rapids): little hides behind anything else."""
    return _costs(st, target)[1]


@_once
def _costs(st: Statement, target: Target) -> tuple[dict[str, Expr], dict[str, Expr]]:
    """The estimate of a statement and its parts, which have most in common."""
    c, tile = cost_of(target), tile_of(st, target)
    work = st.work
    weight = max(
        1,
        work.fma + work.add + work.mul + work.select + work.cast + c.division * work.div + c.call * work.call,
    )
    around = tile.level - 1
    # the sums stay in registers while the reduction runs
    kept = st.reduction and around >= st.own and st.loops[around].reduce
    # what stays in registers is written once, behind the reduction
    stores = amount(0) if kept else times(tile.held, len([a for a in st.accesses if a.write]))
    loads = plus(tile.loaded, stores) if st.reduction and not kept else tile.loaded
    chain = (
        times(c.latency, *[p.extent for p in st.loops[tile.level :] if p.reduce and p.kind == "unrolled"])
        if kept
        else amount(0)
    )
    # a few registers for what is loaded, however much that is: loads are used and forgotten
    spilled = most(plus(tile.held, least(tile.loaded, 4), 1 - target.vector_registers), 0)
    issued = most(times(tile.vectors, weight, SCALE // c.per_cycle), times(loads, SCALE // c.per_cycle))
    # arithmetic, loads and stores have ports of their own, and a chain of sums waits for itself: the longest
    # decides
    busy = most(issued, times(most(stores, chain), SCALE))
    one = plus(busy, times(spilled, c.spill * SCALE), c.turn * SCALE)
    at = st.first("parallel")
    outer = st.loops[: tile.level]
    iterations = times(*[p.extent for i, p in enumerate(outer) if i != at])
    shared = amount(1) if at is None else st.loops[at].extent
    rounds = ceil_quotient(shared, target.num_cores)  # as many iterations as the busiest thread has
    runs_of = times(iterations, rounds)
    compute = times(one, runs_of)
    passed = amount(0)
    if kept:  # in and out of the registers, for each run of the innermost loops of the reduction
        first = around
        while first > st.own and st.loops[first - 1].reduce:
            first -= 1
        runs = times(*[p.extent for i, p in enumerate(outer[:first]) if i != at])
        passed = times(plus(tile.held, 2 * c.latency), SCALE, runs, rounds)
        compute = plus(compute, passed)
    rates = {"l1": c.l1_rate, "l2": c.l2_rate, "l3": c.l3_rate}
    moved = [quotient(times(brought, SCALE), rates[name]) for name, brought in traffic(st, target).items()]
    moved.append(times(pages_missed(st, target), MISSED * SCALE))
    memory = plus(*moved)
    if at is not None:
        memory = times(quotient(memory, shared), rounds)
        moved = [times(quotient(e, shared), rounds) for e in moved]
    starts = amount(0) if at is None else times(c.start * SCALE, *[p.extent for p in st.loops[:at]])
    together = {
        "estimate.compute": compute,
        "estimate.memory": memory,
        "estimate.starts": starts,
        "estimate.time": plus(most(compute, memory), quotient(least(compute, memory), HIDDEN), starts),
    }
    each = {
        "part.arithmetic": times(tile.vectors, weight, SCALE // c.per_cycle, runs_of),
        "part.loads": times(loads, SCALE // c.per_cycle, runs_of),
        "part.stores": times(stores, SCALE, runs_of),
        "part.chain": times(chain, SCALE, runs_of),
        "part.spilled": times(spilled, SCALE, runs_of),
        "part.turns": times(runs_of, SCALE),
        "part.passed": passed,
        "part.crossing": times(_crossing(st, target, tile.level), SCALE // c.per_cycle, runs_of),
        "part.lanes": times(_one_by_one(st, tile.level), SCALE // c.per_cycle, runs_of),
        "part.first": times(lines_touched(st, target)[0], SCALE // FIRST),
    } | {f"part.{name}": e for name, e in zip([*rates, "pages"], moved, strict=True)}
    return together, {"part.sum": plus(together["estimate.time"], *each.values())} | each


def _crossing(st: Statement, target: Target, level: int) -> Expr:
    """Vectors of one pass through the tile that may lie across two lines of the cache: those of accesses
    whose rows are not whole lines apart."""
    at, line = vector_loop(st, level), target.cache_line
    if at is None:
        return amount(0)
    found = []
    for a in st.accesses:
        off = amount(0)
        for p in range(len(st.loops)):
            if p != at:
                step = times(absolute(a.strides[p]), a.bytes)
                off = most(off, choose(minus(times(ceil_quotient(step, line), line), step), 0, 0, 1))
        along = absolute(a.strides[at])
        vectors = ceil_quotient(times(a.elements(level), a.bytes * 8), target.vector_bits)
        found.append(choose(along, 0, 0, choose(along, 1, times(off, vectors), 0)))
    return plus(*found)


def _one_by_one(st: Statement, level: int) -> Expr:
    """Elements of one pass through the tile that do not lie side by side along the vector loop."""
    at = vector_loop(st, level)
    if at is None:
        return amount(0)
    return plus(*[choose(absolute(a.strides[at]), 1, 0, a.elements(level)) for a in st.accesses])


@_once
def lines_touched(st: Statement, target: Target) -> list[Expr]:
    """Bytes of the cache lines that are touched while the loops from each level inwards run; the last is
    one iteration."""
    st = st.unfused
    return [
        plus(*[times(a.lines(p, target.cache_line), target.cache_line) for a in st.accesses])
        for p in range(len(st.loops) + 1)
    ]


@_once
def traffic(st: Statement, target: Target) -> dict[str, Expr]:
    """Bytes that move into each cache. Of the loops of which one iteration fits the cache, the outermost
    streams: each of its runs brings in what it touches once. Which loop that is depends on the knobs, so the
    traffic is a chain of choices from the inside outwards. Where all of a statement's data fit, nothing
    moves: the statement before left them there, or the call before."""
    lines = lines_touched(st, target)
    st = st.unfused
    result: dict[str, Expr] = {}
    for name, size in (("l1", target.l1_bytes), ("l2", target.l2_bytes), ("l3", target.l3_bytes)):
        brought = times(st.iterations, lines[-1])
        for p in reversed(range(len(st.loops))):
            brought = choose(lines[p + 1], size * 3 // 4, times(st.extent(0, p), lines[p]), brought)
        result[name] = choose(lines[0], size * 3 // 4, 0, brought)
    return result


@_once
def pages_missed(st: Statement, target: Target) -> Expr:
    """How often a page is touched whose place the core does not know any more, nor fetches ahead from: the
    traffic of a cache of ``PAGES`` pages."""
    st = st.unfused
    pages = [plus(*every) for every in zip(*[_pages(st, a) for a in st.accesses], strict=True)]
    missed = amount(0)
    for p in reversed(range(len(st.loops))):
        missed = choose(pages[p + 1], PAGES, times(st.extent(0, p), pages[p]), missed)
    return choose(pages[0], PAGES, 0, missed)


def _pages(st: Statement, a: Access) -> list[Expr]:
    """The pages that an access touches while the loops from each level inwards run; the last is one
    iteration."""
    found = [amount(1)]
    for loop, stride in zip(reversed(st.loops), reversed(a.strides), strict=True):
        step = least(times(absolute(stride), a.bytes), PAGE)
        moves = constant(step) != 0
        found.append(times(ceil_quotient(times(loop.extent, step), PAGE), found[-1]) if moves else found[-1])
    return found[::-1]
