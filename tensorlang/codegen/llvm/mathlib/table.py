"""The table: how each intrinsic of ``expr.intrinsics`` becomes code. A new intrinsic is one row.

A row may have code of our own for float32 (``single``), a formula for any float width (``any_width``) or for integers, an LLVM
intrinsic that every target turns into instructions, or the name of a libm function, called lane by lane. 16-bit floats are
computed in float32 and rounded. ``ulp`` is the bound in float32 that the tests hold the row to, in float64 it is that of libm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....core.dtype import FLOAT32, DType
from ....expr.nodes import Call
from .. import convert, types
from ..emitter import Emitter
from ..expression import rules
from . import exact, single
from .kit import Kit, Num

MODES = ("default", "precise")


@dataclass(frozen=True)
class Row:
    """How one intrinsic is emitted; the first that applies is taken, from top to bottom."""

    exact: Callable[[Emitter, DType, tuple[str, ...]], str] | None = None
    single: Callable[..., Num] | None = None
    any_width: Callable[..., Num] | None = None
    llvm: str = ""
    libm: str = ""
    ulp: float = 1.0


ROWS: dict[str, Row] = {
    "exp": Row(single=single.exp, libm="exp"),
    "exp2": Row(single=single.exp2, libm="exp2"),
    "exp10": Row(libm="exp10"),
    "expm1": Row(libm="expm1"),
    "log": Row(single=single.log, libm="log"),
    "log2": Row(libm="log2"),
    "log10": Row(libm="log10", ulp=2),
    "log1p": Row(libm="log1p"),
    "sqrt": Row(llvm="sqrt", ulp=0.5),
    "rsqrt": Row(any_width=lambda m, x: 1.0 / m.sqrt(x)),
    "sin": Row(libm="sin"),
    "cos": Row(libm="cos"),
    "tan": Row(libm="tan"),
    "asin": Row(libm="asin"),
    "acos": Row(libm="acos"),
    "atan": Row(libm="atan"),
    "sinh": Row(libm="sinh", ulp=2),
    "cosh": Row(libm="cosh", ulp=2),
    "tanh": Row(single=single.tanh, libm="tanh", ulp=2),
    "asinh": Row(libm="asinh", ulp=2),
    "acosh": Row(libm="acosh", ulp=2),
    "atanh": Row(libm="atanh", ulp=2),
    "sigmoid": Row(single=single.sigmoid, libm="sigmoid"),
    "erf": Row(single=single.erf, libm="erf"),
    "floor": Row(llvm="floor", ulp=0),
    "ceil": Row(llvm="ceil", ulp=0),
    "trunc": Row(llvm="trunc", ulp=0),
    "round": Row(llvm="round", ulp=0),
    "nearbyint": Row(llvm="rint", ulp=0),
    "abs": Row(exact=exact.absolute, ulp=0),
    "pow": Row(libm="pow"),
    "fmod": Row(libm="fmod", ulp=0),
    "atan2": Row(libm="atan2"),
    "hypot": Row(libm="hypot"),
    "copysign": Row(llvm="copysign", ulp=0),
    "nextafter": Row(libm="nextafter", ulp=0),
    "ldexp": Row(any_width=exact.ldexp, ulp=0.5),
    "isnan": Row(exact=exact.isnan, ulp=0),
    "isinf": Row(exact=exact.isinf, ulp=0),
    "isfinite": Row(exact=exact.isfinite, ulp=0),
    "popcount": Row(exact=exact.popcount, ulp=0),
    "clz": Row(exact=exact.clz, ulp=0),
    "bitwise_and": Row(exact=exact.word("and"), ulp=0),
    "bitwise_or": Row(exact=exact.word("or"), ulp=0),
    "bitwise_xor": Row(exact=exact.word("xor"), ulp=0),
    "bitwise_not": Row(exact=exact.invert, ulp=0),
    "shift_left": Row(exact=exact.shift_left, ulp=0),
    "shift_right": Row(exact=exact.shift_right, ulp=0),
}


@rules.on(Call)
def _call(em: Emitter, e: Call) -> str:
    row = ROWS.get(e.name)
    if row is None:
        raise AssertionError(f"no row for the intrinsic {e.name}")
    t = e.args[0].dtype
    operands = tuple(em.value(a) for a in e.args)
    if row.exact is not None:
        return row.exact(em, t, operands)
    if t.bits == 16 and e.name != "nextafter":
        wide = FLOAT32.with_lanes(t.lanes)
        out = _float(em, row, wide, tuple(convert.cast(em, x, t, wide) for x in operands))
        return convert.cast(em, out, wide, t)
    if t.bits == 16:
        return exact.nextafter16(em, t, operands)
    return _float(em, row, t, operands)


def _float(em: Emitter, row: Row, t: DType, operands: tuple[str, ...]) -> str:
    element, n = em.element(t), t.lanes
    kit = Kit(em, element, n)
    own = row.single if t.bits == 32 and em.math == "default" else None
    own = own or row.any_width
    if own is not None:
        return own(kit, *(Num(kit, "f", x) for x in operands)).operand
    vector = em.type(t)
    if row.llvm:
        return em.call(vector, f"llvm.{row.llvm}.{types.mangle(element, n)}", *((vector, x) for x in operands))
    if row.libm == "sigmoid":
        return _sigmoid(em, kit, t, operands[0])
    return _libm(em, row.libm, t, operands)


def _libm(em: Emitter, name: str, t: DType, operands: tuple[str, ...]) -> str:
    """The C library's function, for one lane after the other."""
    element, n = em.element(t), t.lanes
    name += "f" if element == "float" else ""
    if n == 1:
        return em.call(element, name, *((element, x) for x in operands), attributes="nounwind willreturn memory(none)")
    vector, out = em.type(t), "poison"
    for lane in range(n):
        args = tuple((element, em.ins(f"extractelement {vector} {x}, i64 {lane}")) for x in operands)
        one = em.call(element, name, *args, attributes="nounwind willreturn memory(none)")
        out = em.ins(f"insertelement {vector} {out}, {element} {one}, i64 {lane}")
    return out


def _sigmoid(em: Emitter, m: Kit, t: DType, operand: str) -> str:
    x = Num(m, "f", operand)
    z = Num(m, "f", _libm(em, "exp", t, ((-m.abs(x)).operand,)))
    return (m.select(x < 0.0, z, m.num(1.0)) / (z + 1.0)).operand
