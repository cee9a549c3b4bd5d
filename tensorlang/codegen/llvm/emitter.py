"""The state of one LLVM function under construction: which values exist, where each may be placed, and the
current scope.

A scope is a stretch of the function that is entered at one point: the function itself, the place in front of
a loop, a loop body, a branch. Every expression has a home: the outermost scope in which all it needs is
known. It is computed there, once, and found again while that scope lasts. So loop-invariant arithmetic, and
reads of buffers that the loop does not write, stand in front of the loop without any pass over LLVM's code.
Knows expressions and buffers; the meaning of each node is in the rule tables of ``expression`` and ``index``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ...core.dtype import DType
from ...expr import linear
from ...expr.nodes import READS, And, Const, Expr, IfThenElse, Mul, Or, Select, Var, const_int
from ...expr.walk import variables
from ...loopir.stmt import Buffer, Load, Stmt, load, loads
from ...target import Target
from . import types
from .text import Block, Function, Module


class Scope:
    """``block`` is where new instructions of this scope go. ``conditional``: it may not run although the
    scope around it runs. ``written``: the buffers that the loop or the branch whose body this is writes."""

    __slots__ = ("block", "conditional", "logged", "written")

    def __init__(
        self, block: Block, conditional: bool = False, written: frozenset[Buffer] = frozenset()
    ) -> None:
        self.block = block
        self.conditional = conditional
        self.written = written
        self.logged: list[tuple[dict[Any, str], Any]] = []


@dataclass
class Storage:
    """Where a buffer is: its pointer, the depth of the scope that made it, the number of elements when it is
    on the stack."""

    pointer: str
    depth: int
    on_stack: int | None = None


@dataclass
class Live:
    """A run-time allocation: its pointer, and the block that gives it back when the function fails, once
    there is one."""

    pointer: str
    leaves: Block | None = None


def buffers_read(e: Expr) -> frozenset[Buffer]:
    """The buffers an expression reads. Cached on the node."""
    if not e.contains & READS:
        return _NO_BUFFERS
    memo = e._memo
    if memo is None:
        memo = e._memo = {}
    found = memo.get("buffers")
    if found is None:
        found = memo["buffers"] = frozenset([load.buffer for load in loads(e)])
    return found  # type: ignore[no-any-return]


_NO_BUFFERS: frozenset[Buffer] = frozenset()


def branches(e: Expr) -> bool:
    """Whether computing ``e`` itself may take a branch, or guards what is below it, so that it belongs where
    it is used."""
    kind = type(e)
    if kind is IfThenElse:
        return linear.reads_data(e)
    if kind is And or kind is Or:
        return bool(buffers_read(e.b))  # type: ignore[attr-defined]
    return kind is Load and e.mask is not None and e.mask.dtype.lanes == 1  # type: ignore[attr-defined]


def of_lanes(mask: Expr) -> bool:
    """Whether a mask is known of each lane without reading memory."""
    return mask.dtype.lanes > 1 and not linear.reads_data(mask)


def read_in_lanes(e: Expr) -> Load | None:
    """What an ``if_then_else`` reads in the lanes where its condition holds; None for any other."""
    if type(e) is not IfThenElse or type(e.a) is not Load or e.a.mask is not None or not of_lanes(e.cond):
        return None
    found = load(e.a.buffer, e.a.indices, e.cond)
    return found if type(found) is Load else None


def sized(e: object) -> bool:
    """Whether this is a product of sizes."""
    return type(e) is Mul and all(sized(x) or (type(x) is Var and x.kind == "dim") for x in (e.a, e.b))


class Emitter:
    """One LLVM function in the making. ``value(e)`` is the operand that holds ``e``; ``index(e)`` the same as
    an i64."""

    value_rules: Callable[[Expr], Callable[..., str]]  # set by ``expression``
    index_rules: Callable[[Expr], Callable[..., str]]  # set by ``index``
    # what a select takes where its test fails, set by ``mathlib``
    otherwise: ClassVar[Callable[[Emitter, Select], str]]

    def __init__(self, module: Module, function: Function, math: str) -> None:
        self.module = module
        self.target: Target = module.target
        self.function = function
        self.math = math
        self.scopes = [Scope(function.entry)]
        self.at = 0
        self.memo: dict[Any, str] = {}
        self.indices: dict[Any, str] = {}
        self.pointers: dict[Any, str] = {}
        self.flat: dict[Any, Expr] = {}
        self.storage: dict[Buffer, Storage] = {}
        self.vars: dict[Var, str] = {}  # index variables hold i64, the others their own register type
        self.var_depth: dict[Var, int] = {}
        self.ranges: dict[Any, tuple[int | None, int | None]] = {}
        self.harmless: dict[Expr, bool] = {}  # vectors that may be read in every lane, by these ranges
        self.divisions: dict[Stmt, Any] = {}  # those by open sizes that a statement holds
        self.counting: Expr | None = None  # a sum to be stored whose terms are zero or not, as a test says
        self.streamed: frozenset[Buffer] = frozenset()  # buffers that are written past the caches
        self.fresh: set[Stmt] = set()  # sums of products whose registers begin with zeros
        self.some: set[Stmt] = set()  # such sums that have rows, as was asked before
        # where the configuration of the tiles that is kept is noted, None while none is
        self.configured: str | None = None
        self.masks: dict[Var, Expr] = {}  # what masks with names are
        # of operands that hold a float of 16 bits as float32: its bits, by operand and kind of float
        self.halves: dict[tuple[str, str], str] = {}
        self.exact: set[tuple[str, str]] = set()  # those that 16 bits hold, at hand or not
        self.picked: dict[tuple[str, str], int] = {}  # how many choices have made such bits
        self.stack_bytes = 0
        self.live: list[Live] = []  # run-time allocations, to be freed on failure
        self.status: str | None = None  # where what the function fails with waits meanwhile
        self.may_fail = False
        # the number of this thread's row of a workspace, below 0 for none; None where one thread runs
        self.row: str | None = None
        self._by_buffer: dict[Buffer, list[tuple[dict[Any, str], Any]]] = {}
        self._homes: dict[Expr, int] = {}
        self._bound_in: dict[Var, Scope] = {}  # the scope from which on each is known
        self._located = module.located(function)
        self._mark = self._marked(0)

    # -- instructions ----------------------------------------------------------------------------------------

    @property
    def block(self) -> Block:
        """The block instructions go to now."""
        return self.scopes[self.at].block

    def ins(self, text: str) -> str:
        """An instruction with a result; its name."""
        name = self.function.fresh()
        self.scopes[self.at].block.lines.append(f"  {name} = {text}{self._mark}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.scopes[self.at].block.lines.append(f"  {text}{self._mark}")

    def mark(self, s: Stmt) -> str:
        """From here on, instructions belong to a statement, where lines are asked for. What they belonged to
        before, for ``unmark``."""
        before, lines = self._mark, self.module.lines
        if lines is not None and id(s) in lines:
            self._mark = self._marked(lines[id(s)])
        return before

    def unmark(self, before: str) -> None:
        self._mark = before

    def _marked(self, line: int) -> str:
        return self._located and (
            f", !dbg {self.module.node(f'!DILocation(line: {line}, scope: {self._located})')}"
        )

    def call(
        self, result: str, name: str, *args: tuple[str, str], flags: str = "", attributes: str = ""
    ) -> str:
        """A call of an external function or intrinsic; ``args`` are (type, operand)."""
        callee = self.module.declare(
            name, result, ", ".join(t.split(" align")[0] for t, _ in args), attributes
        )
        flags = f"{flags} " if flags else ""
        return self.ins(f"call {flags}{result} {callee}({', '.join(f'{t} {v}' for t, v in args)})")

    def type(self, t: DType) -> str:
        """The LLVM register type of a dtype."""
        return types.register_type(t, self.target)

    def element(self, t: DType) -> str:
        return types.register_element(t, self.target)

    def splat(self, value: str, element: str, lanes: int) -> str:
        """A scalar operand in every lane."""
        if lanes == 1:
            return value
        if not value.startswith("%"):
            return types.splat_literal(value, element, lanes)
        one = self.ins(f"insertelement <{lanes} x {element}> poison, {element} {value}, i64 0")
        return self.ins(
            f"shufflevector <{lanes} x {element}> {one}, <{lanes} x {element}> poison, <{lanes} x i32> "
            "zeroinitializer"
        )

    # -- scopes ----------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """The depth of the innermost scope."""
        return len(self.scopes) - 1

    def push(self, block: Block, conditional: bool = False, written: frozenset[Buffer] = frozenset()) -> None:
        """Enter a scope whose code begins in ``block``."""
        self.scopes.append(Scope(block, conditional, written))
        self.at = self.depth
        self._homes.clear()

    def pop(self, go_on: Block) -> None:
        """Leave the innermost scope; the one around it goes on in ``go_on``."""
        for table, key in self.scopes.pop().logged:
            table.pop(key, None)
        self.at = self.depth
        self.scopes[-1].block = go_on
        self._homes.clear()

    def bind(self, v: Var, operand: str, depth: int, lo: int | None = None, hi: int | None = None) -> None:
        """Give a variable its value, known from scope ``depth`` on, within these bounds."""
        if self.vars.get(v, operand) != operand and self._bound_in[v] in self.scopes:
            self._forget_value(v)
        self.vars[v] = operand
        self._bound_in[v] = self.scopes[depth]
        self.var_depth[v] = depth
        if self.ranges.get(v, (lo, hi)) != (
            lo,
            hi,
        ):  # a copy of its loop with other bounds: what was concluded from the old ones is void
            self.ranges = self.given_ranges()
            self.harmless.clear()
        self.ranges[v] = (lo, hi)

    def given_ranges(self) -> dict[Any, tuple[int | None, int | None]]:
        """Those of variables, from which all others are concluded, and of products of sizes, of which more
        may be known."""
        return {known: r for known, r in self.ranges.items() if type(known) is Var or sized(known)}

    def _forget_value(self, v: Var) -> None:
        """A copy of a loop of one iteration has another value, and the one before is still known, as is what
        was computed of that: it was of a scope around the loop."""
        self._homes.clear()
        for scope in self.scopes:
            for table, key in scope.logged:
                if _speaks_of(key, v):
                    table.pop(key, None)

    def forget(self, buffer: Buffer) -> None:
        """The buffer is written: what was read from it is no longer known."""
        for table, key in self._by_buffer.pop(buffer, ()):
            table.pop(key, None)

    def home(self, e: Expr) -> int:
        """The depth of the outermost scope in which ``e`` may be computed."""
        if type(e) is Const:
            return 0
        result = self._homes.get(e)
        if result is None:
            result = self._homes[e] = self._find_home(e)
        return result

    def _find_home(self, e: Expr) -> int:
        if not linear.reads_data(e):
            depths = self.var_depth
            return max([depths[v] for v in variables(e)], default=0)
        if branches(e):
            return self.depth
        inner = 0
        for c in e.children():
            depth = self.home(c)
            if depth > inner:
                inner = depth
        if type(e) is not Load:
            return inner
        depth = self.depth
        inner = max(inner, self.storage[e.buffer].depth)
        while depth > inner:
            scope = self.scopes[depth]
            if e.buffer in scope.written or (scope.conditional and not self._always_there(e)):
                break
            depth -= 1
        return depth

    def _always_there(self, e: Load) -> bool:
        """Whether one element may be read although what reads it does not run: it is on the stack."""
        room = self.storage[e.buffer].on_stack
        if room is None or e.mask is not None or e.dtype.lanes > 1:
            return False
        at = const_int(e.buffer.offset(e.indices))
        return at is not None and 0 <= at < room

    def remember(
        self, table: dict[Any, str], key: Any, operand: str, depth: int, reads: frozenset[Buffer]
    ) -> None:
        """``operand`` stands for ``key`` while scope ``depth`` lasts and none of the buffers it was read from
        is written."""
        table[key] = operand
        self.scopes[depth].logged.append((table, key))
        for b in reads:
            self._by_buffer.setdefault(b, []).append((table, key))

    # -- values ----------------------------------------------------------------------------------------------

    def value(self, e: Expr) -> str:
        """The operand holding ``e`` in its own type."""
        result = self.memo.get(e)
        if result is not None:
            return result
        if type(e) is Const:
            return types.literal(e.value, e.dtype, self.target)
        return self._compute(self.memo, Emitter.value_rules, e)

    def index(self, e: Expr) -> str:
        """The operand holding a scalar integer as i64: the form of addresses, extents and index
        arithmetic."""
        if type(e) is Const:
            return str(int(e.value))
        result = self.indices.get(e)
        if result is not None:
            return result
        if type(e) is Var and e.dtype.is_index:
            return self.vars[e]
        return self._compute(self.indices, Emitter.index_rules, e)

    def _compute(self, table: dict[Any, str], rules: Callable[[Expr], Callable[..., str]], e: Expr) -> str:
        depth = self.home(e)
        outer, self.at = self.at, depth
        try:
            operand = rules(e)(self, e)
        finally:
            self.at = outer
        self.remember(table, e, operand, depth, buffers_read(e))
        return operand


def _speaks_of(key: Any, v: Var) -> bool:
    """Whether what a value is remembered by has this variable."""
    if isinstance(key, Expr):
        return v in variables(key)
    return isinstance(key, tuple | frozenset) and any(_speaks_of(part, v) for part in key)
