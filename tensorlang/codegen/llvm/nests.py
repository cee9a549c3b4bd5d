"""Loop nests of a kernel as kernels of their own, for whoever keeps what becomes of them: candidates of a
search share most of theirs. The kernel calls them one after the other. Knows the loop IR, and where a buffer
will lie; nothing of who keeps what.

Apart stands only what is compiled alone to the code that it is within the kernel: a nest that uses parameters
and buffers of the heap, whose addresses it is given as the body of a parallel loop is. What lies on the stack
may be registers, or be read beyond its end, and stays with all that use it.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.dtype import INT32
from ...expr import make
from ...expr.nodes import const_int
from ...loopir.stmt import Alloc, Buffer, Extern, For, Func, Seq, Stmt, preorder, rebuilt, seq
from . import tiles
from .parallel import captured
from .statement import STACK_LIMIT, size_in_elements, written

NEST = "nest"  # the kind of an Extern that is a part of the same kernel, and gives a status as it does
LEAST = 2  # nests: where there is one, nothing is shared without the whole


def taken_apart(func: Func, name: Callable[[Func], str | None]) -> tuple[Func, list[Func]]:
    """The kernel with calls in the place of nests, and these by the names that ``name`` gives to each; the
    same kernel and none where it stays whole."""
    if func.dims or func.constants or func.needs:
        return func, []
    nests: list[Func] = []

    def called(s: Stmt, apart: frozenset[Buffer]) -> Stmt:
        if isinstance(s, Alloc):
            more = apart | {s.buffer} if s.within is None and _on_heap(s.buffer) else apart - {s.buffer}
            return rebuilt(s, [called(s.body, more)])
        if isinstance(s, Seq):
            return seq(*[called(p, apart) for p in s.stmts])
        nest = _nest(s, apart) if isinstance(s, For) else None
        known = None if nest is None else name(nest)
        if nest is None or known is None:
            return s
        nests.append(nest.changed(name=known))
        return Extern(NEST, known, nest.buffers(), nest.outputs, INT32)

    body = called(func.body, frozenset(func.buffers()))
    return (func, []) if len(nests) < LEAST else (func.with_body(body), nests)


def _nest(s: For, apart: frozenset[Buffer]) -> Func | None:
    """The nest as a kernel, None where it uses what it cannot be given."""
    buffers, names = captured(s)
    # sums in tiles of a matrix unit may begin with a store in front of the nest
    if any(isinstance(n, Extern) or tiles.noted(n) for n in preorder(s)):
        return None
    if names or not apart.issuperset(buffers):
        return None
    writes = written(s)
    return Func(NEST, tuple(buffers), s, outputs=tuple(b for b in buffers if b in writes))


def _on_heap(b: Buffer) -> bool:
    """Whether a buffer is too large for the stack in any case."""
    size = const_int(make.mul(size_in_elements(b), b.dtype.bytes))
    return size is not None and size > STACK_LIMIT
