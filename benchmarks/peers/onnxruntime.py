"""onnxruntime on the CPU: each case a small graph, weights as initialisers in packed cases, inputs and output
bound once."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
from onnx import helper, numpy_helper

from ..harness.case import Argument, Array, Case
from ..harness.peer import Peer, Prepared

OPSET, FORMAT = 23, 11


class OnnxRuntime(Peer):
    name = "onnxruntime"
    package = "onnxruntime"

    def start(self, threads: int) -> None:
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.options.inter_op_num_threads = 1
        self.options.log_severity_level = 3

    def unsupported(self, case: Case) -> str | None:
        return None if case.op in OPERATORS else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        arguments = case.arguments
        if case.op == "matmul_int8":
            # unsigned with a zero point of 128: its signed kernels are slow, its mixed ones saturate without
            # VNNI
            arguments = tuple(replace(a, dtype="uint8") for a in arguments)
            arrays = {name: array.view("uint8") ^ 128 for name, array in arrays.items()}
        nodes, more = OPERATORS[case.op](case)
        out = case.empty()
        initialisers = [numpy_helper.from_array(arrays[a.name], a.name) for a in arguments if a.constant]
        initialisers += [numpy_helper.from_array(value, name) for name, value in more.items()]
        graph = helper.make_graph(
            nodes,
            case.op,
            [_value(a) for a in arguments if not a.constant],
            [_value(case.result)],
            initialisers,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), self.options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        held = [onnxruntime.OrtValue.ortvalue_from_numpy(arrays[a.name]) for a in arguments if not a.constant]
        for argument, value in zip([a for a in arguments if not a.constant], held):
            binding.bind_ortvalue_input(argument.name, value)
        binding.bind_output(case.result.name, "cpu", 0, out.dtype, list(out.shape), out.ctypes.data)

        def run() -> None:
            session.run_with_iobinding(binding)

        def result() -> Array:
            run()
            assert held
            return out

        return Prepared(run, result)


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


def _batch_matmul_nt(case: Case) -> Graph:
    """The optimiser makes one node of both."""
    turn = helper.make_node("Transpose", ["B"], ["turned"], perm=[0, 2, 1])
    return [turn, helper.make_node("MatMul", ["A", "turned"], [case.result.name])], {}


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
    "batch_matmul_nt": _batch_matmul_nt,
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
}
