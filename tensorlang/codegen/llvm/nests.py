"""Loop nests of a kernel as kernels of their own, for whoever keeps what becomes of them: candidates of a
search share most of theirs. The kernel calls them one after the other. Knows the loop IR, and where a buffer
will lie; nothing of who keeps what.

Apart stands only what is compiled alone to the code that it is within the kernel: a nest that uses parameters
and buffers in memory, whose addresses it is given as the body of a parallel loop is. A small buffer on the
stack may be registers, or be read beyond its end, and stays with all that use it.

Where a loop has several nests in it that are long enough for a call of each to cost nothing, these are taken
apart, and given the variables of the loops around them: tiles of a convolution by Winograd's algorithm are
padded, transformed, multiplied, transformed back and finished by five nests, and the next candidate changes
one. Of loops for threads this holds where they are handed out one iteration at a time, whatever is in them.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.dtype import INT32
from ...core.recursion import Steps, run
from ...expr import make
from ...expr.nodes import Var, const_int
from ...expr.walk import substitute
from ...loopir.stmt import (
    SERIAL,
    Alloc,
    Buffer,
    Extern,
    For,
    Func,
    Seq,
    Stmt,
    map_exprs,
    preorder,
    rebuilt,
    rewrite,
    seq,
)
from . import tiles
from .parallel import PIECE, WAKING, captured
from .statement import STACK_LIMIT, size_in_elements, written
from .work_estimate import ENDLESS, estimate

Loops = tuple[For, ...]
NEST = "nest"  # the kind of an Extern that is a part of the same kernel, and gives a status as it does
LEAST = 2  # nests: where there is one, nothing is shared without the whole
# statements, when loops are written out, and work, as ``estimate`` counts it (up to a nanosecond each), from
# which on a nest in a loop is worth a module and a call of its own. Measured (Zen 5), a minimally filtered
# convolution's 64 candidates: 94 ms each to build with none in serial loops, from 24 and 2048 on 79, from
# 2 and 2048 on 71, from 2 and 1024 on 61; they take 0.99 to 1.04 of what they take built whole
WORTH, CALLED = 2, 1024
# bytes of a buffer from which on it is in no registers: twice what the widest have
IN_MEMORY = 4 << 10


def taken_apart(func: Func, name: Callable[[Func], str | None]) -> tuple[Func, list[Func]]:
    """The kernel with calls in the place of nests, and these by the names that ``name`` gives to each; the
    same kernel and none where it stays whole."""
    if func.dims or func.constants or func.needs:
        return func, []
    nests: list[tuple[For, Func]] = []

    def called(s: Stmt, sight: frozenset[Buffer], apart: frozenset[Buffer], around: Loops) -> Steps[Stmt]:
        if isinstance(s, Alloc):
            more = apart | {s.buffer} if _in_memory(s.buffer) else apart - {s.buffer}
            return rebuilt(s, [(yield called(s.body, sight | {s.buffer}, more, around))])
        if isinstance(s, Seq):
            made = []
            for p in s.stmts:
                made.append((yield called(p, sight, apart, around)))
            return seq(*made)
        if not isinstance(s, For):
            return s
        threads = not around and _handed_out_singly(s)
        if threads or s.kind == SERIAL:
            before = len(nests)
            # what threads are given is in memory, however small
            body = yield called(s.body, sight, sight if threads else apart, (*around, s))
            if len(nests) >= before + LEAST:
                return rebuilt(s, [body])
            del nests[before:]
        nest = _nest(s, apart, around)
        if nest is None:
            return s
        nests.append((s, nest[0]))
        return Extern(NEST, str(len(nests) - 1), (*nest[0].buffers(), *nest[1]), nest[0].outputs, INT32)

    given = frozenset(func.buffers())
    body = run(called(func.body, given, given, ()))
    if len(nests) < LEAST:
        return func, []
    # only of those that are taken: a name takes as long to make as all that is above
    names = [name(nest) for _, nest in nests]

    def named(s: Stmt) -> Stmt | None:
        if not isinstance(s, Extern) or s.kind != NEST:
            return None
        known = names[int(s.name)]
        return nests[int(s.name)][0] if known is None else Extern(NEST, known, s.args, s.outputs, s.result)

    found = [f.changed(name=n) for (_, f), n in zip(nests, names, strict=True) if n is not None]
    return func.with_body(rewrite(body, named)), found


def _nest(s: For, apart: frozenset[Buffer], around: Loops) -> tuple[Func, list[Var]] | None:
    """The nest as a kernel, and the variables of the loops ``around`` it that it reads, which are its last
    parameters; None where it uses what it cannot be given."""
    buffers, names = captured(s)
    # sums in tiles of a matrix unit may begin with a store in front of the nest
    if any(isinstance(n, Extern) or tiles.noted(n) for n in preorder(s)):
        return None
    if not apart.issuperset(buffers):
        return None
    if around:
        # buffers of the heap in a parallel loop are rows of what threads share
        if any(_parallel(n) or (isinstance(n, Alloc) and _of_threads(n)) for n in preorder(s)):
            return None
        if _copies(s) < WORTH or ((len(around) > 1 or not _parallel(around[0])) and _short(s)):
            return None
    known = {loop.var: loop for loop in around}
    values = {v: _value(known[v]) for v in names if v in known}
    given = [v for v in values.values() if v is not None]
    if len(given) < len(names):
        return None
    body = map_exprs(s, lambda e: substitute(e, values)) if values else s  # type: ignore[arg-type]
    writes = written(s)
    func = Func(NEST, (*buffers, *given), body, outputs=tuple(b for b in buffers if b in writes))
    return func, list(values)


def _value(loop: For) -> Var | None:
    """The variable of a loop as a parameter, None where it is not known how far it goes."""
    begin, count = const_int(loop.begin), const_int(loop.extent)
    if begin is None or count is None:
        return None
    return Var(loop.var.name, loop.var.dtype, "value", begin, begin + count - 1)


def _short(s: For) -> bool:
    """Whether a call of the nest would count."""
    return estimate(s, {}).get((), 0.0) < CALLED


def _copies(s: Stmt) -> int:
    """How many statements there are when unrolled loops are written out."""
    found, stack = 0, [(s, 1)]
    while stack:
        one, times = stack.pop()
        if isinstance(one, For) and one.kind == "unrolled":
            times *= const_int(one.extent) or 1
        found += 0 if one.parts() else times
        stack += [(part, times) for part in one.parts()]
    return found


def _parallel(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind == "parallel"


def _handed_out_singly(s: For) -> bool:
    """Whether a parallel loop is handed out as it is when nothing is known of its work."""
    count = const_int(s.extent)
    if not _parallel(s) or count is None or const_int(s.begin) is None:
        return False
    total = estimate(s, {}).get((), 0.0)
    return WAKING * PIECE <= total < ENDLESS and count * PIECE <= total


def _in_memory(b: Buffer) -> bool:
    """Whether a buffer is too large for registers in any case."""
    size = _bytes(b)
    return size is not None and size >= IN_MEMORY


def _of_threads(s: Alloc) -> bool:
    """Whether a buffer in a parallel loop is a row of what threads share."""
    return s.within is not None or _on_heap(s.buffer)


def _on_heap(b: Buffer) -> bool:
    """Whether a buffer is too large for the stack in any case."""
    size = _bytes(b)
    return size is not None and size > STACK_LIMIT


def _bytes(b: Buffer) -> int | None:
    return const_int(make.mul(size_in_elements(b), b.dtype.bytes))
