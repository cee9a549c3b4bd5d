"""The loop that runs an engine's kernels, and what finds for a call its table and an arena. Native functions;
knows no graphs.

``serve`` has the form of a kernel's entry and one argument more, the state of the run that it serves. It is
called with the interpreter's lock held, which is all that guards plans and arenas; a plan that does much work
gives the lock up while its kernels run. For a set of sizes without a plan Python is called, which makes one.
"""

from __future__ import annotations

from collections.abc import Callable

from .types import Array, CFunctions, Struct, at, i1, i8, i32, i64, ptr
from .words import address, cast, inline, local, lshr

MAX_BUFFERS = 2048  # of one kernel
HEAD = 5  # words of a step before its buffers
# what the first word of a step is, if not a kernel's entry
END, COPY, JUMP, MISS, SIZES, LINES, OPS = range(7)
NUMBER, SAME, LEARN, ADD, SUB, MUL, DIV, MIN, MAX = range(9)  # how a size is computed
INSTRUCTION = 4  # words of one
LINES_WORDS = 10
CASE = 2  # words of a case of a jump
CONSTANT, ARENA, GIVEN = range(3)  # where a buffer lies: at an address, in the arena, in what the call gives
REPEAT_HEAD = 7  # words of a loop before its pairs
# a power of two, for the mask; arenas for as many calls at once, of which each frees its own when there are
# more
HEADS, ARENAS = 64, 8
HEADER = 64  # bytes before an arena, the first word is its size
UNPLANNED = -1
NO_MEMORY = 1
Kernel = Callable[[ptr, ptr], i32]

c = CFunctions(
    "ptr tensorlang_alloc(i64)",
    "void tensorlang_free(ptr)",
    "ptr PyEval_SaveThread()",
    "void PyEval_RestoreThread(ptr)",
    "ptr memcpy(ptr, ptr, i64)",
)
PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread")
MEMORY = ("tensorlang_alloc", "tensorlang_free")


class Plan(Struct):
    """A run for one set of sizes, ``key``: its table, the bytes of its arena, whether it gives the lock up,
    how many calls are inside, whether it was used since somebody looked."""

    next: i64
    table: i64
    arena: i64
    releases: i64
    users: i64
    used: i64
    key: ptr = at(None, i64, 0)


class Arenas(Struct):
    """Arenas that no call uses; 0: none."""

    kept: ptr = at(None, i64, ARENAS)


class State(Struct):
    """A run: its arenas, how many sizes its plans depend on, and the plans by the hash of those."""

    arenas: i64
    dims: i64
    heads: ptr = at(None, i64, HEADS)


@inline
def place(given: Array[i64], arena: i64, base: i64, offset: i64) -> i64:
    """The address of what lies so many bytes behind that."""
    if base >= GIVEN:
        offset += given[base - GIVEN]
    elif base == ARENA:
        offset += arena
    return offset


@inline
def equal(a: Array[i8], b: Array[i8], size: i64) -> i1:
    same = 0
    while same < size:
        if a[same] != b[same]:
            break
        same += 1
    return same == size


@inline
def compute(
    words: Array[i64], begin: i64, count: i64, sizes: Array[i64], given: Array[i64], arena: i64
) -> None:
    """Run so many instructions: what it does, the number of the size it makes, and two operands, which are
    numbers of sizes; of NUMBER a number, of LEARN where one lies."""
    at = begin
    for _ in range(count):
        op, a, b = words[at], words[at + 2], words[at + 3]
        made = a
        if op == LEARN:
            made = cast(i64, place(given, arena, a, b))[0]
        elif op != NUMBER:
            x = sizes[a]
            made = x
            if op != SAME:
                y = sizes[b]
                if op == ADD:
                    made = x + y
                elif op == SUB:
                    made = x - y
                elif op == MUL:
                    made = x * y
                elif op == DIV:
                    made = x // y  # rounds towards 0
                    # rounded down, as sizes are defined; there is one division only, whose remainder the
                    # processor does not give back here
                    if made * y > x:
                        made -= 1
                elif op == MIN:
                    made = min(x, y)
                else:
                    made = max(x, y)
        sizes[words[at + 1]] = made
        at += INSTRUCTION


@inline
def move(words: Array[i64], at: i64, sizes: Array[i64], given: Array[i64], arena: i64) -> None:
    """Bring the beginnings of lines together."""
    stride, size = sizes[words[at + 3]] * words[at + 5], sizes[words[at + 4]] * words[at + 5]
    source = place(given, arena, words[at + 6], words[at + 7])
    to = place(given, arena, words[at + 8], words[at + 9])
    for _ in range(sizes[words[at + 2]]):
        c.memcpy(cast(ptr, to), cast(ptr, source), size)
        source += stride
        to += size


def table(words: Array[i64], given: Array[i64], arena: i64) -> i32:
    """Run the steps; 0, or the number of the kernel that failed and its status: 256 * (number + 1) + status;
    UNPLANNED where a value leads to what the table does not have.

    A step is the entry of a kernel, how many buffers it takes, where its sizes lie, its number, and for
    each buffer where it lies and the bytes behind that. Or it is COPY, how many bytes, from where, to where;
    JUMP, how many bytes a value has, where it lies, the number of cases, and for each the address of what it
    is equal to, and the word where the table goes on; SIZES, where they lie in the arena, and instructions
    with their number; LINES, where sizes lie in the arena, which of them count lines, elements of a line and
    those that are moved, the bytes of an element, from where, to where; MISS; END.
    """
    buffers = local(i64, MAX_BUFFERS)
    at = 0
    while True:
        op = words[at]
        if op >= OPS:
            count = words[at + 1]
            for b in range(count):
                step = at + HEAD + 2 * b
                buffers[b] = place(given, arena, words[step], words[step + 1])
            sizes = place(given, arena, words[at + 2], words[at + 3])
            status = cast(Kernel, op)(cast(ptr, address(buffers[0])), cast(ptr, sizes))
            if status != 0:
                return 256 * (i32(words[at + 4]) + 1) + status
            at += HEAD + 2 * count
        elif op == COPY:
            source = place(given, arena, words[at + 2], words[at + 3])
            to = place(given, arena, words[at + 4], words[at + 5])
            c.memcpy(cast(ptr, to), cast(ptr, source), words[at + 1])
            at += 6
        elif op == SIZES:
            compute(words, at + 3, words[at + 2], cast(i64, arena + words[at + 1]), given, arena)
            at += 3 + INSTRUCTION * words[at + 2]
        elif op == LINES:
            move(words, at, cast(i64, arena + words[at + 1]), given, arena)
            at += LINES_WORDS
        elif op == JUMP:
            value = cast(i8, place(given, arena, words[at + 2], words[at + 3]))
            case, end = at + 5, at + 5 + CASE * words[at + 4]
            while case < end:
                if equal(value, cast(i8, words[case]), words[at + 1]):
                    break
                case += CASE
            if case >= end:
                return UNPLANNED
            at = words[case + 1]
        elif op == END:
            return 0
        else:
            return UNPLANNED


@inline
def found(state: State, sizes: Array[i64]) -> i64:
    """The plan for these sizes, or 0."""
    h = 0
    for i in range(state.dims):
        h = (h ^ sizes[i]) * -0x61C8864680B583EB  # 2^64 / golden ratio
        h ^= lshr(h, 29)
    plan = state.heads[h & (HEADS - 1)]
    while plan != 0:
        p = cast(Plan, plan)
        same = 0
        for i in range(state.dims):
            if p.key[i] != sizes[i]:
                break
            same += 1
        if same == state.dims:
            break
        plan = p.next
    return plan


@inline
def take(arenas: Arenas, size: i64) -> i64:
    """An arena of at least that many bytes, or 0. One that is too small is given back."""
    for i in range(ARENAS):
        arena = arenas.kept[i]
        if arena != 0:
            arenas.kept[i] = 0
            if cast(i64, arena)[0] >= size:
                return arena
            c.tensorlang_free(cast(ptr, arena))
    made = i64(c.tensorlang_alloc(size + HEADER))
    if made != 0:
        cast(i64, made)[0] = size
    return made


@inline
def keep(arenas: Arenas, arena: i64) -> None:
    for i in range(ARENAS):
        if arenas.kept[i] == 0:
            arenas.kept[i] = arena
            return
    c.tensorlang_free(cast(ptr, arena))


def serve(given: Array[i64], sizes: Array[i64], state: State) -> i32:
    """Run the plan for these sizes on these arrays."""
    place = found(state, sizes)
    if place == 0:
        return UNPLANNED
    plan, arenas = cast(Plan, place), cast(Arenas, state.arenas)
    arena = take(arenas, plan.arena)
    if arena == 0:
        return NO_MEMORY
    plan.used = 1
    # with the lock held: while it is given up the plan must not be dropped, and Python asks this number
    plan.users += 1
    if plan.releases != 0:
        thread = c.PyEval_SaveThread()
        status = table(cast(i64, plan.table), given, arena + HEADER)
        c.PyEval_RestoreThread(thread)
    else:
        status = table(cast(i64, plan.table), given, arena + HEADER)
    plan.users -= 1
    keep(arenas, arena)
    return status


def repeat(given: Array[i64], sizes: Array[i64], state: State, words: Array[i64]) -> i32:
    """Run the plan for these sizes again and again. The words: how often it was done, and may be at most; the
    address of a number that counts, of the byte that says to go on, and of the one that the plan writes for
    that (0: there is none); how many pairs of arrays take turns, and how many arrays are moved; of each pair
    the places among the arrays, and a buffer that joins in after the first time; of each that is moved its
    place, and by how many bytes."""
    done, status, go = 0, i32(0), 1
    while done < words[1]:
        if go == 0:
            break
        status = serve(given, sizes, state)
        if status != 0:
            break
        done += 1
        if words[2] != 0:
            cast(i64, words[2])[0] += 1
        at = REPEAT_HEAD
        for _ in range(words[5]):
            a, b, spare = words[at], words[at + 1], words[at + 2]
            before = given[a]
            given[a] = given[b]
            given[b] = before if spare == 0 else spare
            words[at + 2] = 0
            at += 3
        for _ in range(words[6]):
            given[words[at]] += words[at + 1]
            at += 2
        if words[4] != 0:
            go = i64(cast(i8, words[4])[0])
            cast(i8, words[3])[0] = cast(i8, words[4])[0]
    words[0] = done
    return status


def drop(arenas: Arenas) -> None:
    """Give all arenas back."""
    for i in range(ARENAS):
        if arenas.kept[i] != 0:
            c.tensorlang_free(cast(ptr, arenas.kept[i]))
            arenas.kept[i] = 0
