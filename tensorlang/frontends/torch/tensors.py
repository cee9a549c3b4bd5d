"""Tensors of torch as numpy arrays over the same memory, and back. Knows dtypes; no graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ...core.dtype import dtype
from .types import KINDS


def dtype_name(t: torch.dtype) -> str:
    """Torch's name of a dtype, which is ours."""
    return str(t).removeprefix("torch.")


def supported(x: torch.Tensor) -> str:
    """Why kernels cannot read a tensor; empty when they can."""
    if x.device.type != "cpu":
        return f"a tensor on {x.device.type}"
    if x.layout is not torch.strided:
        return f"a tensor of layout {dtype_name(x.layout)}"
    if dtype_name(x.dtype) not in KINDS:
        return f"a tensor of {dtype_name(x.dtype)}"
    if x.is_quantized or x.is_nested:
        return "a tensor of a special kind"
    return ""


def array_of(x: torch.Tensor) -> np.ndarray:
    """The array over the memory of a tensor."""
    if x.requires_grad:
        x = x.detach()
    if x.is_neg() or x.is_conj():
        x = x.resolve_neg().resolve_conj()
    if x.dtype is torch.bfloat16:
        return x.view(torch.int16).numpy().view(dtype("bfloat16").to_numpy())
    return x.numpy()


def held(x: torch.Tensor) -> np.ndarray:
    """As ``array_of``, in C order."""
    return np.ascontiguousarray(array_of(x)) if x.ndim else np.asarray(array_of(x))


def tensor_of(a: Any) -> torch.Tensor:
    """The tensor over the memory of an array that nobody else has."""
    a = np.asarray(a)
    if a.dtype.name == "bfloat16":
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(a)
