"""Keeping composite operators whole while torch traces a graph that no gradient is asked of. Knows torch's
dispatcher; no graphs.

Torch takes composite operators apart before a backend sees them: a linear layer becomes a transposition, two
reshapes and a product; an LSTM a thousand operators. ``torch.export`` can leave them whole, by a context of
torch that is not public: where a version of torch lacks it, graphs come in parts, which are right as well.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from .table import OPERATORS

WHOLE = (
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "group_norm.default",
    "gru.input",
    "instance_norm.default",
    "layer_norm.default",
    "linear.default",
    "lstm.input",
    "matmul.default",
    "rms_norm.default",
    "scaled_dot_product_attention.default",
    "upsample_bicubic2d.vec",
    "upsample_bilinear2d.vec",
    "upsample_linear1d.vec",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_nearest3d.vec",
)


def whole() -> Any:
    """A context in which these operators are left whole."""
    kept = getattr(torch.export.exported_program, "_override_composite_implicit_decomp", None)
    if kept is None:
        return contextlib.nullcontext()
    return kept(dict.fromkeys(_overloads(), _not_taken_apart))


def _overloads() -> list[Any]:
    found = []
    for name in WHOLE:
        packet, overload = name.split(".")
        if f"aten.{name}" in OPERATORS and hasattr(torch.ops.aten, packet):
            found.append(getattr(getattr(torch.ops.aten, packet), overload))
    return found


def _not_taken_apart(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented
