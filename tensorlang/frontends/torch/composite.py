"""Keeping composite operators whole while torch traces a graph that no gradient is asked of. Knows torch's
dispatcher; no graphs.

Torch takes composite operators apart before a backend sees them: a linear layer becomes a transposition, two
reshapes and a product; an LSTM a thousand operators. ``torch.export`` can leave them whole, by a context of
torch that is not public: where a version of torch lacks it, graphs come in parts, which are right as well.
What is left whole has no derivative: a graph that asks for one within itself comes in parts too.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import fx

from .table import OPERATORS

WHOLE = (
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "einsum.default",
    "group_norm.default",
    "gru.input",
    "instance_norm.default",
    "layer_norm.default",
    "linear.default",
    "lstm.input",
    "matmul.default",
    "rms_norm.default",
    "rnn_relu.input",
    "rnn_tanh.input",
    "scaled_dot_product_attention.default",
    "upsample_bicubic2d.vec",
    "upsample_bilinear2d.vec",
    "upsample_linear1d.vec",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_nearest3d.vec",
)


_DERIVATIVES = ("_functorch", "autograd", "requires_grad", "_set_grad_enabled", "_set_fwd_grad_enabled")


def whole(gm: fx.GraphModule) -> Any:
    """A context in which these operators of a graph of dynamo are left whole."""
    # derivatives are made by the operators that composite ones consist of
    if any(_differentiates(n) for m in gm.modules() if isinstance(m, fx.GraphModule) for n in m.graph.nodes):
        return contextlib.nullcontext()
    # private to torch.export, and so perhaps not there in another version: then operators are taken apart,
    # and answers are the same
    kept = getattr(torch.export.exported_program, "_override_composite_implicit_decomp", None)
    if kept is None:
        return contextlib.nullcontext()
    return kept(dict.fromkeys(_overloads(), _not_taken_apart))


def _differentiates(node: fx.Node) -> bool:
    """Whether a node belongs to what computes derivatives within a graph: grad, vmap, jvp of torch.func, or a
    part in which gradients are switched on."""
    target: Any = node.target
    if node.op not in ("call_function", "call_method"):
        return False
    named = f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"
    return any(word in named for word in _DERIVATIVES) and tuple(node.args) != (False,)


def _overloads() -> list[Any]:
    found = []
    for name in WHOLE:
        packet, overload = name.split(".")
        if f"aten.{name}" in OPERATORS and hasattr(torch.ops.aten, packet):
            found.append(getattr(getattr(torch.ops.aten, packet), overload))
    return found


def _not_taken_apart(*args: Any, **kwargs: Any) -> Any:
    return NotImplemented
