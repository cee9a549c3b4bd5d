"""Keys in order by a network of comparisons: which keys are compared depends on their places alone, so that
vectors of them are compared at once, without a branch. Knows the words of ``te.LoopBuilder``; no elements and
no rows.

Batcher's bitonic network (AFIPS 32, 1968), in which the first comparisons of a merge are those of mirrored
places: larger keys always go to the front, and what would lie behind the last key, smaller than all, never
moves, so the number of keys need not be a power of two. Eight keys are a line, eight lines a tile. Keys of
different lines are compared a line at a time; those of one line after the tile is transposed. Where there are
many rows a line has one key of each, and none of one line are compared (:func:`sort_lines`); so what will be
the tiles of a long row begins in the lanes of lines. What fits into
registers, the columns of a tile or many short rows, each in a lane, goes through a network of fewer
comparisons (:func:`exchanges`).

A network forgets in which order equal keys came. Where that matters a key has a place beside it, and of equal
keys the one of the smaller place stands in front.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import te
from ..core.dtype import DType
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te.loops import LoopBuilder, Memory

WIDTH = (
    8  # keys of a line, and lines of a tile. Measured (Zen 4): lines of 4 keys of 64 bits take twice the time
)
# keys of a line, of 32 bits without places, where there are ``LONG`` or more, and of 16. Measured (Zen 5), of
# the time of lines of 8: 10,000 take 0.63, a million 0.65; with AVX2 1.07 both, and 1000 of them 1.4
WIDE = 16
LONG = WIDE**3
# the same of vectors of 512 bits, of which a line is a whole one, up to this share of keys that are there for
# whole tiles alone. Measured (Zen 5), of the time of lines of 8: 200 take 0.8, 501 0.6, 1000 0.73, 2000 0.68,
# 4000 0.6; 300, for which a third is missing, 1.04
MOST_ADDED = 1 / 3
# the same share for whole blocks of tiles. Measured (Zen 5), of the time of blocks: 4097 of int32 0.77,
# 5000 0.84, 6000, of which a quarter is missing, 0.95, 7000 0.98, 5000 of int16 0.80
MOST_OF_BLOCKS = 0.2
# bytes of keys that are put in order before they are merged with others. Measured (Zen 5): 100,000 of int64
# take 0.9 of the time, a million 0.87
NEAR = 32 << 10
LINE = 64  # bytes of a line of a cache, and of a vector of 512 bits
_AT_ONCE = 8  # lines that are compared in registers
Key = tuple[Expr, ...]  # a key, and its place if it has one


def packed_lanes(b: LoopBuilder, widest: DType) -> int | None:
    """How many elements of that type, or smaller ones, are packed at once; None where none are."""
    return min(LINE // widest.bytes, 16) if b.packs else None


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


def sort_lanes(b: LoopBuilder, keys: list[Key]) -> None:
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


def width_for(n: int | None, vector_bits: int) -> int:
    """Keys of a line, where there are ``n`` of 32 bits without places."""
    if n is None or vector_bits < 512:
        return WIDE if in_blocks(n, WIDE) else WIDTH
    missing = -n % WIDE**2
    return WIDE if n >= LONG or missing < MOST_ADDED * (n + missing) else WIDTH


def in_blocks(n: int | None, width: int) -> bool:
    """Whether tiles are put in order so many at once as a line has keys."""
    return n is not None and n >= width**3 and -n % width**3 < MOST_OF_BLOCKS * (n + -n % width**3)


def room_for(n: Expr, width: int = WIDTH) -> Expr:
    """Keys of whole tiles, or of blocks where all are."""
    unit = width**3 if in_blocks(const_int(n), width) else width**2
    return make.ceildiv(n, unit) * unit


def sort_keys(
    b: LoopBuilder, keys: Sequence[Memory], n: Expr, width: int = WIDTH, near: bool = False
) -> None:
    """Put the first ``n`` keys of side 0 in order, the larger ones first: one memory of keys, or a second one
    of their places. What is between ``n`` and the end of the room counts as keys too: the least ones there
    are. Lines are of ``width`` keys. ``near``: all are in the first cache, where to compare lines one stride
    after the other is less code, and of 32 bits takes as long."""
    known = const_int(n)
    here, turned = ([b.memory(name, (width**2,), m.dtype) for m in keys] for name in ("near", "turned"))
    tiles = b.let("tiles", make.ceildiv(n, width**2))
    lines = b.let("lines", tiles * width)
    if in_blocks(known, width):  # all of the room
        with b.loop("block", make.ceildiv(n, width**3)) as block:
            _sort_block(b, keys, b.let("first", block * width**3), width)
    else:
        with b.loop("tile", tiles) as tile:
            _sort_tile(b, keys, here, turned, b.let("first", tile * width**2), width)
    near_by = 1 << (NEAR // sum(m.dtype.bytes for m in keys) // width).bit_length() - 1  # lines
    zero = make.const(0, n.dtype)

    def levels(begin: Expr, end: Expr, most: Expr, whole: Expr | None) -> None:
        """The tiles of some lines: in order, or where ``whole`` holds those of bitonic runs of ``near_by``
        lines."""
        steps = _levels(most, width)
        count = steps if whole is None else te.select(whole, make.const(1, n.dtype), steps)
        with b.loop("level", count) as level:
            run = b.let("run", te.shift_left(make.const(width, n.dtype), te.cast(n.dtype, level)))
            if whole is not None:
                run = b.let("run", te.select(whole, make.const(near_by, n.dtype), run))
            grows = te.all(run > 0, run < end - begin)
            with b.when(grows if whole is None else te.any(whole, grows)):
                with b.when(make.const(True) if whole is None else make.not_(whole)):
                    _mirrored(b, keys, begin, end, run, width, turned=True)
                _halved(b, keys, begin, end, run, steps, width, width, near)
                with b.loop("tile", (end - begin) // width, begin // width) as tile:
                    first = b.let("first", tile * width**2)
                    with b.loop("k", width, vector=True) as k:
                        taken = [_at(b, keys, first + width * j + k) for j in range(width)]
                        _put(here, k, _strides(b, taken, width // 2), width)
                    _within_lines(b, here, turned, width)
                    _put_back(b, keys, here, first, width)

    most = lines if known is None else make.ceildiv(n, width**2) * width
    # of an open number the code would be twice as much: 0.25 s more to compile
    if known is None or known <= near_by * width:
        levels(zero, lines, most, None)
        return
    # what fits the first cache is put in order there, then merged
    outer = _levels(make.ceildiv(most, near_by // width), width)
    with b.loop("round", outer + 1) as turn:
        whole = b.let("whole", turn > 0)
        doubled = te.cast(n.dtype, te.max(turn - 1, 0))
        run = b.let("wide", te.shift_left(make.const(near_by, n.dtype), doubled))
        with b.when(te.any(make.not_(whole), te.all(run > 0, run < lines))):
            with b.when(whole):
                _mirrored(b, keys, zero, lines, run, width, turned=True)
                _halved(b, keys, zero, lines, run, turn, width, near_by)
            with b.loop("part", make.ceildiv(lines, near_by)) as part:
                begin = b.let("begin", part * near_by)
                end = b.let("end", te.min(lines, begin + near_by))
                levels(begin, end, make.const(near_by, n.dtype), whole)


def _sort_block(b: LoopBuilder, keys: Sequence[Memory], first: Expr, width: int) -> None:
    """So many tiles as a line has keys, each of them in order: what will be tiles is in the lanes of lines at
    first, where no keys of a line are compared among themselves."""
    apart = [b.memory("apart", (1, width**3), m.dtype) for m in keys]
    with b.loop("part", width) as part, b.loop("k", width, vector=True) as k:
        for m, to in zip(keys, apart, strict=True):
            for j in range(width):
                to[0, (part * width + j) * width + k] = m[0, first + k * width**2 + part * width + j]
    sort_lines(b, apart, make.const(width**2, first.dtype), width)
    with b.loop("part", width) as part, b.loop("k", width, vector=True) as k:
        for m, to in zip(apart, keys, strict=True):
            for j in range(width):
                to[0, first + j * width**2 + part * width + k] = m[0, (part * width + k) * width + j]


def _levels(lines: Expr, width: int = WIDTH) -> Expr:
    """Each of which doubles the runs of so many lines, from runs of a tile on."""
    known = const_int(lines)
    if known is not None:
        return make.const((-(-known // width) - 1).bit_length(), lines.dtype)
    # as many as there could be, of which most are passed over, 1 ns each: half of what a tile takes
    levels: Expr = make.const(31 - width.bit_length(), lines.dtype)
    for few in (8, 4, 0):
        levels = te.select(lines <= width << few, make.const(few, lines.dtype), levels)
    return levels


def sort_lines(b: LoopBuilder, keys: Sequence[Memory], lines: Expr, lanes: int) -> None:
    """Put the keys of each lane of so many lines in order, the larger ones first: lines follow one another in
    side 0, and are whole tiles. With a memory of places, as in :func:`sort_keys`."""
    with b.loop("tile", lines // WIDTH) as tile, b.loop("k", lanes, vector=True) as k:
        apart = [(tile * WIDTH + j) * lanes + k for j in range(WIDTH)]
        column = [_at(b, keys, place) for place in apart]
        sort_lanes(b, column)
        for place, key in zip(apart, column, strict=True):
            _set(keys, place, key)
    with b.loop("level", _levels(lines)) as level:
        run = b.let("run", te.shift_left(make.const(WIDTH, lines.dtype), level))
        with b.when(te.all(run > 0, run < lines)):
            _mirrored(b, keys, make.const(0, lines.dtype), lines, run, lanes, turned=False)
            _halved(b, keys, make.const(0, lines.dtype), lines, run, level, lanes, WIDTH)
            with b.loop("tile", lines // WIDTH) as tile, b.loop("k", lanes, vector=True) as k:
                apart = [(tile * WIDTH + j) * lanes + k for j in range(WIDTH)]
                near = _strides(b, [_at(b, keys, place) for place in apart], WIDTH // 2)
                for place, key in zip(apart, near, strict=True):
                    _set(keys, place, key)


def _at(b: LoopBuilder, keys: Sequence[Memory], place: Expr) -> Key:
    """The key at a place of side 0."""
    return tuple(b.let("key", m[0, place]) for m in keys)


def _put(tile: Sequence[Memory], k: Expr, keys: Sequence[Key], width: int) -> None:
    """Lane ``k`` of the lines of a tile."""
    for j, key in enumerate(keys):
        for m, e in zip(tile, key, strict=True):
            m[j * width + k] = e


def _put_back(
    b: LoopBuilder, keys: Sequence[Memory], tile: Sequence[Memory], first: Expr, width: int
) -> None:
    with b.loop("k", width, vector=True) as k:
        for to, m in zip(keys, tile, strict=True):
            for j in range(width):
                to[0, first + j * width + k] = m[k * width + j]


def _ordered(b: LoopBuilder, one: Key, other: Key) -> tuple[Key, Key]:
    """Two keys, the larger one first, of equal ones that of the smaller place."""
    if len(one) == 1:
        return (b.let("larger", te.max(one[0], other[0])),), (b.let("smaller", te.min(one[0], other[0])),)
    later = te.any(other[0] > one[0], te.all(make.eq(other[0], one[0]), other[1] < one[1]))
    turned = b.let("turned", later)
    pairs = list(zip(one, other, strict=True))
    return (
        tuple(b.let("larger", te.select(turned, e, f)) for f, e in pairs),
        tuple(b.let("smaller", te.select(turned, f, e)) for f, e in pairs),
    )


def _compared(b: LoopBuilder, v: list[Key], i: int, j: int) -> None:
    """The larger one of two to the front."""
    v[i], v[j] = _ordered(b, v[i], v[j])


def _strides(b: LoopBuilder, v: list[Key], stride: int) -> list[Key]:
    """Bitonic runs of twice the stride in order."""
    while stride:
        for i in range(len(v)):
            if not i & stride:
                _compared(b, v, i, i + stride)
        stride //= 2
    return v


def _within_lines(b: LoopBuilder, near: Sequence[Memory], turned: Sequence[Memory], width: int) -> None:
    """Each line of a tile, bitonic, in order; the tile is left transposed."""
    _transpose(b, near, turned, width)
    with b.loop("k", width, vector=True) as k:
        _put(near, k, _strides(b, _lines(b, turned, k, width), width // 2), width)


def _lines(b: LoopBuilder, tile: Sequence[Memory], k: Expr, width: int) -> list[Key]:
    """Lane ``k`` of the lines of a tile."""
    return [tuple(b.let("key", m[j * width + k]) for m in tile) for j in range(width)]


def _transpose(b: LoopBuilder, near: Sequence[Memory], turned: Sequence[Memory], width: int) -> None:
    with b.loop("k", width, vector=True) as k:
        for m, to in zip(near, turned, strict=True):
            for j in range(width):
                to[j * width + k] = m[k * width + j]


def _sort_tile(
    b: LoopBuilder,
    keys: Sequence[Memory],
    near: Sequence[Memory],
    turned: Sequence[Memory],
    first: Expr,
    width: int,
) -> None:
    """The keys of a tile: its columns, then, as its lines, two and two of them, and so on."""
    with b.loop("k", width, vector=True) as k:
        column = [_at(b, keys, first + width * j + k) for j in range(width)]
        sort_lanes(b, column)
        _put(near, k, column, width)
    steps = width.bit_length() - 1
    # what all steps share is one code: written out, that of 16 lines takes 0.1 s more to compile
    with b.loop("step", steps) as step:
        _transpose(b, near, turned, width)
        for doubled in range(steps):
            with b.when(make.eq(step, doubled)), b.loop("k", width, vector=True) as k:
                line = _merged(b, turned, k, width, 1 << doubled)
                _put(near, k, _strides(b, line, (1 << doubled) // 2), width)
        _within_lines(b, near, turned, width)
    _put_back(b, keys, near, first, width)


def _merged(b: LoopBuilder, turned: Sequence[Memory], k: Expr, width: int, run: int) -> list[Key]:
    """Lane ``k`` of a tile after pairs of runs of so many lines are compared with the mirrored keys of one
    another."""
    line, back = _lines(b, turned, k, width), _lines(b, turned, width - 1 - k, width)
    for low in range(0, width, 2 * run):
        for i in range(run):
            one, other = low + i, low + 2 * run - 1 - i
            larger, _ = _ordered(b, line[one], back[other])
            _, smaller = _ordered(b, back[one], line[other])
            line[one], line[other] = larger, smaller
    return line


def _mirrored(
    b: LoopBuilder, keys: Sequence[Memory], begin: Expr, lines: Expr, run: Expr, width: int, turned: bool
) -> None:
    """Pairs of runs of so many lines, from line ``begin`` to ``lines``: the larger keys to the first, both
    bitonic then. The keys of a line are ``turned`` too where it is a piece of a run."""
    with b.loop("pair", make.ceildiv(lines - begin, run * 2)) as pair:
        low, end = b.let("low", begin + pair * run * 2), b.let("end", begin + (pair + 1) * run * 2)
        skipped = b.let("skipped", te.max(end - lines, 0))
        with b.loop("i", run - skipped, skipped) as i:
            one, other = b.let("one", (low + i) * width), b.let("other", (end - 1 - i) * width)
            with b.loop("k", width, vector=True) as k:
                front, back = _at(b, keys, one + k), _at(b, keys, other + k)
                larger, smaller = _ordered(b, front, back)
                if turned:
                    larger, _ = _ordered(b, front, _at(b, keys, other + (width - 1) - k))
                    _, smaller = _ordered(b, _at(b, keys, one + (width - 1) - k), back)
                _set(keys, one + k, larger)
                _set(keys, other + k, smaller)


def _set(keys: Sequence[Memory], place: Expr, key: Key) -> None:
    for m, e in zip(keys, key, strict=True):
        m[0, place] = e


def _halved(
    b: LoopBuilder,
    keys: Sequence[Memory],
    low: Expr,
    lines: Expr,
    run: Expr,
    level: Expr,
    width: int,
    tile: int,
    one_by_one: bool = False,
) -> None:
    """Bitonic runs of so many lines, from line ``low`` to ``lines``, until those of ``tile`` lines are
    bitonic, in no more than ``level`` steps: three strides at once in registers, or ``one_by_one``."""
    stride = b.cell("stride", run.dtype, run // 2)
    with b.loop("step", level), b.when(stride.value >= tile):
        here = b.let("here", stride.value)
        if one_by_one:
            _one_stride(b, keys, lines, b.let("begin", low), here, width)
            stride.set(here // 2)
            return
        begin, strides = b.cell("begin", run.dtype, low), b.cell("strides", run.dtype, 1)
        with b.when(here >= _AT_ONCE // 2 * tile):
            least = b.let("least", here // (_AT_ONCE // 2))
            whole = b.let("whole", (lines - low) // (least * _AT_ONCE))
            with b.loop("block", whole) as block, b.loop("i", least) as i:
                first = b.let("first", (low + block * least * _AT_ONCE + i) * width)
                with b.loop("k", width, vector=True) as k:
                    apart = [first + least * width * j + k for j in range(_AT_ONCE)]
                    taken = _strides(b, [_at(b, keys, place) for place in apart], _AT_ONCE // 2)
                    for place, key in zip(apart, taken, strict=True):
                        _set(keys, place, key)
            begin.set(low + whole * least * _AT_ONCE)
            strides.set(_AT_ONCE.bit_length() - 1)
        # one stride of all lines, or all three of those behind the last whole block
        with b.loop("part", strides.value) as part:
            _one_stride(b, keys, lines, b.let("begin", begin.value), te.shift_right(here, part), width)
        stride.set(te.shift_right(here, strides.value))


def _one_stride(
    b: LoopBuilder, keys: Sequence[Memory], lines: Expr, begin: Expr, stride: Expr, width: int
) -> None:
    """Lines from ``begin`` on with those a stride behind."""
    stride = b.let("apart", stride)
    with b.loop("pair", make.ceildiv(lines - begin, stride * 2)) as pair:
        low = b.let("low", begin + pair * stride * 2)
        with b.loop("i", te.min(stride, lines - stride - low), low) as i:
            one, other = b.let("one", i * width), b.let("other", (i + stride) * width)
            with b.loop("k", width, vector=True) as k:
                larger, smaller = _ordered(b, _at(b, keys, one + k), _at(b, keys, other + k))
                _set(keys, one + k, larger)
                _set(keys, other + k, smaller)
