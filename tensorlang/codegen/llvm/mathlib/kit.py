"""Writing numeric code for any number of lanes as formulas: operators on ``Num`` emit instructions. Knows no expressions.

A product and a sum stay two operations; where one rounding is wanted the code says ``fma``, which on a machine without the
instruction is a product and a sum again (never a library call).
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import types
from ..emitter import Emitter

_BITS = {"half": 16, "float": 32, "double": 64}


class Num:
    """An operand: ``kind`` is ``f`` (float), ``i`` (integer of the same width) or ``b`` (truth)."""

    __slots__ = ("kind", "kit", "operand")

    def __init__(self, kit: Kit, kind: str, operand: str) -> None:
        self.kit = kit
        self.kind = kind
        self.operand = operand

    def _op(self, word: str, other: Num | float, flipped: bool = False) -> Num:
        a, b = self, self.kit.num(other, self.kind)
        if flipped:
            a, b = b, a
        return self.kit.emit(self.kind, f"{word} {self.kit.type(self.kind)} {a.operand}, {b.operand}")

    def _word(self, name: str) -> str:
        return f"f{name}" if self.kind == "f" else name

    def __add__(self, other: Num | float) -> Num:
        return self._op(self._word("add"), other)

    __radd__ = __add__

    def __sub__(self, other: Num | float) -> Num:
        return self._op(self._word("sub"), other)

    def __rsub__(self, other: Num | float) -> Num:
        return self._op(self._word("sub"), other, True)

    def __mul__(self, other: Num | float) -> Num:
        return self._op(self._word("mul"), other)

    __rmul__ = __mul__

    def __truediv__(self, other: Num | float) -> Num:
        return self._op("fdiv", other)

    def __rtruediv__(self, other: Num | float) -> Num:
        return self._op("fdiv", other, True)

    def __and__(self, other: Num | int) -> Num:
        return self._op("and", other)

    def __or__(self, other: Num | int) -> Num:
        return self._op("or", other)

    def __xor__(self, other: Num | int) -> Num:
        return self._op("xor", other)

    def __lshift__(self, other: Num | int) -> Num:
        return self._op("shl", other)

    def __rshift__(self, other: Num | int) -> Num:
        """Keeps the sign."""
        return self._op("ashr", other)

    def __neg__(self) -> Num:
        return self.kit.emit("f", f"fneg {self.kit.type('f')} {self.operand}")

    def _compare(self, ordered: str, signed: str, other: Num | float) -> Num:
        word = f"fcmp {ordered}" if self.kind == "f" else f"icmp {signed}"
        return self.kit.emit("b", f"{word} {self.kit.type(self.kind)} {self.operand}, {self.kit.num(other, self.kind).operand}")

    def __lt__(self, other: Num | float) -> Num:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Num | float) -> Num:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Num | float) -> Num:
        return self._compare("ogt", "sgt", other)

    def same(self, other: Num | float) -> Num:
        """Equality."""
        return self._compare("oeq", "eq", other)

    def unordered(self) -> Num:
        """Whether it is NaN."""
        return self._compare("uno", "", self)


class Kit:
    """Formulas over floats of one ``element`` type (``float``, ``double``) in so many lanes."""

    def __init__(self, em: Emitter, element: str, lanes: int) -> None:
        self.em = em
        self.element = element
        self.lanes = lanes
        self.bits = _BITS[element]

    def type(self, kind: str) -> str:
        return types.lanes_of(self._element(kind), self.lanes)

    def _element(self, kind: str) -> str:
        return {"f": self.element, "i": f"i{self.bits}", "b": "i1"}[kind]

    def emit(self, kind: str, text: str) -> Num:
        return Num(self, kind, self.em.ins(text))

    def num(self, x: Num | float, kind: str = "f") -> Num:
        """A number as a literal in every lane."""
        if isinstance(x, Num):
            return x
        text = types.float_literal(x, self.element) if kind == "f" else str(int(x)) if kind == "i" else ("true" if x else "false")
        return Num(self, kind, types.splat_literal(text, self._element(kind), self.lanes))

    def _call(self, name: str, *args: Num) -> Num:
        t = self.type("f")
        suffix = types.mangle(self.element, self.lanes)
        return Num(self, "f", self.em.call(t, f"llvm.{name}.{suffix}", *((t, a.operand) for a in args)))

    def fma(self, a: Num | float, b: Num | float, c: Num | float) -> Num:
        """``a * b + c``, rounded once where the machine can."""
        a, b, c = self.num(a), self.num(b), self.num(c)
        return self._call("fma", a, b, c) if self.em.target.has_fma else a * b + c

    def horner(self, x: Num, coefficients: Sequence[float]) -> Num:
        """The polynomial with these coefficients, lowest power first."""
        out = self.num(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            out = self.fma(out, x, c)
        return out

    def abs(self, x: Num) -> Num:
        return self._call("fabs", x)

    def sqrt(self, x: Num) -> Num:
        return self._call("sqrt", x)

    def copysign(self, size: Num, sign: Num) -> Num:
        return self._call("copysign", size, sign)

    def select(self, cond: Num, a: Num | float, b: Num | float) -> Num:
        kind = a.kind if isinstance(a, Num) else b.kind if isinstance(b, Num) else "f"
        t, a, b = self.type(kind), self.num(a, kind), self.num(b, kind)
        return self.emit(kind, f"select {self.type('b')} {cond.operand}, {t} {a.operand}, {t} {b.operand}")

    def at_most(self, x: Num, limit: float) -> Num:
        """``min(x, limit)`` that lets NaN through."""
        return self.select(x > limit, limit, x)

    def at_least(self, x: Num, limit: float) -> Num:
        """``max(x, limit)`` that lets NaN through."""
        return self.select(x < limit, limit, x)

    def bits_of(self, x: Num) -> Num:
        """The bits of floats as integers."""
        return self.emit("i", f"bitcast {self.type('f')} {x.operand} to {self.type('i')}")

    def from_bits(self, x: Num) -> Num:
        """Floats of these bits."""
        return self.emit("f", f"bitcast {self.type('i')} {x.operand} to {self.type('f')}")

    def to_float(self, x: Num) -> Num:
        """Integers as floats."""
        return self.emit("f", f"sitofp {self.type('i')} {x.operand} to {self.type('f')}")

    def nearest(self, x: Num) -> tuple[Num, Num]:
        """``x`` rounded to an integer, as float and as integer, for ``|x|`` below 2**22: adding 1.5 * 2**23 rounds, and leaves the
        integer in the low bits. Unlike a conversion it has a value (a meaningless one) for NaN."""
        magic = 1.5 * 2.0**23
        moved = x + magic
        return moved - magic, self.bits_of(moved) - 0x4B400000

    def power_of_two(self, n: Num) -> Num:
        """2**n for integers in the range of normal floats (of ``float``)."""
        return self.from_bits((n + 127) << 23)
