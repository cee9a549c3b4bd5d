"""ATen's random numbers, drawn by torch itself between kernels: ``torch.manual_seed`` decides them, and they
are those of the module in torch where it draws in the same order. Engines that draw cannot be saved to a
file, for they need torch. What ``torch.compile`` hands over stays in torch altogether. Knows torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ... import te
from ...graph import Value
from ...te import Tensor
from .table import needs, of_program
from .tensors import array_of, tensor_of
from .types import as_type

# operators that only read the shape and dtype of their first tensor
_LIKE = {
    f"aten.{name}"
    for name in (
        "cauchy.default",
        "exponential.default",
        "geometric.default",
        "log_normal.default",
        "normal_functional.default",
        "rand_like.default",
        "randint_like.default",
        "randint_like.low_dtype",
        "randn_like.default",
        "random.default",
        "random.from",
        "random.to",
        "uniform.default",
        "bernoulli.p",
    )
}


@of_program(
    *sorted(name.removeprefix("aten.") for name in _LIKE),
    "bernoulli.Tensor",
    "bernoulli",
    "multinomial",
    "normal.Tensor_Tensor",
    "normal.Tensor_float",
    "normal.float_Tensor",
    "normal.float_float",
    "poisson",
    "rand",
    "randint",
    "randint.low",
    "randn",
    "randperm",
)
def drawn(g: Any, *args: Any) -> Any:
    """What torch's operator draws."""
    operator = g.node.target
    schema = [p for p in operator._schema.arguments if p.name not in ("generator", "pin_memory")]
    words = [p.name for p in schema if p.name not in ("device", "layout", "memory_format")]
    given = dict(zip(words, args, strict=True))
    kept = {p.name for p in schema if p.kwarg_only}
    (form,) = g.said
    if str(operator) in _LIKE:
        given["self"] = None
    tensors = [w for w, x in given.items() if isinstance(x, Value)]

    def draw(*arrays: Any, size: Sequence[int], sizes: Sequence[Any]) -> Any:
        made = dict(zip(given, sizes, strict=True)) | {
            w: tensor_of(a) for w, a in zip(tensors, arrays, strict=True)
        }
        if str(operator) in _LIKE:
            made["self"] = torch.empty(tuple(size), dtype=getattr(torch, form[1]))
        if "dtype" in made:
            made["dtype"] = getattr(torch, form[1])
        return array_of(
            operator(
                *(x for w, x in made.items() if w not in kept), **{w: x for w, x in made.items() if w in kept}
            )
        )

    plain = [None if isinstance(x, Value) else x for x in given.values()]
    return g.host(draw, [given[w] for w in tensors], [form], size=list(form[0]), sizes=plain)[0]


@of_program("dropout")
def dropout(g: Any, x: Any, share: float, training: bool) -> Any:
    return _dropped(g, x, share, training, x.shape)


@of_program("feature_dropout")
def feature_dropout(g: Any, x: Any, share: float, training: bool) -> Any:
    """Whole channels are left out."""
    return _dropped(g, x, share, training, [*x.shape[:2], *[1] * (x.ndim - 2)])


@of_program("native_dropout")
def native_dropout(g: Any, x: Any, share: float, training: bool | None) -> Any:
    kept = _kept(g, x, share, x.shape) if training is not False and share else None

    def result() -> Any:
        return x if kept is None else g(_scaled, x, kept, share=share)

    def mask() -> Any:
        return g(_told, x if kept is None else kept, all_of_it=kept is None)

    return result, mask


def _dropped(g: Any, x: Any, share: float, training: bool, shape: Sequence[Any]) -> Any:
    if not training or share == 0:
        return x
    return g(_scaled, x, _kept(g, x, share, shape), share=share)


def _kept(g: Any, x: Any, share: float, shape: Sequence[Any]) -> Any:
    """1 for what stays, 0 for what is left out."""
    needs(x.dtype.is_float, "whole numbers that are left out by chance")
    kind = getattr(torch, str(x.dtype))

    def draw(*, size: Sequence[int]) -> Any:
        return array_of(torch.empty(tuple(size), dtype=kind).bernoulli_(1 - share))

    return g.host(draw, [], [(list(shape), x.dtype)], size=list(shape))[0]


def _scaled(x: Tensor, kept: Tensor, *, share: float) -> Tensor:
    scale = 0.0 if share == 1 else 1 / (1 - share)
    return te.compute(
        x.shape, lambda *i: x(*i) * (te.whole.read(kept, i) * te.const(scale, x.dtype)), name="dropout"
    )


def _told(x: Tensor, *, all_of_it: bool) -> Tensor:
    if all_of_it:
        return te.compute(x.shape, lambda *i: te.const(True, "bool"), name="mask")
    return as_type(x, "bool")
