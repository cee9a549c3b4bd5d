"""Memory for kernels' temporaries: aligned blocks, the larger ones kept between calls. Knows no kernels and
no threads of Python.

A fresh block costs a page fault for each page at its first touch: a matrix product that packs all of its
right side takes 1.2 times as long at 512 x 512 and 1.4 times at 256 x 256 when its memory is fresh
(``benchmarks/threads.py``). So what is freed is kept, up to a budget for the whole process
(``TENSORLANG_WORKSPACE_BYTES``), and given back when it was not used for some seconds while others were, or
by ``release_workspace``. The budget is of the process, not of its threads: a thread that ends leaves nothing
behind.

The text below is machine code that any thread calls, those of the pool as well. A block is ``header | data``:
the header, 64 bytes, holds one word, the address of the block (whole pages) and in its low bits the class of
its size (four classes for each power of two) or zero for a small block of the C library. The kept blocks are
such words in an array. A thread claims one by exchanging it for zero and gives it back by exchanging a zero
for it: no locks, so a fork, a signal or the end of a thread finds nothing half done. The search begins at a
place of the thread's own, so that it meets the blocks that are warm in its caches. Blocks of 2 MiB and more
ask for huge pages.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass

from .. import options
from .loader import Code, compile_text

NAMES = ("tensorlang_alloc", "tensorlang_free")
DEFAULT_BUDGET = 128 << 20
SMALL = 64 << 10  # bytes, with the header: up to here a block comes from the C library, which keeps it
HUGE = 2 << 20
SLOTS = 128  # kept blocks
REACH, FAR_REACH = (
    4,
    255,
)  # how many classes above its own a request may take a kept block of: twice as large, any
IDLE_SECONDS = 2  # a kept block that nobody asked for between two looks this far apart is given back


@dataclass(frozen=True)
class Workspace:
    """The loaded allocator: ``address`` of what kernels import; ``release`` gives kept blocks back and
    returns how many bytes; ``reach`` sets how many classes above its own a request may take a kept block
    of."""

    code: Code
    address: dict[str, int]
    release: Callable[[], int]
    reach: Callable[[int], None]


def start() -> Workspace:
    """Compile and load the allocator. Raises TensorLangError for a bad TENSORLANG_WORKSPACE_BYTES."""
    asked = options.workspace_bytes()
    keeps = sys.platform == "linux" and asked != 0
    text = PLAIN + (KEEPING if keeps else NOTHING_KEPT)
    code = compile_text(
        text, [*NAMES, "tensorlang_release", "tensorlang_budget", "tensorlang_idle", "tensorlang_reach"], {}
    ).keep()
    for name, value in (
        ("budget", DEFAULT_BUDGET if asked is None else asked),
        ("idle", IDLE_SECONDS),
        ("reach", REACH),
    ):
        ctypes.c_int64.from_address(code.address[f"tensorlang_{name}"]).value = value
    release = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address["tensorlang_release"])

    def reach(classes: int) -> None:
        ctypes.c_int64.from_address(code.address["tensorlang_reach"]).value = classes

    return Workspace(code, {name: code.address[name] for name in NAMES}, release, reach)


PLAIN = """
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
@tensorlang_budget = global i64 0
@tensorlang_idle = global i64 0
@tensorlang_reach = global i64 0

; A block of the C library: class 0.
define internal ptr @plain(i64 %total) {
entry:
  %slot = alloca ptr, align 8
  %error = call i32 @posix_memalign(ptr %slot, i64 64, i64 %total)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %none, label %some
some:
  %base = load ptr, ptr %slot
  store i64 0, ptr %base
  %p = getelementptr i8, ptr %base, i64 64
  ret ptr %p
none:
  ret ptr null
}

define ptr @tensorlang_alloc(i64 %size) {
entry:
  %low = icmp slt i64 %size, 0
  %high = icmp sgt i64 %size, 4611686018427387904
  %bad = or i1 %low, %high
  br i1 %bad, label %none, label %ask
ask:
  %total = add i64 %size, 64
  %p = call ptr @sized(i64 %total)
  ret ptr %p
none:
  ret ptr null
}

define void @tensorlang_free(ptr %p) {
entry:
  %absent = icmp eq ptr %p, null
  br i1 %absent, label %done, label %some
some:
  %header = getelementptr i8, ptr %p, i64 -64
  %word = load i64, ptr %header
  %small = icmp eq i64 %word, 0
  br i1 %small, label %library, label %keep
library:
  call void @free(ptr %header)
  ret void
keep:
  call void @give_back(i64 %word)
  ret void
done:
  ret void
}
"""

NOTHING_KEPT = """
define internal ptr @sized(i64 %total) {
  %p = call ptr @plain(i64 %total)
  ret ptr %p
}
define internal void @give_back(i64 %word) {
  ret void
}
define i64 @tensorlang_release() {
  ret i64 0
}
"""

# A word: address of the block | YOUNG | class.
_YOUNG = 1 << 11
_CLASS = 255

KEEPING = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare i64 @pthread_self()
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.ctlz.i64(i64, i1)
@kept = internal global i64 0
@looked = internal global i64 0
@slots = internal global [@@SLOTS@@ x i64] zeroinitializer, align 64

; Bytes of a class: 5, 6, 7 or 8 quarters of a power of two.
define internal i64 @capacity(i64 %word) {
  %class = and i64 %word, @@CLASS@@
  %c = sub i64 %class, 1
  %q = and i64 %c, 3
  %quarters = add i64 %q, 5
  %power = lshr i64 %c, 2
  %shift = add i64 %power, 14
  %bytes = shl i64 %quarters, %shift
  ret i64 %bytes
}

define internal i64 @class_of(i64 %total) {
  %x = sub i64 %total, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %x, i1 false)
  %e = sub i64 63, %zeros
  %down = sub i64 %e, 2
  %top = lshr i64 %x, %down
  %q = and i64 %top, 3
  %power = sub i64 %e, 16
  %four = mul i64 %power, 4
  %c = add i64 %four, %q
  %class = add i64 %c, 1
  ret i64 %class
}

; Where this thread begins to search.
define internal i64 @place() {
  %me = call i64 @pthread_self()
  %h = mul i64 %me, -7046029254386353131
  %i = lshr i64 %h, @@PLACE@@
  ret i64 %i
}

define internal ptr @slot(i64 %i) {
  %j = and i64 %i, @@LAST@@
  %p = getelementptr i64, ptr @slots, i64 %j
  ret ptr %p
}

define internal void @unmap(i64 %word) {
  %address = and i64 %word, -4096
  %base = inttoptr i64 %address to ptr
  %bytes = call i64 @capacity(i64 %word)
  %r = call i32 @munmap(ptr %base, i64 %bytes)
  ret void
}

; A kept block of a class from low to high, or 0.
define internal i64 @claim(i64 %low, i64 %high) {
entry:
  %start = call i64 @place()
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %next]
  %at = add i64 %start, %i
  %slot = call ptr @slot(i64 %at)
  %word = load atomic i64, ptr %slot monotonic, align 8
  %class = and i64 %word, @@CLASS@@
  %above = icmp uge i64 %class, %low
  %below = icmp ule i64 %class, %high
  %fits = and i1 %above, %below
  br i1 %fits, label %take, label %next
take:
  %swap = cmpxchg ptr %slot, i64 %word, i64 0 acq_rel monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %found, label %next
found:
  %bytes = call i64 @capacity(i64 %word)
  %old = atomicrmw sub ptr @kept, i64 %bytes monotonic
  %plain = and i64 %word, @@OLD@@
  ret i64 %plain
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, @@SLOTS@@
  br i1 %more, label %loop, label %none
none:
  ret i64 0
}

; New pages of a class; 0 when the system has none. Large blocks begin at a multiple of a huge page.
define internal i64 @fresh(i64 %class) {
entry:
  %bytes = call i64 @capacity(i64 %class)
  %huge = icmp sge i64 %bytes, @@HUGE@@
  %extra = select i1 %huge, i64 @@HUGE@@, i64 0
  %length = add i64 %bytes, %extra
  %p = call ptr @mmap(ptr null, i64 %length, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %p to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %none, label %got
none:
  ret i64 0
got:
  %word = or i64 %address, %class
  br i1 %huge, label %align, label %ready
ready:
  ret i64 %word
align:
  %up = add i64 %address, @@HUGE_LESS_1@@
  %aligned = and i64 %up, @@HUGE_MASK@@
  %head = sub i64 %aligned, %address
  %tail = sub i64 @@HUGE@@, %head
  %body = inttoptr i64 %aligned to ptr
  %has_head = icmp sgt i64 %head, 0
  br i1 %has_head, label %cut_head, label %then
cut_head:
  %r1 = call i32 @munmap(ptr %p, i64 %head)
  br label %then
then:
  %has_tail = icmp sgt i64 %tail, 0
  br i1 %has_tail, label %cut_tail, label %advise
cut_tail:
  %end = getelementptr i8, ptr %body, i64 %bytes
  %r2 = call i32 @munmap(ptr %end, i64 %tail)
  br label %advise
advise:
  %r3 = call i32 @madvise(ptr %body, i64 %bytes, i32 14)
  %large = or i64 %aligned, %class
  ret i64 %large
}

define internal ptr @sized(i64 %total) {
entry:
  %small = icmp sle i64 %total, @@SMALL@@
  %most = load i64, ptr @tensorlang_reach
  br i1 %small, label %little, label %kept_one
little:
  ; the C library's heap may grow: under a plan a kept block serves these too
  %planned = icmp sgt i64 %most, @@REACH@@
  br i1 %planned, label %classed, label %library
library:
  %l = call ptr @plain(i64 %total)
  ret ptr %l
kept_one:
  %own = call i64 @class_of(i64 %total)
  br label %classed
classed:
  %class = phi i64 [1, %little], [%own, %kept_one]
  %exact = call i64 @claim(i64 %class, i64 %class)
  %has_exact = icmp ne i64 %exact, 0
  br i1 %has_exact, label %have, label %wider
wider:
  ; at most twice as large, then four times, and so on up to the reach
  %reach = phi i64 [@@REACH@@, %classed], [%farther, %far]
  %high = add i64 %class, %reach
  %near = call i64 @claim(i64 %class, i64 %high)
  %has_near = icmp ne i64 %near, 0
  br i1 %has_near, label %have, label %far
far:
  %farther = add i64 %reach, @@REACH@@
  %go_on = icmp sle i64 %farther, %most
  br i1 %go_on, label %wider, label %new
new:
  %first = call i64 @fresh(i64 %class)
  %has_first = icmp ne i64 %first, 0
  br i1 %has_first, label %have, label %again
again:
  %given = call i64 @tensorlang_release()
  %second = call i64 @fresh(i64 %class)
  %has_second = icmp ne i64 %second, 0
  br i1 %has_second, label %have, label %none
have:
  %word = phi i64 [%exact, %classed], [%near, %wider], [%first, %new], [%second, %again]
  %address = and i64 %word, -4096
  %base = inttoptr i64 %address to ptr
  store i64 %word, ptr %base
  %p = getelementptr i8, ptr %base, i64 64
  ret ptr %p
none:
  ret ptr null
}

; Give kept blocks back to the system until no more than ``most`` bytes are kept; with ``young``,
; of those that were not asked for since the last time only, the others growing old. The bytes given back.
define internal i64 @shrink(i64 %most, i1 %young) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %next]
  %given = phi i64 [0, %entry], [%given1, %next]
  %have = load atomic i64, ptr @kept monotonic, align 8
  %over = icmp sgt i64 %have, %most
  br i1 %over, label %look, label %out
look:
  %slot = call ptr @slot(i64 %i)
  %word = load atomic i64, ptr %slot monotonic, align 8
  %some = icmp ne i64 %word, 0
  br i1 %some, label %choose, label %next
choose:
  %flag = and i64 %word, @@YOUNG@@
  %new = icmp ne i64 %flag, 0
  %stays = and i1 %young, %new
  br i1 %stays, label %ages, label %goes
ages:
  %older = and i64 %word, @@OLD@@
  %aged = cmpxchg ptr %slot, i64 %word, i64 %older acq_rel monotonic
  br label %next
goes:
  %swap = cmpxchg ptr %slot, i64 %word, i64 0 acq_rel monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %free, label %next
free:
  call void @unmap(i64 %word)
  %bytes = call i64 @capacity(i64 %word)
  %old = atomicrmw sub ptr @kept, i64 %bytes monotonic
  %sum = add i64 %given, %bytes
  br label %next
next:
  %given1 = phi i64 [%given, %look], [%given, %ages], [%given, %goes], [%sum, %free]
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, @@SLOTS@@
  br i1 %more, label %loop, label %out
out:
  %result = phi i64 [%given, %loop], [%given1, %next]
  ret i64 %result
}

define i64 @tensorlang_release() {
  %given = call i64 @shrink(i64 -9223372036854775808, i1 false)
  ret i64 %given
}

define internal void @give_back(i64 %word) {
entry:
  %time = alloca [2 x i64], align 16
  %bytes = call i64 @capacity(i64 %word)
  %budget = load i64, ptr @tensorlang_budget
  %too_large = icmp sgt i64 %bytes, %budget
  br i1 %too_large, label %no, label %count
no:
  call void @unmap(i64 %word)
  ret void
count:
  ; counted before it is there: at no time is more kept than is counted
  %before = atomicrmw add ptr @kept, i64 %bytes monotonic
  %sum = add i64 %before, %bytes
  %over = icmp sgt i64 %sum, %budget
  br i1 %over, label %room, label %search
room:
  %given = call i64 @shrink(i64 %budget, i1 false)
  br label %search
search:
  %start = call i64 @place()
  %new = or i64 %word, @@YOUNG@@
  br label %loop
loop:
  %i = phi i64 [0, %search], [%i1, %next]
  %at = add i64 %start, %i
  %slot = call ptr @slot(i64 %at)
  %there = load atomic i64, ptr %slot monotonic, align 8
  %empty = icmp eq i64 %there, 0
  br i1 %empty, label %put, label %next
put:
  %swap = cmpxchg ptr %slot, i64 0, i64 %new acq_rel monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %clock, label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, @@SLOTS@@
  br i1 %more, label %loop, label %full
full:
  %less = atomicrmw sub ptr @kept, i64 %bytes monotonic
  call void @unmap(i64 %word)
  ret void
clock:
  %r = call i32 @clock_gettime(i32 1, ptr %time)
  %now = load i64, ptr %time
  %last = load atomic i64, ptr @looked monotonic, align 8
  %since = sub i64 %now, %last
  %idle = load i64, ptr @tensorlang_idle
  %due = icmp sge i64 %since, %idle
  br i1 %due, label %turn, label %done
turn:
  %claimed = cmpxchg ptr @looked, i64 %last, i64 %now monotonic monotonic
  %my_turn = extractvalue { i64, i1 } %claimed, 1
  br i1 %my_turn, label %sweep, label %done
sweep:
  %swept = call i64 @shrink(i64 -1, i1 true)
  br label %done
done:
  ret void
}
"""
for _key, _value in {
    "SLOTS": SLOTS,
    "LAST": SLOTS - 1,
    "PLACE": 64 - SLOTS.bit_length() + 1,
    "CLASS": _CLASS,
    "YOUNG": _YOUNG,
    "OLD": ~_YOUNG,
    "HUGE": HUGE,
    "HUGE_LESS_1": HUGE - 1,
    "HUGE_MASK": -HUGE,
    "SMALL": SMALL,
    "REACH": REACH,
}.items():
    KEEPING = KEEPING.replace(f"@@{_key}@@", str(_value))
