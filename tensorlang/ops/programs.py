"""The programs of loops behind what goes where data lead it, each with its meaning in numpy; those that sort
are in ``sorting``. Knows the words of ``te.LoopBuilder``; no tensors.

Orders are total: NaN is greater than every number, as in numpy and torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import te
from ..core.dtype import INT32, INT64, DType
from ..expr import make
from ..expr.nodes import Expr
from ..te.loops import Cell, LoopBuilder, Memory
from . import inputs
from .network import packed_lanes
from .places import kept_within

Array = np.ndarray[Any, Any]
LANES = 16  # boxes that are compared at once, and elements


def _before(a: Expr, b: Expr, descending: bool) -> Expr:
    """Whether ``a`` stands before ``b`` in the order, strictly."""
    if a.dtype.is_bool:
        a, b = te.cast("uint8", a), te.cast("uint8", b)
    if not a.dtype.is_float:
        return b < a if descending else a < b
    a, b = te.cast(inputs.wide(a.dtype), a), te.cast(inputs.wide(b.dtype), b)
    first, second = (b, a) if descending else (a, b)
    # NaN behind all numbers whichever way they run, as numpy sorts them
    return te.any(first < second, te.all(te.isnan(second), make.not_(te.isnan(first))))


def _same(a: Expr, b: Expr) -> Expr:
    equal = make.eq(a, b) if not a.dtype.is_bool else make.not_(make.ne(a, b))
    return te.any(equal, te.all(te.isnan(a), te.isnan(b))) if a.dtype.is_float else equal


# --- sorting ------------------------------------------------------------------------------------------------


def _order_of_rows(x: Array) -> list[Array]:
    return [np.lexsort(inputs.for_numpy(x).T[::-1]) if x.shape[1] else np.arange(len(x))]


@te.loop_program("order_rows", _order_of_rows)
def order_rows(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory]) -> None:
    """The order of the rows [n, m] by their elements, the first one first: an insertion sort, for rows are
    few."""
    (x,), (order,) = given, made
    n, m = x.shape
    with b.loop("i", n) as i:
        place = b.cell("place", n.dtype, 0)
        with b.loop("k", i) as k:
            sign = b.cell("sign", INT32, 0)
            # what is read from memory has no bounds that a proof could use; this gives it some
            other = b.let("other", te.cast(n.dtype, kept_within(order[k], te.cast(INT64, n))))
            # the first elements that differ decide; the loop has no way out, so the rest compares nothing
            with b.loop("j", m) as j, b.when(make.eq(sign.value, 0)):
                mine, theirs = b.let("mine", x[i, j]), b.let("theirs", x[other, j])
                sign.set(
                    te.cast(INT32, _before(theirs, mine, False))
                    - te.cast(INT32, _before(mine, theirs, False))
                )
            # equal rows keep their order
            with b.when(sign.value >= 0):
                place.set(place.value + 1)
        with b.loop("k", i - place.value) as k:
            order[i - k] = order[i - k - 1]
        order[place.value] = i


# --- elements that count ------------------------------------------------------------------------------------


def _places_of(x: Array) -> list[Any]:
    places = np.stack(np.nonzero(x))
    return [places, np.int64(places.shape[1])]


@te.loop_program("nonzero", _places_of)
def nonzero(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory]) -> None:
    """The indices [rank, elements] of what is not zero, in order, zeros behind; and how many there are."""
    (x,), (places, count) = given, made
    total = b.cell("total", INT64, 0)

    def inner(index: tuple[Expr, ...]) -> None:
        if len(index) < len(x.shape) - 1:
            with b.loop(f"i{len(index)}", x.shape[len(index)]) as i:
                inner((*index, i))
            return

        def written(k: Expr, at: Expr) -> None:
            for d, i in enumerate((*index, k)):
                places[d, at] = i

        _count_on(b, x.shape[-1], lambda k: _counts(x[(*index, k)]), written, total, INT64)

    inner(())
    count[()] = total.value
    with b.loop("d", len(x.shape)) as d:
        _fill(b, total.value, te.cast(INT64, places.shape[1]), lambda k: places.__setitem__((d, k), 0))


def _elements_that_count(condition: Array, x: Array) -> list[Any]:
    found = x[: len(condition)][condition != 0]
    return [np.concatenate([found, np.zeros(len(condition) - len(found), x.dtype)]), np.int64(len(found))]


@te.loop_program("kept_elements", _elements_that_count)
def kept_elements(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory]) -> None:
    """The elements of a vector where a condition holds, zeros behind; and how many there are."""
    (condition, x), (values, count) = given, made
    total, n = b.cell("total", INT64, 0), condition.shape[0]
    _count_on(
        b, n, lambda k: _counts(condition[k]), lambda k, at: values.__setitem__(at, x[k]), total, x.dtype
    )
    count[()] = total.value
    _fill(b, total.value, te.cast(INT64, n), lambda k: values.__setitem__(k, make.const(0, x.dtype)))


def _counts(e: Expr) -> Expr:
    return e if e.dtype.is_bool else make.ne(e, make.const(0, e.dtype))


def _count_on(
    b: LoopBuilder,
    n: Expr,
    counts: Callable[[Expr], Expr],
    written: Callable[[Expr, Expr], None],
    total: Cell,
    widest: DType,
) -> None:
    """``written`` with each place below ``n`` that ``counts``, and how many did before it.

    It is called for the others too, and writes what the next one that counts writes over: no more have
    counted than have been looked at, so there is room, and no branch has to guess what data say. Measured
    (Zen 5), behind a branch: of 100,000 elements of which half count 369 us, so 44. Where lanes are packed
    it is called for vectors of those that count. Vectors of which none counts are passed over."""
    width = packed_lanes(b, widest)

    def one(k: Expr) -> None:
        at = b.let("at", total.value)
        written(k, at)
        total.set(at + te.cast(INT64, counts(k)))

    with b.loop("block", n // LANES) as block:
        first = b.let("first", block * LANES)
        some = b.cell("some", INT32, 0)
        with b.loop("k", LANES, first, vector=True) as k:
            some.set(te.max(some.value, te.cast(INT32, counts(k))))
        with b.when(some.value > 0):
            if width is None:
                with b.loop("k", LANES, first) as k:
                    one(k)
            else:
                for low in range(0, LANES, width):
                    with b.loop("k", width, first + low, vector=True) as k, b.when(counts(k)):
                        written(k, total.value)
                        total.set(total.value + 1)
    whole = b.let("whole", n // LANES * LANES)
    with b.loop("k", n - whole, whole) as k:
        one(k)


def _fill(b: LoopBuilder, begin: Expr, end: Expr, zero: Callable[[Expr], None]) -> None:
    """``zero`` for each place from ``begin`` to ``end``, a vector at a time."""
    begin = b.let("begin", begin)
    blocks = b.let("blocks", (end - begin) // LANES)
    with b.loop("block", blocks) as block, b.loop("k", LANES, begin + block * LANES, vector=True) as k:
        zero(k)
    rest = b.let("rest", begin + blocks * LANES)
    with b.loop("k", end - rest, rest) as k:
        zero(k)


def _unique(x: Array, order: Array, sorted: bool) -> list[Any]:
    rows = x[order]
    if len(rows):
        same = (rows[1:] == rows[:-1]) | ((rows[1:] != rows[1:]) & (rows[:-1] != rows[:-1]))
        # a row that differs from the one before it in the order begins a group
        heads = np.concatenate([[True], ~same.all(1)])
    else:
        heads = np.zeros(0, bool)
    group = np.cumsum(heads) - 1
    first = order[heads]
    number = np.arange(len(first))
    if not sorted:
        number[np.argsort(first)] = np.arange(len(first))
    inverse = np.zeros(len(x), np.int64)
    inverse[order] = number[group] if len(group) else group
    back = np.argsort(number)
    counts = np.bincount(group, minlength=len(first)) if len(group) else np.zeros(0, np.int64)
    return [x[first[back]], first[back], inverse, counts[back], np.int64(len(first))]


@te.loop_program("unique_rows", _unique)
def unique_rows(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], sorted: bool) -> None:
    """The different rows of x [n, m], whose order is given: the rows, where each stands first, which of them
    each row of x is, how often it occurs, and how many there are; zeros behind. In order, or (``sorted``
    false) as they occur first."""
    (x, order), (rows, first, inverse, counts, count) = given, made
    n, m = x.shape
    head, number = b.memory("head", (n,), INT64), b.memory("number", (n,), INT64)
    with b.loop("i", n) as i:
        for memory in (first, counts):
            memory[i] = 0
        # not numbered yet
        number[i] = -1
        with b.loop("j", m) as j:
            rows[i, j] = te.cast(rows.dtype, 0)
    groups = b.cell("groups", INT64, 0)

    def row(i: Expr) -> Expr:
        return kept_within(order[i], te.cast(INT64, n))

    def new_group(i: Expr) -> None:
        head[groups.value] = row(i)
        groups.set(groups.value + 1)

    with b.loop("i", n) as i:
        mine, before = b.let("mine", row(i)), b.let("before", row(te.max(i - 1, 0)))
        same = b.cell("same", INT32, te.cast(INT32, i > 0))
        with b.loop("j", m) as j, b.when(make.not_(_same(x[mine, j], x[before, j]))):
            same.set(0)
        with b.when(make.eq(same.value, 0)):
            new_group(i)
        inverse[mine] = groups.value - 1
    if sorted:
        with b.loop("g", groups.value) as g:
            number[g] = g
    else:  # a number for each group in the order of the rows where they begin
        seen = b.cell("seen", INT64, 0)
        with b.loop("i", n) as i, b.when(number[inverse[i]] < 0):
            number[inverse[i]] = seen.value
            seen.set(seen.value + 1)
    with b.loop("g", groups.value) as g:
        place = b.let("place", number[g])
        start = b.let("start", head[g])
        first[place] = start
        with b.loop("j", m) as j:
            rows[place, j] = x[start, j]
    with b.loop("i", n) as i:
        # from the group's place in the order to its number in the result
        which = b.let("which", number[inverse[i]])
        inverse[i] = which
        counts[which] = counts[which] + 1
    count[()] = groups.value


# --- boxes --------------------------------------------------------------------------------------------------


def _kept_boxes(
    boxes: Array, scores: Array, most: Array, overlap: Array, least: Array, center: bool
) -> list[Any]:
    chosen = []
    for n, c in np.ndindex(scores.shape[:2]):
        kept: list[int] = []
        for i in np.argsort(-scores[n, c], kind="stable"):
            if len(kept) >= int(most) or not scores[n, c, i] > least:
                continue
            if all(not _overlap(boxes[n, i], boxes[n, k], center) > overlap for k in kept):
                kept.append(int(i))
        chosen += [(n, c, k) for k in kept]
    return [np.array(chosen, np.int64).reshape(-1, 3), np.int64(len(chosen))]


def _corners(box: Any, center: bool) -> tuple[Any, Any, Any, Any]:
    """Low and high of both directions, by numpy or as expressions."""
    low, high = (np.minimum, np.maximum) if isinstance(box[0], np.generic) else (te.min, te.max)
    if center:
        return box[0] - box[2] / 2, box[1] - box[3] / 2, box[0] + box[2] / 2, box[1] + box[3] / 2
    return low(box[0], box[2]), low(box[1], box[3]), high(box[0], box[2]), high(box[1], box[3])


def _overlap(a: Array, b: Array, center: bool) -> Any:
    """The intersection of two boxes over their union, 0 of boxes without an area."""
    with np.errstate(all="ignore"):
        p, q = _corners(list(a), center), _corners(list(b), center)
        # boxes beside each other have a negative side, and two of them would make a positive area
        sides = [max(min(p[d + 2], q[d + 2]) - max(p[d], q[d]), np.float32(0)) for d in (0, 1)]
        areas = [(c[2] - c[0]) * (c[3] - c[1]) for c in (p, q)]
        shared = sides[0] * sides[1]
        return shared / (areas[0] + areas[1] - shared) if shared > 0 else 0.0


def _first(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> Expr:
    """Whether a candidate, score and box, goes before another."""
    # of equal scores the box of the lower number, as a stable sort has it: the order does not depend on the
    # heap
    return te.any(a[0] > b[0], te.all(make.eq(a[0], b[0]), a[1] < b[1]))


def _sink(
    b: LoopBuilder,
    heap: tuple[Memory, Memory],
    hole: Expr,
    size: Expr,
    levels: Expr,
    candidate: tuple[Expr, Expr],
) -> None:
    """Put a candidate where it belongs at or below a hole of a heap of that size; so many levels are below.
    What goes first stands on top, the two below of ``i`` are ``2 i + 1`` and ``2 i + 2``."""
    at = b.cell("hole", hole.dtype, hole)
    with b.loop("level", levels):
        here = b.let("here", at.value)
        left = b.let("left", te.min(here * 2 + 1, size - 1))
        right = b.let("right", te.min(here * 2 + 2, size - 1))
        one, other = ((heap[0][i], heap[1][i]) for i in (left, right))
        below = b.let("below", te.select(_first(other, one), right, left))
        with b.when(te.all(here * 2 + 1 < size, _first((heap[0][below], heap[1][below]), candidate))):
            heap[0][here] = heap[0][below]
            heap[1][here] = heap[1][below]
            at.set(below)
    for memory, e in zip(heap, candidate, strict=True):
        memory[at.value] = e


def _levels(b: LoopBuilder, size: Expr) -> Expr:
    """Of a heap of that size."""
    levels = b.cell("levels", size.dtype, 0)
    one = make.const(1, size.dtype)
    with b.loop("bit", 31 * one) as bit, b.when(te.shift_left(one, bit) <= size):
        levels.set(bit + 1)
    return b.let("height", levels.value)


@te.loop_program("kept_boxes", _kept_boxes)
def kept_boxes(b: LoopBuilder, given: Sequence[Memory], made: Sequence[Memory], center: bool) -> None:
    """Of boxes [N, B, 4] with scores [N, C, B] those that overlap no better one of their class too much:
    (image, class, box) for each, and how many. The candidates of a class are a heap, from which no more are
    taken than are wanted; each is compared with what was kept of its class, ``LANES`` at a time."""
    (boxes, scores, most, overlap, least), (chosen, count) = given, made
    images, classes, n = scores.shape
    kind: DType = boxes.dtype
    zero, none = make.const(0, kind), make.const(0, n.dtype)
    total = b.cell("total", INT64, 0)
    wanted, limit, lowest = b.let("wanted", most[()]), b.let("limit", overlap[()]), b.let("lowest", least[()])
    # by columns, and whole vectors of them: areas and corners of 16 boxes are loaded at once
    corners = b.memory("corners", (5, make.ceildiv(n, LANES) * LANES), kind)
    heap = b.memory("keys", (n,), scores.dtype), b.memory("at", (n,), n.dtype)
    with b.loop("image", images) as image, b.loop("class", classes) as cls:
        found = b.cell("found", n.dtype, 0)
        with b.loop("i", n) as i, b.when(scores[image, cls, i] > lowest):
            heap[0][found.value] = scores[image, cls, i]
            heap[1][found.value] = i
            found.set(found.value + 1)
        # a heap and no sort: few of the boxes are taken before enough are kept
        size = b.let("size", found.value)
        height = _levels(b, size)
        with b.loop("up", height - 1) as up:  # from the last level but one
            first = b.let("first", te.shift_left(none + 1, height - 2 - up))
            with b.loop("i", first, first - 1) as i:
                candidate = b.let("score", heap[0][i]), b.let("box", heap[1][i])
                _sink(b, heap, i, size, up + 1, candidate)
        kept = b.cell("kept", n.dtype, 0)
        with b.loop("rank", size) as rank, b.when(te.cast(INT64, kept.value) < wanted):
            i = b.let("box", kept_within(heap[1][0], n))
            last = b.let("last", size - 1 - rank)
            # the last leaf sinks from the root into the hole that the best one leaves
            candidate = b.let("score", heap[0][last]), b.let("other", heap[1][last])
            _sink(b, heap, none, last, te.min(height, last), candidate)
            own = [
                b.let(f"c{d}", e)
                for d, e in enumerate(_corners([boxes[image, i, d] for d in range(4)], center))
            ]
            own.append(b.let("area", (own[2] - own[0]) * (own[3] - own[1])))
            with b.when(_apart(b, corners, kept.value, own, limit)):
                place = b.let("place", kept.value)
                with (
                    # the lanes behind the last box have no area, so that they meet nothing
                    b.when(make.eq(place % LANES, 0)),
                    b.loop("d", 5) as row,
                    b.loop("k", LANES, place, vector=True) as k,
                ):
                    corners[row, k] = zero
                for d, e in enumerate(own):
                    corners[d, place] = e
                kept.set(place + 1)
                for column, e in enumerate((image, cls, i)):
                    chosen[total.value, column] = e
                total.set(total.value + 1)
    count[()] = total.value
    with b.loop("k", te.cast(INT64, chosen.shape[0]) - total.value, total.value) as k, b.loop("d", 3) as axis:
        chosen[k, axis] = 0


def _apart(b: LoopBuilder, corners: Memory, kept: Expr, own: Sequence[Expr], limit: Expr) -> Expr:
    """Whether a box, its corners and its area, overlaps none of those kept too much."""
    zero = make.const(0, corners.dtype)
    meets = b.cell("meets", INT32, 0)
    with (
        b.loop("block", make.ceildiv(kept, LANES)) as block,
        # a block that is met ends the search: the blocks behind it are not computed
        b.when(make.eq(meets.value, 0)),
        b.loop("k", LANES, block * LANES, vector=True) as k,
    ):
        height = te.min(own[2], corners[2, k]) - te.max(own[0], corners[0, k])
        width = te.min(own[3], corners[3, k]) - te.max(own[1], corners[1, k])
        shared = b.let("shared", te.max(height, zero) * te.max(width, zero))
        over = te.all(shared > zero, shared / (own[4] + corners[4, k] - shared) > limit)
        meets.set(te.max(meets.value, te.cast(INT32, over)))
    return make.eq(meets.value, 0)
