"""Expressions that random graphs and programs are filled with, as texts with places for elements.
Tables only."""

from __future__ import annotations

from tensorlang.core.dtype import FLOAT32
from tensorlang.expr.intrinsics import TABLE

#: Each function of floats on an argument it is defined for; what comes out is brought to small whole numbers.
FLOAT_CALLS = (
    "te.exp({x})",
    "te.exp2({x})",
    "te.exp10({x})",
    "te.expm1({x})",
    "te.log(te.abs({x}) + 1.5)",
    "te.log2(te.abs({x}) + 1.5)",
    "te.log10(te.abs({x}) + 1.5)",
    "te.log1p(te.abs({x}))",
    "te.sqrt(te.abs({x}))",
    "te.rsqrt(te.abs({x}) + 2)",
    "te.sin({x})",
    "te.cos({x})",
    "te.tan({x})",
    "te.asin({x} * 0.1)",
    "te.acos({x} * 0.1)",
    "te.atan({x})",
    "te.sinh({x})",
    "te.cosh({x})",
    "te.tanh({x})",
    "te.asinh({x})",
    "te.acosh(te.abs({x}) + 2)",
    "te.atanh({x} * 0.1)",
    "te.sigmoid({x})",
    "te.erf({x})",
    "te.floor({x} * 0.7)",
    "te.ceil({x} * 0.7)",
    "te.trunc({x} * 0.7)",
    "te.round({x} * 0.7)",
    "te.nearbyint({x} * 0.7)",
    "te.abs({x})",
    "te.power(te.abs({x}) + 1, 1.5)",
    "te.fmod({x}, 3)",
    "te.atan2({x}, 2.5)",
    "te.hypot({x}, 2)",
    "te.copysign(1.5, {x} + 0.5)",
    "te.nextafter({x}, 9)",
    "te.ldexp({x}, 2)",
    "te.select(te.isnan({x} / {x}), 1, 2)",
    "te.select(te.isinf({x}), 1, 2)",
    "te.select(te.isfinite({x}), 1, 2)",
)
# those that are new in the table, of any number
FLOAT_CALLS += tuple(
    f"te.{name}({{x}})"
    for name, row in TABLE.items()
    if row.arity == 1
    and row.accepts(FLOAT32)
    and row.result(FLOAT32).is_float
    and not any(f"te.{name}(" in c for c in FLOAT_CALLS)
)
INT_CALLS = (
    "te.abs({x})",
    "te.popcount({x})",
    "te.clz({x})",
    "({x} & 5)",
    "({x} | 3)",
    "({x} ^ 6)",
    "(~{x})",
    "({x} << 2)",
    "({x} >> 1)",
)

#: Arithmetic of two elements and a number whose results leave the type, and comparisons that would hold if they
#: did not.
WRAPPING_CALLS = (
    "{a} + {b}",
    "{a} - {b}",
    "{a} * {b}",
    "{a} * {c}",
    "{a} + {c}",
    "{c} - {a}",
    "{a} // {c}",
    "{a} % {c}",
    "te.truncdiv({a}, {c})",
    "te.truncmod({a} + {b}, {c})",
    "{a} // -1",
    "te.truncdiv({a}, -1)",
    "te.if_then_else({a} // -1 < 0, {a}, {b})",
    "{a} % -3",
    "te.abs({a} - {b})",
    "te.max({a} + {c}, {a})",
    "te.min({a} - {c}, {b})",
    "{a} * {c} // {c}",
    "({a} + {b}) // 2",
    "({a} * {c} + {c}) % {c}",
    "te.if_then_else({a} + {c} > {a}, {a}, {b})",
    "te.select({a} - {b} < 0, {b}, {a} * 2)",
    "te.if_then_else({a} * {c} <= {b} * {c}, {a}, 1)",
    "{a} + {c} - {c}",
    "({a} << 3) >> 2",
    "({a} & {b}) * {c}",
    "te.if_then_else({b} != 0, {a} // {b}, {a})",
    "te.if_then_else({b} > 0, {a} % {b}, 7)",
    "te.select({a} + {b} == {a}, {c}, {a} - {c})",
    "te.max({a} * {c}, {b} * {c}) - te.min({a}, {b})",
)
