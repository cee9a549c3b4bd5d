"""Memory for kernels' temporaries, which any thread calls, those of the pool as well. Native functions; the
policy says ``runtime.workspace``.

A block is ``header | data``: the header, 64 bytes, holds one word, the address of the block (whole pages) and
in its low bits the class of its size (four classes for each power of two) or zero for a small block of the C
library. The kept blocks are such words in an array. A thread claims one by exchanging it for zero and gives
it back by exchanging a zero for it: no locks, so a fork, a signal or the end of a thread finds nothing half
done. The search begins at a place of the thread's own, so that it meets the blocks that are warm in its
caches. Blocks of 2 MiB and more ask for huge pages.
"""

from __future__ import annotations

from .clock import now
from .types import CFunctions, Global, Struct, at, i1, i64, ptr
from .words import (
    acq_rel,
    address,
    cast,
    compare_exchange,
    ctlz,
    fetch_add,
    fetch_sub,
    inline,
    load,
    local,
    lshr,
    null,
    relaxed,
)

SMALL = 64 << 10  # bytes, with the header: up to here a block comes from the C library, which keeps it
HUGE = 2 << 20
SLOTS = 128  # kept blocks
REACH = 4  # how many classes above its own a request may take a kept block of at first: twice as large
HEADER, MOST = 64, 1 << 62
YOUNG, CLASS = 1 << 11, 255  # bits of a word
PAGE = 4096
READ_WRITE, PRIVATE_ANONYMOUS, HUGE_PAGES = 3, 34, 14  # Linux's numbers

c = CFunctions(
    "i32 posix_memalign(ptr, i64, i64)",
    "void free(ptr)",
    "ptr mmap(ptr, i64, i32, i32, i32, i64)",
    "i32 munmap(ptr, i64)",
    "i32 madvise(ptr, i64, i32)",
    "i64 pthread_self()",
)


class Settings(Struct):
    """What Python sets: bytes kept at most, seconds a kept block may be idle, how many classes above its own
    a request may reach."""

    budget: i64
    idle: i64
    reach: i64


class Kept(Struct):
    """Bytes that are kept, when they were last looked through, and the words."""

    bytes: i64
    looked: i64
    slots: ptr = at(64, i64, SLOTS)


class Header(Struct):
    """What lies before the data of a block."""

    word: i64
    data: ptr = at(HEADER, i64, 0)


settings, kept = Global("settings", Settings), Global("kept", Kept)


def plain(total: i64) -> ptr:
    """A block of the C library: class 0."""
    slot = local(ptr)
    # aligned to the header's size, a cache line: data behind it is aligned as kernels assume
    if c.posix_memalign(slot, HEADER, total) != 0:
        return null
    return with_header(slot[0], 0)


@inline
def with_header(base: ptr, word: i64) -> ptr:
    header = cast(Header, base)
    header.word = word
    return address(header.data)


@inline
def capacity(word: i64) -> i64:
    """Bytes of a class: 5, 6, 7 or 8 quarters of a power of two."""
    k = (word & CLASS) - 1
    return ((k & 3) + 5) << ((k >> 2) + 14)


@inline
def class_of(total: i64) -> i64:
    x = total - 1
    e = 63 - ctlz(x)
    return (e - 16) * 4 + ((x >> (e - 2)) & 3) + 1


@inline
def place() -> i64:
    """Where this thread begins to search."""
    # the addresses of threads' descriptors differ by their stacks' size, so their low bits are alike: the
    # product's high bits are not (Knuth, section 6.4)
    return lshr(c.pthread_self() * -0x61C8864680B583EB, 64 - SLOTS.bit_length() + 1)  # 2^64 / golden ratio


@inline
def unmap(word: i64) -> None:
    c.munmap(cast(ptr, word & -PAGE), capacity(word))


@inline
def take(slot: i64, word: i64) -> i1:
    """Claim the word of a slot, unless another thread was faster."""
    if not compare_exchange(kept.slots[slot], word, 0, acq_rel):
        return False
    # after the claim: for a moment more is counted than is there, never less
    fetch_sub(kept.bytes, capacity(word), relaxed)
    return True


def claim(low: i64, high: i64) -> i64:
    """A kept block of a class from low to high, or 0."""
    start = place()
    for i in range(SLOTS):
        slot = (start + i) & (SLOTS - 1)
        # a word that is read late does no harm: the claim compares it once more
        word = load(kept.slots[slot], relaxed)
        if low <= (word & CLASS) <= high and take(slot, word):
            return word & ~YOUNG
    return 0


@inline
def fresh(class_: i64) -> i64:
    """New pages of a class; 0 when the system has none. Large blocks begin at a multiple of a huge page."""
    size = capacity(class_)
    # mmap aligns to small pages only; what is too much at either end is given back, which costs address space
    # for a moment and no memory, since nothing was touched
    extra = HUGE if size >= HUGE else 0
    start = i64(c.mmap(null, size + extra, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0))
    # MAP_FAILED
    if start == -1:
        return 0
    if extra == 0:
        return start | class_
    body = (start + HUGE - 1) & -HUGE
    if body > start:
        c.munmap(cast(ptr, start), body - start)
    c.munmap(cast(ptr, body + size), start + HUGE - body)
    c.madvise(cast(ptr, body), size, HUGE_PAGES)
    return body | class_


def found(class_: i64, most: i64) -> i64:
    """A kept block of a class or of one at most twice as large, then four times, and so on up to the reach;
    else a new one."""
    word = claim(class_, class_)
    reach = REACH
    while word == 0 and reach <= most:
        word = claim(class_, class_ + reach)
        reach += REACH
    if word == 0:
        word = fresh(class_)
    if word == 0:
        # what is kept for other sizes may be all the memory that there is
        give_all()
        word = fresh(class_)
    return word


@inline
def sized(total: i64) -> ptr:
    most = max(settings.reach, REACH)
    # the C library's heap may grow: under a plan a kept block serves small ones too
    if total <= SMALL and most == REACH:
        return plain(total)
    word = found(1 if total <= SMALL else class_of(total), most)
    if word == 0:
        return null
    return with_header(cast(ptr, word & -PAGE), word)


def shrink(most: i64, old_only: i1) -> i64:
    """Give kept blocks back to the system until no more than ``most`` bytes are kept; or those only that were
    not asked for since the last time, the others growing old. The bytes given back."""
    given = 0
    for i in range(SLOTS):
        if load(kept.bytes, relaxed) <= most:
            break
        word = load(kept.slots[i], relaxed)
        if word != 0:
            # fails where somebody took the block meanwhile: then it is not idle
            if old_only and word & YOUNG != 0:
                compare_exchange(kept.slots[i], word, word & ~YOUNG, acq_rel)
            elif take(i, word):
                unmap(word)
                given += capacity(word)
    return given


def give_all() -> i64:
    """Give all kept blocks back; how many bytes."""
    return shrink(-1 << 63, False)


@inline
def keep(word: i64) -> i1:
    """Put a block into an empty slot, if there is one."""
    start = place()
    for i in range(SLOTS):
        slot = (start + i) & (SLOTS - 1)
        if load(kept.slots[slot], relaxed) == 0 and compare_exchange(
            kept.slots[slot], 0, word | YOUNG, acq_rel
        ):
            return True
    return False


def give_back(word: i64) -> None:
    size, budget = capacity(word), settings.budget
    if size > budget:
        unmap(word)
        return
    # counted before it is there: at no time is more kept than is counted
    if fetch_add(kept.bytes, size, relaxed) + size > budget:
        shrink(budget, False)
    # all slots are taken
    if not keep(word):
        fetch_sub(kept.bytes, size, relaxed)
        unmap(word)
        return
    moment, last = now(), load(kept.looked, relaxed)
    # the exchange lets one thread of several do it
    if moment - last >= settings.idle * 1_000_000_000 and compare_exchange(
        kept.looked, last, moment, relaxed
    ):
        shrink(-1, True)


def alloc(size: i64) -> ptr:
    """Memory for that many bytes, or null."""
    if not 0 <= size <= MOST:
        return null
    return sized(size + HEADER)


def free(p: ptr) -> None:
    if p == null:
        return
    header = cast(Header, p)[-1]
    word = header.word
    if word == 0:
        c.free(header)
    else:
        give_back(word)


# Where nothing is kept.


def plain_alloc(size: i64) -> ptr:
    if not 0 <= size <= MOST:
        return null
    return plain(size + HEADER)


def plain_free(p: ptr) -> None:
    if p != null:
        c.free(cast(Header, p)[-1])


def give_none() -> i64:
    return 0
