"""The operators that tuners are compared on, as cases of the harness, and as tasks of ours. Knows the
harness's suites.

Weights are given at the call: neither tuner may pack them beforehand.
"""

from __future__ import annotations

import numpy as np

from autosched import SearchTask
from tensorlang import te

from ..harness.case import Argument, Array, Case
from ..peers.tensorlang import OPERATORS
from ..suites import conv, matmul, memory


def _batch_product(a: Array, b: Array) -> Array:
    return a.astype("float64") @ b.astype("float64").transpose(0, 2, 1)


def _batch(batch: int, m: int, n: int, k: int) -> Case:
    """A[b, m, k] by B[b, n, k]: the scores of an attention with ``batch`` heads."""
    return Case(
        "autosched",
        f"batch_matmul_nt {batch}x{m}x{n}x{k}",
        "batch_matmul_nt",
        (Argument("A", (batch, m, k)), Argument("B", (batch, n, k))),
        Argument("C", (batch, m, n)),
        _batch_product,
        flops=2.0 * batch * m * n * k,
        tolerance=float(np.finfo("float32").eps) * k,
    )


def _memory(op: str) -> Case:
    return next(c for c in memory.cases() if c.op == op and c.note == "memory")


CASES: dict[str, Case] = {
    "matmul512": matmul.case(512, 512, 512, False),
    "matmul1024": matmul.case(1024, 1024, 1024, False),
    "conv3x3_56": conv.conv_case("autosched", 64, 56, 64, 3, 1, packed=False, quick=False),
    "conv3x3_14": conv.conv_case("autosched", 256, 14, 256, 3, 1, packed=False, quick=False),
    "conv1x1_28": conv.conv_case("autosched", 512, 28, 128, 1, 1, packed=False, quick=False),
    "depthwise_28": conv.conv_case("autosched", 256, 28, 256, 3, 1, groups=256, packed=False, quick=False),
    "softmax": _memory("softmax"),
    "layer_norm": _memory("layer_norm"),
    "batch_matmul_nt": _batch(12, 128, 128, 64),
}


def declared(case: Case) -> list[te.Tensor]:
    """The tensors of a case as this project's operators declare it: inputs, then the result."""
    inputs = [te.placeholder(a.shape, a.dtype, name=a.name) for a in case.arguments]
    return [*inputs, OPERATORS[case.op](*inputs, **case.params)]


def task_of(name: str) -> SearchTask:
    """A case by its name as a task for this machine."""
    return SearchTask.of(declared(CASES[name]), name=name)
