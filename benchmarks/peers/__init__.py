"""Who computes: one file a peer, the only one that imports its package. Knows cases, and nothing of how they
are timed.

A new peer is one file and one line here. The order is that of tables and pictures. A file is imported when
its peer is made, in the process that measures; an ImportError then means that it is not installed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial

from ..harness.peer import Peer


def _make(module: str, name: str) -> Peer:
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)()


OURS = "tensorlang"
PEERS: dict[str, Callable[[], Peer]] = {
    OURS: partial(_make, "tensorlang", "TensorLang"),
    "numpy": partial(_make, "numpy", "Numpy"),
    "scipy": partial(_make, "scipy", "Scipy"),
    "torch": partial(_make, "torch", "Torch"),
    "torch.compile": partial(_make, "torch_compile", "TorchCompile"),
    "onnxruntime": partial(_make, "onnxruntime", "OnnxRuntime"),
    "openvino": partial(_make, "openvino", "OpenVino"),
    "jax": partial(_make, "jax", "Jax"),
    "numba": partial(_make, "numba", "Numba"),
    "halide": partial(_make, "halide", "Halide"),
    "tensorlang f32": partial(_make, "tensorlang", "TensorLangF32"),
}
