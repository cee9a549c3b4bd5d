"""Cases as ONNX models, for the peers that read them: each a small graph, weights as initialisers in packed
cases. Knows onnx and cases; nothing of who runs the model."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from .harness.case import Argument, Array, Case

OPSET, FORMAT = 23, 11


def model(case: Case, arrays: dict[str, Array]) -> tuple[bytes, dict[str, Array]]:
    """The model of a case, and the arrays that it takes at the call, by name."""
    arguments = case.arguments
    if case.op == "matmul_int8":
        # unsigned with a zero point of 128: signed kernels are slow, and mixed ones saturate without VNNI
        arguments = tuple(replace(a, dtype="uint8") for a in arguments)
        arrays = {name: array.view("uint8") ^ 128 for name, array in arrays.items()}
    nodes, more = OPERATORS[case.op](case)
    initialisers = [numpy_helper.from_array(arrays[a.name], a.name) for a in arguments if a.constant]
    initialisers += [numpy_helper.from_array(value, name) for name, value in more.items()]
    graph = helper.make_graph(
        nodes, case.op, [_value(a) for a in arguments if not a.constant], [_value(case.result)], initialisers
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)
    return made.SerializeToString(), {a.name: arrays[a.name] for a in arguments if not a.constant}


def _value(a: Argument) -> Any:
    return helper.make_tensor_value_info(a.name, helper.np_dtype_to_tensor_dtype(np.dtype(a.dtype)), a.shape)


Graph = tuple[list[Any], dict[str, Array]]  # nodes, further constants by name


def _one(kind: str, *inputs: str, **attributes: Any) -> Callable[[Case], Graph]:
    """A graph of one node; inputs named as the arguments unless given."""
    return lambda case: (
        [
            helper.make_node(
                kind, list(inputs) or [a.name for a in case.arguments], [case.result.name], **attributes
            )
        ],
        {},
    )


def _conv2d(case: Case) -> Graph:
    p, weight = case.params, case.arguments[1]
    conv = helper.make_node(
        "Conv",
        [a.name for a in case.arguments],
        ["sum"],
        kernel_shape=weight.shape[2:],
        strides=[p["stride"]] * 2,
        pads=[p["padding"]] * 4,
        group=p["groups"],
    )
    return [conv, helper.make_node("Relu", ["sum"], [case.result.name])], {}


def _int8(case: Case) -> Graph:
    left, right = case.arguments
    node = helper.make_node("MatMulInteger", [left.name, right.name, "zero", "zero"], [case.result.name])
    return [node], {"zero": np.array(128, "uint8")}


def _batch_norm_relu(case: Case) -> Graph:
    norm = helper.make_node(
        "BatchNormalization",
        ["x", "scale", "shift", "mean", "variance"],
        ["normal"],
        epsilon=case.params["epsilon"],
    )
    return [norm, helper.make_node("Relu", ["normal"], [case.result.name])], {}


def _named(kind: str, attributes: Callable[[Any], dict[str, Any]]) -> Callable[[Case], Graph]:
    """A graph of one node, whose attributes follow from the parameters of the case."""
    return lambda case: _one(kind, **attributes(case.params))(case)


def _with(kind: str, name: str, value: Callable[[Case], Array], *before: str) -> Callable[[Case], Graph]:
    """A graph of one node that takes a further constant; ``before`` are inputs left out in front of it."""

    def graph(case: Case) -> Graph:
        inputs = [*[a.name for a in case.arguments], *before, name]
        return [helper.make_node(kind, inputs, [case.result.name], **_NEAREST.get(kind, {}))], {
            name: value(case)
        }

    return graph


def _halves(case: Case) -> Graph:
    """The half of a spectrum of real numbers that tells all of it."""
    nodes = [
        helper.make_node("Unsqueeze", ["x", "last"], ["numbers"]),
        helper.make_node("DFT", ["numbers", "", "axis"], [case.result.name], onesided=1),
    ]
    return nodes, {"last": np.array([-1]), "axis": np.array(-2)}


# as torch and numpy count: the element that lies over the place, rounded down
_NEAREST: dict[str, dict[str, Any]] = {
    "Resize": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
}


def _window(p: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a pool."""
    return {"kernel_shape": [p["kernel"]] * 2, "strides": [p["stride"]] * 2, "pads": [p["padding"]] * 4}


def _padded(mode: str) -> Callable[[Case], Graph]:
    def graph(case: Case) -> Graph:
        margin = case.params["margin"]
        pads = np.array([0, 0, margin, margin] * 2)
        return [helper.make_node("Pad", ["x", "pads"], [case.result.name], mode=mode)], {"pads": pads}

    return graph


def _resized(**attributes: str) -> Callable[[Case], Graph]:
    def graph(case: Case) -> Graph:
        node = helper.make_node("Resize", ["x", "", "", "size"], [case.result.name], **attributes)
        return [node], {"size": np.array(case.result.shape)}

    return graph


def _turned(which: int, axes: list[int]) -> Callable[[Case], Graph]:
    """A product, one of its operands transposed before; the optimisers make one node of both."""

    def graph(case: Case) -> Graph:
        names = [a.name for a in case.arguments]
        turn = helper.make_node("Transpose", [names[which]], ["turned"], perm=axes)
        names[which] = "turned"
        return [turn, helper.make_node("MatMul", names, [case.result.name])], {}

    return graph


def _shared(case: Case) -> Graph:
    """Attention whose heads of queries share keys: as further rows of queries."""
    (batch, _, _, width), heads = case.arguments[0].shape, case.arguments[1].shape[1]
    nodes, more = _attention(case)
    rows = helper.make_node("Reshape", ["q", "rows"], ["qr"])
    nodes[1].input[0], nodes[-1].output[0] = "qr", "or"
    back = helper.make_node("Reshape", ["or", "shape"], [case.result.name])
    shapes = {"rows": np.array([batch, heads, -1, width]), "shape": np.array(case.result.shape)}
    return [rows, *nodes, back], more | shapes


def _layer_norm(case: Case) -> Graph:
    return _one("LayerNormalization", axis=-1, epsilon=case.params["epsilon"])(case)


def _reduce(kind: str) -> Callable[[Case], Graph]:
    def graph(case: Case) -> Graph:
        return [helper.make_node(kind, ["x", "axes"], [case.result.name], keepdims=0)], {
            "axes": np.array([case.params["axis"]])
        }

    return graph


def _chain(case: Case) -> Graph:
    nodes = [
        helper.make_node("Mul", ["x", "a"], ["xa"]),
        helper.make_node("Add", ["xa", "b"], ["xab"]),
        helper.make_node("Relu", ["xab"], ["r"]),
        helper.make_node("Mul", ["r", "half"], [case.result.name]),
    ]
    return nodes, {"half": np.array(0.5, "float32")}


def _attention(case: Case) -> Graph:
    """The standard operator's meaning written out: its own kernel is slower on the CPU."""
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["scores"]),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], [case.result.name]),
    ]
    return nodes, {"scale": np.array(1 / math.sqrt(case.result.shape[-1]), "float32")}


OPERATORS: dict[str, Callable[[Case], Graph]] = {
    "matmul": _one("MatMul"),
    "matmul_int8": _int8,
    "batch_matmul_nt": _turned(1, [0, 2, 1]),
    "conv2d": _conv2d,
    "attention": _attention,
    "softmax": _one("Softmax", axis=-1),
    "layer_norm": _layer_norm,
    "batch_norm_relu": _batch_norm_relu,
    "gelu": _one("Gelu"),
    "sum_last": _reduce("ReduceSum"),
    "sum_first": _reduce("ReduceSum"),
    "max_last": _reduce("ReduceMax"),
    "max_first": _reduce("ReduceMax"),
    "transpose": _one("Transpose", perm=[1, 0]),
    "chain": _chain,
    "matmul_tn": _turned(0, [1, 0]),
    "matmul_nt": _turned(1, [1, 0]),
    "attention_shared": _shared,
    "conv_transpose2d": _named(
        "ConvTranspose",
        lambda p: {"strides": [p["stride"]] * 2, "pads": [p["padding"]] * 4, "group": p["groups"]},
    ),
    "conv1d": _named("Conv", lambda p: {"strides": [p["stride"]], "pads": [p["padding"]] * 2}),
    "conv3d": _one("Conv"),
    "tanh": _one("Tanh"),
    "sigmoid": _one("Sigmoid"),
    "gelu_tanh": _one("Gelu", approximate="tanh"),
    "rfft": _halves,
    "cumsum": _with("CumSum", "axis", lambda case: np.array(case.params["axis"])),
    "resize_nearest": _with("Resize", "scales", lambda case: np.array([1, 1, 2, 2], "float32"), ""),
    "concat_last": _one("Concat", axis=-1),
    "argmax": _one("ArgMax", axis=-1, keepdims=0),
    "pad_reflect": _padded("reflect"),
    "pad_edge": _padded("edge"),
    "max_pool": _named("MaxPool", _window),
    "resize_to": _resized(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    "resize_linear": _resized(mode="linear"),
    "grid_sample": _one("GridSample"),
    "einsum": _named("Einsum", lambda p: {"equation": p["subscripts"]}),
    "avg_pool": _named("AveragePool", lambda p: {**_window(p), "count_include_pad": 1}),
}
