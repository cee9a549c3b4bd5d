"""Long rows of keys in order by parting them: those above one of the keys go to the front, the others
behind, and so on until parts are short enough for a network. A vector of keys is parted at once, without a
branch, where lanes are packed. Knows the words of ``te.LoopBuilder`` and the network; what becomes of keys in
order, it is told.

Hoare's quicksort (1962), with vectors as in "Fast Quicksort Implementation Using AVX Instructions" (Gueron
and Krasnov 2016). Those above go to the other side of memory, the others stay on theirs, so that each part
has as much spare room as it is long, and nothing is counted ahead. Parts of one age are parted in turn: large
ones first until each fits the cache, then each of those, shared among threads, on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import te
from ..core.dtype import INT32
from ..expr import make
from ..expr.nodes import Expr
from ..te.loops import Cell, LoopBuilder, Memory
from .network import LINE, WIDE, WIDTH, exchanges, room_for, sort_keys

# bytes of keys that go through the network, and of parts that each thread takes to its own cache
# Measured (Zen 5): half or twice of either change less than 3 %
SHORT, NEAR = 16 << 10, 256 << 10
SAMPLES = 9  # keys of which the middle one parts the others
# of a part: on which side its keys are, where they begin there, where as much spare room begins on the other
# side, where they go in order, and how many they are
FIELDS = ("side", "first", "spare", "to", "many")
# more often than this, and the double of the logarithm, no part is parted: then the keys are adversarial
MOST_ROUNDS = 12

# of a place in order, how many follow, and what gives the key of each
Made = Callable[[Expr, Expr, Callable[[Expr], Expr]], None]


def rounds_of(n: int, part: int) -> int:
    """How often parts of ``n`` keys are parted at most to become no longer than ``part``."""
    return 2 * max(1, -(-n // part)).bit_length() + MOST_ROUNDS


def sort_by_parts(b: LoopBuilder, keys: Memory, n: int, made: Made, failed: Cell, shared: bool) -> None:
    """The ``n`` keys of side 0 of two in order, the larger ones first: ``made`` with a place in order, how
    many follow, and what the key of each is. Where they cannot be parted evenly ``failed`` becomes 1, and
    they have to be put in order otherwise. Threads share the parts if that is ``shared``."""
    kind = keys.dtype
    most, short = NEAR // kind.bytes, SHORT // kind.bytes
    rounds = max(rounds_of(n, most), rounds_of(most, short))
    room = rounds * (n // most + 1) + 2
    found, lost = b.memory("found", (len(FIELDS), room), INT32), b.memory("lost", (room,), INT32)
    parts = b.memory("parts", (2,), INT32)  # how many there are, and whether they are far ones
    parts[0] = 1
    for field, e in enumerate((0, 0, 0, 0, n)):
        found[field, 0] = e
    # what both do is one code: twice it takes 0.08 s more to compile
    phases = 2 if n > most else 1
    with b.loop("phase", phases) as phase:
        far = b.let("far", phase < phases - 1)
        now = b.let("now", parts[0])
        parts[0] = te.select(far, make.const(0, INT32), now)
        parts[1] = te.cast(INT32, far)
        with b.loop("part", now, parallel=shared) as part:
            near = b.memory("near", (1, short), kind)

            def done(part: Sequence[Expr]) -> None:
                side, first, _, to, count = part
                # asked of memory: a condition that holds all along would be asked first, and all that it
                # decides written out for either case. Far ones are parts of one, so no other one counts
                with b.when(parts[1] > 0):
                    for field, e in enumerate(part):
                        found[field, parts[0]] = e
                    parts[0] = parts[0] + 1
                with b.otherwise():
                    width = WIDE if kind.bits == 32 else WIDTH
                    _copied(b, keys, side, first, count, near)
                    end = b.let("end", room_for(count, width))
                    with b.loop("k", end - count, count) as k:
                        near[0, k] = te.min_value(kind)
                    sort_keys(b, [near], count, width, near=kind.bits == 32)
                    made(to, count, lambda k: near[0, k])

            of = [b.let(name, found[field, part]) for field, name in enumerate(FIELDS)]
            queued = 2 * (max(n // most, most // short) + 1) + 2
            limit = b.let("limit", te.select(far, make.const(most, INT32), make.const(short, INT32)))
            lost[part] = _parted(b, keys, of, limit, rounds, queued, made, done)
        with b.loop("part", now) as part:
            failed.set(te.max(failed.value, lost[part]))


def _copied(b: LoopBuilder, keys: Memory, side: Expr, begin: Expr, count: Expr, to: Memory) -> None:
    lanes = LINE // keys.dtype.bytes
    with b.loop("block", count // lanes) as block, b.loop("k", lanes, block * lanes, vector=True) as k:
        to[0, k] = keys[side, begin + k]
    whole = b.let("whole", count // lanes * lanes)
    with b.loop("k", count - whole, whole) as k:
        to[0, k] = keys[side, begin + k]


def _parted(
    b: LoopBuilder,
    keys: Memory,
    whole: Sequence[Expr],
    short: Expr,
    rounds: int,
    room: int,
    made: Made,
    done: Callable[[Sequence[Expr]], None],
) -> Expr:
    """Parts a part until all are ``short``: ``done`` with each of those. There are ``room`` for so many at a
    time; 1 where so many rounds are not enough."""
    queue = b.memory("queue", (2, len(FIELDS), room), INT32)
    waiting = b.cell("waiting", INT32, 1)
    for field, e in enumerate(whole):
        queue[0, field, 0] = e
    with b.loop("round", rounds) as turn:
        here = b.let("here", te.bitwise_and(turn, make.const(1, INT32)))
        now = b.let("now", waiting.value)
        waiting.set(0)

        def push(part: Sequence[Expr]) -> None:
            with b.when(part[-1] > 0):
                for field, e in enumerate(part):
                    queue[1 - here, field, waiting.value] = e
                waiting.set(waiting.value + 1)

        with b.loop("i", now) as i:
            part = [b.let(name, queue[here, field, i]) for field, name in enumerate(FIELDS)]
            with b.when(part[-1] <= short):
                done(part)
            with b.otherwise():
                _part(b, keys, part, made, push)
    return te.cast(INT32, waiting.value > 0)


def _part(
    b: LoopBuilder, keys: Memory, part: Sequence[Expr], made: Made, push: Callable[[Sequence[Expr]], None]
) -> None:
    """A part in two, of which those above one of the keys go to its spare room, and the others stay. Where
    none is above, those equal to it go there, and are done."""
    side, first, spare, to, many = part
    kind, lanes = keys.dtype, LINE // keys.dtype.bytes
    other = b.let("other", 1 - side)
    step = b.let("step", many // SAMPLES)
    sample = [b.let("sample", keys[side, first + step * i + step // 2]) for i in range(SAMPLES)]
    for i, j in exchanges(SAMPLES):
        sample[i], sample[j] = (
            b.let("larger", te.max(sample[i], sample[j])),
            b.let("smaller", te.min(sample[i], sample[j])),
        )
    pivot = sample[SAMPLES // 2]
    alike = b.cell("alike", INT32, 0)
    end, whole = b.let("end", first + many), b.let("whole", many // lanes)
    front, behind = b.cell("front", INT32, spare), b.cell("behind", INT32, first)

    def moved(k: Expr, limit: Expr) -> None:
        # both are written always: what is behind the last that counts was read before, or is spare
        key = b.let("key", keys[side, k])
        keys[other, front.value] = key
        front.set(front.value + te.cast(INT32, key > limit))
        keys[side, behind.value] = key
        behind.set(behind.value + te.cast(INT32, key <= limit))

    with b.loop("again", 2) as again, b.when(make.eq(front.value, spare)):
        alike.set(again)
        # nothing is less than the least of numbers
        less = b.let("less", te.cast(kind, again))
        limit = b.let("limit", te.max(pivot, te.min_value(kind) + less) - less)
        behind.set(first)
        with b.loop("block", whole) as block, b.loop("k", lanes, first + block * lanes, vector=True) as k:
            moved(k, limit)
        rest = b.let("rest", first + whole * lanes)
        with b.loop("k", end - rest, rest) as k:
            moved(k, limit)
    found = b.let("found", front.value - spare)
    left = b.let("left", many - found)
    with b.when(alike.value > 0):
        with b.when(found > 0):
            made(to, found, lambda k: pivot)
            push([side, first, b.let("room", spare + found), b.let("to", to + found), left])
        with b.otherwise():  # all are the least number
            made(to, many, lambda k: pivot)
    with b.otherwise():
        push([other, spare, b.let("room", first + left), to, found])
        push([side, first, b.let("room", spare + found), b.let("to", to + found), left])
