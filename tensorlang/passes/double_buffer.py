"""double buffer: what a loop's iteration reads was computed in the iteration before, into the other of two
copies of a buffer.

``for k: alloc P: { P = f(k); C += P }`` →
``alloc P2[2]: { P2[0] = f(0); for k: { if k + 1 < n: P2[(k + 1) % 2] = f(k + 1); C += P2[k % 2] } }``

Loops ask for it by the note ``double_buffer``, which names the buffers. One that is computed from what the
same iteration writes, other buffers or the row of a scan, stays as it is: the next iteration's are not there
yet.
"""

from __future__ import annotations

from ..core.recursion import Steps, run
from ..expr import make
from ..expr.nodes import Expr
from ..expr.walk import rewrite as rewrite_expr
from ..expr.walk import substitute
from ..loopir.relocate import Place, relocate
from ..loopir.stmt import (
    NOTHING,
    Alloc,
    Buffer,
    Extern,
    For,
    Func,
    If,
    Seq,
    Stmt,
    View,
    loads,
    map_exprs,
    preorder,
    rewrite,
    seq,
)
from .simplify import replace_var

NOTE = "double_buffer"


def double_buffer(func: Func) -> Func:
    """The pass."""
    return func.with_body(rewrite(func.body, _loop))


def _loop(s: Stmt) -> Stmt | None:
    if not isinstance(s, For) or NOTE not in dict(s.attrs):
        return None
    names = str(dict(s.attrs)[NOTE]).split(", ")
    loop = For(s.var, s.begin, s.extent, s.kind, s.body, tuple(a for a in s.attrs if a[0] != NOTE))
    first: list[Stmt] = []
    following: list[Stmt] = []
    copies: list[Buffer] = []
    for name in names:  # producers before their readers, so that one that is doubled may read another
        found = run(_split(loop.body, name, frozenset()))
        # the filling reads what the iteration before it writes: it cannot run ahead
        if found is None or _reads(found[2]) & _written(loop.body, found[2]):
            continue
        twice = _doubled(found[0])
        now, then, body = _pipelined(loop, twice, found)
        first.append(now)
        following.append(then)
        copies.append(twice)
        loop = For(loop.var, loop.begin, loop.extent, loop.kind, body, loop.attrs)
    out: Stmt = seq(
        *first, For(loop.var, loop.begin, loop.extent, loop.kind, seq(*following, loop.body), loop.attrs)
    )
    for twice in reversed(copies):
        out = Alloc(twice, out)
    return out


Found = tuple[Buffer, tuple[Expr, ...], Stmt]


def _split(s: Stmt, name: str, made: frozenset[Buffer]) -> Steps[Found | None]:
    """The buffer of that name, the conditions around its Alloc, and the statements that fill it; None when
    they read ``made``, the buffers of this iteration."""
    if isinstance(s, If) and s.orelse is None:
        inside = yield _split(s.then, name, made)
        return None if inside is None else (inside[0], (s.cond, *inside[1]), inside[2])
    if isinstance(s, Alloc) and s.buffer.name == name:
        fill = _filling(s)
        read = {b for part in fill for b in _reads(part)}
        whole = any(
            a is s.buffer for st in preorder(s.body) if isinstance(st, Extern) for a in st.args
        )  # one that must lie as it does
        return (s.buffer, (), seq(*fill)) if fill and not whole and not read & made else None
    if isinstance(s, Alloc):
        return (yield _split(s.body, name, made | {s.buffer}))
    if isinstance(s, Seq):
        for part in s.stmts:
            found = yield _split(part, name, made)
            if found is not None:
                return found
    return None


def _filling(s: Alloc) -> list[Stmt]:
    """The first statements of the body that write the buffer alone."""
    parts = s.body.stmts if isinstance(s.body, Seq) else (s.body,)
    result: list[Stmt] = []
    for part in parts:
        own = {st.buffer for st in preorder(part) if isinstance(st, Alloc)}
        # what writes elsewhere too belongs to this iteration
        if _written(part) - own != {s.buffer}:
            break
        result.append(part)
    return result


def _written(s: Stmt, but: Stmt = NOTHING) -> set[Buffer]:
    """The buffers that statements write; without those of ``but``, one of them or several in a row."""
    left_out = {id(st) for st in preorder(but)}
    return {b for st in preorder(s) if id(st) not in left_out for b in st.written()}


def _reads(s: Stmt) -> set[Buffer]:
    return {x.buffer for st in preorder(s) for e in st.exprs() for x in loads(e)} | {
        b for st in preorder(s) if isinstance(st, Extern) for b in st.buffers()
    }


def _doubled(b: Buffer) -> Buffer:
    strides = (
        None
        if b.strides is None
        else (make.mul(b.strides[0], b.shape[0]) if b.shape else make.const(1, "int32"), *b.strides)
    )
    return Buffer(b.name, b.dtype, (make.const(2, "int32"), *b.shape), b.scope, strides)


def _half(loop: For, iteration: Expr) -> Expr:
    return make.floormod(make.sub(iteration, loop.begin), 2)


def _pipelined(loop: For, new: Buffer, found: Found) -> tuple[Stmt, Stmt, Stmt]:
    """The filling for the first iteration, the filling for the next iteration, and the loop's body without
    its own."""
    old, conditions, produce = found

    def at(iteration: Expr) -> Stmt:
        out = replace_var(_in(produce, old, new, _half(loop, loop.var)), loop.var, iteration)
        for c in reversed(conditions):
            out = If(substitute(c, {loop.var: iteration}), out)
        return out

    def taken_out(s: Stmt) -> Stmt | None:
        if isinstance(s, Alloc) and s.buffer is old:
            rest = s.body.stmts[len(_filling(s)) :] if isinstance(s.body, Seq) else ()
            return _in(seq(*rest), old, new, _half(loop, loop.var))
        return None

    following = make.add(loop.var, 1)
    # a loop of no iterations reads nothing, which may not be there
    first = If(make.lt(make.const(0, loop.extent.dtype), loop.extent), at(loop.begin))
    return (
        first,
        If(make.lt(following, make.add(loop.begin, loop.extent)), at(following)),
        rewrite(loop.body, taken_out),
    )


def _in(s: Stmt, old: Buffer, new: Buffer, half: Expr) -> Stmt:
    """The statements with ``new[half, …]`` in the place of ``old[…]``."""

    def place(at: Place) -> Place | None:
        return Place(new, (half, *at.indices), at.mask) if at.buffer is old else None

    def view(e: Expr) -> Expr | None:
        if isinstance(e, View) and e.buffer is old:
            return View(new, (half, *e.corner), e.extents, e.strides)
        return None

    def call(st: Stmt) -> Stmt | None:
        if isinstance(st, Extern) and any(b is old for b in st.outputs):
            return Extern(
                st.kind, st.name, st.args, tuple(new if b is old else b for b in st.outputs), st.result
            )
        return None

    return rewrite(map_exprs(relocate(s, place), lambda e: rewrite_expr(e, view)), call)


__all__ = ["NOTE", "double_buffer"]
