"""Tensors of torch as numpy arrays over the same memory, and back. Knows dtypes; no graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...core.dtype import dtype
from .types import KINDS, PARTS

_BFLOAT16 = dtype("bfloat16").to_numpy()


def dtype_name(t: torch.dtype | torch.layout) -> str:
    """Torch's name of a dtype, which is ours, or of a layout."""
    return str(t).removeprefix("torch.")


def supported(x: torch.Tensor, pairs: bool = False) -> str:
    """Why kernels cannot read a tensor; empty when they can. With ``pairs`` they can read complex numbers."""
    if x.device.type != "cpu":
        return f"a tensor on {x.device.type}"
    if x.layout is not torch.strided:
        return f"a tensor of layout {dtype_name(x.layout)}"
    if dtype_name(x.dtype) not in KINDS and not (pairs and dtype_name(x.dtype) in PARTS):
        return f"a tensor of {dtype_name(x.dtype)}"
    if x.is_quantized or x.is_nested:
        return "a tensor of a special kind"
    return ""


def array_of(x: torch.Tensor) -> np.ndarray:
    """The array over the memory of a tensor."""
    if x.requires_grad:
        x = x.detach()
    # torch keeps these as a mark and not in the memory, where a kernel would read the old numbers
    if x.is_neg() or x.is_conj():
        x = x.resolve_neg().resolve_conj()
    if x.dtype is torch.bfloat16:
        return x.view(torch.int16).numpy().view(_BFLOAT16)
    return x.numpy()


def taker(x: Any, order: list[int] | None) -> Callable[[torch.Tensor], np.ndarray]:
    """The quickest way to the array of tensors like this one, with dimensions in this order; it raises
    RuntimeError where ``array_of`` is needed."""
    if x.dtype is torch.bfloat16 or x.requires_grad:
        return array_of if order is None else lambda x: array_of(x).transpose(order)
    return torch.Tensor.numpy if order is None else lambda x: x.numpy().transpose(order)


def memory_order(fake: torch.Tensor) -> list[int] | None:
    """The dimensions from the one with the longest steps in memory to that with the shortest; None where that
    is their own order, or where elements are said more than once."""
    sizes, strides = ([_likely(n) for n in ns] for ns in (fake.shape, fake.stride()))
    order = sorted(range(fake.ndim), key=lambda d: (-strides[d], d))
    longer = [d for d in order if sizes[d] != 1]
    if longer == sorted(longer):
        return None
    return None if any(strides[d] == 0 and sizes[d] != 1 for d in order) else order


def has_gaps(fake: torch.Tensor) -> bool:
    """Whether elements are not all of one piece of memory, each once."""
    pairs = sorted((_likely(st), _likely(n)) for n, st in zip(fake.shape, fake.stride(), strict=True))
    count = 1
    for stride, n in pairs:
        if n != 1 and stride != count:
            return all(m != 0 for _, m in pairs)
        count *= n
    return False


def elements(fake: torch.Tensor) -> int:
    """How many there are, of open sizes what they were when torch saw them."""
    return math.prod(_likely(n) for n in fake.shape)


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes another."""
    return [order.index(d) for d in range(len(order))]


def _likely(n: Any) -> int:
    """A size, of an open one what it was when torch saw it."""
    if isinstance(n, int):
        return n
    hint = n.node.hint
    return 2 if hint is None else int(hint)


def held(x: torch.Tensor) -> np.ndarray:
    """As ``array_of``, in C order; of complex numbers the pairs."""
    if x.is_complex():
        x = torch.view_as_real(x.detach().resolve_conj().contiguous())
    return np.ascontiguousarray(array_of(x)) if x.ndim else np.asarray(array_of(x))


def tensor_of(a: Any) -> torch.Tensor:
    """The tensor over the memory of an array that nobody else has."""
    a = np.asarray(a)
    if a.dtype == _BFLOAT16:
        return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(a)
