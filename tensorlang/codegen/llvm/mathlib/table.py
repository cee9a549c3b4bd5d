"""The table: how each intrinsic of ``expr.intrinsics`` becomes code. One that has no row is the C library's
function of that name.

A row may have code of our own (``own``) for float32 and, unless ``double`` is None, for float64; a formula
for any float width (``any_width``) or for integers; an LLVM intrinsic that every target turns into
instructions; or the name of a libm function, called lane by lane. 16-bit floats are computed in float32 and
rounded. ``ulp`` is the bound that the tests hold the row to in float32 and ``double`` that in float64, where
libm is held to 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ....core.dtype import FLOAT32, DType
from ....expr.intrinsics import TABLE
from ....expr.nodes import LT, Call, Cast, CCall, Const, Expr, Max, Min, Select, lane_of
from ....interface.c_header import LIBRARY
from .. import convert, types
from ..emitter import Emitter
from ..expression import rules
from . import circular, exact, exponential, gauss, inverse, logarithm, power
from .kit import Kit, Num
from .libm import PURE, lanewise

MODES = ("default", "precise")


@dataclass(frozen=True)
class Row:
    """How one intrinsic is emitted; the first that applies is taken, from top to bottom."""

    exact: Callable[[Emitter, DType, tuple[str, ...]], str] | None = None
    own: Callable[..., Num] | None = None
    double: float | None = None
    any_width: Callable[..., Num] | None = None
    llvm: str = ""
    libm: str = ""
    ulp: float = 1.0

    @property
    def short(self) -> bool:
        """Whether it is an instruction or a few, no series of terms and no call."""
        return self.own is None and not self.libm


ROWS: dict[str, Row] = {
    "exp": Row(own=exponential.exp, double=2, libm="exp", ulp=2),
    "exp2": Row(own=exponential.exp2, double=2, libm="exp2", ulp=2),
    "exp10": Row(own=exponential.exp10, double=2, libm="exp10", ulp=2),
    "expm1": Row(own=exponential.expm1, double=2, libm="expm1", ulp=2),
    "log": Row(own=logarithm.log, double=1, libm="log"),
    "log2": Row(own=logarithm.log2, double=2, libm="log2", ulp=2),
    "log10": Row(own=logarithm.log10, double=2, libm="log10", ulp=2),
    "log1p": Row(own=logarithm.log1p, double=2, libm="log1p", ulp=2),
    "sqrt": Row(llvm="sqrt", ulp=0.5),
    "rsqrt": Row(any_width=lambda m, x: 1.0 / m.sqrt(x)),
    "sin": Row(own=circular.sin, double=2, libm="sin", ulp=2),
    "cos": Row(own=circular.cos, double=2, libm="cos", ulp=2),
    "tan": Row(own=circular.tan, double=2, libm="tan", ulp=2),
    "asin": Row(own=inverse.asin, double=2, libm="asin", ulp=2),
    "acos": Row(own=inverse.acos, double=2, libm="acos", ulp=2),
    "atan": Row(own=inverse.atan, double=2, libm="atan", ulp=2),
    "sinh": Row(own=exponential.sinh, double=2, libm="sinh", ulp=2),
    "cosh": Row(own=exponential.cosh, double=2, libm="cosh", ulp=2),
    "tanh": Row(own=exponential.tanh, double=2, libm="tanh", ulp=2),
    "asinh": Row(own=inverse.asinh, double=2, libm="asinh"),
    "acosh": Row(own=inverse.acosh, double=2, libm="acosh"),
    "atanh": Row(own=inverse.atanh, double=2, libm="atanh"),
    "sigmoid": Row(own=exponential.sigmoid, double=2, libm="sigmoid", ulp=2),
    "erf": Row(own=gauss.erf, double=2, libm="erf", ulp=2),
    "floor": Row(llvm="floor", ulp=0),
    "ceil": Row(llvm="ceil", ulp=0),
    "trunc": Row(llvm="trunc", ulp=0),
    "round": Row(llvm="round", ulp=0),
    "nearbyint": Row(llvm="rint", ulp=0),
    "abs": Row(exact=exact.absolute, ulp=0),
    "pow": Row(own=power.pow, double=4, libm="pow", ulp=4),
    "cbrt": Row(own=power.cbrt, double=1, libm="cbrt"),
    "fmod": Row(own=exact.fmod, double=0, libm="fmod", ulp=0),
    "atan2": Row(own=inverse.atan2, double=2, libm="atan2", ulp=2),
    "hypot": Row(own=inverse.hypot, double=1, libm="hypot"),
    "copysign": Row(llvm="copysign", ulp=0),
    "nextafter": Row(any_width=exact.nextafter, ulp=0),
    "ldexp": Row(any_width=exact.ldexp, ulp=0.5),
    "isnan": Row(exact=exact.isnan, ulp=0),
    "isinf": Row(exact=exact.isinf, ulp=0),
    "isfinite": Row(exact=exact.isfinite, ulp=0),
    "float_bits": Row(exact=exact.float_bits, ulp=0),
    "float_of_bits": Row(exact=exact.float_of_bits, ulp=0),
    "popcount": Row(exact=exact.popcount, ulp=0),
    "clz": Row(exact=exact.clz, ulp=0),
    "bitwise_and": Row(exact=exact.word("and"), ulp=0),
    "bitwise_or": Row(exact=exact.word("or"), ulp=0),
    "bitwise_xor": Row(exact=exact.word("xor"), ulp=0),
    "bitwise_not": Row(exact=exact.invert, ulp=0),
    "shift_left": Row(exact=exact.shift_left, ulp=0),
    "shift_right": Row(exact=exact.shift_right, ulp=0),
}
# what the C library has by that name
ROWS.update({name: Row(libm=name) for name in TABLE if name not in ROWS and name in LIBRARY})


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
        given = tuple(convert.cast(em, x, t, wide) for x in operands)
        made = e.name in exact.WHOLE and _of_half(em, t)
        out = exact.whole(em, wide, e.name, given[0]) if made else _float(em, row, wide, given)
        return convert.cast(em, out, wide, t)
    if e.name in exact.WHOLE and _was_half(em, e.args[0]):
        return exact.whole(em, t, e.name, operands[0])
    if t.bits == 16:
        return exact.nextafter16(em, t, operands)
    return _float(em, _usual(e) or row, t, operands)


# intrinsics whose usual formula is right for arguments that are no more than a number from 0
_USUAL = {
    "exp": (exponential.usual_exp, exponential.USUAL),
    "exp2": (exponential.usual_exp2, exponential.USUAL2),
}


def _usual(e: Call) -> Row | None:
    """The row with the usual formula, if minima and maxima keep the argument where it is right."""
    formula, limit = _USUAL.get(e.name, (None, {}))
    x = e.args[0]
    if formula is None or not _within(x, limit.get(x.dtype.bits, 0.0)):
        return None
    return replace(ROWS[e.name], own=formula)


def _otherwise(em: Emitter, e: Select) -> str:
    """What a select takes where its test fails. Of ``select(x < c, 0, exp(max(min(x, 0), c)))`` that is the
    exponential of ``min(x, 0)``: the maximum changes nothing there, and what comes out elsewhere is not
    taken."""
    call, test = e.b, e.cond
    if type(call) is not Call or type(test) is not LT or em.math != "default":
        return em.value(call)
    row, x = _usual(call), call.args[0]
    if row is None or type(x) is not Max or x.b is not test.b:
        return em.value(call)
    own, least = x.a, lane_of(x.b)
    if type(own) is Min and type(least) is Const:
        most = lane_of(own.b)
        own = own.a if type(most) is Const and most.value >= least.value else own
    return em.value(call) if own is not test.a else _float(em, row, x.dtype, (em.value(x.a),))


Emitter.otherwise = _otherwise


def _within(x: Expr, limit: float) -> bool:
    """Whether minima and maxima with numbers keep ``x`` no more than ``limit`` from 0, unless it is NaN."""
    below = above = False
    while type(x) in (Min, Max):
        a, b = lane_of(x.a), lane_of(x.b)  # type: ignore[attr-defined]
        number = b if type(b) is Const else a
        if type(number) is not Const or not abs(number.value) <= limit:
            return False
        below, above = below or type(x) is Min, above or type(x) is Max
        x = x.a if number is b else x.b  # type: ignore[attr-defined]
    return below and above


def _was_half(em: Emitter, x: Expr) -> bool:
    """Whether a float32 was a float16, which the processor converts and has no arithmetic for."""
    return type(x) is Cast and x.dtype.bits == 32 and x.dtype.is_float and _of_half(em, x.a.dtype)


def _of_half(em: Emitter, t: DType) -> bool:
    return (t.code, t.bits) == ("float", 16) and em.target.has_half and not em.target.computes_half


@rules.on(CCall)
def _c_call(em: Emitter, e: CCall) -> str:
    """A C function of numbers, for one lane after the other."""
    operands = [(a.dtype, em.value(a)) for a in e.args]
    out = em.type(e.dtype.element)
    if e.dtype.lanes == 1:
        return em.call(out, e.name, *((em.type(t), x) for t, x in operands), attributes=PURE)
    made = "poison"
    for lane in range(e.dtype.lanes):
        args = tuple(
            (em.type(t.element), em.ins(f"extractelement {em.type(t)} {x}, i64 {lane}")) for t, x in operands
        )
        one = em.call(out, e.name, *args, attributes=PURE)
        made = em.ins(f"insertelement {em.type(e.dtype)} {made}, {out} {one}, i64 {lane}")
    return made


def _float(em: Emitter, row: Row, t: DType, operands: tuple[str, ...]) -> str:
    kit = Kit(em, em.element(t), t.lanes)
    x = tuple(Num(kit, "f", operand) for operand in operands)
    if row.own is not None and em.math == "default" and (t.bits == 32 or row.double is not None):
        return row.own(kit, *x).operand
    if row.any_width is not None:
        return row.any_width(kit, *x).operand
    if row.llvm:
        vector = em.type(t)
        return em.call(
            vector,
            f"llvm.{row.llvm}.{types.mangle(em.element(t), t.lanes)}",
            *((vector, operand) for operand in operands),
        )
    return (_sigmoid(kit, *x) if row.libm == "sigmoid" else lanewise(kit, row.libm, *x)).operand


def _sigmoid(m: Kit, x: Num) -> Num:
    z = lanewise(m, "exp", -m.abs(x))
    return m.select(x < 0.0, z, m.num(1.0)) / (z + 1.0)
