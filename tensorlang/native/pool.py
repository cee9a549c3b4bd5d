"""The thread pool: what a parallel kernel calls, and the loop its workers run. Native functions; how they are
written says ``translate``.

Memory. All state of the pool is one page-aligned block of zeroes that a forked child gets as zeroes again
(MADV_WIPEONFORK): zero means "no workers, no region", so a child starts its own workers at its first parallel
kernel and a fork in the middle of a region leaves nothing behind. What different threads write lies on cache
lines of its own. The settings are a global of the module, which a child keeps.

Work. A region is cut into parts, and each of the crew owns a run of neighbouring parts, so that a thread
finds in its caches what it touched in the last region. It takes its own parts one by one by counting up
``taken``, then those that the others have not begun. So nobody waits for a sleeping or preempted thread that
has not started, and for one that has, only until its present part is done. The crew is never larger than the
processors: asking for more threads makes more parts, not more threads. Iterations are independent, so neither
the cut nor who runs what can change a result.

Wake-ups. The system may put a thread that wakes on the processor of the one that woke it, above all where it
knows of no caches that processors share, as in many virtual machines: the worker then starts when the
caller's time slice is over, 2 to 4 ms later as measured, with another processor idle. So a sleeping worker is
first forbidden the caller's processor (2 µs), and when it is done it may again go wherever the caller may; a
change of the caller's affinity reaches the workers this way. A worker that is awake and late stays where it
is: moved away after two missed regions, it left one process in three with both threads on one processor for
its first tenth of a second.

Short regions. What takes the caller some microseconds is not worth the system call that wakes a worker, and a
worker that must be woken comes too late to it. Such a region is given only to workers that are awake; when
several in close succession have found nobody, they are woken for the next one. So one kernel of 10 µs in a
millisecond runs where it is called, and a model of many, or a loop of calls, has every thread.

Waiting. A worker that has nothing to do holds its processor for RUDE nanoseconds, in which most regions that
follow come. Then it waits on, but lets everybody else have that processor, and sleeps as soon as somebody
took it: between two regions a program may run threads of another library, as torch's steps of training do.
With 300 µs two such steps took 0.82 of the time that they took with 150, and one whose optimizer has threads
of its own 0.99, which without politeness was 1.14.

A worker's state is one atomic word, so that no wake-up can be lost:

    IDLE ── worker goes to sleep ──> ASLEEP       caller posts: exchange to POSTED; wake it if it was ASLEEP
    POSTED ── worker takes it ──> RUNNING ── done ──> IDLE
    POSTED ── caller takes it back (the worker has not come) ──> IDLE

Order. The task is written before the exchange to POSTED (release) and read after POSTED -> RUNNING (acquire).
A worker stores IDLE before it counts down ``remaining`` (release); the caller leaves only after it has read
zero there (acquire), so the next region finds all its workers idle and the task unread. While it sleeps the
caller keeps SLEEPER set in ``remaining``; the last worker sees it in the value it counted down from.
"""

from __future__ import annotations

import platform
from collections.abc import Callable

from .. import options
from .clock import now
from .types import Array, CFunctions, Global, Struct, at, i1, i8, i32, i64, ptr
from .words import (
    acq_rel,
    acquire,
    address,
    compare_exchange,
    exchange,
    fetch_add,
    fetch_or,
    fetch_sub,
    inline,
    load,
    local,
    null,
    relaxed,
    release,
    select,
    seq_cst,
    store,
)

ARCH = {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower())
FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}.get(ARCH)  # no number: no pool
GETTID = {"x86_64": 186, "aarch64": 178, "riscv64": 178}.get(ARCH)
WAIT, WAKE = 128, 129  # of a futex of this process

IDLE, ASLEEP, POSTED, RUNNING = range(4)
# a bit of its own in the word that counts the workers still at work, so that counting down and asking whether
# somebody sleeps are one atomic step
SLEEPER = 1 << 16  # above any count of workers
COUNT = SLEEPER - 1
FINE = 4  # parts for each of the crew: the last one to finish is late by at most one of them
ALONE = 3  # short regions in close succession that nobody was awake for, before workers are woken
RUDE = 100_000  # nanoseconds a worker waits before it lets others have its processor
TAKEN = 20_000  # between two looks at the clock: somebody else had it
PATIENCE = 50_000  # nanoseconds a new worker spins
MASK = 128  # bytes of a set of processors
MAX_THREADS = options.MAX_THREADS

c = CFunctions(
    "i64 syscall(i64, ...)",
    "i32 pthread_create(ptr, ptr, ptr, ptr)",
    "i32 pthread_detach(i64)",
    "i32 pthread_sigmask(i32, ptr, ptr)",
    "i32 sigfillset(ptr)",
    "i32 sched_getcpu()",
    "i32 sched_yield()",
    "i32 sched_getaffinity(i32, i64, ptr)",
    "i32 sched_setaffinity(i32, i64, ptr)",
    "ptr memcpy(ptr, ptr, i64)",
    "void llvm.x86.sse.stmxcsr(ptr)",
    "void llvm.x86.sse.ldmxcsr(ptr)",
    "void llvm.x86.sse2.pause()",
    "i64 llvm.aarch64.get.fpcr()",
    "void llvm.aarch64.set.fpcr(i64)",
    "void llvm.aarch64.hint(i32)",
)

Piece = Callable[[ptr, i64, i64], None]  # runs iterations from begin to end


# two lines each: x86 fetches lines in pairs, and the state, which a worker spins on, must not move with
# ``taken``, which the others write
class Member(Struct, size=128):
    """One of the crew. ``taken`` is what others count up."""

    state: i32
    index: i32
    patience: i32  # nanoseconds it spins
    moved: i32
    tid: i32
    taken: i64 = at(64)


class Pool(Struct):
    """The block. Only the thread that holds ``busy`` changes ``workers`` and the task."""

    busy: i32
    remaining: i32 = at(64)
    run: Piece = at(128)  # the task
    ctx: ptr
    begin: i64
    end: i64
    parts: i64
    mode: i64
    crew: i64
    workers: i32 = at(192)  # started
    alone: i32  # short regions in close succession that nobody was awake for
    last: i64  # when the last one of them came
    processors: ptr = at(256, i8, MASK)  # of the caller
    members: Array[Member] = at(512, Member, MAX_THREADS)  # the caller's first


class Settings(Struct):
    """What Python sets: the block, the threads asked for, those that may run at once, how long one spins at
    most."""

    pool: Pool
    wanted: i32
    width: i32
    spin: i32


settings = Global("settings", Settings)


@inline
def read_mode() -> i64:
    """The floating-point control word."""
    if ARCH == "x86_64":
        word = local(i32)
        c.llvm_x86_sse_stmxcsr(word)
        return i64(word[0]) & ~63  # without the flags of what happened
    if ARCH == "aarch64":
        return c.llvm_aarch64_get_fpcr()
    return 0


@inline
def write_mode(mode: i64) -> None:
    if ARCH == "x86_64":
        word = local(i32)
        word[0] = i32(mode)
        c.llvm_x86_sse_ldmxcsr(word)
    if ARCH == "aarch64":
        c.llvm_aarch64_set_fpcr(mode)


@inline
def pause() -> None:
    if ARCH == "x86_64":
        c.llvm_x86_sse2_pause()
    if ARCH == "aarch64":
        c.llvm_aarch64_hint(1)


@inline
def sleep_on(word: Array[i32], value: i32) -> None:
    c.syscall(FUTEX, word, WAIT, value, null, null, 0)


@inline
def wake(word: Array[i32]) -> None:
    c.syscall(FUTEX, word, WAKE, 1, null, null, 0)


def spin_until(word: Array[i32], mask: i32, zero: i1, ns: i32) -> i1:
    """Spin until (word & mask) is zero, or is not, for about ns nanoseconds; whether it came true."""
    if (load(word[0], acquire) & mask == 0) == zero:
        return True
    if ns <= 0:
        return False
    deadline = now() + i64(ns)
    i: i32 = 0
    while True:
        pause()
        if (load(word[0], acquire) & mask == 0) == zero:
            return True
        i += 1
        # reading the clock costs as much as some pauses; in a virtual machine without a stable counter it is
        # a system call
        if i & 15 == 0 and now() >= deadline:
            return False


def wait_for_work(word: Array[i32], ns: i32) -> i1:
    """Wait until work is posted, for about ns nanoseconds, or until somebody else had this processor;
    whether it came."""
    if spin_until(word, POSTED, False, min(ns, RUDE)):
        return True
    since = now()
    deadline = since + i64(ns - RUDE)
    while since < deadline:
        c.sched_yield()
        if load(word[0], acquire) & POSTED != 0:
            return True
        after = now()
        if after - since > TAKEN:
            return False
        since = after
    return False


@inline
def run_part(p: i64) -> None:
    """Run part number p of the task. Those that are longer by one are spread evenly: neighbours belong to one
    of the crew, which would have all of them.

    Measured (Zen 5, two threads): 28 steps of a convolution, 16 and 12 where the first parts were longer,
    take 0.89 of the time.
    """
    task = settings.pool
    n = task.end - task.begin
    # computed by whoever takes the part: a table of bounds would have to be written before the workers are
    # woken
    q, r = n // task.parts, n % task.parts
    start, end = p * q + p * r // task.parts, (p + 1) * q + (p + 1) * r // task.parts
    task.run(task.ctx, task.begin + start, task.begin + end)


def run_share(me: i64) -> None:
    """Run the parts that number ``me`` owns, then what the others, from the next one on, have not begun."""
    pool = settings.pool
    crew = pool.crew
    q, r = pool.parts // crew, pool.parts % crew
    owner = me
    while True:
        count, first = q + i64(owner < r), owner * q + min(owner, r)
        taken = address(pool.members[owner].taken)
        # looked at before it is counted up: of a share that is used up, all of the crew would otherwise go on
        # writing the line its owner reads
        while load(taken[0], relaxed) < count:
            # relaxed is enough: the number is all that is agreed upon here, and what parts compute is
            # published by the counting down of ``remaining``
            t = fetch_add(taken[0], 1, relaxed)
            if t >= count:
                break
            run_part(first + t)
        owner = select(owner + 1 == crew, 0, owner + 1)
        if owner == me:
            return


def keep_apart(worker: Member) -> None:
    """Before a sleeping worker is woken: let it not be where the caller is."""
    mask = local(i8, MASK)
    here = c.sched_getcpu()
    everywhere = settings.pool.processors
    # the caller's set is read anew each time: it may have been changed since, and a worker must not run where
    # the program does not want it
    if 0 <= here < 8 * MASK and c.sched_getaffinity(0, MASK, everywhere) == 0:
        c.memcpy(mask, everywhere, MASK)
        mask[i64(here >> 3)] &= ~(i8(1) << i8(here & 7))
        if c.sched_setaffinity(worker.tid, MASK, mask) == 0:
            store(worker.moved, 1, relaxed)
        else:  # the caller has but one processor
            c.sched_setaffinity(worker.tid, MASK, everywhere)


def worker_loop(me: Member) -> ptr:
    pool = settings.pool
    # before it can be seen asleep: the caller moves a sleeping worker by this number, and 0 would be the
    # caller
    me.tid = i32(c.syscall(GETTID))
    state = address(me.state)
    while True:
        limit, since = load(settings.spin, relaxed), now()
        if wait_for_work(state, min(me.patience, limit)):
            me.patience = limit  # work came while spinning: be as patient as allowed next time
        else:
            # in vain: half as patient, down to a microsecond, so that an idle program is not slowed by us
            me.patience = max(me.patience >> 1, 1000)
            if compare_exchange(me.state, IDLE, ASLEEP, acq_rel, acquire):
                while True:
                    sleep_on(state, ASLEEP)
                    if load(me.state, acquire) != ASLEEP:
                        break
                # short regions in close succession: impatient, it would come too late to each of them
                if now() - since < i64(limit):
                    me.patience = limit
        # fails where the caller has taken the work back meanwhile
        if compare_exchange(me.state, POSTED, RUNNING, acq_rel, acquire):
            # rounding and flushing of denormals as in the caller: results must not depend on who runs a part
            write_mode(pool.mode)
            run_share(i64(me.index))
            store(me.state, IDLE, release)
            if fetch_sub(pool.remaining, 1, acq_rel) == SLEEPER + 1:
                wake(address(pool.remaining))
        else:
            # the caller has done it all: one who slept through short regions would come too late to the next
            # ones as well, as 35 in a row did where waking takes as long as a region
            me.patience = load(settings.spin, relaxed)
        # nobody waits for us now, or we came too late
        if load(me.moved, relaxed) != 0:
            store(me.moved, 0, relaxed)
            c.sched_setaffinity(0, MASK, pool.processors)


@inline
def start_workers(pool: Pool, want: i32) -> i32:
    """Start workers until there are ``want``; how many there are. Called with busy held."""
    every, before, thread = local(i8, 128), local(i8, 128), local(i64)
    if pool.workers >= want:
        return pool.workers
    c.sigfillset(every)  # signals belong to the program's own threads
    c.pthread_sigmask(2, every, before)
    while pool.workers < want:
        worker = pool.members[i64(pool.workers + 1)]
        worker.index = pool.workers + 1
        # long enough that the first regions of a program find it awake; what comes of it is halved or kept
        worker.patience = PATIENCE
        # a limit of processes or of memory: there are fewer threads then, and no error
        if c.pthread_create(thread, null, worker_loop, worker) != 0:
            break
        c.pthread_detach(thread[0])
        pool.workers += 1
    c.pthread_sigmask(2, before, null)
    return pool.workers


@inline
def post(worker: Member) -> None:
    # the exchange tells what it was: a worker that spins sees the word change, and no system call is made for
    # it
    if exchange(worker.state, POSTED, seq_cst) == ASLEEP:
        keep_apart(worker)
        wake(address(worker.state))


@inline
def run_region(pool: Pool, run: Piece, ctx: ptr, begin: i64, end: i64, most: i64) -> None:
    """A region for at most this many threads. Called with busy held."""
    want = i32(most - 1)
    helpers = min(start_workers(pool, want), want)
    crew = i64(helpers) + 1
    pool.run, pool.ctx, pool.begin, pool.end = run, ctx, begin, end
    # as many parts as threads were asked for, where they are more than the processors: that is what was
    # promised
    pool.parts = min(end - begin, max(FINE * crew, i64(load(settings.wanted, relaxed))))
    pool.crew = crew
    pool.mode = read_mode()
    # before anybody is posted: a worker may be done before the next one is asked
    store(pool.remaining, helpers, release)
    # nothing is taken yet, of anybody: the first one posted may look at the shares of all
    for i in range(crew):
        store(pool.members[i].taken, 0, relaxed)
    for i in range(1, crew):
        post(pool.members[i])
    run_share(0)
    k = crew - 1
    while k > 0:  # all parts have begun: whoever has not come is not needed
        if compare_exchange(pool.members[k].state, POSTED, IDLE, acq_rel):
            fetch_sub(pool.remaining, 1, acq_rel)
        k -= 1
    if not spin_until(address(pool.remaining), COUNT, True, load(settings.spin, relaxed)):
        while True:
            # set and read in one step; the system compares the word once more as it puts us to sleep, so a
            # worker that counts down between both makes the call return at once
            before = fetch_or(pool.remaining, SLEEPER, acq_rel)
            if before & COUNT == 0:
                break
            sleep_on(address(pool.remaining), before | SLEEPER)
            if load(pool.remaining, acquire) & COUNT == 0:
                break


def parallel(run: Piece, ctx: ptr, begin: i64, end: i64) -> None:
    """Run all iterations from begin to end: on several threads, or here."""
    if begin >= end:
        return
    pool = settings.pool
    most = min(end - begin, i64(load(settings.width, relaxed)))
    # one region at a time: nested and concurrent ones run inline, and never wait
    if most > 1 and compare_exchange(pool.busy, 0, 1, acquire):
        run_region(pool, run, ctx, begin, end, most)
        store(pool.busy, 0, release)
    else:
        run(ctx, begin, end)


@inline
def awake(pool: Pool, most: i64) -> i64:
    """How many of this many threads there are without waking one: the caller, and the first workers up to one
    that sleeps, for those are called on most. Called with busy held."""
    n = min(i64(pool.workers) + 1, most)
    for i in range(1, n):
        if load(pool.members[i].state, relaxed) == ASLEEP:
            return i
    return n


@inline
def in_succession(pool: Pool) -> i1:
    """Whether this short region, which has found nobody awake, is one of several that follow each other so
    soon that workers would stay awake between them. Called with busy held."""
    time = now()
    near = time - pool.last < i64(load(settings.spin, relaxed))
    pool.last = time
    pool.alone = select(near, pool.alone + 1, 0)
    return pool.alone >= ALONE


def parallel_awake(run: Piece, ctx: ptr, begin: i64, end: i64) -> None:
    """The same for so little work that no thread is woken for it: on those that are awake, or here."""
    if begin >= end:
        return
    pool = settings.pool
    most = min(end - begin, i64(load(settings.width, relaxed)))
    if most > 1 and compare_exchange(pool.busy, 0, 1, acquire):
        crew = awake(pool, most)
        if crew == 1 and in_succession(pool):
            pool.alone = 0
            crew = most
        if crew > 1:
            run_region(pool, run, ctx, begin, end, crew)
            store(pool.busy, 0, release)
            return
        store(pool.busy, 0, release)
    run(ctx, begin, end)


def serial(run: Piece, ctx: ptr, begin: i64, end: i64) -> None:
    """The same where there is no futex."""
    if begin < end:
        run(ctx, begin, end)


def repeat(kernel: Callable[[ptr, ptr], i32], buffers: ptr, scalars: ptr, times: i64) -> i32:
    """The loop that ``f.benchmark`` times; the first status other than zero ends it."""
    while True:
        status = kernel(buffers, scalars)
        times -= 1
        if not (times > 0) & (status == 0):
            return status
