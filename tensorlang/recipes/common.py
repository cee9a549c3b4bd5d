"""What the families of recipes share: sizes as numbers, and the one parallel loop. Uses public primitives
only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

from ..analysis import (
    bytes_of,
    constant,
    cost_of,
    iterations_of,
    operations,
    reads_of,
    reducer_kind,
    repeated_along,
    step,
)
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Operation, Tensor

# places of an axis that are computed together where they share most of what they take, and how much that must
# be: one place more is more code and one stream of stores more
FEW_BESIDE, LEAST_SAVED = 4, 8
# vectors that x86 holds before AVX-512: what recipes decide for so few, to keep sums in them, was not
# measured with more
FEW_REGISTERS = 16
MOST_FOLDED = 32  # stages that are followed from a tensor to the constants it is made of
PIECE = 16  # bytes that are written past the caches together
LINE = 64  # bytes of memory that are read together
PAGE = 4096  # bytes: rows that lie a multiple of it apart meet in the same places of the first cache
# bytes before its use that a line of a stream from memory is asked for, into the second cache: the processor
# itself asks late, and not beyond a page. Measured (Zen 4, one thread and two), rows of 35 to 72 MB of 60 to
# 2500 elements: 1 KiB takes 0.85 to 1.0 of the time of none, of 3 KiB 0.55 to 1.0, and 2 KiB takes up to 1.6
# times as long where rows are short; into the first cache 1.2, and from the third cache 1.1 to 1.25
AHEAD = 1 << 10
# dimensions that a count goes through, up to which the place of a line ahead takes no longer than to read it.
# Measured (Zen 4, one thread), sums of all of 64 MB: of four dimensions 0.5 to 0.84 of the time without, of
# three 0.97 to 1.04
MOST_PLACES = 3
SHORT_ROW = 24 * LINE  # bytes of a row whose lanes take long to add up beside it
EVEN = 1.03  # times its share that a thread has to do, at most, where work counts as shared out evenly
PLAIN = 4  # operations of a body that count as one iteration of a loop
PACKED_ROWS = 16  # of a product, from which a copy of its right operand pays


def in_halves(target: Target) -> bool:
    """Whether units are half as wide as vectors: a multiply-add takes a cycle, which leaves loads enough
    for a tile to hide how far apart they lie."""
    table = cost_of(target)
    return table.whole_per_cycle < table.per_cycle and target.vector_bits // 8 >= LINE


def size(axis: IterVar) -> int | None:
    """The extent of an axis, None when it is symbolic."""
    return constant(axis.extent)


def same(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether axes, or indices, are one by one the same: ``==`` of them is an expression."""
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def is_known(tensor: Tensor, constants: Sequence[Tensor]) -> bool:
    """Whether the values of a tensor are known ahead of a call, so that what is made of it takes no time of
    one: it is a constant or computed of a few stages of constants alone, as the stacked weights of a layer's
    directions are. ``==`` of tensors is an expression."""
    if any(t is tensor for t in constants):
        return True
    waiting, seen = [tensor] if constants else [], set[Operation]()
    while waiting:
        t = waiting.pop()
        if any(t is c for c in constants) or t.op in seen:
            continue
        seen.add(t.op)
        if not isinstance(t.op, ComputeOp) or not t.op.input_tensors or len(seen) > MOST_FOLDED:
            return False
        waiting += t.op.input_tensors
    return bool(seen)


def work(stage: Stage) -> int:
    """Iterations of the body in the largest call: a loop is parallel where they are worth it, and in how many
    parts a call of open sizes runs it is decided by its sizes (``codegen.llvm.parallel``)."""
    return iterations_of(stage.op)


def plain_work(stage: Stage) -> int:
    """The same in iterations of a few operations each; the kernel asks again for what they take."""
    return work(stage) * max(1, operations(stage.op.body) // PLAIN)


def read_again(stage: Stage, inlined: bool = False) -> IterVar | None:
    """A short axis along which most of what an element takes gives the same, as that of the colours made of
    one pixel: written out in the innermost loop, the rest is computed once. ``inlined``: as if what it reads
    were written into it."""
    found = []
    for a in stage.op.axis[:-1]:
        n = size(a)
        if n is not None and 1 < n <= FEW_BESIDE:
            same, other = repeated_along(stage.op, a, inlined)
            if same >= max(other, LEAST_SAVED):
                found.append((same * (n - 1) / n, a))
    return max(found, key=lambda x: x[0])[1] if found else None


def in_registers(s: Schedule, stage: Stage) -> None:
    """Give a stage local memory, whose small arrays become registers, where the schedule allows it."""
    if stage.state.scope != "local" and s.can("set_scope", stage.name, "local"):
        stage.set_scope("local")


def converts(tensor: Tensor, target: Target) -> bool:
    """Whether elements of a type narrower than what they are summed in become wide by one or two
    instructions for a vector. float16 does where the processor knows it."""
    return target.has_half or tensor.dtype.name != "float16"


def stream_stores(stage: Stage, loop: IterVar, target: Target, run: int | None) -> bool:
    """Write the result, as computed in ``loop``, past the caches when it and as much input fit none of them:
    a plain store would read each line first. Measured on 64 MiB: a copy 1.3 times as fast. Whether it is
    written so.

    What is written in one run, of so many elements, has to be whole pieces of a line. A line of which a part
    is written past the caches, and the rest plainly, goes to memory more than once. Measured (Zen 4, one
    thread and two): a bias for rows of 197 took 3.8 times as long, of 1001 1.3, of 40,001 1.0.
    """
    each, whole = stage.op.body[0].dtype.bytes, 1
    for a in stage.op.axis:
        whole *= size(a) or 0
    if run is None or (run * each % PIECE and run != whole):
        return False
    past = stage.state.attach is None and 2 * whole * each >= target.l3_bytes
    if past:
        stage.pragma(loop, "stream_stores")
    return past


def far_inputs(stage: Stage, target: Target, *, anyway: bool = False) -> list[Tensor]:
    """What a stage reads at plain places and no cache holds, so that each call brings it from memory, and
    that comes sooner where it is asked for ahead, or is to be asked for ``anyway``."""
    found = dict.fromkeys(tensor for tensor, _ in reads_of(stage.op).plain)
    least = max(target.l3_bytes, 0 if anyway else cost_of(target).asked_bytes)
    return [t for t in found if (bytes_of(t) or 0) >= least]


def ask_for_rows(partial: Stage, n: int | None, target: Target) -> None:
    """Ask ahead for what comes from memory, while ``partial`` reduces rows of ``n`` elements in vectors
    (None: not known, or all is one row). Sooner where a row is short, so that to add up lanes takes a part of
    the time, or where a vector takes several operations."""
    row, kind = partial.op.reduce_axis[-1], partial.op.body[0].dtype
    extreme = kind.is_float and reducer_kind(partial.op) in ("max", "min")
    busy = n is not None and (extreme or n * kind.bytes <= SHORT_ROW)
    sooner = cost_of(target).rows_ahead if busy else 1
    places = {t: sum(step(i, row) != 0 for i in at) for t, at in reads_of(partial.op).plain}
    for tensor in far_inputs(partial, target, anyway=sooner > 1):
        step_bytes = (size(partial.op.axis[0]) or 1) * tensor.dtype.bytes
        if places[tensor] <= MOST_PLACES:
            partial.prefetch(tensor, row, max(1, (sooner if sooner > 1 else AHEAD) // step_bytes), level=2)


def evenly(parts: int, threads: int) -> bool:
    """Whether threads have the same to do where each part is done by one of them; not where how many there
    are is not known (0)."""
    return 0 < -(-parts // threads) * threads <= EVEN * parts


def share_out(stage: Stage, loops: list[IterVar], iterations: int, target: Target) -> IterVar | None:
    """One parallel loop out of the outermost ones, when there are enough iterations of the body; None, and
    nothing done, when not."""
    loops = [iv for iv in loops if iv.kind != "reduce"]
    if not loops or not cost_of(target).shared(iterations):
        return None
    loops = _for_each_thread(stage, loops, target)
    outer = loops[0] if len(loops) == 1 else stage.fuse(*loops)
    stage.parallel(outer)
    return outer


def _for_each_thread(stage: Stage, loops: list[IterVar], target: Target) -> list[IterVar]:
    """These loops, and further ones within them until each thread has an iteration: of a batch of one, for
    example. Measured (Zen 5, two threads): means of the 64 planes of 128 × 128 of one image 0.5 of the
    time."""
    found, leaves, overlap = list(loops), stage.leaf_iter_vars, set[IterVar]()
    for r in stage.state.relations:  # of tiles the last of which two threads would write
        if getattr(r, "tail", None) == "shift":
            overlap.add(r.children[0])
        if not overlap.isdisjoint(r.parents):
            overlap.update(r.children)
    plain = lambda a: a.kind != "reduce" and a not in stage.state.kinds and a not in overlap
    at = next(i for i, a in enumerate(leaves) if a is found[-1])
    inner = iter(takewhile(plain, leaves[at + 1 :]))
    known = lambda a: None if a.dom is None else size(a)  # of a loop that was split nobody knows here
    sizes = [known(a) for a in found]
    while None not in sizes and math.prod(n or 0 for n in sizes) < target.num_cores:
        a = next(inner, None)
        if a is None or not stage.schedule.can("fuse", stage.name, *found, a):
            break
        found.append(a)
        sizes.append(known(a))
    return found


def with_attached(s: Schedule, *names: str) -> set[str]:
    """The names of stages that are scheduled, with those of all that is computed within them."""
    done = list(names)
    for name in done:  # grows on the way
        done += s.state.links.attached.get(name, ())
    return set(done)


def together_of(a: Tensor, b: Tensor, target: Target) -> int:
    """How many products of neighbours, of operands of 8 and 16 bits, one instruction sums: four of uint8 and
    int8 where the processor has that, two of bfloat16 likewise, and of other integers, as those of 16 bits;
    else one."""
    if a.dtype.is_float or b.dtype.is_float:
        return 2 if a.dtype == b.dtype == "bfloat16" and target.sums_bfloat16 else 1
    if target.summed(4) and {a.dtype.name, b.dtype.name} == {"uint8", "int8"}:
        return 4
    return 2 if target.summed(2) else 1
