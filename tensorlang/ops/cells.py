"""The activations of recurrent cells, as functions of one element by name, with their parameters. Knows
``te`` elements; no operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.nodes import Expr
from . import inputs

Activation = Callable[[Expr], Expr]


def elu_of(e: Expr, a: Expr) -> Expr:
    """``e`` where it is positive, else ``a (exp(e) - 1)``."""
    return te.select(e > 0.0, e, a * te.expm1(e))


def _hard_sigmoid(e: Expr, a: Expr, b: Expr) -> Expr:
    return make.max_(make.min_(a * e + b, make.const(1.0, e.dtype)), make.const(0.0, e.dtype))


def softplus_of(e: Expr) -> Expr:
    """``log(1 + exp(e))`` as ``max(e, 0) + log1p(exp(-|e|))``, whose exp never overflows."""
    return make.max_(e, make.const(0.0, e.dtype)) + te.log1p(te.exp(make.neg(te.abs(e))))


# the numbers are those of ONNX's operator RNN, whose attributes leave them out too
# name → function of an element and two parameters, and what these are when left out
TABLE: dict[str, tuple[Callable[[Expr, Expr, Expr], Expr], float, float]] = {
    "affine": (lambda e, a, b: a * e + b, 1.0, 0.0),
    "elu": (lambda e, a, _: elu_of(e, a), 1.0, 0.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "leakyrelu": (lambda e, a, _: te.select(e > 0.0, e, a * e), 0.01, 0.0),
    "relu": (lambda e, _, __: make.max_(e, make.const(0.0, e.dtype)), 0.0, 0.0),
    "scaledtanh": (lambda e, a, b: a * te.tanh(b * e), 1.0, 1.0),
    "sigmoid": (lambda e, _, __: te.sigmoid(e), 0.0, 0.0),
    "softplus": (lambda e, _, __: softplus_of(e), 0.0, 0.0),
    "softsign": (lambda e, _, __: e / (1.0 + te.abs(e)), 0.0, 0.0),
    "tanh": (lambda e, _, __: te.tanh(e), 0.0, 0.0),
    "thresholdedrelu": (lambda e, a, _: te.select(e > a, e, make.const(0.0, e.dtype)), 1.0, 0.0),
}
_WITH_ALPHA = ("affine", "elu", "hardsigmoid", "leakyrelu", "scaledtanh", "thresholdedrelu")
_WITH_BETA = ("affine", "hardsigmoid", "scaledtanh")


def activation_of(
    op: str, names: Any, default: Sequence[str], alpha: Any, beta: Any
) -> tuple[Activation, ...]:
    """The functions of those names, in any case of letters. ``alpha`` and ``beta`` are taken in turn by those
    that have such a parameter. Raises DeclareError for another number of names, and one that is not known."""
    listed = list(default) if names is None else [str(n).lower() for n in names]
    if len(listed) != len(default):
        raise DeclareError(
            f"ops.{op}: {counted(len(listed), 'activation')}, {len(default)} are needed",
            try_=f"activations={tuple(default)}",
        )
    # iterators, so that each function takes the next number and those without a parameter take none
    first, second = (iter(() if v is None else v) for v in (alpha, beta))
    return tuple(_activation(op, n, first, second) for n in listed)


def _activation(op: str, name: str, alpha: Any, beta: Any) -> Activation:
    if name not in TABLE:
        raise DeclareError(f"ops.{op}: the activation {name!r} is not known", legal=", ".join(TABLE))
    f, a, b = TABLE[name]
    # fewer numbers than functions are allowed: those behind the end have their defaults
    a = inputs.number(op, "activation_alpha", next(alpha, a)) if name in _WITH_ALPHA else a
    b = inputs.number(op, "activation_beta", next(beta, b)) if name in _WITH_BETA else b
    return lambda e: f(e, make.const(a, e.dtype), make.const(b, e.dtype))
