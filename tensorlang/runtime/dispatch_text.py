"""The machine code behind a Dispatcher, as LLVM text: from the sizes of a call to the kernel that runs. Knows
no Python and no kernels.

``i32 name(ptr buffers, ptr scalars)`` is an entry like that of a kernel (``core.signature``). It looks the
sizes up in the table of exact shapes; what is not there walks the decision tree, whose leaf is a slot of
pointers to routes. A route is a record of words that nobody changes once it can be seen:

    kind, number, then    CALL    the entry of a kernel that takes the same scalars
                          PICK    the entry, how many scalars it takes, from which of ours each comes
                          ROWS    the highest block, then the entry for blocks of 0, 1, 2 … rows (0 unused)

ROWS cuts the rows into ceil(rows / highest) blocks of nearly equal height: first those of h rows, then those
of h - 1, each lot in one call on its part of the arrays. So no code is made for a shape, and a remainder
never runs alone.

The table and the slots change by one exchange of a pointer (``swap(word, value)``, a full barrier). Two
counters of calls inside, one for each parity of the epoch, tell when nobody can see what was replaced
(Fraser, "Practical lock-freedom", 2004, section 5.2.3). The ring holds the last calls: which route, how long,
which sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CALL, PICK, ROWS = range(3)
# Words of the state. Counters that calls write have a cache line of their own.
TABLE, EPOCH, RING, RING_MASK = 0, 1, 2, 3
INSIDE = (8, 16)
CALLS = 24
SLOTS = 32
# words of a turn of the ring before the sizes: its number (0: being written), the route's number, cycles
RING_HEAD = 3
TABLE_HEAD = 1  # the table: mask, then entries of (route, sizes …)
MIX = 0x9E3779B97F4A7C15  # 2^64 / golden ratio

Tree = Any  # int | tuple[int, int, Tree, Tree]: a slot, or (dim, most, where dim <= most, where it is more)
Steps = Sequence[tuple[int, Sequence[int]] | None]


def mixed(sizes: Sequence[int]) -> int:
    """The hash of a shape; the order of the sizes matters."""
    h = 0
    for n in sizes:
        h = ((h ^ (n & (1 << 64) - 1)) * MIX) & (1 << 64) - 1
        h ^= h >> 29
    return h


def text(
    name: str, buffers: int, dims: int, scalars: int, tree: Tree, slots: int, rows: int | None, steps: Steps
) -> str:
    """The module. ``scalars`` counts all scalar slots, ``dims`` the sizes among them, which come first.
    ``rows`` is the size that ROWS cuts; ``steps`` has for each buffer the bytes of one row, as (number, the
    sizes it is multiplied with), None for one that has no rows."""
    loads = "\n".join(
        f"  %p{i} = getelementptr i64, ptr %scalars, i64 {i}\n  %d{i} = load i64, ptr %p{i}"
        for i in range(dims)
    )
    mix = ["  %h0 = add i64 0, 0"]
    for i in range(dims):
        mix += [
            f"  %x{i} = xor i64 %h{i}, %d{i}",
            f"  %y{i} = mul i64 %x{i}, {MIX - (1 << 64)}",
            f"  %z{i} = lshr i64 %y{i}, 29",
            f"  %h{i + 1} = xor i64 %y{i}, %z{i}",
        ]
    same = ["  %same0 = icmp eq i64 0, 0"]
    for i in range(dims):
        same += [
            f"  %pe{i} = getelementptr i64, ptr %found, i64 {1 + i}",
            f"  %e{i} = load i64, ptr %pe{i}",
            f"  %eq{i} = icmp eq i64 %e{i}, %d{i}",
            f"  %same{i + 1} = and i1 %same{i}, %eq{i}",
        ]
    log = [
        f"  %pl{i} = getelementptr i64, ptr %turn, i64 {RING_HEAD + i}\n  store i64 %d{i}, ptr %pl{i}"
        for i in range(dims)
    ]
    walk, leaves = _walk(tree)
    state = f"@state = global [{SLOTS + slots} x i64] zeroinitializer, align 64"
    to_rows = f" i64 {ROWS}, label %rows" if rows is not None else ""
    of_rows = ", [0, %rows], [%s1, %first], [%s2, %second]" if rows is not None else ""
    return f"""
declare i64 @llvm.readcyclecounter()
{state}

define void @swap(i64 %word, i64 %value) {{
  %p = getelementptr i64, ptr @state, i64 %word
  %old = atomicrmw xchg ptr %p, i64 %value seq_cst
  ret void
}}

define i32 @{name}(ptr %buffers, ptr %scalars) {{
entry:
  %picked = alloca [{max(1, scalars)} x i64], align 16
  %moved = alloca [{max(1, buffers)} x ptr], align 16
  %pepoch = getelementptr i64, ptr @state, i64 {EPOCH}
  br label %enter
enter:
  %epoch = load atomic i64, ptr %pepoch seq_cst, align 8
  %parity = and i64 %epoch, 1
  %line = mul i64 %parity, {INSIDE[1] - INSIDE[0]}
  %place = add i64 %line, {INSIDE[0]}
  %inside = getelementptr i64, ptr @state, i64 %place
  %before = atomicrmw add ptr %inside, i64 1 seq_cst
  %again = load atomic i64, ptr %pepoch seq_cst, align 8
  %calm = icmp eq i64 %again, %epoch
  br i1 %calm, label %look, label %back
back:
  %undone = atomicrmw sub ptr %inside, i64 1 seq_cst
  br label %enter
look:
{loads}
  %ptable = getelementptr i64, ptr @state, i64 {TABLE}
  %table = load atomic ptr, ptr %ptable acquire, align 8
  %none = icmp eq ptr %table, null
  br i1 %none, label %tree, label %hash
hash:
{chr(10).join(mix)}
  %mask = load i64, ptr %table
  %from = lshr i64 %h{dims}, 32
  br label %probe
probe:
  %i = phi i64 [%from, %hash], [%i1, %other]
  %at = and i64 %i, %mask
  %word = mul i64 %at, {1 + dims}
  %word1 = add i64 %word, {TABLE_HEAD}
  %found = getelementptr i64, ptr %table, i64 %word1
  %known = load ptr, ptr %found
  %empty = icmp eq ptr %known, null
  br i1 %empty, label %tree, label %compare
compare:
{chr(10).join(same)}
  %i1 = add i64 %i, 1
  br i1 %same{dims}, label %go, label %other
other:
  br label %probe
tree:
  br label %n0
{walk}
leaf:
  %slot = phi i64 {", ".join(f"[{slot}, %{label}]" for slot, label in leaves)}
  %slot1 = add i64 %slot, {SLOTS}
  %pslot = getelementptr i64, ptr @state, i64 %slot1
  %chosen = load atomic ptr, ptr %pslot acquire, align 8
  br label %go
go:
  %route = phi ptr [%known, %compare], [%chosen, %leaf]
  %kind = load i64, ptr %route
  %args = getelementptr i64, ptr %route, i64 2
  %start = call i64 @llvm.readcyclecounter()
  switch i64 %kind, label %pick [i64 {CALL}, label %call{to_rows}]
call:
  %kernel = load ptr, ptr %args
  %cstatus = call i32 %kernel(ptr %buffers, ptr %scalars)
  br label %done
pick:
  %pkernel = load ptr, ptr %args
  %pcount = getelementptr i64, ptr %args, i64 1
  %count = load i64, ptr %pcount
  br label %picking
picking:
  %j = phi i64 [0, %pick], [%j1, %one]
  %all = icmp eq i64 %j, %count
  br i1 %all, label %full, label %one
one:
  %j1 = add i64 %j, 1
  %pfrom = getelementptr i64, ptr %pcount, i64 %j1
  %source = load i64, ptr %pfrom
  %pvalue = getelementptr i64, ptr %scalars, i64 %source
  %value = load i64, ptr %pvalue
  %ppicked = getelementptr i64, ptr %picked, i64 %j
  store i64 %value, ptr %ppicked
  br label %picking
full:
  %pstatus = call i32 %pkernel(ptr %buffers, ptr %picked)
  br label %done
{"" if rows is None else _rows(buffers, scalars, rows, steps)}
done:
  %status = phi i32 [%cstatus, %call], [%pstatus, %full]{of_rows}
  %end = call i64 @llvm.readcyclecounter()
  %cycles = sub i64 %end, %start
  %pcalls = getelementptr i64, ptr @state, i64 {CALLS}
  %turns = atomicrmw add ptr %pcalls, i64 1 monotonic
  %pring = getelementptr i64, ptr @state, i64 {RING}
  %ring = load ptr, ptr %pring
  %pring_mask = getelementptr i64, ptr @state, i64 {RING_MASK}
  %ring_mask = load i64, ptr %pring_mask
  %here = and i64 %turns, %ring_mask
  %ring_word = mul i64 %here, {RING_HEAD + dims}
  %turn = getelementptr i64, ptr %ring, i64 %ring_word
  store atomic i64 0, ptr %turn release, align 8
  %pnumber = getelementptr i64, ptr %route, i64 1
  %number = load i64, ptr %pnumber
  %pl.route = getelementptr i64, ptr %turn, i64 1
  store i64 %number, ptr %pl.route
  %pl.cycles = getelementptr i64, ptr %turn, i64 2
  store i64 %cycles, ptr %pl.cycles
{chr(10).join(log)}
  %turns1 = add i64 %turns, 1
  store atomic i64 %turns1, ptr %turn release, align 8
  %left = atomicrmw sub ptr %inside, i64 1 seq_cst
  ret i32 %status
}}
"""


def _walk(tree: Tree) -> tuple[str, list[tuple[int, str]]]:
    """The blocks of the tree, the root first, and the (slot, block) of each leaf."""
    blocks: list[str] = []
    leaves: list[tuple[int, str]] = []

    def visit(node: Tree) -> str:
        label = f"n{len(blocks)}"
        blocks.append("")
        here = len(blocks) - 1
        if isinstance(node, int):
            blocks[here] = f"{label}:\n  br label %leaf"
            leaves.append((node, label))
            return label
        dim, most, low, high = node
        a, b = visit(low), visit(high)
        blocks[here] = (
            f"{label}:\n  %{label}c = icmp sle i64 %d{dim}, {most}\n  br i1 %{label}c, label %{a}, label %{b}"
        )
        return label

    visit(tree)
    return "\n".join(blocks), leaves


def _rows(buffers: int, scalars: int, rows: int, steps: Steps) -> str:
    out = [
        f"""rows:
  %highest = load i64, ptr %args
  %nothing = icmp eq i64 %d{rows}, 0
  br i1 %nothing, label %done, label %cut
cut:
  %upto = sub i64 %highest, 1
  %round = add i64 %d{rows}, %upto
  %blocks = udiv i64 %round, %highest
  %blocks1 = sub i64 %blocks, 1
  %round1 = add i64 %d{rows}, %blocks1
  %h = udiv i64 %round1, %blocks
  %most = mul i64 %blocks, %h
  %low = sub i64 %most, %d{rows}
  %high = sub i64 %blocks, %low
  %m1 = mul i64 %high, %h
  %phigh = getelementptr i64, ptr %args, i64 1
  %pk1 = getelementptr ptr, ptr %phigh, i64 %h
  %k1 = load ptr, ptr %pk1"""
    ]
    for i in range(scalars):
        out.append(
            f"  %qs{i} = getelementptr i64, ptr %scalars, i64 {i}\n  %vs{i} = load i64, ptr %qs{i}\n"
            f"  %qt{i} = getelementptr i64, ptr %picked, i64 {i}\n  store i64 %vs{i}, ptr %qt{i}"
        )
    out.append(f"""  store i64 %m1, ptr %qt{rows}
  br label %first
first:
  %s1 = call i32 %k1(ptr %buffers, ptr %picked)
  %well = icmp eq i32 %s1, 0
  %more = icmp ne i64 %low, 0
  %both = and i1 %well, %more
  br i1 %both, label %second, label %done
second:
  %lower = sub i64 %h, 1
  %m2 = mul i64 %low, %lower
  store i64 %m2, ptr %qt{rows}""")
    for b, step in enumerate(steps):
        out.append(f"  %qb{b} = getelementptr ptr, ptr %buffers, i64 {b}\n  %b{b} = load ptr, ptr %qb{b}")
        value = f"%b{b}"
        if step is not None:
            bytes_, factors = step
            out.append(f"  %o{b}.0 = mul i64 %m1, {bytes_}")
            for n, f in enumerate(factors):
                out.append(f"  %o{b}.{n + 1} = mul i64 %o{b}.{n}, %d{f}")
            out.append(f"  %c{b} = getelementptr i8, ptr %b{b}, i64 %o{b}.{len(factors)}")
            value = f"%c{b}"
        out.append(f"  %qm{b} = getelementptr ptr, ptr %moved, i64 {b}\n  store ptr {value}, ptr %qm{b}")
    out.append("""  %pk2 = getelementptr ptr, ptr %phigh, i64 %lower
  %k2 = load ptr, ptr %pk2
  %s2 = call i32 %k2(ptr %moved, ptr %picked)
  br label %done""")
    return "\n".join(out)
