"""How each kind of expression becomes Python source for the interpreter: one rule a node. Knows expressions
and the translator's handful of methods; must not know statements or memory.

``t.hoist(text, operands)`` is for what cannot fail, ``t.define(text)`` for what must stay where it is. Scalar
integers and bools are Python's, floats numpy scalars, vectors numpy arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dtype import DType
from ..core.visit import TypeTable
from ..expr.intrinsics import TABLE
from ..expr.nodes import (
    Add,
    And,
    Binary,
    Broadcast,
    Call,
    Cast,
    CCall,
    Compare,
    Const,
    Div,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
)
from ..interface.externs import c_function
from .packed import Packed
from .stmt import Load, Reduction

if TYPE_CHECKING:
    from .interpret_source import Translator

expressions = TypeTable("interpret")


def wrap(atom: str, t: DType) -> str:
    """The text that reduces an integer into its type."""
    if t.code == "uint":
        return f"{atom} & {(1 << t.bits) - 1}"
    half = 1 << (t.bits - 1)
    return f"(({atom} + {half}) & {(1 << t.bits) - 1}) - {half}"


def rounded(text: str, t: DType) -> str:
    """What an operation gives in its type: bfloat16 is computed in float32 and rounded here."""
    return f"round_bfloat({text})" if t.code == "bfloat" else text


@expressions.on(Add, Sub, Mul, Div)
def _arithmetic(t: Translator, e: Binary) -> str:
    whole = e.dtype.is_int and e.dtype.lanes == 1  # sums of sums are wrapped once, at the end
    a, b = t.value(e.a, raw=whole), t.value(e.b, raw=whole)
    return t.hoist(rounded(f"{a} {e.symbol} {b}", e.dtype), (a, b))


@expressions.on(FloorDiv, FloorMod, TruncDiv, TruncMod)
def _division(t: Translator, e: Binary) -> str:
    a, b = t.value(e.a), t.value(e.b)
    word = {FloorDiv: "floor_div", FloorMod: "floor_mod", TruncDiv: "trunc_div", TruncMod: "trunc_mod"}[
        type(e)
    ]
    if e.dtype.lanes > 1:
        return t.define(f"vector_{word}({a}, {b}, {t.site()}, {t.active})")
    overflows = e.dtype.code == "int" and (t.is_data(e))  # the smallest integer divided by -1
    if type(e.b) is Const and e.b.value > 0 and isinstance(e, FloorDiv | FloorMod):
        return t.hoist(f"{a} {e.symbol} {b}", (a, b))
    out = t.define(f"{word}({a}, {b}, {t.site()})")
    return t.define(wrap(out, e.dtype)) if overflows else out


@expressions.on(Min, Max)
def _extreme(t: Translator, e: Binary) -> str:
    a, b = t.value(e.a), t.value(e.b)
    if e.dtype.lanes > 1:
        return t.hoist(f"np.{'minimum' if type(e) is Min else 'maximum'}({a}, {b})", (a, b))
    nan = f" or {a} != {a}" if e.dtype.is_float else ""  # NaN on either side gives NaN
    return t.hoist(f"{a} if {a} {'<' if type(e) is Min else '>'} {b}{nan} else {b}", (a, b))


@expressions.on(Compare)
def _compare(t: Translator, e: Compare) -> str:
    a, b = t.value(e.a), t.value(e.b)
    return t.hoist(f"{a} {e.symbol} {b}", (a, b))


@expressions.on(And, Or)
def _logic(t: Translator, e: Binary) -> str:
    # Both sides are evaluated: the code generator may do so, hence `and` guards nothing.
    a, b = t.value(e.a), t.value(e.b)
    word = ("and" if type(e) is And else "or") if e.dtype.lanes == 1 else ("&" if type(e) is And else "|")
    return t.hoist(f"{a} {word} {b}", (a, b))


@expressions.on(Not)
def _not(t: Translator, e: Not) -> str:
    a = t.value(e.a)
    return t.hoist(f"not {a}" if e.dtype.lanes == 1 else f"~{a}", (a,))


@expressions.on(Select)
def _select(t: Translator, e: Select) -> str:
    cond, a, b = t.value(e.cond), t.value(e.a), t.value(e.b)
    return t.hoist(
        f"{a} if {cond} else {b}" if e.cond.dtype.lanes == 1 else f"np.where({cond}, {a}, {b})", (cond, a, b)
    )


@expressions.on(IfThenElse)
def _lazy(t: Translator, e: IfThenElse) -> str:
    cond = t.value(e.cond)
    if e.cond.dtype.lanes == 1:
        out = t.define("None")
        for header, side in ((f"if {cond}:", e.a), ("else:", e.b)):
            t.begin(header)
            t.line(f"{out} = {t.value(side)}")
            t.end()
        return out
    # Each lane is as lazy as a scalar: a side is evaluated under the mask of the lanes that take it.
    outer = t.active
    sides = []
    for test, side in ((cond, e.a), (f"~{cond}", e.b)):
        live = t.define(test if outer is None else f"{test} & {outer}")
        # in lanes that take the other side, and which nobody reads
        zero = t.constant(("zeros", e.dtype), lambda: np.zeros(e.dtype.lanes, _held(e.dtype)))
        out = t.define(zero)
        t.begin(f"if {live}.any():")
        t.active = live
        t.line(f"{out} = {t.value(side)}")
        t.active = outer
        t.end()
        sides.append(out)
    return t.define(f"np.where({cond}, {sides[0]}, {sides[1]})")


def _held(d: DType) -> np.dtype[Any]:
    """The numpy dtype in which values of that type are held."""
    return np.dtype(np.float32) if d.code == "bfloat" else d.to_numpy()


@expressions.on(Cast)
def _cast(t: Translator, e: Cast) -> str:
    a = t.value(e.a)
    old, new = e.a.dtype, e.dtype
    vector = new.lanes > 1
    if new.is_float:
        kind = t.constant(("type", _held(new)), lambda: _held(new).type)
        if old.is_float:
            text = f"{a}.astype({kind})" if vector else f"{kind}({a})"
        elif vector:
            text = f"{a}.astype({kind})"
        else:  # through numpy's integer, which converts with one rounding
            wide = "False" if old.is_bool else f"np.{'u' if old.code == 'uint' else ''}int64({a})"
            text = f"{kind}({a})" if old.is_bool else f"{wide}.astype({kind})"
        return t.hoist(rounded(text, new), (a,))
    if new.is_bool:
        return t.hoist(f"{a} != 0", (a,))
    lo, hi = new.limits()
    if old.is_float:
        dtype = t.constant(("dtype of", new.element), lambda: new.to_numpy())
        return t.hoist(
            f"vector_float_to_int({a}, {dtype}, {lo}, {hi})" if vector else f"float_to_int({a}, {lo}, {hi})",
            (a,),
        )
    if vector:
        dtype = t.constant(("dtype of", new.element), lambda: new.to_numpy())
        return t.hoist(f"{a}.astype({dtype})", (a,))
    if old.is_bool:
        return t.hoist(f"int({a})", (a,))
    olo, ohi = old.limits()
    # Python's integers do not wrap by themselves; where every value fits there is nothing to do
    return a if lo <= olo and ohi <= hi else t.hoist(wrap(a, new), (a,))


@expressions.on(Call)
def _call(t: Translator, e: Call) -> str:
    row = t.constant(("intrinsic", e.name), lambda: TABLE[e.name].evaluate)
    atoms = [t.value(x) for x in e.args]
    d = e.args[0].dtype
    if d.lanes == 1 and not d.is_float:
        # numpy's intrinsics work in the type of what they are given: a Python int would be computed in 64
        # bits
        kind = t.constant(("type", d.to_numpy()), lambda: d.to_numpy().type)
        text = f"{row}({', '.join(f'{kind}({a})' for a in atoms)})"
    else:
        text = f"{row}({', '.join(atoms)})"
    if e.dtype.lanes == 1:
        text = f"{'' if e.dtype.is_float else 'bool' if e.dtype.is_bool else 'int'}({text}[()])"
    return t.hoist(rounded(text, e.dtype), tuple(atoms))


@expressions.on(CCall)
def _c_call(t: Translator, e: CCall) -> str:
    kinds = tuple(a.dtype.element.to_numpy() for a in e.args)
    f = t.constant(
        ("C function", e.name, kinds), lambda: c_function(e.name, e.dtype.element.to_numpy(), kinds)
    )
    atoms = tuple(t.value(a) for a in e.args)
    text = f"{f}({', '.join(atoms)})"
    return t.hoist(text if e.dtype.lanes > 1 else f"{text}.item()", atoms)


@expressions.on(Ramp)
def _ramp(t: Translator, e: Ramp) -> str:
    kind = e.dtype.to_numpy()
    base, stride = t.value(e.base), t.value(e.stride)
    if type(e.stride) is Const:
        by = kind.type(e.stride.value)
        steps = t.constant(
            ("steps", kind, e.lanes, e.stride.value), lambda: np.arange(e.lanes, dtype=kind) * by
        )
    else:
        iota = t.constant(("steps", kind, e.lanes, 1), lambda: np.arange(e.lanes, dtype=kind))
        steps = t.hoist(f"{iota} * {stride}", (stride,))
    return t.hoist(f"{steps} + {base}", (steps, base))


@expressions.on(Broadcast)
def _broadcast(t: Translator, e: Broadcast) -> str:
    a = t.value(e.value)
    kind = t.constant(("held", _held(e.dtype)), lambda: _held(e.dtype))
    return t.hoist(f"np.full({e.lanes}, {a}, {kind})", (a,))


@expressions.on(Reduction)
def _reduction(t: Translator, e: Reduction) -> str:
    a = t.value(e.value)
    text = rounded(f"reduce_lanes({e.op!r}, {a})", e.dtype)
    return t.hoist(text if e.dtype.is_float else f"{'bool' if e.dtype.is_bool else 'int'}({text})", (a,))


@expressions.on(Packed)
def _packed(t: Translator, e: Packed) -> str:
    value, mask = t.value(e.value), t.value(e.mask)
    return t.hoist(f"pack_lanes({value}, {mask})", (value, mask))


@expressions.on(Load)
def _load(t: Translator, e: Load) -> str:
    return t.load(e)
