"""PyTorch eager: the functional call a user would write, into a given tensor where the function takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from ..harness.case import Array, Case
from ..harness.peer import Peer, Prepared


class Torch(Peer):
    name = "torch"
    package = "torch"

    def start(self, threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)

    def unsupported(self, case: Case) -> str | None:
        if case.packed:
            return "no packed weights; torch.compile has them"
        return None if case.op in OPERATORS else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        inputs = [torch.from_numpy(a) for a in arrays.values()]
        out, params, compute = torch.from_numpy(case.empty()), dict(case.params), OPERATORS[case.op]

        def run() -> Any:
            return compute(*inputs, out=out, **params)

        return Prepared(run, lambda: run().numpy())


def conv2d(data: Any, weight: Any, bias: Any, *, out: Any, stride: int, padding: int, groups: int) -> Any:
    return F.conv2d(data, weight, bias, stride, padding, groups=groups).relu_()


def batch_norm_relu(
    x: Any, mean: Any, variance: Any, scale: Any, shift: Any, *, out: Any, epsilon: float
) -> Any:
    return F.batch_norm(x, mean, variance, scale, shift, eps=epsilon).relu_()


# those that take no tensor for their result; torch.compile takes them as they are
NEW: dict[str, Callable[..., Any]] = {
    "matmul_tn": lambda a, b: a.t() @ b,
    "matmul_nt": F.linear,
    "attention_shared": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    "conv_transpose2d": lambda x, w, stride, padding, groups: F.conv_transpose2d(
        x, w, None, stride, padding, groups=groups
    ),
    "conv1d": lambda x, w, b, stride, padding: F.conv1d(x, w, b, stride, padding),
    "conv3d": F.conv3d,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "cumsum": lambda x, axis: torch.cumsum(x, axis),
    "rfft": lambda x: torch.view_as_real(torch.fft.rfft(x)),
    "resize_nearest": lambda x: F.interpolate(x, scale_factor=2, mode="nearest"),
    "concat_last": lambda x, y: torch.cat([x, y], -1),
    "argmax": lambda x: x.argmax(-1),
    "pad_reflect": lambda x, margin: F.pad(x, [margin] * 4, "reflect"),
    "pad_edge": lambda x, margin: F.pad(x, [margin] * 4, "replicate"),
    "max_pool": lambda x, kernel, stride, padding: F.max_pool2d(x, kernel, stride, padding),
    "resize_to": lambda x, size: F.interpolate(x, size, mode="nearest"),
    "resize_linear": lambda x, size: F.interpolate(x, size, mode="bilinear"),
    "grid_sample": lambda x, grid: F.grid_sample(x, grid, align_corners=False),
    "avg_pool": lambda x, kernel, stride, padding: F.avg_pool2d(x, kernel, stride, padding),
    "einsum": lambda a, b, subscripts: torch.einsum(subscripts, a, b),
}


def _given(operator: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs, out, **params: operator(*xs, **params)


OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: _given(operator) for name, operator in NEW.items()},
    "matmul": lambda a, b, *, out: torch.matmul(a, b, out=out),
    "matmul_int8": lambda a, b, *, out: torch._int_mm(a, b, out=out),
    "batch_matmul_nt": lambda a, b, *, out: torch.bmm(a, b.transpose(1, 2), out=out),
    "conv2d": conv2d,
    "attention": lambda q, k, v, *, out: F.scaled_dot_product_attention(q, k, v),
    "softmax": lambda x, *, out, axis: torch.softmax(x, axis, out=out),
    "layer_norm": lambda x, scale, shift, *, out, epsilon: F.layer_norm(
        x, scale.shape, scale, shift, epsilon
    ),
    "batch_norm_relu": batch_norm_relu,
    "gelu": lambda x, *, out: F.gelu(x),
    "sum_last": lambda x, *, out, axis: torch.sum(x, axis, out=out),
    "sum_first": lambda x, *, out, axis: torch.sum(x, axis, out=out),
    "max_last": lambda x, *, out, axis: torch.amax(x, axis, out=out),
    "max_first": lambda x, *, out, axis: torch.amax(x, axis, out=out),
    "transpose": lambda x, *, out: out.copy_(x.t()),
    "chain": lambda x, a, b, *, out: torch.addcmul(b, x, a, out=out).relu_().mul_(0.5),
    "copy": lambda x, *, out: out.copy_(x),
}
