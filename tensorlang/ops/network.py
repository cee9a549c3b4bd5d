"""Keys in order by a network of comparisons: which keys are compared depends on their places alone, so that
vectors of them are compared at once, without a branch. Knows the words of ``te.LoopBuilder``; no elements and
no rows.

Batcher's bitonic network (AFIPS 32, 1968), in which the first comparisons of a merge are those of mirrored
places: larger keys always go to the front, and what would lie behind the last key, smaller than all, never
moves, so the number of keys need not be a power of two. Keys lie in lines of as many as a vector of 32 bytes
holds, as many lines are a tile. Keys of different lines are compared a line at a time; those of one line
after the tile is transposed. What fits into registers, the columns of a tile or many short rows, each in a
lane, goes through a network of fewer comparisons (:func:`exchanges`).
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import te
from ..core.dtype import DType
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te.loops import LoopBuilder, Memory

_AT_ONCE = 8  # lines that are compared in registers


def exchanges(n: int) -> list[tuple[int, int]]:
    """The places that are compared, one pair after the other, to put ``n`` keys in order: merge exchange
    (Knuth, "The Art of Computer Programming" 3, 5.2.2, algorithm M, after Batcher), up to 8 keys the fewest
    comparisons there are (5.3.4)."""
    found = []
    p = top = 1 << (n - 1).bit_length() >> 1
    while p:
        q, r, d = top, 0, p
        while True:
            found += [(i, i + d) for i in range(n - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q // 2, p
        p //= 2
    return found


def sort_lanes(b: LoopBuilder, keys: list[Expr]) -> None:
    """Put the keys of each lane in order, the larger ones first."""
    for i, j in exchanges(len(keys)):
        _compared(b, keys, i, j)


def keep_first(
    b: LoopBuilder, kept: list[Expr], places: list[Expr], most: int, key: Expr, place: Expr
) -> tuple[list[Expr], list[Expr]]:
    """The keys and places that are ``kept`` in each lane, in order, with one more among them, at most so
    many; of equal keys the earlier one stays in front."""
    before = [b.let("before", key > one) for one in kept]  # of those behind a key it is before all
    keys, at = [], []
    for j in range(min(len(kept) + 1, most)):
        pushed = (key, place)
        if j:
            pushed = (te.min(key, kept[j - 1]), te.select(before[j - 1], places[j - 1], place))
        last = j == len(kept)
        keys.append(b.let("kept", pushed[0] if last else te.max(kept[j], pushed[0])))
        at.append(b.let("at", pushed[1] if last else te.select(before[j], pushed[1], places[j])))
    return keys, at


def lines_of(kind: DType) -> int:
    """The keys of a line, and the lines of a tile."""
    return 32 // kind.bytes


def room_for(n: Expr, kind: DType) -> Expr:
    """Keys of whole tiles."""
    each = lines_of(kind) ** 2
    return make.ceildiv(n, each) * each


def sort_keys(b: LoopBuilder, keys: Memory, n: Expr) -> None:
    """Put the first ``n`` keys of side 0 in order, the larger ones first. What is between ``n`` and the end
    of a tile counts as keys too: the least ones there are."""
    width, known = lines_of(keys.dtype), const_int(n)
    near = b.memory("near", (width * width,), keys.dtype)
    turned = b.memory("turned", (width * width,), keys.dtype)
    lines = b.let("lines", make.ceildiv(n, width * width) * width)
    with b.loop("tile", lines // width) as tile:
        _sort_tile(b, keys, near, turned, b.let("first", tile * width * width), width)
    # each level doubles the runs; of an open number as many as there could be, of which most are passed over
    levels = 31 - width.bit_length() if known is None else (-(-known // width**2) - 1).bit_length()
    with b.loop("level", levels) as level:
        run = b.let("run", te.shift_left(make.const(width, n.dtype), te.cast(n.dtype, level)))
        with b.when(te.all(run > 0, run < lines)):
            _mirrored(b, keys, lines, run, width)
            _halved(b, keys, lines, run, level, width)
            with b.loop("tile", lines // width) as tile:
                first = b.let("first", tile * width * width)
                with b.loop("k", width, vector=True) as k:
                    _put(near, k, _strides(b, _taken(b, keys, first, k, width), width // 2), width)
                _within_lines(b, near, turned, width)
                with b.loop("k", width, vector=True) as k:
                    for j in range(width):
                        keys[0, first + j * width + k] = near[k * width + j]


def _taken(
    b: LoopBuilder, keys: Memory, first: Expr, k: Expr, lines: int, apart: Expr | None = None
) -> list[Expr]:
    """Lane ``k`` of lines from place ``first`` on, neighbours or so many places ``apart``."""
    width = lines_of(keys.dtype)
    step = make.as_expr(width) if apart is None else apart
    return [b.let("key", keys[0, first + step * j + k]) for j in range(lines)]


def _put(near: Memory, k: Expr, values: Sequence[Expr], width: int) -> None:
    for j, v in enumerate(values):
        near[j * width + k] = v


def _compared(b: LoopBuilder, v: list[Expr], i: int, j: int) -> None:
    """The larger one of two to the front."""
    v[i], v[j] = b.let("larger", te.max(v[i], v[j])), b.let("smaller", te.min(v[i], v[j]))


def _strides(b: LoopBuilder, v: list[Expr], stride: int) -> list[Expr]:
    """Bitonic runs of twice the stride in order."""
    while stride:
        for i in range(len(v)):
            if not i & stride:
                _compared(b, v, i, i + stride)
        stride //= 2
    return v


def _within_lines(b: LoopBuilder, near: Memory, turned: Memory, width: int) -> None:
    """Each line of a tile, bitonic, in order; the tile is left transposed."""
    _transpose(b, near, turned, width)
    with b.loop("k", width, vector=True) as k:
        lines = [b.let("key", turned[j * width + k]) for j in range(width)]
        _put(near, k, _strides(b, lines, width // 2), width)


def _transpose(b: LoopBuilder, near: Memory, turned: Memory, width: int) -> None:
    with b.loop("k", width, vector=True) as k:
        for j in range(width):
            turned[j * width + k] = near[k * width + j]


def _sort_tile(b: LoopBuilder, keys: Memory, near: Memory, turned: Memory, first: Expr, width: int) -> None:
    """The keys of a tile: its columns, then, as its lines, two and two of them, and so on."""
    with b.loop("k", width, vector=True) as k:
        column = _taken(b, keys, first, k, width)
        sort_lanes(b, column)
        _put(near, k, column, width)
    run = 1
    while run < width:
        _transpose(b, near, turned, width)
        with b.loop("k", width, vector=True) as k:
            line = [b.let("key", turned[j * width + k]) for j in range(width)]
            back = [b.let("back", turned[j * width + width - 1 - k]) for j in range(width)]
            for low in range(0, width, 2 * run):
                for i in range(run):
                    one, other = low + i, low + 2 * run - 1 - i
                    line[one], line[other] = (
                        b.let("larger", te.max(line[one], back[other])),
                        b.let("smaller", te.min(line[other], back[one])),
                    )
            _put(near, k, _strides(b, line, run // 2), width)
        _within_lines(b, near, turned, width)
        run *= 2
    with b.loop("k", width, vector=True) as k:
        for j in range(width):
            keys[0, first + j * width + k] = near[k * width + j]


def _mirrored(b: LoopBuilder, keys: Memory, lines: Expr, run: Expr, width: int) -> None:
    """Pairs of runs of so many lines: the larger keys to the first, both bitonic then."""
    with b.loop("pair", make.ceildiv(lines, run * 2)) as pair:
        low, end = b.let("low", pair * run * 2), b.let("end", (pair + 1) * run * 2)
        skipped = b.let("skipped", te.max(end - lines, 0))
        with b.loop("i", run - skipped, skipped) as i:
            one, other = b.let("one", (low + i) * width), b.let("other", (end - 1 - i) * width)
            with b.loop("k", width, vector=True) as k:
                front, back = b.let("front", keys[0, one + k]), b.let("back", keys[0, other + k])
                front_back = b.let("front", keys[0, one + (width - 1) - k])
                back_back = b.let("back", keys[0, other + (width - 1) - k])
                keys[0, one + k] = te.max(front, back_back)
                keys[0, other + k] = te.min(back, front_back)


def _halved(b: LoopBuilder, keys: Memory, lines: Expr, run: Expr, level: Expr, width: int) -> None:
    """Bitonic runs of so many lines until those of a tile are bitonic, in no more than ``level`` steps."""
    stride = b.cell("stride", run.dtype, run // 2)
    with b.loop("step", level), b.when(stride.value >= width):
        here = b.let("here", stride.value)
        begin, strides = b.cell("begin", run.dtype, 0), b.cell("strides", run.dtype, 1)
        with b.when(here >= _AT_ONCE // 2 * width):
            least = b.let("least", here // (_AT_ONCE // 2))
            whole = b.let("whole", lines // (least * _AT_ONCE))
            with b.loop("block", whole) as block, b.loop("i", least) as i:
                first = b.let("first", (block * least * _AT_ONCE + i) * width)
                with b.loop("k", width, vector=True) as k:
                    taken = _strides(b, _taken(b, keys, first, k, _AT_ONCE, least * width), _AT_ONCE // 2)
                    for j, v in enumerate(taken):
                        keys[0, first + least * width * j + k] = v
            begin.set(whole * least * _AT_ONCE)
            strides.set(_AT_ONCE.bit_length() - 1)
        # one stride of all lines, or all three of those behind the last whole block
        with b.loop("part", strides.value) as part:
            _one_stride(b, keys, lines, b.let("begin", begin.value), te.shift_right(here, part), width)
        stride.set(te.shift_right(here, strides.value))


def _one_stride(b: LoopBuilder, keys: Memory, lines: Expr, begin: Expr, stride: Expr, width: int) -> None:
    """Lines from ``begin`` on with those a stride behind."""
    stride = b.let("apart", stride)
    with b.loop("pair", make.ceildiv(lines - begin, stride * 2)) as pair:
        low = b.let("low", begin + pair * stride * 2)
        with b.loop("i", te.min(stride, lines - stride - low), low) as i:
            one, other = b.let("one", i * width), b.let("other", (i + stride) * width)
            with b.loop("k", width, vector=True) as k:
                front, back = b.let("front", keys[0, one + k]), b.let("back", keys[0, other + k])
                keys[0, one + k] = te.max(front, back)
                keys[0, other + k] = te.min(front, back)
