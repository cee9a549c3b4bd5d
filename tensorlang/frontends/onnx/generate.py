"""ONNX's operators that make tensors of nothing or of a shape: constants, ranges, windows, random numbers.
Knows ops.

Random numbers are those of numpy's ``RandomState``, which for a given seed are what the reference
implementation of ONNX draws; without a seed every call draws others.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...core.dtype import dtype
from ...errors import TensorLangError
from ...expr.nodes import Expr
from ...runtime import choices
from ...te import Tensor
from .known import as_known
from .proto import Call, dtype_name
from .ratios import steps_between
from .table import graph_op, one, te_op

if TYPE_CHECKING:
    from .importer import Importer


@graph_op("Constant")
def constant(c: Importer, call: Call) -> Any:
    # each attribute is another way to give the one value
    if len(call.attrs) != 1:
        raise TensorLangError(f"{call!r} has {len(call.attrs)} attributes", because="its value is one")
    key, value = next(iter(call.attrs.items()))
    kinds = {
        "value_int": np.int64,
        "value_ints": np.int64,
        "value_float": np.float32,
        "value_floats": np.float32,
    }
    return c.new(np.asarray(value, kinds.get(key)), call.outputs[0])


@graph_op("ConstantOfShape")
def constant_of_shape(c: Importer, call: Call) -> Any:
    value = call.attrs.get("value", np.zeros(1, np.float32)).reshape(-1)[0]
    sizes = c.numbers(call.inputs[0])
    return c.g.call(
        ops.full, op="ConstantOfShape", shape=sizes, fill_value=value.item(), dtype=str(value.dtype)
    )


@graph_op("Range")
def range_(c: Importer, call: Call) -> Any:
    operands = [c.tensor(n) for n in call.inputs]
    kind = str(operands[0].dtype)
    how: dict[str, Any] = {"op": "Range", "name": call.name, "outputs": call.outputs}
    # of floats that sizes were cast to
    count = steps_between(*operands) if operands[0].dtype.is_float else None
    first, by = operands[0].data, operands[2].data
    if count is not None and first is not None and by is not None:
        return c.g.call(_stepped, count=count, first=first.item(), by=by.item(), kind=kind, **how)
    known = [as_known(c.value(n), None) for n in call.inputs]
    if any(k is None for k in known):
        # how many there are is data, and a size like others from here on: no graph for each that occurs
        results = [((None,), kind)]
        return c.g.host(choices.counted_up, operands, results, "Range", call.name, call.outputs)
    bounds = [_whole(one(k.tolist())) for k in known if k is not None]
    return c.g.call(
        ops.arange, dtype=kind, **how, **dict(zip(("start", "stop", "step"), bounds, strict=True))
    )


def _stepped(*, count: Expr, first: float, by: float, kind: str) -> Tensor:
    """``count`` numbers from ``first`` on, as floats."""
    return ops.add(ops.multiply(ops.arange(count, dtype=kind), by), first)


def _whole(x: Any) -> Any:
    return int(x) if isinstance(x, float) and x.is_integer() else x


@te_op("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    return ops.eye(x.shape[0], x.shape[1], k, str(x.dtype) if dtype is None else dtype_name(dtype))


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    # ONNX's numbers, not the rounded 0.54 and 0.46 of numpy
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


def _window(name: str) -> Any:
    """A sum of cosines over the window."""
    a0, a1, a2 = _WINDOWS[name]

    def window(size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Tensor:
        size = one(size)
        # a periodic window leaves out its last element, which the next period begins with
        span = size if periodic else size - 1
        period = te.cast("float64", span) if isinstance(span, Expr) else te.const(float(span), "float64")

        def element(i: Any) -> Any:
            angle = te.cast("float64", i) * (2 * math.pi) / period
            value = a0 - a1 * te.cos(angle)
            return te.cast(dtype_name(output_datatype), value + a2 * te.cos(angle * 2.0) if a2 else value)

        return te.compute((size,), element, name="window")

    return window


for _name in _WINDOWS:
    te_op(_name, values=(0,))(_window(_name))


@graph_op("MelWeightMatrix")
def mel_weight_matrix(c: Importer, call: Call) -> Any:
    """A constant: its inputs are numbers."""
    kind = dtype_name(call.attrs.get("output_datatype", 1))
    return c.new(_mel(*(one(c.numbers(n)) for n in call.inputs)).astype(kind), call.outputs[0])


def _mel(bins: int, length: int, rate: int, lowest: float, highest: float) -> np.ndarray:
    """Triangles, one a column, whose corners are evenly spaced on the mel scale."""
    low, high = (2595 * np.log10(1 + f / 700) for f in (lowest, highest))
    mel = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    # rounded down to bins of the spectrum, as ONNX's reference does
    corners = ((length + 1) * (700 * (10 ** (mel / 2595) - 1)) // rate).astype(int)
    left, top, right = corners[:-2], corners[1:-1], corners[2:]
    j = np.arange(length // 2 + 1)[:, None]
    # two corners in one bin: the triangle begins at its top
    rising = np.where(top > left, (j - left) / np.maximum(top - left, 1), 1.0)
    falling = (right - j) / np.maximum(right - top, 1)
    weights = np.where((j >= left) & (j <= top), rising, 0.0)
    return np.where((j >= top) & (j < right), falling, weights)


# -- random numbers


def _random(c: Importer, call: Call, draw: Any, shape: Any, kind: Any, inputs: Any = (), **attrs: Any) -> Any:
    """What ``draw(generator, *arrays, size=…)`` gives, in the dtype ``kind``."""
    seed = call.attrs.get("seed")

    def drawn(*arrays: np.ndarray, size: Any) -> np.ndarray:
        # a new one for each call: a node with a seed gives the same numbers each time
        generator = np.random.RandomState(None if seed is None else int(seed) % 2**32)
        return np.asarray(draw(generator, *arrays, size=size, **attrs)).astype(kind.to_numpy())

    return c.g.host(drawn, inputs, [(shape, kind)], call.op, call.name, call.outputs, size=list(shape))[0]


def _kind(c: Importer, call: Call) -> Any:
    """The attribute ``dtype``, the type of the input, or float32."""
    if "dtype" in call.attrs:
        return dtype(dtype_name(call.attrs["dtype"]))
    return c.tensor(call.inputs[0]).dtype if call.inputs else dtype("float32")


def _shape(c: Importer, call: Call) -> Any:
    return c.tensor(call.inputs[0]).shape if call.inputs else call.attrs["shape"]


@graph_op("RandomNormal", "RandomNormalLike")
def random_normal(c: Importer, call: Call) -> Any:
    mean, scale = call.attrs.get("mean", 0.0), call.attrs.get("scale", 1.0)
    return _random(c, call, lambda g, size: g.normal(mean, scale, size), _shape(c, call), _kind(c, call))


@graph_op("RandomUniform", "RandomUniformLike")
def random_uniform(c: Importer, call: Call) -> Any:
    low, high = call.attrs.get("low", 0.0), call.attrs.get("high", 1.0)
    return _random(c, call, lambda g, size: g.uniform(low, high, size), _shape(c, call), _kind(c, call))


@graph_op("Bernoulli")
def bernoulli(c: Importer, call: Call) -> Any:
    x = c.tensor(call.inputs[0])
    return _random(c, call, lambda g, p, size: g.uniform(size=size) < p, x.shape, _kind(c, call), [x])


@graph_op("Multinomial")
def multinomial(c: Importer, call: Call) -> Any:
    """Classes drawn for each row of logarithms of unnormalised probabilities: the largest of each sum of one
    and a Gumbel number."""
    x = c.tensor(call.inputs[0])
    kind = dtype(dtype_name(call.attrs.get("dtype", 6)))
    count = call.attrs.get("sample_size", 1)

    def draw(g: Any, p: np.ndarray, size: Any) -> np.ndarray:
        # Gumbel's trick: no exponentials to normalise
        return np.argmax(p[:, None, :] + g.gumbel(size=(*size, p.shape[1])), -1)

    return _random(c, call, draw, [x.shape[0], count], kind, [x])


@graph_op("Dropout")
def dropout(c: Importer, call: Call) -> Any:
    """Nothing is dropped unless the third input says that the network is in training."""
    x = c.tensor(call.inputs[0])
    given = [one(c.numbers(n)) if n else None for n in call.inputs[1:]] + [None, None]
    ratio = 0.5 if given[0] is None else given[0]
    if not given[1] or ratio == 0:
        if len(call.outputs) < 2:
            return x
        kind = "bool" if c.opset() >= 10 else str(x.dtype)
        return x, c.g.call(ops.full, op="Dropout", shape=x.shape, fill_value=1, dtype=kind)
    draw = lambda g, size: g.uniform(size=size) >= ratio
    mask = _random(c, call, draw, x.shape, dtype("bool"))
    return c.g.call(_dropped, x, mask, op="Dropout", outputs=call.outputs, scale=1 / (1 - ratio)), mask


def _dropped(x: Tensor, mask: Tensor, *, scale: float) -> Tensor:
    return te.compute(
        x.shape,
        lambda *i: te.select(mask(*i), x(*i) * te.const(scale, x.dtype), te.const(0, x.dtype)),
        name="dropout",
    )
