"""The thread pool as LLVM text: what a parallel kernel calls, and the loop its workers run. Knows no Python.

Memory. All state of the pool is one page-aligned block of zeroes that a forked child gets as zeroes again
(MADV_WIPEONFORK): zero means "no workers, no region", so a child starts its own workers at its first parallel
kernel and a fork in the middle of a region leaves nothing behind. The head (one cache line each for what
different threads write):

    0 busy i32   64 remaining i32
    128 fn, 136 ctx, 144 begin, 152 end, 160 parts, 168 mode, 176 crew (the task)
    192 workers i32 (started; only the thread that holds busy changes it)
    256 the processors of the caller (1024 bits)

then one line of 128 bytes for each of the crew, the caller's first: state i32 at 0, index i32 at 4, patience
i32 at 8 (nanoseconds it spins), moved i32 at 12, tid i32 at 16, and on a cache line of its own ``taken`` i64
at 64. Settings that a child keeps are globals: wanted (threads asked for), width (threads that may run at
once) and spin (nanoseconds at most).

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
change of the caller's affinity reaches the workers this way.

A worker's state is one atomic word, so that no wake-up can be lost:

    IDLE 0 ── worker goes to sleep ──> ASLEEP 1   caller posts: exchange to POSTED 2; wake it if it was ASLEEP
    POSTED ── worker takes it ──> RUNNING 3 ── done ──> IDLE
    POSTED ── caller takes it back (the worker has not come) ──> IDLE

Order. The task is written before the exchange to POSTED (release) and read after POSTED -> RUNNING (acquire).
A worker stores IDLE before it counts down ``remaining`` (release); the caller leaves only after it has read
zero there (acquire), so the next region finds all its workers idle and the task unread. While it sleeps the
caller keeps SLEEPER set in ``remaining``; the last worker sees it in the value it counted down from.
"""

from __future__ import annotations

HEAD, LINE = 512, 128
FINE = 4  # parts for each of the crew: the last one to finish is late by at most one of them
SLEEPER = 1 << 16  # above any count of workers

_FUTEX = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
_GETTID = {"x86_64": 186, "aarch64": 178, "riscv64": 178}

_MODE = {  # read and set the floating-point control word
    "x86_64": (
        """
  %w = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %w)
  %v = load i32, ptr %w
  %m = and i32 %v, 65472
  %r = zext i32 %m to i64
  ret i64 %r""",
        """
  %w = alloca i32, align 4
  %v = trunc i64 %mode to i32
  store i32 %v, ptr %w
  call void @llvm.x86.sse.ldmxcsr(ptr %w)
  ret void""",
        "declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)",
    ),
    "aarch64": (
        "\n  %r = call i64 @llvm.aarch64.get.fpcr()\n  ret i64 %r",
        "\n  call void @llvm.aarch64.set.fpcr(i64 %mode)\n  ret void",
        "declare i64 @llvm.aarch64.get.fpcr()\ndeclare void @llvm.aarch64.set.fpcr(i64)",
    ),
}
_PAUSE = {
    "x86_64": ("call void @llvm.x86.sse2.pause()", "declare void @llvm.x86.sse2.pause()"),
    "aarch64": ("call void @llvm.aarch64.hint(i32 1)", "declare void @llvm.aarch64.hint(i32)"),
}

# Needed everywhere: the loop that f.benchmark times.
REPEAT = """
define i32 @tensorlang_repeat(ptr %kernel, ptr %buffers, ptr %scalars, i64 %times) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %status = call i32 %kernel(ptr %buffers, ptr %scalars)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  %well = icmp eq i32 %status, 0
  %on = and i1 %more, %well
  br i1 %on, label %loop, label %done
done:
  ret i32 %status
}
"""

# Where there is no futex: a region is one call.
SERIAL = """
define void @tensorlang_parallel(ptr %fn, ptr %ctx, i64 %begin, i64 %end) {
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %run, label %done
run:
  call void %fn(ptr %ctx, i64 %begin, i64 %end)
  br label %done
done:
  ret void
}
"""


def supported(arch: str) -> bool:
    """Whether the pool can run on this Linux architecture."""
    return arch in _FUTEX


def pool(arch: str) -> str:
    """The pool's text. Before its first region ``tensorlang_state`` must point to the block."""
    read_mode, write_mode, mode_decl = _MODE.get(arch, ("\n  ret i64 0", "\n  ret void", ""))
    pause, pause_decl = _PAUSE.get(arch, ("", ""))
    text = _POOL
    for key, value in {
        "PAUSE_DECL": pause_decl,
        "PAUSE": pause,
        "MODE_DECL": mode_decl,
        "READ_MODE": read_mode,
        "WRITE_MODE": write_mode,
        "FUTEX": str(_FUTEX[arch]),
        "GETTID": str(_GETTID[arch]),
        "HEAD": str(HEAD),
        "LINE": str(LINE),
        "SLEEPER": str(SLEEPER),
        "FINE": str(FINE),
    }.items():
        text = text.replace(f"@@{key}@@", value)
    return text


_POOL = """
@tensorlang_state = global ptr null
@tensorlang_wanted = global i32 1
@tensorlang_width = global i32 1
@tensorlang_spin = global i32 0

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare i32 @llvm.smin.i32(i32, i32)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
@@PAUSE_DECL@@
@@MODE_DECL@@

define internal i64 @read_mode() {@@READ_MODE@@
}
define internal void @write_mode(i64 %mode) {@@WRITE_MODE@@
}

define internal void @sleep_on(ptr %word, i32 %value) {
  %r = call i64 (i64, ...) @syscall(i64 @@FUTEX@@, ptr %word, i64 128, i32 %value, ptr null, ptr null, i64 0)
  ret void
}
define internal void @wake(ptr %word) {
  %r = call i64 (i64, ...) @syscall(i64 @@FUTEX@@, ptr %word, i64 129, i64 1, ptr null, ptr null, i64 0)
  ret void
}

define internal i64 @now() {
  %t = alloca [2 x i64], align 16
  %r = call i32 @clock_gettime(i32 1, ptr %t)
  %ps = getelementptr i64, ptr %t, i64 1
  %s = load i64, ptr %t
  %ns = load i64, ptr %ps
  %a = mul i64 %s, 1000000000
  %b = add i64 %a, %ns
  ret i64 %b
}

; Spin until (word & mask) != 0 (sense 0) or == 0 (sense 1), for about ns nanoseconds; whether it came true.
define internal i1 @spin_until(ptr %word, i32 %mask, i1 %sense, i32 %ns) {
entry:
  %v0 = load atomic i32, ptr %word acquire, align 4
  %m0 = and i32 %v0, %mask
  %z0 = icmp eq i32 %m0, 0
  %hit0 = icmp eq i1 %z0, %sense
  br i1 %hit0, label %yes, label %patient
patient:
  %none = icmp sle i32 %ns, 0
  br i1 %none, label %no, label %start
start:
  %t0 = call i64 @now()
  %wide = zext i32 %ns to i64
  %deadline = add i64 %t0, %wide
  br label %loop
loop:
  %i = phi i32 [0, %start], [%i1, %again]
  @@PAUSE@@
  %v = load atomic i32, ptr %word acquire, align 4
  %m = and i32 %v, %mask
  %z = icmp eq i32 %m, 0
  %hit = icmp eq i1 %z, %sense
  br i1 %hit, label %yes, label %count
count:
  %i1 = add i32 %i, 1
  %low = and i32 %i1, 15
  %look = icmp eq i32 %low, 0
  br i1 %look, label %clock, label %again
clock:
  %t = call i64 @now()
  %late = icmp sge i64 %t, %deadline
  br i1 %late, label %no, label %again
again:
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Run part number p of the task: balanced, the first ones longer by one.
define internal void @run_part(i64 %p) {
  %state = load ptr, ptr @tensorlang_state
  %pfn = getelementptr i8, ptr %state, i64 128
  %pctx = getelementptr i8, ptr %state, i64 136
  %pbegin = getelementptr i8, ptr %state, i64 144
  %pend = getelementptr i8, ptr %state, i64 152
  %pparts = getelementptr i8, ptr %state, i64 160
  %fn = load ptr, ptr %pfn
  %ctx = load ptr, ptr %pctx
  %begin = load i64, ptr %pbegin
  %end = load i64, ptr %pend
  %parts = load i64, ptr %pparts
  %n = sub i64 %end, %begin
  %q = udiv i64 %n, %parts
  %r = urem i64 %n, %parts
  %p1 = add i64 %p, 1
  %s0 = mul i64 %p, %q
  %e0 = mul i64 %p1, %q
  %sx = call i64 @llvm.smin.i64(i64 %p, i64 %r)
  %ex = call i64 @llvm.smin.i64(i64 %p1, i64 %r)
  %s1 = add i64 %s0, %sx
  %e1 = add i64 %e0, %ex
  %s = add i64 %begin, %s1
  %e = add i64 %begin, %e1
  call void %fn(ptr %ctx, i64 %s, i64 %e)
  ret void
}

; The line of one of the crew; the caller is number 0.
define internal ptr @line_of(i64 %i) {
  %state = load ptr, ptr @tensorlang_state
  %offset = mul i64 %i, @@LINE@@
  %from = add i64 %offset, @@HEAD@@
  %line = getelementptr i8, ptr %state, i64 %from
  ret ptr %line
}

; Run the parts that number ``me`` owns, then what the others, from the next one on, have not begun.
define internal void @run_share(i64 %me) {
entry:
  %state = load ptr, ptr @tensorlang_state
  %pparts = getelementptr i8, ptr %state, i64 160
  %pcrew = getelementptr i8, ptr %state, i64 176
  %parts = load i64, ptr %pparts
  %crew = load i64, ptr %pcrew
  %q = udiv i64 %parts, %crew
  %r = urem i64 %parts, %crew
  br label %visit
visit:
  %owner = phi i64 [%me, %entry], [%following, %exhausted]
  %line = call ptr @line_of(i64 %owner)
  %ptaken = getelementptr i8, ptr %line, i64 64
  %longer = icmp slt i64 %owner, %r
  %one = zext i1 %longer to i64
  %count = add i64 %q, %one
  %start = mul i64 %owner, %q
  %shift = call i64 @llvm.smin.i64(i64 %owner, i64 %r)
  %first = add i64 %start, %shift
  br label %look
look:
  %seen = load atomic i64, ptr %ptaken monotonic, align 8
  %left = icmp slt i64 %seen, %count
  br i1 %left, label %claim, label %exhausted
claim:
  %t = atomicrmw add ptr %ptaken, i64 1 monotonic
  %got = icmp slt i64 %t, %count
  br i1 %got, label %run, label %exhausted
run:
  %p = add i64 %first, %t
  call void @run_part(i64 %p)
  br label %look
exhausted:
  %next = add i64 %owner, 1
  %last = icmp eq i64 %next, %crew
  %following = select i1 %last, i64 0, i64 %next
  %round = icmp eq i64 %following, %me
  br i1 %round, label %done, label %visit
done:
  ret void
}

; Before a sleeping worker is woken: let it not be where the caller is.
define internal void @keep_apart(ptr %line) {
entry:
  %mask = alloca [128 x i8], align 8
  %here = call i32 @sched_getcpu()
  %small = icmp ult i32 %here, 1024
  br i1 %small, label %ask, label %done
ask:
  %state = load ptr, ptr @tensorlang_state
  %all = getelementptr i8, ptr %state, i64 256
  %error = call i32 @sched_getaffinity(i32 0, i64 128, ptr %all)
  %known = icmp eq i32 %error, 0
  br i1 %known, label %move, label %done
move:
  call void @llvm.memcpy.p0.p0.i64(ptr %mask, ptr %all, i64 128, i1 false)
  %byte = lshr i32 %here, 3
  %wide = zext i32 %byte to i64
  %pbyte = getelementptr i8, ptr %mask, i64 %wide
  %bits = load i8, ptr %pbyte
  %low = and i32 %here, 7
  %low8 = trunc i32 %low to i8
  %bit = shl i8 1, %low8
  %others = xor i8 %bit, -1
  %rest = and i8 %bits, %others
  store i8 %rest, ptr %pbyte
  %ptid = getelementptr i8, ptr %line, i64 16
  %tid = load i32, ptr %ptid
  %refused = call i32 @sched_setaffinity(i32 %tid, i64 128, ptr %mask)
  %went = icmp eq i32 %refused, 0
  %pmoved = getelementptr i8, ptr %line, i64 12
  br i1 %went, label %moved, label %together
moved:
  store atomic i32 1, ptr %pmoved monotonic, align 4
  br label %done
together:
  ; the caller has but one processor
  %r = call i32 @sched_setaffinity(i32 %tid, i64 128, ptr %all)
  br label %done
done:
  ret void
}

define internal ptr @worker_loop(ptr %me) {
entry:
  %ptid = getelementptr i8, ptr %me, i64 16
  %tid64 = call i64 (i64, ...) @syscall(i64 @@GETTID@@)
  %tid = trunc i64 %tid64 to i32
  store i32 %tid, ptr %ptid
  %pmoved = getelementptr i8, ptr %me, i64 12
  %state = load ptr, ptr @tensorlang_state
  %remaining = getelementptr i8, ptr %state, i64 64
  %pmode = getelementptr i8, ptr %state, i64 168
  %pindex = getelementptr i8, ptr %me, i64 4
  %ppatience = getelementptr i8, ptr %me, i64 8
  %index = load i32, ptr %pindex
  %part = zext i32 %index to i64
  br label %idle
idle:
  %patience = load i32, ptr %ppatience
  %limit = load atomic i32, ptr @tensorlang_spin monotonic, align 4
  %ns = call i32 @llvm.smin.i32(i32 %patience, i32 %limit)
  %came = call i1 @spin_until(ptr %me, i32 2, i1 false, i32 %ns)
  br i1 %came, label %hot, label %cold
hot:
  ; work came while spinning: be as patient as allowed next time
  store i32 %limit, ptr %ppatience
  br label %take
cold:
  ; in vain: half as patient, down to a microsecond, so that an idle program is not slowed by us
  %half = lshr i32 %patience, 1
  %tiny = icmp slt i32 %half, 1000
  %less = select i1 %tiny, i32 1000, i32 %half
  store i32 %less, ptr %ppatience
  %tryc = cmpxchg ptr %me, i32 0, i32 1 acq_rel acquire
  %slept = extractvalue { i32, i1 } %tryc, 1
  br i1 %slept, label %asleep, label %take
asleep:
  call void @sleep_on(ptr %me, i32 1)
  %v = load atomic i32, ptr %me acquire, align 4
  %still = icmp eq i32 %v, 1
  br i1 %still, label %asleep, label %take
take:
  %takec = cmpxchg ptr %me, i32 2, i32 3 acq_rel acquire
  %taken = extractvalue { i32, i1 } %takec, 1
  br i1 %taken, label %run, label %after
run:
  %mode = load i64, ptr %pmode
  call void @write_mode(i64 %mode)
  call void @run_share(i64 %part)
  store atomic i32 0, ptr %me release, align 4
  %old = atomicrmw sub ptr %remaining, i32 1 acq_rel
  %waited = icmp eq i32 %old, @@SLEEPER_PLUS_1@@
  br i1 %waited, label %ring, label %after
ring:
  call void @wake(ptr %remaining)
  br label %after
after:
  ; nobody waits for us now, or we came too late
  %moved = load atomic i32, ptr %pmoved monotonic, align 4
  %elsewhere = icmp ne i32 %moved, 0
  br i1 %elsewhere, label %free, label %idle
free:
  store atomic i32 0, ptr %pmoved monotonic, align 4
  %callers = getelementptr i8, ptr %state, i64 256
  %freed = call i32 @sched_setaffinity(i32 0, i64 128, ptr %callers)
  br label %idle
}

; Start workers until there are ``want``; how many there are. Called with busy held.
define internal i32 @start_workers(ptr %state, i32 %want) {
entry:
  %set = alloca [128 x i8], align 16
  %before = alloca [128 x i8], align 16
  %thread = alloca i64, align 8
  %pworkers = getelementptr i8, ptr %state, i64 192
  %have = load i32, ptr %pworkers
  %enough = icmp sge i32 %have, %want
  br i1 %enough, label %ready, label %block
ready:
  ret i32 %have
block:
  ; signals belong to the program's own threads
  %b0 = call i32 @sigfillset(ptr %set)
  %b1 = call i32 @pthread_sigmask(i32 2, ptr %set, ptr %before)
  br label %loop
loop:
  %n = phi i32 [%have, %block], [%n1, %made]
  %full = icmp sge i32 %n, %want
  br i1 %full, label %out, label %make
make:
  %n1 = add i32 %n, 1
  %wide = zext i32 %n1 to i64
  %line = call ptr @line_of(i64 %wide)
  %pindex = getelementptr i8, ptr %line, i64 4
  %ppatience = getelementptr i8, ptr %line, i64 8
  store i32 %n1, ptr %pindex
  store i32 50000, ptr %ppatience
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker_loop, ptr %line)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %out, label %made
made:
  %t = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %t)
  store i32 %n1, ptr %pworkers
  br label %loop
out:
  %b2 = call i32 @pthread_sigmask(i32 2, ptr %before, ptr null)
  %r = load i32, ptr %pworkers
  ret i32 %r
}

define void @tensorlang_parallel(ptr %fn, ptr %ctx, i64 %begin, i64 %end) {
entry:
  %n = sub i64 %end, %begin
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %size, label %nothing
nothing:
  ret void
size:
  %state = load ptr, ptr @tensorlang_state
  %width32 = load atomic i32, ptr @tensorlang_width monotonic, align 4
  %width = zext i32 %width32 to i64
  %most = call i64 @llvm.smin.i64(i64 %n, i64 %width)
  %many = icmp sgt i64 %most, 1
  br i1 %many, label %enter, label %inline
enter:
  ; one region at a time: nested and concurrent ones run inline, and never wait
  %lock = cmpxchg ptr %state, i32 0, i32 1 acquire monotonic
  %mine = extractvalue { i32, i1 } %lock, 1
  br i1 %mine, label %start, label %inline
inline:
  call void %fn(ptr %ctx, i64 %begin, i64 %end)
  ret void
start:
  %most32 = trunc i64 %most to i32
  %want = sub i32 %most32, 1
  %have = call i32 @start_workers(ptr %state, i32 %want)
  %helpers = call i32 @llvm.smin.i32(i32 %have, i32 %want)
  %helpers64 = zext i32 %helpers to i64
  %crew = add i64 %helpers64, 1
  %fine = mul i64 %crew, @@FINE@@
  %wanted32 = load atomic i32, ptr @tensorlang_wanted monotonic, align 4
  %wanted = zext i32 %wanted32 to i64
  %enough = call i64 @llvm.smax.i64(i64 %fine, i64 %wanted)
  %parts = call i64 @llvm.smin.i64(i64 %n, i64 %enough)
  %remaining = getelementptr i8, ptr %state, i64 64
  %pfn = getelementptr i8, ptr %state, i64 128
  %pctx = getelementptr i8, ptr %state, i64 136
  %pbegin = getelementptr i8, ptr %state, i64 144
  %pend = getelementptr i8, ptr %state, i64 152
  %pparts = getelementptr i8, ptr %state, i64 160
  %pmode = getelementptr i8, ptr %state, i64 168
  %pcrew = getelementptr i8, ptr %state, i64 176
  store ptr %fn, ptr %pfn
  store ptr %ctx, ptr %pctx
  store i64 %begin, ptr %pbegin
  store i64 %end, ptr %pend
  store i64 %parts, ptr %pparts
  store i64 %crew, ptr %pcrew
  %mode = call i64 @read_mode()
  store i64 %mode, ptr %pmode
  store atomic i32 %helpers, ptr %remaining release, align 4
  br label %fresh
fresh:
  ; nothing is taken yet, of anybody: the first one posted may look at the shares of all
  %c = phi i64 [0, %start], [%c1, %fresh]
  %c1 = add i64 %c, 1
  %cline = call ptr @line_of(i64 %c)
  %ctaken = getelementptr i8, ptr %cline, i64 64
  store atomic i64 0, ptr %ctaken monotonic, align 8
  %allfresh = icmp eq i64 %c1, %crew
  br i1 %allfresh, label %post, label %fresh
post:
  %w = phi i64 [0, %fresh], [%w1, %posted]
  %allposted = icmp sge i64 %w, %helpers64
  br i1 %allposted, label %own, label %postone
postone:
  %w1 = add i64 %w, 1
  %line = call ptr @line_of(i64 %w1)
  %old = atomicrmw xchg ptr %line, i32 2 seq_cst
  %slept = icmp eq i32 %old, 1
  br i1 %slept, label %rouse, label %posted
rouse:
  call void @keep_apart(ptr %line)
  call void @wake(ptr %line)
  br label %posted
posted:
  br label %post
own:
  call void @run_share(i64 0)
  br label %back
back:
  ; all parts have begun: whoever has not come is not needed
  %k = phi i64 [%helpers64, %own], [%k1, %backnext]
  %allback = icmp eq i64 %k, 0
  br i1 %allback, label %wait, label %backone
backone:
  %k1 = sub i64 %k, 1
  %kline = call ptr @line_of(i64 %k)
  %kc = cmpxchg ptr %kline, i32 2, i32 0 acq_rel monotonic
  %took = extractvalue { i32, i1 } %kc, 1
  br i1 %took, label %without, label %backnext
without:
  %kold = atomicrmw sub ptr %remaining, i32 1 acq_rel
  br label %backnext
backnext:
  br label %back
wait:
  %limit = load atomic i32, ptr @tensorlang_spin monotonic, align 4
  %done = call i1 @spin_until(ptr %remaining, i32 65535, i1 true, i32 %limit)
  br i1 %done, label %leave, label %sleep
sleep:
  %before = atomicrmw or ptr %remaining, i32 @@SLEEPER@@ acq_rel
  %left = and i32 %before, 65535
  %finished = icmp eq i32 %left, 0
  br i1 %finished, label %leave, label %nap
nap:
  %expect = or i32 %before, @@SLEEPER@@
  call void @sleep_on(ptr %remaining, i32 %expect)
  %v = load atomic i32, ptr %remaining acquire, align 4
  %vleft = and i32 %v, 65535
  %vdone = icmp eq i32 %vleft, 0
  br i1 %vdone, label %leave, label %sleep
leave:
  store atomic i32 0, ptr %state release, align 4
  ret void
}
"""
_POOL = _POOL.replace("@@SLEEPER_PLUS_1@@", str(SLEEPER + 1))
