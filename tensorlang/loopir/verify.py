"""Well-formedness of the loop IR: what every pass may rely on and must leave behind. Run between passes in
tests and debugging.

A failure is a bug of this project, never of its user: VerifyError is no TensorLangError. Must not know passes
or schedules.

A variable or buffer may not be defined again while it is in scope. Two loops beside each other may share a
variable: passes that duplicate a body (peeling, unrolling) need not rename it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ..core.dtype import BOOL, DType
from ..core.recursion import Steps, run
from ..core.visit import TypeTable
from ..expr.intrinsics import EFFECTS, TABLE
from ..expr.nodes import (
    Access,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    CCall,
    Choice,
    Compare,
    Const,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Not,
    Or,
    Ramp,
    TruncDiv,
    TruncMod,
    Var,
    const_int,
)
from ..expr.printer import show
from ..expr.walk import preorder, variables
from .in_bounds import unproved
from .packed import Packed
from .printer import lines_of
from .stmt import (
    KINDS,
    UNROLLED,
    VECTORIZED,
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    For,
    Func,
    If,
    Let,
    Load,
    Reduction,
    Report,
    Seq,
    Stmt,
    Store,
    View,
)

SCOPES = ("global", "local")
_CONTEXT = 12  # lines shown around the guilty one


class VerifyError(AssertionError):
    """The loop IR is malformed: ``reason``, and the printed function with the guilty line marked."""

    def __init__(self, reason: str, func: Func, stmt: Stmt | None, nth: int = 0) -> None:
        self.reason = reason
        self.stmt = stmt
        super().__init__(f"{reason}\n{mark(func, stmt, reason, nth)}")


def mark(func: Func, stmt: Stmt | None, note: str, nth: int = 0) -> str:
    """The function as text with an arrow at the line of ``stmt`` (of the header, for None; at its ``nth``
    line when the statement stands in several places). Long functions are cut around it."""
    lines = lines_of(func)
    places = [n for n, (_, _, s) in enumerate(lines) if s is stmt and s is not None]
    guilty = places[min(nth, len(places) - 1)] if places else 0
    keep = {n for n in range(len(lines)) if abs(n - guilty) <= _CONTEXT or n == 0}
    depth = lines[guilty][0]
    for n in range(guilty, -1, -1):  # the loops around it are always shown
        if lines[n][0] < depth:
            keep.add(n)
            depth = lines[n][0]
    out: list[str] = []
    for n, (indent, text, _) in enumerate(lines):
        if n in keep:
            out.append(
                f"{'>' if n == guilty else ' '} "
                f"{'    ' * indent}{text}{f'    # <-- {note}' if n == guilty else ''}"
            )
        elif out[-1] != "  ...":
            out.append("  ...")
    return "\n".join(out)


def verify(func: Func, *, in_bounds: bool = False) -> None:
    """Raise VerifyError unless ``func`` is well formed; with ``in_bounds`` also unless every access is proved
    to be in bounds (those whose index depends on data aside)."""
    _Verifier(func).run()
    if in_bounds:
        for stmt, nth, problem in unproved(func):
            raise VerifyError(problem, func, stmt, nth)


# ---- expressions: each rule returns what is wrong with one node, its children aside ------------------------

rules = TypeTable("verify")
Problem = str | None


def _is_number(t: DType) -> bool:
    return not t.is_bool


def _binary(e: Binary, accepts: Callable[[DType], bool], word: str) -> Problem:
    if e.a.dtype is not e.b.dtype:
        return f"the sides of `{e.symbol}` are {e.a.dtype} and {e.b.dtype}"
    if not accepts(e.a.dtype):
        return f"`{e.symbol}` needs {word}, got {e.a.dtype}"
    want = BOOL.with_lanes(e.a.dtype.lanes) if isinstance(e, Compare) else e.a.dtype
    return None if e.dtype is want else f"`{e.symbol}` on {e.a.dtype} has the dtype {e.dtype}"


@rules.on(View)
def _view(e: View) -> str | None:
    if len(e.corner) != len(e.buffer.shape):
        return (
            f"a corner of {len(e.corner)} indices for {e.buffer.name}, which has {len(e.buffer.shape)} "
            "dimension(s)"
        )
    if len(e.extents) != len(e.strides):
        return f"a view of {e.buffer.name} has {len(e.extents)} extents and {len(e.strides)} strides"
    bad = next((k for k in e.children() if not (k.dtype.is_int and k.dtype.lanes == 1)), None)
    return (
        None
        if bad is None
        else f"{show(bad)} in a view of {e.buffer.name} is {bad.dtype}, not a scalar integer"
    )


@rules.on(Var, Const)
def _leaf(e: Expr) -> Problem:
    return None


@rules.on(Binary)
def _any_binary(e: Binary) -> Problem:
    return _binary(e, _is_number, "numbers")


@rules.on(Compare)
def _compare(e: Compare) -> Problem:
    return _binary(e, lambda t: True, "values")


@rules.on(Div)
def _div(e: Div) -> Problem:
    return _binary(e, lambda t: t.is_float, "floats")


@rules.on(FloorDiv, FloorMod, TruncDiv, TruncMod)
def _int_div(e: Binary) -> Problem:
    return _binary(e, lambda t: t.is_int, "integers")


@rules.on(And, Or)
def _logic(e: Binary) -> Problem:
    return _binary(e, lambda t: t.is_bool, "conditions")


@rules.on(Not)
def _not(e: Not) -> Problem:
    return None if e.a.dtype.is_bool else f"`not` needs a condition, got {e.a.dtype}"


@rules.on(Choice)
def _choice(e: Choice) -> Problem:
    if not e.cond.dtype.is_bool:
        return f"the condition of a choice is {e.cond.dtype}"
    if e.a.dtype is not e.b.dtype:
        return f"the sides of a choice are {e.a.dtype} and {e.b.dtype}"
    lanes = e.cond.dtype.lanes
    if lanes != e.a.dtype.lanes and not (isinstance(e, IfThenElse) and lanes == 1):
        return f"a condition of {lanes} lane(s) chooses between values of {e.a.dtype.lanes}"
    return None


@rules.on(Cast)
def _cast(e: Cast) -> Problem:
    return (
        None
        if e.dtype.lanes == e.a.dtype.lanes
        else f"a cast from {e.a.dtype} to {e.dtype} changes the number of lanes"
    )


@rules.on(Call)
def _call(e: Call) -> Problem:
    row = TABLE.get(e.name)
    if row is None:
        return f"no intrinsic is called {e.name}"
    if len(e.args) != row.arity:
        return f"{e.name} takes {row.arity} argument(s), got {len(e.args)}"
    t = e.args[0].dtype
    if any(a.dtype is not t for a in e.args) or not row.accepts(t) or e.dtype is not row.result(t):
        return f"{e.name} on {', '.join(str(a.dtype) for a in e.args)} giving {e.dtype}"
    return None


@rules.on(CCall)
def _c_call(e: CCall) -> Problem:
    wrong = [a for a in e.args if a.dtype.lanes != e.dtype.lanes]
    return (
        f"the C function {e.name} of {wrong[0].dtype.lanes} lane(s) giving {e.dtype.lanes}" if wrong else None
    )


@rules.on(Ramp)
def _ramp(e: Ramp) -> Problem:
    if not (e.base.dtype.is_int and e.base.dtype.lanes == 1):
        return f"the base of a ramp is {e.base.dtype}"
    if e.stride.dtype is not e.base.dtype:
        return f"a ramp with a base of {e.base.dtype} and a stride of {e.stride.dtype}"
    return None if e.lanes > 1 else f"a ramp of {e.lanes} lane(s)"


@rules.on(Broadcast)
def _broadcast(e: Broadcast) -> Problem:
    return (
        None
        if e.value.dtype.lanes == 1 and e.lanes > 1
        else f"a broadcast of {e.value.dtype} to {e.lanes} lane(s)"
    )


@rules.on(Reduction)
def _reduction(e: Reduction) -> Problem:
    if e.op not in ("add", "mul", "min", "max", "and", "or"):
        return f"no reduction of lanes is called {e.op}"
    if e.value.dtype.lanes == 1:
        return "a reduction over the lanes of a scalar"
    return (
        None
        if e.value.dtype.is_bool == (e.op in ("and", "or"))
        else f"a reduction by {e.op} of {e.value.dtype}"
    )


@rules.on(Packed)
def _packed(e: Packed) -> Problem:
    if e.dtype.lanes == 1 or not e.mask.dtype.is_bool or e.mask.dtype.lanes != e.dtype.lanes:
        return f"lanes of {e.dtype} kept by {e.mask.dtype}"
    return None


@rules.on(Access)
def _foreign(e: Access) -> Problem:
    return f"`{show(e)}` reads a tensor of the language, not a buffer"


@rules.on(Load)
def _load(e: Load) -> Problem:
    return _access(e.buffer, e.indices, e.mask, e.dtype.lanes)


def _access(b: Buffer, indices: tuple[Expr, ...], mask: Expr | None, lanes: int) -> Problem:
    if len(indices) != len(b.shape):
        return f"{b.name} has {len(b.shape)} dimension(s), the access {len(indices)} index(es)"
    for d, i in enumerate(indices):
        if not i.dtype.is_int:
            return f"index {d} of {b.name} is {i.dtype}"
        if i.dtype.lanes not in (1, lanes):
            return f"an access of {lanes} lane(s) to {b.name} with index {d} of {i.dtype.lanes}"
    if mask is not None:
        if not mask.dtype.is_bool:
            return f"the mask of an access to {b.name} is {mask.dtype}"
        if mask.dtype.lanes not in (1, lanes):
            return f"an access of {lanes} lane(s) to {b.name} under a mask of {mask.dtype.lanes}"
    return None


# ---- statements --------------------------------------------------------------------------------------------


class _Verifier:
    def __init__(self, func: Func) -> None:
        self.func = func
        self.vars: dict[Var, None] = {}
        self.buffers: dict[Buffer, None] = {}
        self.checked: dict[Expr, None] = {}  # nodes found well formed; what is in scope is checked each time
        self.stmt: Stmt | None = None
        self.visits: dict[Stmt, int] = {}

    def fail(self, reason: str) -> NoReturn:
        raise VerifyError(
            reason, self.func, self.stmt, self.visits.get(self.stmt, 1) - 1 if self.stmt is not None else 0
        )

    def need(self, problem: Problem) -> None:
        if problem is not None:
            self.fail(problem)

    def run(self) -> None:
        func = self.func
        for v in (*func.dims, *[p for p in func.params if isinstance(p, Var)]):
            self.define(v)
        for b in func.buffers():
            if b.scope != "arg":
                self.fail(f"the parameter {b.name} has the scope {b.scope}")
            self.enter(b)
        for b in (*func.outputs, *func.updates):
            if b not in self.buffers:
                self.fail(f"the output {b.name} is not a parameter")
        run(self.visit(func.body))

    def define(self, v: Var) -> None:
        if v in self.vars:
            self.fail(f"{v.name} is defined again within its own scope")
        self.vars[v] = None

    def enter(self, b: Buffer) -> None:
        if b in self.buffers:
            self.fail(f"{b.name} is allocated again while it lives")
        if b.dtype.lanes != 1:
            self.fail(f"{b.name} has elements of {b.dtype}")
        if b.strides is not None and len(b.strides) != len(b.shape):
            self.fail(f"{b.name} has {len(b.shape)} dimension(s) and {len(b.strides)} stride(s)")
        for n in (*b.shape, *(b.strides or ())):
            self.index(n, f"a size of {b.name}")
        self.buffers[b] = None

    def expr(self, e: Expr) -> None:
        """Well formed, of variables and buffers in scope."""
        if not isinstance(e, Expr):
            self.fail(f"{e!r} is not an expression")
        # asked each time, though the node was checked before: what is in scope changes, what a node is does
        # not
        missing = sorted(v.name for v in variables(e) if v not in self.vars)
        if missing:
            self.fail(f"{missing[0]} is used where it is not defined")
        for node in preorder(e):
            if isinstance(node, Load | View):
                self.reachable(node.buffer)
            if node not in self.checked:
                if rules.find(type(node)) is None:
                    self.fail(f"{type(node).__name__} is not an expression of the loop IR")
                self.need(rules(node)(node))
                self.checked[node] = None

    def reachable(self, b: Buffer) -> None:
        if b not in self.buffers:
            self.fail(
                f"{b.name} is used outside its Alloc" if b.scope != "arg" else f"{b.name} is not a parameter"
            )

    def index(self, e: Expr, what: str) -> None:
        self.expr(e)
        if not (e.dtype.is_int and e.dtype.lanes == 1):
            self.fail(f"{what} is {e.dtype}, not a scalar integer")

    def visit(self, s: Stmt) -> Steps[None]:
        if isinstance(s, Seq):
            for part in s.stmts:
                yield self.visit(part)
            return
        self.stmt = s
        # a statement may stand in several places, as after peeling; the message marks the one that is wrong
        self.visits[s] = self.visits.get(s, 0) + 1
        if isinstance(s, For):
            yield self.loop(s)
        elif isinstance(s, If):
            self.expr(s.cond)
            if s.cond.dtype is not BOOL:
                self.fail(f"the condition of an `if` is {s.cond.dtype}, not a scalar bool")
            for part in s.parts():
                yield self.visit(part)
        elif isinstance(s, Store):
            self.store(s)
        elif isinstance(s, Alloc):
            if s.buffer.scope not in SCOPES:
                self.fail(f"{s.buffer.name} is allocated in the scope {s.buffer.scope}")
            if s.within is not None:
                self.reachable(s.within)
            self.enter(s.buffer)
            yield self.visit(s.body)
            del self.buffers[s.buffer]
        elif isinstance(s, Let):
            self.expr(s.value)
            if s.value.dtype is not s.var.dtype:
                self.fail(f"{s.var.name} is {s.var.dtype}, its value {s.value.dtype}")
            self.define(s.var)
            yield self.visit(s.body)
            del self.vars[s.var]
        elif isinstance(s, Extern):
            for b in s.buffers():
                self.reachable(b)
                # what is called gets an address and no strides
                if b.strides is not None and any(a is b for a in s.args):
                    self.fail(f"{b.name} is given to {s.name} but is not compact")
            for b in s.outputs:
                if b.scope == "arg" and not self.func.writes(b):
                    self.fail(f"{b.name} is written by {s.name} but is not an output")
            for e in s.exprs():
                self.expr(e)
        elif isinstance(s, Evaluate):
            self.evaluate(s)
        elif isinstance(s, Report):
            for e in s.exprs():
                self.index(e, f"a value reported of {s.access}")
        else:
            self.fail(f"{type(s).__name__} is not a statement of the loop IR")

    def loop(self, s: For) -> Steps[None]:
        if s.kind not in KINDS:
            self.fail(f"no kind of loop is called {s.kind}")
        self.index(s.begin, f"the begin of {s.var.name}")
        self.index(s.extent, f"the extent of {s.var.name}")
        if not (s.var.dtype.is_int and s.var.dtype.lanes == 1):
            self.fail(f"the loop variable {s.var.name} is {s.var.dtype}")
        if s.kind in (VECTORIZED, UNROLLED) and const_int(s.extent) is None:
            self.fail(f"the extent of the {s.kind} loop {s.var.name} is {show(s.extent)}, not a constant")
        self.define(s.var)
        yield self.visit(s.body)
        del self.vars[s.var]

    def store(self, s: Store) -> None:
        b = s.buffer
        self.reachable(b)
        if b.scope == "arg" and not self.func.writes(b):
            self.fail(f"{b.name} is written but is not an output")
        for e in s.exprs():
            self.expr(e)
        if s.value.dtype.element is not b.dtype:
            self.fail(f"{b.name} is {b.dtype}, the value stored is {s.value.dtype}")
        lanes = max((i.dtype.lanes for i in s.indices), default=1)
        if s.value.dtype.lanes != lanes:
            self.fail(f"a value of {s.value.dtype.lanes} lane(s) is stored by an access of {lanes}")
        self.need(_access(b, s.indices, s.mask, lanes))

    def evaluate(self, s: Evaluate) -> None:
        if isinstance(s.value, Call) and s.value.name in EFFECTS:
            for a in s.value.args:
                self.expr(a)
        else:
            self.expr(s.value)
