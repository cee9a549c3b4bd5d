"""torch.compile (TorchInductor, with a C++ compiler): the same calls as one fused function; constant weights
by freezing, which packs them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared
from .torch import NEW


class TorchCompile(Peer):
    name = "torch.compile"
    package = "torch"

    def start(self, threads: int) -> None:
        if not any(shutil.which(c) for c in ("g++", "clang++", "c++")):
            raise ImportError("torch.compile needs a C++ compiler")
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        # without it parameters of a module are arguments like any other
        torch._inductor.config.freezing = True

    def unsupported(self, case: Case) -> str | None:
        return None if case.op in OPERATORS else f"no {case.op} of its own"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        torch._dynamo.reset()  # or shapes seen before make the next one dynamic
        inputs = [torch.from_numpy(arrays[a.name]) for a in case.arguments if not a.constant]
        if case.packed:
            weights = [torch.from_numpy(arrays[a.name]) for a in case.arguments if a.constant]
            compute = torch.compile(_module(case, weights).eval(), dynamic=False)

            def run() -> Any:
                return compute(*inputs)
        else:
            operator, params = OPERATORS[case.op], dict(case.params)
            compute = torch.compile(lambda *xs: operator(*xs, **params), dynamic=False)

            def run() -> Any:
                return compute(*inputs)

        run()
        return Prepared(run, lambda: run().numpy())


def _module(case: Case, weights: list[Any]) -> Any:
    """The layer a user would write for it."""
    if case.op == "matmul":
        depth, width = weights[0].shape
        layer = torch.nn.Linear(depth, width, bias=False)
        layer.weight.copy_(weights[0].t())
        return layer
    out, inner, height, width = weights[0].shape
    conv = torch.nn.Conv2d(inner * case.params["groups"], out, (height, width), **case.params)
    conv.weight.copy_(weights[0])
    conv.bias.copy_(weights[1])
    return torch.nn.Sequential(conv, torch.nn.ReLU())


OPERATORS: dict[str, Callable[..., Any]] = {
    **NEW,
    "batch_matmul_nt": lambda a, b: a @ b.transpose(1, 2),
    "matmul": lambda a, b: a @ b,
    "conv2d": lambda x, w, b, stride, padding, groups: F.relu(
        F.conv2d(x, w, b, stride, padding, groups=groups)
    ),
    "attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "softmax": lambda x, axis: torch.softmax(x, axis),
    "layer_norm": lambda x, scale, shift, epsilon: F.layer_norm(x, scale.shape, scale, shift, epsilon),
    "batch_norm_relu": lambda x, mean, var, scale, shift, epsilon: F.relu(
        F.batch_norm(x, mean, var, scale, shift, eps=epsilon)
    ),
    "gelu": lambda x: F.gelu(x),
    "sum_last": lambda x, axis: torch.sum(x, axis),
    "sum_first": lambda x, axis: torch.sum(x, axis),
    "max_last": lambda x, axis: torch.amax(x, axis),
    "max_first": lambda x, axis: torch.amax(x, axis),
    "transpose": lambda x: x.t().contiguous(),
    "chain": lambda x, a, b: torch.relu(x * a + b) * 0.5,
    "copy": lambda x: x.clone(),
}
