"""What the native loop does at a call, written out for one program as LLVM text. Knows programs, sizes and
text; no compiler and no graphs.

``int name(inputs, outputs, sizes, arena)`` calls the kernels in their order. Sizes are computed once a call,
straight down the program's table. Where values lie follows from the sizes too: each lies behind those that
live while it does and that came before it when values were placed for typical sizes, so the layout is as
tight as at a call here for sizes like these, and right for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core.dtype import dtype
from ..interface.c_header import BAD_SIZE, engine_parameters
from ..interface.c_helpers import C_HELPERS
from ..interface.signature import REFUSED, Dim, Signature
from .arena import LINE, Life, place, rounded
from .program import Kernel, Program, inside, lives, made_by

NO_MEMORY = 1
OWN = ("tensorlang_alloc", "tensorlang_free")  # what the functions here call


class EngineText:
    """The LLVM text of a program's functions."""

    def __init__(self, p: Program, codes: Sequence[Any], places: Sequence[int], signature: Signature) -> None:
        self.p, self.codes, self.places = p, codes, places
        self.name = signature.name
        self.parameters = engine_parameters(signature)
        self.dims = {
            q.source.name: f"%a{i}" for i, q in enumerate(self.parameters) if isinstance(q.source, Dim)
        }
        self.facts = signature.dims
        self.kernels = [p.kernels[k] for step in p.steps for k in step]  # type: ignore[union-attr]
        made, outputs = made_by(self.kernels, p.joined), set(p.outputs)
        self.inner = [v for v in made if v not in outputs]
        self.lines: list[str] = []
        self.rows: dict[int, str] = {}
        self.count = 0

    def text(self, called: set[str], triple: str) -> str:
        parts = [f'target triple = "{triple}"', f"@{self.name}.weights = external hidden global i8"]
        parts += [self.checks(), self.offsets(), self.arena(), self.shapes(), self.run(), self.main()]
        parts += [f"declare i32 @{s}(ptr, ptr)" for s in dict.fromkeys(self._symbol(k) for k in self.kernels)]
        helpers = [text for s, text in C_HELPERS.items() if s in called or s in OWN]
        return "\n\n".join([*parts, *(h.replace("define internal", "define") for h in helpers)])

    # -- parts

    def ins(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def begin(self) -> None:
        """A new function: nothing of another is computed in it."""
        self.lines, self.rows = [], {}

    def function(self, head: str, end: str = "") -> str:
        return "\n".join([f"define {head} nounwind {{", *self.lines, *([end] if end else []), "}"])

    def heads(self, *more: str, all_: bool = False) -> str:
        """The parameters: the sizes, or all, and more."""
        kept = [
            f"{'i64' if isinstance(q.source, Dim) else 'ptr'} %a{i}"
            for i, q in enumerate(self.parameters)
            if isinstance(q.source, Dim) or all_
        ]
        return ", ".join([*kept, *more])

    def call(self, what: str, *more: str) -> str:
        return f"@{self.name}.{what}({', '.join([*(f'i64 {d}' for d in self.dims.values()), *more])})"

    def size(self, row: int) -> str:
        """The operand of a size."""
        # in order: a size is computed after those that it is made of, once a function
        for i in self.p.sizes.needed([row]):
            if i not in self.rows:
                self.rows[i] = self._computed(self.p.sizes.rows[i])
        return self.rows[row]

    def _computed(self, row: Any) -> str:
        if not isinstance(row, tuple):
            return self.dims[row] if isinstance(row, str) else str(row)
        op, *rest = row
        return _OPS[op](self, *(self.rows[i] for i in rest))

    def product(self, v: int) -> str:
        """The bytes of a value."""
        value = self.p.values[v]
        total = str(dtype(value.dtype).bytes)
        for n in value.shape:
            total = self.times(total, self.size(n))
        return total

    def times(self, a: str, b: str) -> str:
        if a.isdigit() and b.isdigit():
            return str(int(a) * int(b))
        return a if b == "1" else b if a == "1" else self.ins(f"mul i64 {a}, {b}")

    # -- functions

    def checks(self) -> str:
        """0, or the status for sizes that the engine does not take."""
        self.begin()
        wrong, apart = [], []
        for d in self.facts:
            at = self.dims[d.name]
            wrong.append(f"icmp slt i64 {at}, {max(0, d.lo or 0)}")
            if d.hi is not None:
                wrong.append(f"icmp sgt i64 {at}, {d.hi}")
            if d.multiple_of > 1:
                wrong.append(f"icmp ne i64 {self.ins(f'srem i64 {at}, {d.multiple_of}')}, 0")
        bad = self._any(wrong)
        known = dict.fromkeys(n for k in self.kernels for v in k.outputs for n in self.p.values[v].shape)
        for n in known:
            if isinstance(self.p.sizes.rows[n], tuple):
                apart.append(f"icmp slt i64 {self.size(n)}, 0")
        for a, b, _ in self.p.assumed:
            apart.append(f"icmp ne i64 {self.size(a)}, {self.size(b)}")
        refused = self._any(apart)
        status = self.ins(f"select i1 {refused}, i32 {REFUSED}, i32 0")
        status = self.ins(f"select i1 {bad}, i32 {BAD_SIZE}, i32 {status}")
        return self.function(f"internal i32 @{self.name}.check({self.heads()})", f"  ret i32 {status}")

    def _any(self, conditions: Sequence[str]) -> str:
        found = "false"
        for c in conditions:
            found = self.ins(f"or i1 {found}, {self.ins(c)}")
        return found

    def offsets(self) -> str:
        """Where the values within lie, by their order in ``inner``; the bytes of the arena."""
        self.begin()
        found, sizes = self._lives()
        parts = inside(self.inner, sizes, self.p.joined)
        at: dict[int, str] = {}
        ends: dict[int, str] = {}
        total = "0"
        own = [i for i in range(len(found)) if i not in parts]
        for i in sorted(own, key=place(found, parts)[0].__getitem__):
            start = "0"
            for j in at:
                if found[j].first <= found[i].last and found[i].first <= found[j].last:
                    start = self.larger(start, ends[j])
            at[i], ends[i] = start, self.sum(start, self.whole_lines(self.product(self.inner[i])))
            total = self.larger(total, ends[i])
            self.lines.append(f"  store i64 {start}, ptr {self.place('i64', '%to', i)}, align 8")
        for i, (whole, before) in parts.items():  # of known sizes
            start = self.sum(at[whole], str(before))
            self.lines.append(f"  store i64 {start}, ptr {self.place('i64', '%to', i)}, align 8")
        return self.function(
            f"internal i64 @{self.name}.offsets({self.heads('ptr %to')})", f"  ret i64 {total}"
        )

    def larger(self, a: str, b: str) -> str:
        if a == b or b == "0":
            return a
        if a == "0":
            return b
        if a.isdigit() and b.isdigit():
            return str(max(int(a), int(b)))
        return self.ins(f"select i1 {self.ins(f'icmp sgt i64 {a}, {b}')}, i64 {a}, i64 {b}")

    def sum(self, a: str, b: str) -> str:
        if a.isdigit() and b.isdigit():
            return str(int(a) + int(b))
        return b if a == "0" else self.ins(f"add i64 {a}, {b}")

    def whole_lines(self, size: str) -> str:
        """Bytes rounded up to cache lines."""
        if size.isdigit():
            return str(rounded(int(size)))
        return self.ins(f"and i64 {self.ins(f'add i64 {size}, {LINE - 1}')}, {-LINE}")

    def _lives(self) -> tuple[list[Life], dict[int, int]]:
        """The values within at typical sizes: when they live, and their bytes."""
        typical = {d.name: d.typical for d in self.facts}
        rows = [n for v in self.inner for n in self.p.values[v].shape]
        numbers = iter(self.p.sizes.function(rows, list(typical))(*typical.values()))
        sizes = {}
        for v in self.inner:
            value = self.p.values[v]
            sizes[v] = math.prod(max(0, next(numbers)) for _ in value.shape) * dtype(value.dtype).bytes
        return lives(self.kernels, sizes, self.p.joined), sizes

    def stop_unless_zero(self, status: str, returned: str = "") -> None:
        """Go on only where a status is 0."""
        failed = self.ins(f"icmp ne i32 {status}, 0")
        n = self.count
        self.lines += [f"  br i1 {failed}, label %bad{n}, label %good{n}", f"bad{n}:"]
        if returned:
            negative = self.ins(f"sub i32 0, {status}")
            self.lines.append(f"  ret i64 {self.ins(f'sext i32 {negative} to i64')}")
        else:
            self.lines.append(f"  ret i32 {status}")
        self.lines.append(f"good{n}:")

    def place(self, kind: str, base: str, n: int) -> str:
        """The address of an element."""
        return self.ins(f"getelementptr {kind}, ptr {base}, i64 {n}")

    def laid_out(self) -> tuple[str, str]:
        """The table of the offsets at these sizes, and the bytes of the arena."""
        table = self.ins(f"alloca i64, i64 {max(1, len(self.inner))}, align 8")
        return table, self.ins(f"call i64 {self.call('offsets', f'ptr {table}')}")

    def arena(self) -> str:
        """The function that tells how much memory a call needs."""
        self.begin()
        self.stop_unless_zero(self.ins(f"call i32 {self.call('check')}"), "negative")
        _, total = self.laid_out()
        return self.function(f"i64 @{self.name}_arena({self.heads()})", f"  ret i64 {total}")

    def shapes(self) -> str:
        """The function that tells the shapes of the outputs."""
        self.begin()
        self.stop_unless_zero(self.ins(f"call i32 {self.call('check')}"))
        for i, n in enumerate(n for v in self.p.outputs for n in self.p.values[v].shape):
            size = self.size(n)
            self.lines.append(f"  store i64 {size}, ptr {self.place('i64', '%to', i)}, align 8")
        return self.function(f"signext i32 @{self.name}_shapes({self.heads('ptr %to')})", "  ret i32 0")

    def run(self) -> str:
        """The kernels in their order, on values that lie in ``%arena`` by the offsets in ``%at``."""
        self.begin()
        slots = self.ins(f"alloca i64, i64 {max([1, *(len(k.slots) for k in self.kernels)])}, align 8")
        most = max([1, *(len(k.inputs) + len(k.outputs) + len(k.constants) for k in self.kernels)])
        buffers = self.ins(f"alloca ptr, i64 {most}, align 8")
        where = self._where()
        for k in self.kernels:
            given = [where[v] for v in (*k.inputs, *k.outputs)] + [self._data(c) for c in k.constants]
            for b, operand in enumerate(given):
                self.lines.append(f"  store ptr {operand}, ptr {self.place('ptr', buffers, b)}, align 8")
            for b, row in enumerate(k.slots):
                size = self.size(row)
                self.lines.append(f"  store i64 {size}, ptr {self.place('i64', slots, b)}, align 8")
            self.stop_unless_zero(self.ins(f"call i32 @{self._symbol(k)}(ptr {buffers}, ptr {slots})"))
        for v, to in self.copies:
            size = self.product(v)
            self.lines.append(
                f"  call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {where[v]}, i64 {size}, i1 false)"
            )
        head = self.heads("ptr %arena", "ptr %at", all_=True)
        return self.function(f"internal i32 @{self.name}.run({head})", "  ret i32 0")

    def _where(self) -> dict[int, str]:
        """The address of each value."""
        p, where = self.p, {}
        for i, v in enumerate(self.inner):
            offset = self.ins(f"load i64, ptr {self.place('i64', '%at', i)}, align 8")
            where[v] = self.ins(f"getelementptr i8, ptr %arena, i64 {offset}")
        where |= {v: self._data(c) for v, c in p.constants.items()}
        where |= {v: f"%a{i}" for i, v in enumerate(p.inputs)}
        made = {v for k in self.kernels for v in k.outputs}
        self.copies = []
        for i, v in enumerate(p.outputs, len(p.inputs)):
            if v in made and v not in where:
                where[v] = f"%a{i}"
            else:
                self.copies.append((v, f"%a{i}"))
        return where

    def _data(self, c: int) -> str:
        return f"getelementptr (i8, ptr @{self.name}.weights, i64 {self.places[c]})"

    def _symbol(self, k: Kernel) -> str:
        return self.codes[k.code].symbol

    def main(self) -> str:
        """The function that users call."""
        self.begin()
        self.stop_unless_zero(self.ins(f"call i32 {self.call('check')}"))
        table, total = self.laid_out()
        run = f"call i32 @{self.name}.run({{}})"
        own = self.ins("icmp eq ptr %arena, null")
        self.lines += [f"  br i1 {own}, label %take, label %given", "given:"]
        status = self.ins(run.format(self.heads("ptr %arena", f"ptr {table}", all_=True)))
        self.lines += [f"  ret i32 {status}", "take:"]
        memory = self.ins(f"call ptr @tensorlang_alloc(i64 {self.sum(total, str(LINE))})")
        self.lines += [
            f"  br i1 {self.ins(f'icmp eq ptr {memory}, null')}, label %none, label %ready",
            "none:",
        ]
        self.lines += [f"  ret i32 {NO_MEMORY}", "ready:"]
        status = self.ins(run.format(self.heads(f"ptr {memory}", f"ptr {table}", all_=True)))
        self.lines.append(f"  call void @tensorlang_free(ptr {memory})")
        head = self.heads("ptr %arena", all_=True)
        return self.function(f"signext i32 @{self.name}({head})", f"  ret i32 {status}")


# -- arithmetic of sizes: as ``size_table`` computes it


def _compared(how: str) -> Any:
    return lambda t, a, b: t.ins(f"zext i1 {t.ins(f'icmp {how} i64 {a}, {b}')} to i64")


def _true(t: EngineText, a: str) -> str:
    return t.ins(f"icmp ne i64 {a}, 0")


def _logical(how: str) -> Any:
    return lambda t, a, b: t.ins(f"zext i1 {t.ins(f'{how} i1 {_true(t, a)}, {_true(t, b)}')} to i64")


def _extreme(how: str) -> Any:
    return lambda t, a, b: t.ins(f"select i1 {t.ins(f'icmp {how} i64 {a}, {b}')}, i64 {a}, i64 {b}")


def _divided(t: EngineText, a: str, b: str, found: Any) -> str:
    """``found`` of a divisor that is not 0; 0 where it is."""
    zero = t.ins(f"icmp eq i64 {b}, 0")
    by = t.ins(f"select i1 {zero}, i64 1, i64 {b}")
    return t.ins(f"select i1 {zero}, i64 0, i64 {found(by)}")


def _rest_of(t: EngineText, a: str, b: str) -> tuple[str, str]:
    """The remainder of a truncating division, and whether its sign is not that of the divisor."""
    r = t.ins(f"srem i64 {a}, {b}")
    turned = t.ins(f"icmp slt i64 {t.ins(f'xor i64 {r}, {b}')}, 0")
    return r, t.ins(f"and i1 {turned}, {t.ins(f'icmp ne i64 {r}, 0')}")


def _floor_div(t: EngineText, a: str, b: str) -> str:
    def quotient(by: str) -> str:
        _, below = _rest_of(t, a, by)
        return t.ins(f"sub i64 {t.ins(f'sdiv i64 {a}, {by}')}, {t.ins(f'zext i1 {below} to i64')}")

    return _divided(t, a, b, quotient)


def _floor_mod(t: EngineText, a: str, b: str) -> str:
    def rest(by: str) -> str:
        r, below = _rest_of(t, a, by)
        return t.ins(f"select i1 {below}, i64 {t.ins(f'add i64 {r}, {by}')}, i64 {r}")

    return _divided(t, a, b, rest)


_OPS: dict[str, Any] = {
    "+": lambda t, a, b: t.ins(f"add i64 {a}, {b}"),
    "-": lambda t, a, b: t.ins(f"sub i64 {a}, {b}"),
    "*": lambda t, a, b: t.ins(f"mul i64 {a}, {b}"),
    "//": _floor_div,
    "%": _floor_mod,
    "tdiv": lambda t, a, b: _divided(t, a, b, lambda by: t.ins(f"sdiv i64 {a}, {by}")),
    "tmod": lambda t, a, b: _divided(t, a, b, lambda by: t.ins(f"srem i64 {a}, {by}")),
    "min": _extreme("slt"),
    "max": _extreme("sgt"),
    "<": _compared("slt"),
    "<=": _compared("sle"),
    "==": _compared("eq"),
    "!=": _compared("ne"),
    "and": _logical("and"),
    "or": _logical("or"),
    "not": lambda t, a: t.ins(f"zext i1 {t.ins(f'icmp eq i64 {a}, 0')} to i64"),
    "if": lambda t, a, b, c: t.ins(f"select i1 {_true(t, a)}, i64 {b}, i64 {c}"),
}
