"""Loop nests of a kernel as kernels of their own, for whoever keeps what becomes of them: candidates of a
search share most of theirs. The kernel calls them one after the other. Knows the loop IR, and where a buffer
will lie; nothing of who keeps what.

Apart stands only what is compiled alone to the code that it is within the kernel: a nest that uses parameters
and buffers of the heap, whose addresses it is given as the body of a parallel loop is. What lies on the stack
may be registers, or be read beyond its end, and stays with all that use it.

A schedule for several threads is often one parallel loop of few iterations, with all nests in it. Then these
are taken apart, and given its variable: so long a loop is handed out one iteration at a time, whatever is in
it, and of each iteration a call costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.dtype import INT32
from ...core.recursion import Steps, run
from ...expr import make
from ...expr.nodes import Var, const_int
from ...expr.walk import substitute
from ...loopir.stmt import Alloc, Buffer, Extern, For, Func, Seq, Stmt, map_exprs, preorder, rebuilt, seq
from . import tiles
from .parallel import PIECE, WAKING, captured
from .statement import STACK_LIMIT, size_in_elements, written
from .work_estimate import ENDLESS, estimate

NEST = "nest"  # the kind of an Extern that is a part of the same kernel, and gives a status as it does
LEAST = 2  # nests: where there is one, nothing is shared without the whole
# statements, when loops are written out, from which on a nest in a loop is worth a module of its own, which
# takes LLVM as long as a dozen of them
WORTH = 24


def taken_apart(func: Func, name: Callable[[Func], str | None]) -> tuple[Func, list[Func]]:
    """The kernel with calls in the place of nests, and these by the names that ``name`` gives to each; the
    same kernel and none where it stays whole."""
    if func.dims or func.constants or func.needs:
        return func, []
    nests: list[Func] = []

    def called(s: Stmt, apart: frozenset[Buffer], within: For | None) -> Steps[Stmt]:
        if isinstance(s, Alloc):
            more = apart | {s.buffer} if s.within is None and _on_heap(s.buffer) else apart - {s.buffer}
            return rebuilt(s, [(yield called(s.body, more, within))])
        if isinstance(s, Seq):
            made = []
            for p in s.stmts:
                made.append((yield called(p, apart, within)))
            return seq(*made)
        if not isinstance(s, For):
            return s
        if within is None and _handed_out_singly(s):
            before = len(nests)
            body = yield called(s.body, apart, s)
            if len(nests) >= before + LEAST:
                return rebuilt(s, [body])
            del nests[before:]
        nest = _nest(s, apart, within)
        known = None if nest is None else name(nest)
        if nest is None or known is None:
            return s
        nests.append(nest.changed(name=known))
        values = () if len(nest.params) == len(nest.buffers()) or within is None else (within.var,)
        return Extern(NEST, known, (*nest.buffers(), *values), nest.outputs, INT32)

    body = run(called(func.body, frozenset(func.buffers()), None))
    return (func, []) if len(nests) < LEAST else (func.with_body(body), nests)


def _nest(s: For, apart: frozenset[Buffer], within: For | None) -> Func | None:
    """The nest as a kernel, None where it uses what it cannot be given. ``within`` is a parallel loop that it
    stands in, whose variable is its last parameter where it reads that."""
    buffers, names = captured(s)
    # sums in tiles of a matrix unit may begin with a store in front of the nest
    if any(isinstance(n, Extern) or tiles.noted(n) for n in preorder(s)):
        return None
    if not apart.issuperset(buffers):
        return None
    values: list[Var] = []
    body: Stmt = s
    if within is not None:
        # buffers of the heap in a parallel loop are rows of what threads share
        if any((isinstance(n, Alloc) and _on_heap(n.buffer)) or _parallel(n) for n in preorder(s)):
            return None
        if _copies(s) < WORTH:
            return None
        if len(names) == 1 and names[0] is within.var:
            begin, count = const_int(within.begin), const_int(within.extent)
            assert begin is not None and count is not None
            v = Var(within.var.name, within.var.dtype, "value", begin, begin + count - 1)
            values, names = [v], []
            body = map_exprs(s, lambda e: substitute(e, {within.var: v}))
    if names:
        return None
    writes = written(s)
    return Func(NEST, (*buffers, *values), body, outputs=tuple(b for b in buffers if b in writes))


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


def _on_heap(b: Buffer) -> bool:
    """Whether a buffer is too large for the stack in any case."""
    size = const_int(make.mul(size_in_elements(b), b.dtype.bytes))
    return size is not None and size > STACK_LIMIT
