"""ONNX's operators of classical machine learning (the domain ``ai.onnx.ml``) that know no strings: features
made ready, linear models and support vectors. Trees have a file of their own. Knows ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...core.dtype import FLOAT32, INT64
from ...errors import DeclareError, TensorLangError, counted
from ...expr import make
from ...te import Tensor
from ..words import constant_like, of_type
from .proto import Call
from .table import graph_op, te_op

if TYPE_CHECKING:
    from .importer import Importer

ML = "ai.onnx.ml"


def numbers(x: Sequence[float] | None, kind: str = "float32") -> np.ndarray:
    """An attribute that is a list, as an array; empty where there is none."""
    return np.asarray([] if x is None else x, kind)


def no_strings(call: Call) -> None:
    """Raises TensorLangError for a node that makes or reads strings."""
    texts = [
        k
        for k, x in call.attrs.items()
        if "string" in k and x is not None and len(x) and k != "default_string"
    ]
    if texts:
        raise TensorLangError(
            f"{call!r}: {texts[0]} is given",
            because="a kernel computes numbers, and no strings",
            try_="a model whose labels are numbers: those of its labels' places in a list",
        )


def after(scores: Tensor, how: str) -> Tensor:
    """What is made of scores [n, classes] in the end."""
    if how == "SOFTMAX":
        return ops.softmax(scores, -1)
    if how == "LOGISTIC":
        return ops.sigmoid(scores)
    if how == "PROBIT":
        inner = ops.erfinv(ops.subtract(ops.multiply(scores, 2.0), constant_like(scores, 1)))
        return ops.multiply(inner, constant_like(scores, math.sqrt(2)))
    if how != "NONE":
        raise DeclareError(f"post_transform={how}", legal="NONE, SOFTMAX, LOGISTIC, PROBIT")
    return scores


def _rows(x: Tensor) -> Tensor:
    """As rows of float32: one of features alone is one of them."""
    return of_type(x if x.ndim > 1 else ops.expand_dims(x, (0,)), FLOAT32)


def _constants(c: Importer, call: Call, **arrays: np.ndarray) -> list[Any]:
    return [c.g.constant(a, f"{call.outputs[0]}_{word}") for word, a in arrays.items()]


# -- features


@graph_op("Scaler", domain=ML)
def scaler(c: Importer, call: Call) -> Any:
    offset, scale = (numbers(call.attrs.get(k)) for k in ("offset", "scale"))
    held = _constants(c, call, offset=offset, scale=scale)
    x = c.tensor(call.inputs[0])
    return c.g.call(_scaled, x, *held, op=call.op, name=call.name, outputs=call.outputs)


def _scaled(x: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
    return ops.multiply(ops.subtract(of_type(x, FLOAT32), offset), scale)


@graph_op("Imputer", domain=ML)
def imputer(c: Importer, call: Call) -> Any:
    x = c.tensor(call.inputs[0])
    word, kind = ("float", "float32") if x.dtype.is_float else ("int64", "int64")
    (new,) = _constants(c, call, imputed=numbers(call.attrs.get(f"imputed_value_{word}s"), kind))
    missing = call.attrs.get(f"replaced_value_{word}", 0)
    named: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    return c.g.call(_imputed, x, new, **named, missing=missing)


def _imputed(x: Tensor, new: Tensor, *, missing: float) -> Tensor:
    lost = (
        ops.isnan(x) if x.dtype.is_float and math.isnan(missing) else ops.equal(x, constant_like(x, missing))
    )
    return ops.where(lost, of_type(new, x.dtype), x)


@te_op("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    return ops.cast(ops.greater(x, constant_like(x, threshold)), x.dtype)


@te_op("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: str = "MAX") -> Tensor:
    """By the largest, the sum of all sizes, or the root of that of squares; a row whose is 0 stays."""
    x = of_type(x, FLOAT32)
    size = {
        "MAX": lambda: ops.max(x, -1, True),
        "L1": lambda: ops.sum(ops.abs(x), -1, keepdims=True),
        "L2": lambda: ops.sqrt(ops.sum(ops.square(x), -1, keepdims=True)),
    }[norm]()
    return ops.divide(x, ops.where(ops.equal(size, constant_like(size, 0)), constant_like(size, 1), size))


@te_op("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(x: Tensor, places: Tensor) -> Tensor:
    """Columns of rows; of a list one row of elements."""
    rows = x if x.ndim > 1 else ops.expand_dims(x, (0,))
    return ops.take(rows, ops.reshape(places, (-1,)), -1, "index")


@te_op("FeatureVectorizer", domain=ML)
def feature_vectorizer(*xs: Tensor, inputdimensions: Sequence[int] = ()) -> Tensor:
    """Columns beside each other: of each input as many as are named."""
    rows = [_rows(x) for x in xs]
    wanted = [*inputdimensions, *[None] * len(rows)]
    cut = [
        r if n is None else ops.strided_slice(r, [0], [n], [1], [1])
        for r, n in zip(rows, wanted, strict=False)
    ]
    return ops.concatenate(cut, 1)


@graph_op("OneHotEncoder", domain=ML)
def one_hot_encoder(c: Importer, call: Call) -> Any:
    no_strings(call)
    x = c.tensor(call.inputs[0])
    (cats,) = _constants(c, call, cats=numbers(call.attrs.get("cats_int64s"), "int64"))
    return c.g.call(_one_hot, x, cats, op=call.op, name=call.name, outputs=call.outputs)


def _one_hot(x: Tensor, cats: Tensor) -> Tensor:
    same = ops.equal(ops.expand_dims(of_type(x, INT64), (x.ndim,)), cats)
    return ops.cast(same, FLOAT32)


@graph_op("LabelEncoder", domain=ML)
def label_encoder(c: Importer, call: Call) -> Any:
    """The keys are put in order here, and found by halves."""
    no_strings(call)
    x = c.tensor(call.inputs[0])
    tables = {}
    for part in ("keys", "values"):
        for word, kind in (("int64s", "int64"), ("floats", "float32"), ("tensor", None)):
            given = call.attrs.get(f"{part}_{word}")
            if given is not None:
                tables[part] = np.asarray(given, kind).reshape(-1)
    keys, values = tables["keys"], tables["values"]
    default = call.attrs.get("default_tensor")
    if default is None:
        whole = values.dtype.kind == "i"
        default = call.attrs.get("default_int64", -1) if whole else call.attrs.get("default_float", -0.0)
    keys, first = np.unique(keys, return_index=True)
    held = _constants(c, call, keys=keys, values=values[first])
    named: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    return c.g.call(_encoded, x, *held, **named, default=np.asarray(default).reshape(-1)[0].item())


def _encoded(x: Tensor, keys: Tensor, values: Tensor, *, default: float) -> Tensor:
    n = int(keys.shape[0])
    x = of_type(x, keys.dtype)
    # of the keys that are no larger the last one: so many are known to be
    done = None
    for step in (1 << k for k in reversed(range(n.bit_length()))):

        def further(*i: Any, done: Any = done, step: int = step) -> Any:
            have = te.const(0, "int32") if done is None else done(*i)
            more = have + step
            return te.select(te.all(more <= n, keys(te.min(more, n) - 1) <= x(*i)), more, have)

        done = te.compute(x.shape, further, name="found")

    def element(*i: Any) -> Any:
        assert done is not None
        at = te.max(done(*i) - 1, 0)
        # none is before the first, which is then asked and is another
        return te.select(make.eq(keys(at), x(*i)), values(at), te.const(default, values.dtype))

    return te.compute(x.shape, element, name="label")  # type: ignore[return-value]


# -- linear models and support vectors


def _product(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    made = ops.matmul(x, ops.transpose(weight))
    return made if bias is None else ops.add(made, bias)


@graph_op("LinearRegressor", domain=ML)
def linear_regressor(c: Importer, call: Call) -> Any:
    x = c.tensor(call.inputs[0])
    targets = int(call.attrs.get("targets", 1))
    weight = numbers(call.attrs.get("coefficients")).reshape(targets, -1)
    bias = numbers(call.attrs.get("intercepts", [0.0] * targets))
    held = _constants(c, call, weight=weight, bias=bias)
    named: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    return c.g.call(_linear, x, *held, **named, how=call.attrs.get("post_transform", "NONE"))


def _linear(x: Tensor, weight: Tensor, bias: Tensor, *, how: str) -> Tensor:
    return after(_product(_rows(x), weight, bias), how)


@graph_op("LinearClassifier", domain=ML)
def linear_classifier(c: Importer, call: Call) -> Any:
    no_strings(call)
    x = c.tensor(call.inputs[0])
    labels = numbers(call.attrs.get("classlabels_ints"), "int64")
    bias = numbers(call.attrs.get("intercepts", [0.0] * len(labels)))
    if len(bias) != len(labels):
        raise TensorLangError(
            f"{call!r}: {counted(len(bias), 'score')} for {counted(len(labels), 'label')}",
            because="each label has a score of its own",
        )
    weight = numbers(call.attrs.get("coefficients")).reshape(len(bias), -1)
    held = _constants(c, call, weight=weight, bias=bias, labels=labels)
    named: dict[str, Any] = {"op": call.op, "name": call.name, "outputs": call.outputs}
    return c.g.call(_classified, x, *held, **named, how=call.attrs.get("post_transform", "NONE"))


def _classified(x: Tensor, weight: Tensor, bias: Tensor, labels: Tensor, *, how: str) -> Any:
    scores = _product(_rows(x), weight, bias)
    return ops.take(labels, ops.argmax(scores, -1), 0, "clip"), after(scores, how)


@graph_op("SVMRegressor", domain=ML)
def svm_regressor(c: Importer, call: Call) -> Any:
    x = c.tensor(call.inputs[0])
    count = int(call.attrs.get("n_supports", 0))
    own, rho = (numbers(call.attrs.get(k)) for k in ("coefficients", "rho"))
    vectors = numbers(call.attrs.get("support_vectors")).reshape(count, -1) if count else own.reshape(1, -1)
    held = _constants(
        c, call, vectors=vectors, own=own[None] if count else np.ones((1, 1), "float32"), rho=rho[:1]
    )
    return c.g.call(
        _supported,
        x,
        *held,
        op=call.op,
        name=call.name,
        outputs=call.outputs,
        kernel=call.attrs.get("kernel_type", "LINEAR") if count else "LINEAR",
        parameters=[float(p) for p in numbers(call.attrs.get("kernel_params", [0.0, 0.0, 0.0]))],
        one_class=bool(call.attrs.get("one_class", 0)),
        how=call.attrs.get("post_transform", "NONE"),
    )


def _supported(
    x: Tensor,
    vectors: Tensor,
    own: Tensor,
    rho: Tensor,
    *,
    kernel: str,
    parameters: Sequence[float],
    one_class: bool,
    how: str,
) -> Tensor:
    made = _product(_likeness(_rows(x), vectors, kernel, parameters), own, rho)
    if one_class:
        return ops.where(
            ops.greater(made, constant_like(made, 0)), constant_like(made, 1), constant_like(made, -1)
        )
    return after(made, how)


def _likeness(x: Tensor, vectors: Tensor, kernel: str, parameters: Sequence[float]) -> Tensor:
    """How near each row is to each vector."""
    gamma, shift, degree = (constant_like(x, p) for p in parameters)
    if kernel == "RBF":
        apart = ops.subtract(ops.expand_dims(x, (1,)), ops.expand_dims(vectors, (0,)))
        return ops.exp(ops.negative(ops.multiply(ops.sum(ops.square(apart), -1), gamma)))
    product = _product(x, vectors)
    if kernel == "LINEAR":
        return product
    moved = ops.add(ops.multiply(product, gamma), shift)
    return ops.power(moved, degree) if kernel == "POLY" else ops.tanh(moved)
