"""This project as a user meets it: ``tl.compile`` of what ``tensorlang.ops`` declares; default schedules,
nothing tuned; results into a given array.

``TensorLangF32`` is a yardstick for int8: our own product of matrices of the same shape in float32.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.runtime.elf import symbols

from ..harness.case import Array, Case, aligned
from ..harness.peer import Peer, Prepared
from ..suites.images import margins


class TensorLang(Peer):
    name = "tensorlang"
    package = "tensorlang"

    def start(self, threads: int) -> None:
        tl.set_num_threads(threads)

    def unsupported(self, case: Case) -> str | None:
        return None if case.op in OPERATORS else f"no {case.op}"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        start = time.perf_counter()
        inputs = [te.placeholder(a.shape, a.dtype, name=a.name) for a in case.arguments]
        out = OPERATORS[case.op](*inputs, **case.params)
        constants = {t: arrays[a.name] for t, a in zip(inputs, case.arguments, strict=True) if a.constant}
        given = [t for t in inputs if t not in constants]
        kernel = tl.compile([*given, out], constants=constants, name=case.op)
        seconds = time.perf_counter() - start
        result = case.empty()
        run = partial(kernel, *(arrays[t.name] for t in given), result)
        code = sum(s.size for s in symbols(kernel.object_code) if s.is_function)
        return Prepared(run, lambda: (run(), result)[1], seconds, code)


class TensorLangF32(TensorLang):
    """The same product in float32."""

    name = "tensorlang f32"
    counted = False

    def unsupported(self, case: Case) -> str | None:
        return None if case.op == "matmul_int8" else "a yardstick for int8"

    def prepare(self, case: Case, arrays: dict[str, Array]) -> Prepared:
        arguments = tuple(replace(a, dtype="float32") for a in case.arguments)
        floats = replace(case, op="matmul", arguments=arguments, result=replace(case.result, dtype="float32"))
        values = {name: aligned(a.shape, "float32") for name, a in arrays.items()}
        for name, array in values.items():
            array[...] = arrays[name]
        prepared = super().prepare(floats, values)
        return replace(prepared, result=lambda: np.rint(prepared.result()).astype("int32"))


def _batch_norm_relu(
    x: te.Tensor, mean: te.Tensor, variance: te.Tensor, scale: te.Tensor, shift: te.Tensor, epsilon: float
) -> te.Tensor:
    return ops.relu(ops.batch_norm(x, mean, variance, scale, shift, eps=epsilon))


OPERATORS: dict[str, Callable[..., te.Tensor]] = {
    "matmul": lambda a, b: ops.matmul(a, b),
    "matmul_int8": lambda a, b: ops.matmul_integer(a, b),
    "batch_matmul_nt": lambda a, b: ops.batch_matmul(a, b, transpose_b=True),
    "conv2d": lambda x, w, b, stride, padding, groups: ops.relu(
        ops.conv2d(x, w, b, stride=stride, padding=padding, groups=groups)
    ),
    "attention": lambda q, k, v: ops.scaled_dot_product_attention(q, k, v),
    "softmax": lambda x, axis: ops.softmax(x, axis),
    "layer_norm": lambda x, scale, shift, epsilon: ops.layer_norm(x, weight=scale, bias=shift, eps=epsilon),
    "batch_norm_relu": _batch_norm_relu,
    "gelu": lambda x: ops.gelu(x),
    "sum_last": lambda x, axis: ops.sum(x, axis),
    "sum_first": lambda x, axis: ops.sum(x, axis),
    "max_last": lambda x, axis: ops.max(x, axis),
    "max_first": lambda x, axis: ops.max(x, axis),
    "transpose": lambda x: ops.transpose(x),
    "chain": lambda x, a, b: ops.multiply(ops.relu(ops.add(ops.multiply(x, a), b)), 0.5),
    "copy": lambda x: te.compute(x.shape, lambda *i: x[i], name="copy"),
    "matmul_tn": lambda a, b: ops.matmul(a, b, transpose_a=True),
    "matmul_nt": lambda a, b: ops.matmul(a, b, transpose_b=True),
    "attention_shared": lambda q, k, v: ops.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    "conv_transpose2d": lambda x, w, **params: ops.conv_transpose2d(x, w, **params),
    "conv1d": lambda x, w, b, **params: ops.conv1d(x, w, b, **params),
    "conv3d": lambda x, w, b: ops.conv3d(x, w, b),
    "tanh": lambda x: ops.tanh(x),
    "cbrt": lambda x: ops.cbrt(x),
    "sigmoid": lambda x: ops.sigmoid(x),
    "gelu_tanh": lambda x: ops.gelu(x, "tanh"),
    "rfft": lambda x: ops.dft(ops.expand_dims(x, -1), axis=-2, onesided=True),
    "cumsum": lambda x, axis: ops.cumsum(x, axis),
    "resize_nearest": lambda x: ops.resize(x, [2 * n for n in x.shape[2:]]),
    "concat_last": lambda x, y: ops.concat([x, y], -1),
    "argmax": lambda x: ops.argmax(x, -1),
    "pad_reflect": lambda x, margin: ops.pad(x, margins(margin), "reflect"),
    "pad_edge": lambda x, margin: ops.pad(x, margins(margin), "edge"),
    "max_pool": lambda x, kernel, stride, padding: ops.max_pool2d(x, kernel, stride, padding),
    "resize_to": lambda x, size: ops.resize(x, size),
    "resize_linear": lambda x, size: ops.resize(x, size, "linear"),
    "grid_sample": lambda x, grid: ops.grid_sample(x, grid),
    "einsum": lambda a, b, subscripts: ops.einsum(subscripts, a, b),
    "avg_pool": lambda x, kernel, stride, padding: ops.avg_pool2d(x, kernel, stride, padding),
}
