"""Loop IR translated once into Python source, so that a fuzzer can run thousands of small kernels: every
statement becomes a few lines of three-address code with its checks inline. Knows statements and expressions;
the checks it calls live in ``interpret_memory``; must not know how arguments are bound.

How values are held: scalar integers and bools as Python's, wrapped where the machine would (sums and products
may stay unwrapped until something else than a sum or product reads them); floats as numpy scalars, which
round each operation; vectors as numpy arrays; bfloat16 as float32 holding rounded values. Indices are not
wrapped: they never overflow by contract.

What cannot fail and reads no memory is computed in the outermost block where its operands exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.recursion import Steps, run
from ..expr.intrinsics import EFFECTS
from ..expr.linear import reads_data
from ..expr.nodes import READS, Add, Call, Const, Expr, Mul, Sub, Var
from ..expr.walk import preorder as expr_preorder
from ..expr.walk import variables
from .interpret_memory import HELPERS, Site
from .interpret_rules import expressions, wrap
from .stmt import (
    PARALLEL,
    Alloc,
    Buffer,
    Evaluate,
    Extern,
    For,
    Func,
    If,
    Let,
    Load,
    Report,
    Seq,
    Stmt,
    Store,
    View,
    preorder,
)

Atom = str  # a local name, a name of a constant, or a literal
_MAX_LOOPS = 15  # Python refuses 20 nested blocks in one function: deeper loops go into a function inside
_RING = (Add, Sub, Mul)


class _Block:
    """Lines of one indentation, and what was computed here: ``known`` for good, ``read`` until memory may
    have changed."""

    __slots__ = ("known", "lines", "read")

    def __init__(self) -> None:
        self.lines: list[str | _Block] = []
        self.known: dict[Any, Atom] = {}
        self.read: dict[Any, Atom] = {}


class Translator:
    def __init__(self, func: Func, races: bool) -> None:
        self.func = func
        self.globals: dict[str, Any] = dict(HELPERS)
        self.blocks: list[_Block] = [_Block()]
        self.level: dict[
            Atom, int
        ] = {}  # the depth of the block in which a name is defined; literals and constants have none
        self.vars: dict[Var, Atom] = {}
        self.data = {
            p for p in func.params if isinstance(p, Var)
        }  # variables whose values are data, not indices
        self.memory: dict[Buffer, str] = {}  # the suffix of the names that belong to a buffer
        self.constants: dict[Any, Atom] = {}
        self.active: Atom | None = None  # inside a vector if_then_else: the lanes that are evaluated
        self.loops: list[tuple[Var, Atom]] = []
        self.count = 0
        self.nested = 0  # loops in the Python function being written
        self.stmt: Stmt = func.body
        # races: the parallel loops around, as (variable, name of base, name of ticket, buffers written,
        # buffers read)
        self.parallel: list[tuple[Var, Atom, Atom, set[Buffer], set[Buffer]]] = []
        self.outside: dict[Buffer, int] = {}  # how many parallel loops stand around the allocation
        self.depth: dict[Buffer, int] = {}  # how many of them nest inside it
        self.races = races
        if races:
            run(self.measure(func.body, [], dict.fromkeys(func.buffers(), 0)))

    # ---- names and lines

    def name(self, prefix: str = "t") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, text: str) -> None:
        self.blocks[-1].lines.append(text)

    def constant(self, key: Any, make: Callable[[], Any]) -> Atom:
        """The name of a global of the translated code."""
        result = self.constants.get(key)
        if result is None:
            result = self.constants[key] = self.name("k")
            self.globals[result] = make()
        return result

    def site(
        self,
        buffer: Buffer | None = None,
        lanes: int = 1,
        poison: bool = False,
        levels: tuple[tuple[Var, int], ...] = (),
    ) -> Atom:
        name = self.name("S")
        self.globals[name] = Site(self.func, self.stmt, tuple(self.loops), buffer, lanes, poison, levels)
        return name

    def begin(self, header: str) -> None:
        """Open an indented block."""
        self.line(header)
        block = _Block()
        self.blocks[-1].lines.append(block)
        self.blocks.append(block)

    def end(self) -> None:
        self.blocks.pop()

    def define(self, text: str) -> Atom:
        """A new local of the current block."""
        name = self.name()
        self.line(f"{name} = {text}")
        self.level[name] = len(self.blocks) - 1
        return name

    def hoist(self, text: str, operands: tuple[Atom, ...]) -> Atom:
        """A new local of the outermost block where the operands exist."""
        level = max((self.level.get(a, 0) for a in operands), default=0)
        name = self.name()
        block = self.blocks[level]
        # a nested block stands at the end of its parent until it is closed, with its header before it: go in
        # front of both
        at = len(block.lines) - (2 if level < len(self.blocks) - 1 else 0)
        while at > 0 and level < len(self.blocks) - 1 and str(block.lines[at]).startswith("else"):
            at -= 2
        block.lines.insert(at, f"{name} = {text}")
        self.level[name] = level
        return name

    # ---- what the checks need to know beforehand

    def measure(self, s: Stmt, around: list[For], born: dict[Buffer, int]) -> Steps[None]:
        """Find for each buffer how deep parallel loops nest within its life."""
        if isinstance(s, Alloc):
            born = {**born, s.buffer: len(around)}
        if isinstance(s, For) and s.kind == PARALLEL:
            around = [*around, s]
            for b, n in born.items():
                self.depth[b] = max(self.depth.get(b, 0), len(around) - n)
        for part in s.parts():
            yield self.measure(part, around, born)

    def levels(self, buffer: Buffer, write: bool) -> list[tuple[int, Atom, Atom, Var, bool]]:
        """The parallel loops to watch at an access: slot, base, ticket, variable, and whether the buffer is
        read there."""
        out = []
        first = self.outside.get(buffer, 0)
        for slot, (var, base, mine, written, read) in enumerate(self.parallel[first:]):
            if write or buffer in written:
                out.append((slot, base, mine, var, buffer in read))
        return out

    # ---- expressions

    def value(self, e: Expr, raw: bool = False) -> Atom:
        """The atom of an expression; ``raw`` allows an integer sum or product that is not wrapped yet."""
        if type(e) is Var:
            return self.vars[e]
        if type(e) is Const:
            return self.literal(e)
        wraps = isinstance(e, _RING) and e.dtype.is_int and e.dtype.lanes == 1 and self.is_data(e)
        key: Any = (e, "raw") if raw and wraps else e
        data = _reads(e)
        for block in self.blocks:
            result = (block.read if data else block.known).get(key)
            if result is not None:
                return result
        if wraps and not raw:
            inner = self.value(e, True)
            atom = self.hoist(wrap(inner, e.dtype), (inner,))
        else:
            atom = expressions(e)(self, e)
        level = self.level.get(atom, 0)
        if data:  # under the mask of a lazy vector, or in one branch: known no further than this block
            self.blocks[-1].read[key] = atom
        else:
            self.blocks[level].known[key] = atom
        return atom

    def is_data(self, e: Expr) -> bool:
        """Whether an integer may wrap: everything but index arithmetic on loop variables and sizes."""
        return not e.dtype.is_index or reads_data(e) or not self.data.isdisjoint(variables(e))

    def literal(self, e: Const) -> Atom:
        if not e.dtype.is_float:
            return f"({e.value})" if e.value < 0 else str(e.value)
        return self.constant(e, lambda: _float(e.dtype, e.value))

    # ---- statements

    def write(self, s: Stmt) -> Steps[None]:
        if isinstance(s, Seq):
            for part in s.stmts:
                yield self.write(part)
            return
        self.stmt = s
        for block in self.blocks:  # the statement before may have changed memory
            block.read.clear()
        if isinstance(s, For):
            yield self.loop(s)
        elif isinstance(s, If):
            cond = self.value(s.cond)
            yield self.branch(f"if {cond}:", s.then)
            orelse = s.orelse
            if orelse is not None:
                yield self.branch("else:", orelse)
        elif isinstance(s, Store):
            self.store(s)
        elif isinstance(s, Alloc):
            yield self.alloc(s)
        elif isinstance(s, Let):
            self.vars[s.var] = self.value(s.value)
            if self.is_data(s.value):
                self.data.add(s.var)
            yield self.write(s.body)
        elif isinstance(s, Extern):
            args = [
                f"B{self.memory[a]}"
                if isinstance(a, Buffer)
                else self.view(a)
                if isinstance(a, View)
                else self.value(a)
                for a in s.args
            ]
            self.line(
                f"extern({s.kind!r}, {s.name!r}, [{', '.join(args)}], "
                f"[{', '.join(f'B{self.memory[b]}' for b in s.outputs)}])"
            )
        elif isinstance(s, Report):
            self.line(
                f"report({self.site()}, {s.access!r}, {s.dim}, {', '.join(map(self.value, s.exprs()))})"
            )
        elif isinstance(s, Evaluate):
            if not (isinstance(s.value, Call) and s.value.name in EFFECTS):
                self.value(s.value)
        else:
            raise TypeError(f"cannot interpret {type(s).__name__}")

    def view(self, e: View) -> str:
        corner, extents, strides = (
            f"({''.join(f'{self.value(x)}, ' for x in part)})" for part in (e.corner, e.extents, e.strides)
        )
        return f"view(B{self.memory[e.buffer]}, {corner}, {extents}, {strides})"

    def branch(self, header: str, body: Stmt) -> Steps[None]:
        self.begin(header)
        yield self.write(body)
        self.line("pass")
        self.end()

    def loop(self, s: For) -> Steps[None]:
        begin, extent = self.value(s.begin), self.value(s.extent)
        outer_nested = self.nested
        inside = None
        if self.nested >= _MAX_LOOPS:
            inside = self.name("f")
            self.begin(f"def {inside}():")
            self.nested = 0
        watched = self.races and s.kind == PARALLEL
        if watched:
            base, mine = self.name("base"), self.name("mine")
            self.line(f"{mine} = {base} = ticket[0]")
            self.line(f"ticket[0] += max({extent}, 0) + 1")
            self.parallel.append((s.var, base, mine, *_touched(s.body)))
        var = self.name("v")
        self.begin(f"for {var} in range({begin}, {begin} + {extent}):")
        self.level[var] = len(self.blocks) - 1
        self.vars[s.var] = var
        if watched:
            self.line(f"{mine} += 1")
        self.loops.append((s.var, var))
        self.nested += 1
        yield self.write(s.body)
        self.line("pass")
        self.nested = outer_nested
        self.loops.pop()
        self.end()
        if watched:
            self.parallel.pop()
        if inside is not None:
            self.end()
            self.line(f"{inside}()")

    def alloc(self, s: Alloc) -> Steps[None]:
        b = s.buffer
        shape = "".join(f"{self.value(n)}, " for n in b.shape)
        strides = None if b.strides is None else "".join(f"{self.value(n)}, " for n in b.strides)
        key = self.constant(("dtype", b.dtype), lambda: b.dtype)
        self.outside[b] = len(self.parallel)
        suffix = self.memory[b] = self.name("")
        self.line(
            f"B{suffix} = Block({key}, ({shape}), {'None' if strides is None else f'({strides})'}, "
            f"{self.depth.get(b, 0)})"
        )
        self.unpack(b, True)
        yield self.write(s.body)

    def unpack(self, b: Buffer, poison: bool) -> None:
        """Locals for what scalar accesses touch."""
        suffix = self.memory[b]
        self.line(f"d{suffix} = B{suffix}.view; s{suffix} = B{suffix}.shape")
        if poison:
            self.line(f"i{suffix} = B{suffix}.flags")
        for slot in range(self.depth.get(b, 0)):
            self.line(
                f"w{suffix}_{slot} = B{suffix}.writers[{slot}]; r{suffix}_{slot} = B{suffix}.readers[{slot}]"
            )

    def address(self, b: Buffer, indices: tuple[Expr, ...], site: Atom, word: str) -> tuple[Atom, str]:
        """Check a scalar access; its offset and its index as a tuple."""
        atoms = [self.value(i) for i in indices]
        suffix = self.memory[b]
        extents = [self.value(n) for n in b.shape]
        tests = " and ".join(f"0 <= {i} < {n}" for i, n in zip(atoms, extents, strict=True))
        index = f"({''.join(f'{a}, ' for a in atoms)})"
        if tests:
            self.line(f"if not ({tests}): bounds({site}, {index}, s{suffix}, {word!r})")
        offset = self.value(b.offset(indices)) if indices else "0"
        return (offset if b.strides is None else self.define(f"B{suffix}.first + {offset}")), index

    def load(self, e: Load) -> Atom:
        b, lanes = e.buffer, e.dtype.lanes
        levels = self.levels(b, False)
        poison = self.poisoned(b)
        site = self.site(b, lanes, poison, tuple((v, slot) for slot, _, _, v, _ in levels))
        suffix = self.memory[b]
        mask = None if e.mask is None else self.value(e.mask)
        if lanes > 1:
            index = "".join(f"{self.value(i)}, " for i in e.indices)
            if self.active is not None:
                mask = self.active if mask is None else self.define(f"{mask} & {self.active}")
            text = f"vector_load({site}, B{suffix}, ({index}), {mask}, {_levels(levels)})"
            return self.define(f"from_bfloat({text})" if b.dtype.code == "bfloat" else text)
        if self.active is not None:
            any_lane = self.define(f"{self.active}.any()")
            mask = any_lane if mask is None else self.define(f"{mask} and {any_lane}")
        if mask is None:
            return self.define(self.scalar_load(b, e.indices, site, poison, levels))
        out = self.define(self.zero(b.dtype))
        self.begin(f"if {mask}:")
        self.line(f"{out} = {self.scalar_load(b, e.indices, site, poison, levels)}")
        self.end()
        return out

    def scalar_load(
        self,
        b: Buffer,
        indices: tuple[Expr, ...],
        site: Atom,
        poison: bool,
        levels: list[tuple[int, Atom, Atom, Var, bool]],
    ) -> str:
        at, index = self.address(b, indices, site, "read")
        suffix = self.memory[b]
        if poison:
            self.line(f"if not i{suffix}[{at}]: uninitialised({site}, {index})")
        for which, (slot, base, mine, _, _) in enumerate(levels):
            self.line(f"q = w{suffix}_{slot}[{at}]")
            self.line(
                f"if q >= {base} and q != {mine}: race({site}, {index}, {which}, q, {base}, {mine}, ('read', "
                "'write'))"
            )
            self.line(f"q = r{suffix}_{slot}[{at}]")
            self.line(f"if q != {mine}: r{suffix}_{slot}[{at}] = {mine} if q < {base} else {base}")
        text = f"d{suffix}[{at}]"
        return f"from_bfloat({text})" if b.dtype.code == "bfloat" else text

    def zero(self, t: DType) -> str:
        return (
            self.constant((t, 0.0), lambda: _float(t, 0.0)) if t.is_float else ("False" if t.is_bool else "0")
        )

    def poisoned(self, b: Buffer) -> bool:
        return b.scope != "arg" or any(b is o for o in self.func.outputs)

    def store(self, s: Store) -> None:
        b = s.buffer
        lanes = store_lanes(s)
        value = self.value(s.value)
        if s.value.dtype.is_int and lanes == 1 and s.value.dtype.is_index:
            value = wrap(value, s.value.dtype)  # an index that is data after all must fit its type
        if b.dtype.code == "bfloat":
            value = f"to_bfloat({value})"
        mask = None if s.mask is None else self.value(s.mask)
        levels = self.levels(b, True)
        site = self.site(b, lanes, False, tuple((v, slot) for slot, _, _, v, _ in levels))
        suffix = self.memory[b]
        if lanes > 1:
            index = "".join(f"{self.value(i)}, " for i in s.indices)
            self.line(f"vector_store({site}, B{suffix}, {value}, ({index}), {mask}, {_levels(levels)})")
            return
        if mask is not None:
            self.begin(f"if {mask}:")
        at, index = self.address(b, s.indices, site, "write")
        for which, (slot, base, mine, _, is_read) in enumerate(levels):
            self.line(f"q = w{suffix}_{slot}[{at}]")
            self.line(f"if q != {mine}:")
            self.line(
                f" if q >= {base}: race({site}, {index}, {which}, q, {base}, {mine}, ('write', 'write'))"
            )
            self.line(f" w{suffix}_{slot}[{at}] = {mine}")
            if is_read:
                self.line(f"q = r{suffix}_{slot}[{at}]")
                self.line(
                    f"if q >= {base} and q != {mine}: race({site}, {index}, {which}, q, {base}, {mine}, "
                    "('write', 'read'))"
                )
        self.line(f"d{suffix}[{at}] = {value}")
        if self.poisoned(b):
            self.line(f"i{suffix}[{at}] = 1")
        if mask is not None:
            self.end()

    def function(self) -> str:
        """The source of ``kernel(blocks, scalars, dims, ticket)``."""
        names = []
        for i, b in enumerate(self.func.buffers()):
            self.memory[b] = f"_{i}"
            names.append(f"B_{i}")
        for i, v in enumerate([p for p in self.func.params if isinstance(p, Var)]):
            self.vars[v] = f"a{i}"
        for i, v in enumerate(self.func.dims):
            self.vars[v] = f"n{i}"
        scalars = [self.vars[p] for p in self.func.params if isinstance(p, Var)]
        for target, given in (
            (names, "blocks"),
            (scalars, "scalars"),
            ([self.vars[d] for d in self.func.dims], "dims"),
        ):
            if target:
                self.line(f"{', '.join(target)}, = {given}")
        for b in self.func.buffers():
            self.unpack(b, self.poisoned(b))
        run(self.write(self.func.body))
        lines = ["def kernel(blocks, scalars, dims, ticket):"]
        _render(self.blocks[0], 1, lines)
        return "\n".join(lines)


def _render(block: _Block, depth: int, out: list[str]) -> None:
    pad = " " * depth
    for item in block.lines:
        if isinstance(item, str):
            out.append(pad + item)
        else:
            _render(item, depth + 1, out)
    if not block.lines:
        out.append(pad + "pass")


def _levels(levels: list[tuple[int, Atom, Atom, Var, bool]]) -> str:
    return f"({''.join(f'({base}, {mine}, {is_read}), ' for _, base, mine, _, is_read in levels)})"


def store_lanes(s: Store) -> int:
    """How many elements a store writes."""
    given = [*s.indices, s.value] if s.mask is None else [*s.indices, s.mask, s.value]
    return max(e.dtype.lanes for e in given)


def _touched(s: Stmt) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers written and the buffers read."""
    written: set[Buffer] = set()
    read: set[Buffer] = set()
    for node in preorder(s):
        written.update(node.written())
        if isinstance(node, Extern):
            read.update(node.buffers())
        for whole in node.exprs():
            read.update(e.buffer for e in expr_preorder(whole) if isinstance(e, Load))
    return written, read


def _reads(e: Expr) -> bool:
    """Whether the value depends on memory; kept on the node, which outlives many translations."""
    return e.contains & READS != 0


def _float(t: DType, value: float) -> Any:
    if t.code == "bfloat":
        return HELPERS["round_bfloat"](np.float32(value))
    with np.errstate(over="ignore"):
        return t.to_numpy().type(value)
