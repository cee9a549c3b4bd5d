"""Samples of torch's operator database (OpInfo) and the calls of ATen operators that they make, for those who
compare them with ours. Knows torch's tests; nothing of engines."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch.testing._comparison import default_tolerances
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import DecorateInfo
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tensorlang.frontends.torch import OPERATORS, backend

TYPES = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "i64": "int64", "bool": "bool"}
CLASSES = ("TestCommon", "TestInductorOpInfo")  # whose tests compare with eager's results
PLACES = ("aten.topk", "aten.sort", "aten.argsort")  # of equal elements any comes first
Call = tuple[
    Any, tuple[Any, ...], dict[str, Any], Any
]  # an operator, what it is given, what torch makes of it

__all__ = [
    "TYPES",
    "Calls",
    "calls_of",
    "close",
    "from_exact",
    "graph_of",
    "op_db",
    "shown",
    "takes",
    "tolerances_of",
]


class Calls(TorchDispatchMode):
    """The calls of operators of the table; others are taken apart first where the backend does so."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.apart = backend.decompositions()

    def __torch_dispatch__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if f in self.apart and not f._schema.is_mutable:
            with self:
                made = self.apart[f](*args, **kwargs)
            if made is not NotImplemented:
                return made
        before = copied((args, kwargs)) if str(f) in OPERATORS else None
        out = f(*args, **kwargs)
        if before is not None and all(isinstance(t, torch.Tensor | None) for t in tree_leaves(out)):
            self.calls.append((f, *before, copied(out)))
        return out


def copied(tree: Any) -> Any:
    """The same with tensors that nobody else writes to."""
    return tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, tree)


def graph_of(f: Any, args: Any, kwargs: Any, out: Any) -> tuple[torch.fx.Graph, list[torch.Tensor]]:
    """A graph of this call alone, and its tensors."""
    graph, tensors = torch.fx.Graph(), []

    def placed(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        tensors.append(x)
        n = graph.placeholder(f"x{len(tensors)}")
        n.meta["val"] = x
        return n

    args, kwargs = tree_map(placed, (args, kwargs))
    node = graph.call_function(f, args, kwargs)
    node.meta["val"] = out
    made = [node]
    if isinstance(out, list | tuple):
        made = []
        for i, t in enumerate(out):
            if t is not None:  # a gradient that nobody wants
                made.append(graph.call_function(operator.getitem, (node, i)))
                made[-1].meta["val"] = t
    graph.output(tuple(made))
    return graph, tensors


def takes(info: Any, kind: torch.dtype, backward: bool) -> bool:
    """Whether an operator has samples of this type, forward or backward."""
    if backward and not (kind.is_floating_point and info.supports_autograd):
        return False
    return kind in (info.supported_backward_dtypes if backward else info.supported_dtypes)("cpu")


def calls_of(info: Any, sample: Any, backward: bool) -> list[Call]:
    """The calls of operators of the table that a sample makes, and its own where torch takes it apart; of the
    way back those of the gradients alone. Raises TypeError where there are none."""
    given = (sample.input, *sample.args)
    with torch.set_grad_enabled(backward):
        if not backward:
            with Calls() as mode:
                info(*given, **sample.kwargs)
            return [*mode.calls, *_whole(info, given, sample.kwargs)]
        made = [t for t in tree_leaves(info(*given, **sample.kwargs)) if _learns(t)]
        leaves = [t for t in tree_leaves((given, sample.kwargs)) if _learns(t)]
        if not made or not leaves:
            raise TypeError("no gradients")
        torch.manual_seed(2)
        given = [torch.randn_like(t) for t in made]
        with Calls() as mode:
            torch.autograd.grad(made, leaves, given, allow_unused=True)
        return mode.calls


def _learns(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.requires_grad


def _whole(info: Any, given: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Call]:
    """The call of the operator itself, which torch takes apart before others see it."""
    name = info.aten_name or info.name
    try:
        overload = torch._C._jit_resolve_packet(f"aten::{name}", *given, **kwargs)
        f = getattr(getattr(torch.ops.aten, name), overload)
        if str(f) in OPERATORS and not f._schema.is_mutable:
            before = copied((given, kwargs))
            with torch.no_grad():
                return [(f, *before, copied(f(*given, **kwargs)))]
    except (AttributeError, RuntimeError, TypeError):  # samples have another order of arguments
        pass
    return []


def close(call: Call, found: list[torch.Tensor], **tolerances: float) -> None:
    """Raises AssertionError unless this is what torch makes of a call."""
    for a, b in _pairs(call, found):
        assert a.shape == b.shape and a.dtype == b.dtype, f"{a.dtype}{[*a.shape]} for {b.dtype}{[*b.shape]}"
        if "empty" not in str(call[0]):  # of new memory nothing is said
            torch.testing.assert_close(a, b, equal_nan=True, **_wide(b.dtype, **tolerances))


def from_exact(call: Call, found: list[torch.Tensor]) -> str:
    """How far torch's and the found results are from what the call makes of the same numbers in float64: nothing
    where that says nothing."""
    f, args, kwargs, out = call
    try:
        exact = f(*_double(args), **_double(kwargs))
        pairs = (
            list(_pairs((f, args, kwargs, exact), found)),
            list(_pairs((f, args, kwargs, exact), tree_leaves(out))),
        )
        ours, theirs = (max(float((a.double() - b.double()).abs().max()) for a, b in many) for many in pairs)
    except (RuntimeError, TypeError, ValueError):
        return ""
    return f"; from float64's: torch {theirs:.2g}, found {ours:.2g}"


def _double(tree: Any) -> Any:
    return tree_map(
        lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, tree
    )


def _wide(kind: torch.dtype, rtol: float, atol: float) -> dict[str, float]:
    """Tolerances for a result that may be of another type than the sample."""
    if not (kind.is_floating_point or kind.is_complex):
        return {}
    least = default_tolerances(kind)
    return {"rtol": max(rtol, least[0]), "atol": max(atol, least[1])}


def _pairs(call: Call, found: list[torch.Tensor]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    f, args, kwargs, out = call
    said = [t for t in tree_leaves(out) if t is not None]
    if str(f).startswith(PLACES) and args[0].ndim:
        first = 2 if "topk" in str(f) else 1
        dim = kwargs.get("dim", args[first] if len(args) > first else -1)
        found, said = ([torch.take_along_dim(args[0], many[-1], dim), *many[:-1]] for many in (found, said))
    return zip(found, said, strict=True)


def tolerances_of(info: Any, kind: torch.dtype) -> dict[str, float]:
    """Those that OpInfo has for an operator in torch's own tests, where they are wider than assert_close's."""
    rtol, atol = default_tolerances(kind)
    for d in info.decorators:
        if isinstance(d, DecorateInfo) and d.cls_name in CLASSES and d.device_type in (None, "cpu"):
            for wanted in d.decorators:
                if isinstance(wanted, toleranceOverride) and kind in wanted.d:
                    rtol, atol = max(rtol, wanted.d[kind].rtol), max(atol, wanted.d[kind].atol)
    return {"rtol": rtol, "atol": atol}


def shown(tree: Any) -> str:
    """A call's arguments, tensors by type and shape."""
    return str(tree_map(_form, tree))


def _form(x: Any) -> Any:
    return f"{str(x.dtype)[6:]}{[*x.shape]}" if isinstance(x, torch.Tensor) else x
