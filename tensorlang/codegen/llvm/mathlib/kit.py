"""Writing numeric code for any number of lanes as formulas: operators on ``Num`` emit instructions. Knows no
expressions.

A product and a sum stay two operations; where one rounding is wanted the code says ``fma``, which on a
machine without the instruction is a product and a sum again (never a library call).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .. import shuffles, types
from ..emitter import Emitter
from ..text import Function


@dataclass(frozen=True)
class Format:
    """A binary float of IEEE 754: its bits, how many of them are the fraction, the bias of the exponent."""

    bits: int
    fraction: int
    bias: int

    @property
    def least(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def magic(self) -> float:
        """1.5 * 2**fraction: adding it rounds to an integer, which is left in the low bits."""
        return 1.5 * 2.0**self.fraction

    def literal(self, x: float) -> int:
        """The bits of ``x`` as an integer."""
        return int(np.array(x, f"f{self.bits // 8}").view(f"i{self.bits // 8}"))


FORMATS = {"float": Format(32, 23, 127), "double": Format(64, 52, 1023)}
_SHIFTS = ("shl", "lshr", "ashr")
_BITS = {"half": 16, "float": 32, "double": 64}


class Num:
    """An operand: ``kind`` is ``f`` (float), ``i`` (integer of the same width) or ``b`` (truth)."""

    __slots__ = ("kind", "kit", "operand")

    def __init__(self, kit: Kit, kind: str, operand: str) -> None:
        self.kit = kit
        self.kind = kind
        self.operand = operand

    def _op(self, word: str, other: Num | float, flipped: bool = False) -> Num:
        a, b = (
            self,
            other
            if isinstance(other, Num)
            else self.kit.literal(other, "i")
            if word in _SHIFTS
            else self.kit.num(other, self.kind),
        )
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

    def logical(self, n: int) -> Num:
        """Shifted right by ``n``, zeros from the left. Cheap in 64 bits too, where AVX2 cannot keep the
        sign."""
        return self._op("lshr", n)

    def __neg__(self) -> Num:
        return self.kit.emit("f", f"fneg {self.kit.type('f')} {self.operand}")

    def _compare(self, ordered: str, signed: str, other: Num | float) -> Num:
        word = f"fcmp {ordered}" if self.kind == "f" else f"icmp {signed}"
        return self.kit.emit(
            "b", f"{word} {self.kit.type(self.kind)} {self.operand}, {self.kit.num(other, self.kind).operand}"
        )

    def __lt__(self, other: Num | float) -> Num:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Num | float) -> Num:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Num | float) -> Num:
        return self._compare("ogt", "sgt", other)

    def same(self, other: Num | float) -> Num:
        """Equality."""
        return self._compare("oeq", "eq", other)

    def differs(self, other: Num | float) -> Num:
        """Whether they are unequal, or one is NaN."""
        return self._compare("une", "ne", other)

    def beyond(self, limit: float) -> Num:
        """Whether it is above ``limit`` or NaN."""
        return self._compare("ugt", "", limit)

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

    @property
    def format(self) -> Format:
        return FORMATS[self.element]

    def type(self, kind: str) -> str:
        return types.lanes_of(self._element(kind), self.lanes)

    def _element(self, kind: str) -> str:
        return {"f": self.element, "i": f"i{self.bits}", "b": "i1"}[kind]

    def emit(self, kind: str, text: str) -> Num:
        return Num(self, kind, self.em.ins(text))

    def literal(self, x: float, kind: str) -> Num:
        """A number in every lane, written into the instruction."""
        text = (
            types.float_literal(x, self.element)
            if kind == "f"
            else str(int(x))
            if kind == "i"
            else ("true" if x else "false")
        )
        return Num(self, kind, types.splat_literal(text, self._element(kind), self.lanes))

    def num(self, x: Num | float, kind: str = "f") -> Num:
        """A number in every lane.

        Where registers are few, LLVM broadcasts some constants anew each time, which takes an instruction and
        a register. In memory as whole vectors, which LLVM must not know to be constant, they are operands of
        the instructions that use them.
        """
        if isinstance(x, Num):
            return x
        literal = self.literal(x, kind)
        size = self.lanes * self.bits
        if kind == "b" or x == 0 or size % 256 or self.em.target.vector_registers > 16:
            return literal
        at = self.em.module.constant(self.type(kind), literal.operand)
        return self.emit(kind, f"load {self.type(kind)}, ptr {at}, align 32, !invariant.load !{{}}")

    def _call(self, name: str, *args: Num) -> Num:
        t = self.type("f")
        suffix = types.mangle(self.element, self.lanes)
        return Num(self, "f", self.em.call(t, f"llvm.{name}.{suffix}", *((t, a.operand) for a in args)))

    def fma(self, a: Num | float, b: Num | float, c: Num | float) -> Num:
        """``a * b + c``, rounded once where the machine can."""
        a, b, c = self.num(a), self.num(b), self.num(c)
        return self._call("fma", a, b, c) if self.em.target.has_fma else a * b + c

    def horner(self, x: Num, coefficients: Sequence[Num | float]) -> Num:
        """The polynomial with these coefficients, lowest power first, one after the other: the fewest and the
        most precise steps."""
        out = self.num(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            out = self.fma(out, x, c)
        return out

    def polynomial(self, x: Num, coefficients: Sequence[Num | float]) -> Num:
        """The polynomial with these coefficients, lowest power first. Terms are paired, ``a + b x``, and
        pairs of pairs again (Estrin, 1960): a step or two more than Horner's rule, in chains half as long. A
        processor cannot hold so many instructions in flight that they would hide a long one."""
        first, rest = coefficients[0], coefficients[1:]
        if not rest:
            return self.num(first)
        if len(coefficients) <= 3 or len(rest) % 2 == 0:
            return self.fma(self.polynomial(x, rest), x, first)
        return self.polynomial(
            x * x, [self.fma(b, x, a) for a, b in zip(coefficients[::2], coefficients[1::2], strict=True)]
        )

    def abs(self, x: Num) -> Num:
        return self._call("fabs", x)

    def sqrt(self, x: Num) -> Num:
        return self._call("sqrt", x)

    def rint(self, x: Num) -> Num:
        """Rounded to the nearest integer, halves to even."""
        return self._call("rint", x)

    def trunc(self, x: Num) -> Num:
        """Rounded towards zero."""
        return self._call("trunc", x)

    def integral(self, x: Num) -> Num:
        """Whether it is an integer or infinite."""
        return self.trunc(x).same(x)

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

    def to_float(self, x: Num, less: int = 0) -> Num:
        """Integers as floats, ``less`` taken away; in 64 bits those below 2**51 only (no conversion of
        vectors before AVX-512)."""
        if self.bits == 64:
            # the integer in the low bits of the magic number is that number plus the integer; subtracting it
            # leaves a float
            return self.from_bits(x + self.format.literal(self.format.magic)) - (self.format.magic + less)
        out = self.emit("f", f"sitofp {self.type('i')} {x.operand} to {self.type('f')}")
        return out - float(less) if less else out

    def to_integer(self, x: Num) -> Num:
        """The integers of floats that are in their range, rounded towards zero."""
        return self.emit("i", f"fptosi {self.type('f')} {x.operand} to {self.type('i')}")

    def rounded(self, x: Num, factor: float = 1.0) -> tuple[Num, Num]:
        """``x * factor`` rounded to an integer: as float, and with the integer in the low bits of its bits,
        the rest of which is no matter; for results below 2**(fraction - 1). Unlike a conversion it has a
        value (a meaningless one) for NaN."""
        magic = self.format.magic
        moved = x + magic if factor == 1.0 else self.fma(x, factor, magic)
        return moved - magic, self.bits_of(moved)

    def nearest(self, x: Num, factor: float = 1.0) -> tuple[Num, Num]:
        """``x * factor`` rounded to an integer, as float and as integer."""
        whole, bits = self.rounded(x, factor)
        return whole, bits - self.format.literal(self.format.magic)

    def power_of_two(self, n: Num) -> Num:
        """2**n for integers in the range of normal floats."""
        return self.from_bits((n + self.format.bias) << self.format.fraction)

    def moved_exponent(self, x: Num, n: Num) -> Num:
        """``x * 2**n`` where both are normal, ``n`` the low bits of an integer; other bits of ``n`` do not
        matter."""
        return self.from_bits(self.bits_of(x) + (n << self.format.fraction))

    @property
    def scales(self) -> bool:
        """Whether :meth:`grown` is one instruction for each register."""
        return self.em.target.scales_floats and self.lanes * self.bits >= 128

    def grown(self, x: Num, whole: Num) -> Num:
        """``x * 2**whole`` for ``whole`` without a fraction, rounded once, into subnormals or overflows too:
        by the instruction of AVX-512."""
        width = max(128, min(self.em.target.vector_bits, 1 << (self.lanes * self.bits - 1).bit_length()))
        m = width // self.bits
        vector, flags = types.lanes_of(self.element, m), f"i{max(m, 8)}"
        rest = [(vector, "poison"), (flags, "-1"), *([("i32", "4")] if width == 512 else [])]
        name = f"llvm.x86.avx512.mask.scalef.p{'s' if self.bits == 32 else 'd'}.{width}"
        return self._in_registers(
            m, lambda a, b: self.em.call(vector, name, (vector, a), (vector, b), *rest), x, whole
        )

    @property
    def looks_up(self) -> bool:
        """Whether :meth:`looked_up` is one instruction for each register."""
        return self.bits == 32 and self.em.target.scales_floats and self.em.target.vector_bits == 512

    def looked_up(self, table: Sequence[float], at: Num) -> Num:
        """The numbers at these places of a table of 16, of which the low four bits matter: a register that is
        picked from."""
        texts = [f"float {types.float_literal(v, 'float')}" for v in table]
        row = ("<16 x float>", f"<{', '.join(texts)}>")
        name = "llvm.x86.avx512.permvar.sf.512"
        return self._in_registers(
            16, lambda a: self.em.call("<16 x float>", name, row, ("<16 x i32>", a)), at
        )

    def _in_registers(self, m: int, one: Callable[..., str], *given: Num) -> Num:
        """The floats that ``one`` makes of registers of ``m`` lanes, for as many as there are."""
        n, em = self.lanes, self.em
        count = 1 << (-(-n // m) - 1).bit_length()
        whole = [shuffles.resized(em, self._as_vector(y), n, count * m, self._element(y.kind)) for y in given]
        made = [
            one(
                *(
                    shuffles.part(em, y, count * m, at, m, self._element(g.kind))
                    for y, g in zip(whole, given, strict=True)
                )
            )
            if at < n
            else "poison"
            for at in range(0, count * m, m)
        ]
        out = shuffles.resized(em, shuffles.joined(em, made, m, self.element), count * m, n, self.element)
        return Num(self, "f", em.ins(f"extractelement <1 x {self.element}> {out}, i64 0") if n == 1 else out)

    def _as_vector(self, x: Num) -> str:
        """An operand as a vector, of one lane too."""
        if self.lanes > 1:
            return x.operand
        one = self._element(x.kind)
        return self.em.ins(f"insertelement <1 x {one}> poison, {one} {x.operand}, i64 0")

    def scaled(self, x: Num, n: Num) -> Num:
        """``x * 2**n`` in two steps, for x near 1: the first is exact, the second rounds into subnormals or
        overflows, as it should."""
        even = self.format.bias + 1 & -2
        half = (n + 4 * even).logical(1) - 2 * even
        # one factor of 2**n would itself overflow, or be subnormal, for results that are neither
        return x * self.power_of_two(half) * self.power_of_two(n - half)

    def flipped(self, x: Num, n: Num) -> Num:
        """``-x`` where the integer ``n`` is odd."""
        return self.from_bits(self.bits_of(x) ^ (n << (self.bits - 1)))

    def times(self, a: Num, b: Num) -> Num:
        """The low half of the product of integers."""
        return self.emit("i", f"mul {self.type('i')} {a.operand}, {b.operand}")

    def funnel(self, a: Num, b: Num, n: Num) -> Num:
        """The upper half of the integers ``a`` and ``b``, joined and shifted left by ``n``."""
        t = self.type("i")
        return Num(
            self,
            "i",
            self.em.call(
                t,
                f"llvm.fshl.{types.mangle(self._element('i'), self.lanes)}",
                *((t, x.operand) for x in (a, b, n)),
            ),
        )

    def product(self, a: Num, b: Num | float) -> tuple[Num, Num]:
        """``a * b`` as the rounded product and what rounding took from it. Without fma by Dekker's splitting
        (Numer. Math. 18, 1971)."""
        b = self.num(b)
        high = a * b
        if self.em.target.has_fma:
            return high, self.fma(a, b, -high)
        (ah, al), (bh, bl) = self._split(a), self._split(b)
        return high, ((ah * bh - high) + ah * bl + al * bh) + al * bl

    def less_product(self, c: Num, a: Num, b: Num | float) -> Num:
        """``c - a * b`` where that is small beside ``c``, rounded once at most, without fma too."""
        if self.em.target.has_fma:
            return self.fma(-a, b, c)
        high, low = self.product(a, b)
        return (c - high) - low

    def _split(self, x: Num) -> tuple[Num, Num]:
        scaled = x * (2.0 ** (self.format.fraction // 2 + 1) + 1.0)
        # Veltkamp's: the upper half of the fraction, so that products of halves are exact
        high = scaled - (scaled - x)
        return high, x - high

    # -- other widths ----------------------------------------------------------------------------------------

    @property
    def doubles(self) -> Kit:
        """The same lanes in float64."""
        return Kit(self.em, "double", self.lanes)

    def wide(self, x: Num) -> Num:
        """Floats as doubles, exactly."""
        if self.bits == 64:
            return x
        kit = self.doubles
        return kit.emit("f", f"fpext {self.type('f')} {x.operand} to {kit.type('f')}")

    def narrow(self, x: Num) -> Num:
        """Doubles rounded to these floats."""
        if self.bits == 64:
            return x
        return self.emit("f", f"fptrunc {x.kit.type('f')} {x.operand} to {self.type('f')}")

    # -- rare lanes ------------------------------------------------------------------------------------------

    def repaired(self, fast: Num, rare: Num, slow: Callable[..., Num], *args: Num) -> Num:
        """``fast``, but ``slow(kit, *args)`` in the lanes that are ``rare``. ``slow`` becomes a function of
        its own, called when some lane needs it. Each lane is chosen by itself, so the result does not depend
        on what stands beside it."""
        em, t = self.em, self.type("f")
        name = f"tensorlang.{slow.__name__}.{types.mangle(self.element, self.lanes)}"
        # one function a module, whatever number of calls
        if em.module.claim(name):
            self._define(name, slow, len(args))
        call = f"call {t} @{name}({', '.join(f'{t} {a.operand}' for a in args)})"
        # placed in front of a loop, in a block that may be closed already: no branch there
        if em.at != em.depth:
            return self.select(rare, self.emit("f", call), fast)
        any_lane = rare.operand
        if self.lanes > 1:
            any_lane = em.call("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", (self.type("b"), rare.operand))
        before, inside, after = em.block, em.function.block("rare"), em.function.block("usual")
        before.end = f"  br i1 {any_lane}, label %{inside.label}, label %{after.label}"
        em.scopes[-1].block = inside
        right = self.select(rare, self.emit("f", call), fast)
        inside.end = f"  br label %{after.label}"
        em.scopes[-1].block = after
        return self.emit(
            "f", f"phi {t} [ {fast.operand}, %{before.label} ], [ {right.operand}, %{inside.label} ]"
        )

    def _define(self, name: str, slow: Callable[..., Num], count: int) -> None:
        em, t = self.em, self.type("f")
        names = [f"%x{i}" for i in range(count)]
        function = Function(
            # cold and never inlined: registers of the usual way must not be spilled for it
            f"define internal {t} @{name}({', '.join(f'{t} {x}' for x in names)}) noinline cold willreturn "
            "memory(none) #0"
        )
        kit = Kit(Emitter(em.module, function, em.math), self.element, self.lanes)
        result = slow(kit, *(Num(kit, "f", x) for x in names))
        kit.em.block.end = f"  ret {t} {result.operand}"
        em.module.add(function)
