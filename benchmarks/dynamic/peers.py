"""What others offer for a layer with a constant weight and any number of rows. Those that are not installed
are left out, with a note.

- numpy: a product by its BLAS, into a given array.
- torch: eager, the weight as it is, into a given tensor.
- torch.compile: a Linear layer compiled once with a dynamic number of rows, its weight frozen and so packed;
  it makes its result anew, as it does for whoever uses it.
- onnxruntime: one node with a dynamic axis, the weight an initialiser and so packed; input and output are
  bound to our arrays.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np

import tensorlang as tl

from .turns import Call

OPSET, FORMAT = 21, 10
SEEN = (1, 2, 100, 512)  # numbers of rows that torch.compile sees first: it makes code of its own for one row

Bind = Callable[[Any, Any], Call]  # of an input and an output


class Peers:
    """The peers of a weight [K, N]; ``compiled``: torch.compile and onnxruntime too, which pack it.
    ``missing`` says what is left out and why."""

    def __init__(self, w: Any, compiled: bool = True) -> None:
        self.missing: dict[str, str] = {}
        self._bind: dict[str, Bind] = {"numpy": lambda x, y: lambda: np.matmul(x, w, out=y)}
        makers: dict[str, Callable[[Any], Bind]] = {"torch": _torch}
        if compiled:
            makers.update(
                {"torch.compile, dynamic": _torch_compile, "onnxruntime, dynamic axes": _onnxruntime}
            )
        for name, make in makers.items():
            try:
                self._bind[name] = make(w)
            except ImportError as e:
                self.missing[name] = str(e).partition("\n")[0]

    def __str__(self) -> str:
        there = f"beside {', '.join(self._bind)}"
        return (
            f"{there}; left out: {', '.join(f'{name} ({why})' for name, why in self.missing.items())}"
            if self.missing
            else there
        )

    def calls(self, x: Any, y: Any) -> dict[str, Call]:
        """A call of each that writes x @ w into y, or returns it."""
        return {name: bind(x, y) for name, bind in self._bind.items()}


def _torch(w: Any) -> Bind:
    import torch

    torch.set_num_threads(tl.num_threads())
    torch.set_grad_enabled(False)
    weight = torch.from_numpy(w)

    def bind(x: Any, y: Any) -> Call:
        tx, ty = torch.from_numpy(x), torch.from_numpy(y)
        return lambda: torch.matmul(tx, weight, out=ty)

    return bind


def _torch_compile(w: Any) -> Bind:
    import torch

    if not any(shutil.which(c) for c in ("g++", "clang++", "c++")):
        raise ImportError("it needs a C++ compiler")
    torch.set_num_threads(tl.num_threads())
    torch.set_grad_enabled(False)
    torch._inductor.config.freezing = True  # without it a weight is an argument like any other
    layer = torch.nn.Linear(*w.shape, bias=False)
    layer.weight.copy_(torch.from_numpy(w).t())
    run = torch.compile(layer.eval(), dynamic=True)
    for m in SEEN:
        run(torch.zeros(m, len(w)))

    def bind(x: Any, y: Any) -> Call:
        tx = torch.from_numpy(x)
        return lambda: run(tx)

    return bind


def _onnxruntime(w: Any) -> Bind:
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    def info(name: str, columns: int) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["m", columns])

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "layer",
        [info("x", w.shape[0])],
        [info("y", w.shape[1])],
        [numpy_helper.from_array(w, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=FORMAT)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = (
        tl.num_threads(),
        1,
        3,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )

    def bind(x: Any, y: Any) -> Call:
        binding, held = session.io_binding(), onnxruntime.OrtValue.ortvalue_from_numpy(x)
        binding.bind_ortvalue_input("x", held)
        binding.bind_output("y", "cpu", 0, y.dtype, list(y.shape), y.ctypes.data)
        return lambda: session.run_with_iobinding(binding)

    return bind
