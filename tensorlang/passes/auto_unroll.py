"""auto unroll: loops over registers are written out, and so are those the pragma asks for.

A plain loop of a few iterations whose variable picks elements of a small ``local`` buffer becomes an unrolled
loop: the buffer can only live in registers when every index is a constant (measured: a 4 x 16 tile that is
copied out by a loop is stored at each iteration of k).

Inside a loop with the pragma ``auto_unroll_max_step = n``, plain loops of constant extent whose iterations
come to at most n steps become unrolled loops.

``for i pragma 16: for j in 0..4: for k in 0..4: S`` → both inner loops unrolled (16 steps)
"""

from __future__ import annotations

from ..core.recursion import Steps, run
from ..expr.nodes import Expr, Var, const_int
from ..expr.walk import variables
from ..loopir.stmt import Buffer, For, Func, If, Seq, Stmt, Store, loads, preorder, rebuilt


def auto_unroll(func: Func) -> Func:
    """The pass."""
    return func.with_body(run(_walk(func.body, 0))[0])


REGISTER_BYTES = 4096  # of a local buffer that may live in registers
REGISTER_STEPS = 64  # that walking over one may come to


def _walk(s: Stmt, limit: int) -> Steps[tuple[Stmt, int]]:
    """The statement, and how many steps it comes to when written out; more than any limit when that is not
    constant."""
    if isinstance(s, For):
        own = dict(s.attrs).get("auto_unroll_max_step", limit)
        body, steps = yield _walk(s.body, own)
        n = const_int(s.extent)
        total = steps * n if n is not None else 1 << 40
        most = (
            max(limit, REGISTER_STEPS)
            if s.kind == "serial" and 0 < total <= REGISTER_STEPS and _over_registers(s)
            else limit
        )
        kind = "unrolled" if s.kind == "serial" and 0 < total <= most else s.kind
        if kind == s.kind and body is s.body:
            return s, total
        return For(s.var, s.begin, s.extent, kind, body, s.attrs), total
    parts = s.parts()
    if not parts:
        return s, 0 if isinstance(s, Seq) else 1
    walked = []
    for p in parts:
        walked.append((yield _walk(p, limit)))
    total = sum(n for _, n in walked) + isinstance(s, If)
    return rebuilt(s, [a for a, _ in walked]), total


def _over_registers(s: For) -> bool:
    """Whether the loop's variable picks elements of a small local buffer."""
    for st in preorder(s.body):
        if isinstance(st, Store) and _picks(st.buffer, st.indices, s.var):
            return True
        if any(_picks(node.buffer, node.indices, s.var) for e in st.exprs() for node in loads(e)):
            return True
    return False


def _picks(b: Buffer, indices: tuple[Expr, ...], v: Var) -> bool:
    if b.scope != "local" or not any(v in variables(i) for i in indices):
        return False
    size = b.dtype.bytes
    for extent in b.shape:
        size *= const_int(extent) or REGISTER_BYTES + 1
    return size <= REGISTER_BYTES
