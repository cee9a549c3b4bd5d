"""Kernels as operators of torch, which dynamo traces without a break. Knows signatures of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...errors import TensorLangError
from ...interface.signature import Signature
from .tensors import array_of, tensor_of

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": torch.sym_min,
    "max": torch.sym_max,
}


def custom_operator(kernel: Any, name: str, replace: bool = False) -> Any:
    """``kernel`` as the operator ``name``, ``"namespace::operator"``. Raises TensorLangError for what is no
    kernel with one result or more, for a name that torch refuses, and unless it is to be replaced for one
    that torch has."""
    signature = getattr(kernel, "signature", None)
    if not isinstance(signature, Signature):
        raise TensorLangError(
            f"tensorlang.torch.op: {type(kernel).__name__} is given",
            because="a kernel is needed, which says what it takes",
            try_="tl.compile([x, y]) or tl.build(s, [x, y])",
        )
    if not isinstance(name, str):
        raise TensorLangError(
            f"tensorlang.torch.op(name={name!r}): no name of an operator", try_="'my::matmul'"
        )
    _fits(signature)
    if not replace:
        _check_new(name)
    inputs = [p for p in signature.params if not p.output]
    outputs = [p for p in signature.params if p.output]

    def run(*args: torch.Tensor) -> Any:
        # kernels of closed strides read their arguments row by row
        made = kernel(*(array_of(x.contiguous()) for x in args))
        results = [tensor_of(a) for a in (made if isinstance(made, tuple) else (made,))]
        return results[0] if len(results) == 1 else tuple(results)

    def shapes(*args: torch.Tensor) -> Any:
        sizes = _sizes(signature, args)
        made = [
            # under tracing it has no data, and its sizes may be symbols
            args[0].new_empty([_value(n, sizes) for n in p.shape], dtype=getattr(torch, p.dtype))
            for p in outputs
        ]
        return made[0] if len(made) == 1 else tuple(made)

    given = ", ".join(f"Tensor {_word(p.name, i)}" for i, p in enumerate(inputs))
    results = "Tensor" if len(outputs) == 1 else f"({', '.join(['Tensor'] * len(outputs))})"
    try:
        made = torch.library.custom_op(name, run, mutates_args=(), schema=f"({given}) -> {results}")
        made.register_fake(shapes)
    except (RuntimeError, ValueError) as error:
        raise TensorLangError(
            f"tensorlang.torch.op: torch refuses the name {name!r}",
            because=str(error),
            try_="a name such as 'my::matmul', not used before",
        ) from None
    return made


def _check_new(name: Any) -> None:
    """Raises TensorLangError for an operator that torch has: it would stand for another kernel from now on,
    wherever it is used."""
    space, _, own = name.partition("::") if isinstance(name, str) else ("", "", "")
    if space.isidentifier() and own.isidentifier() and hasattr(getattr(torch.ops, space), own):
        raise TensorLangError(
            f"tensorlang.torch.op: torch has an operator {name!r}",
            because="a name stands for one kernel, also where graphs were compiled with it",
            try_=f"another name, or op(kernel, {name!r}, replace=True), and torch.compile again",
        )


def _fits(signature: Signature) -> None:
    wrong = [p.name for p in signature.params if p.kind != "buffer" or p.updated or p.strides is not None]
    if wrong or all(not p.output for p in signature.params) or all(p.output for p in signature.params):
        raise TensorLangError(
            f"tensorlang.torch.op: the kernel {signature.name} is none of tensors alone",
            because=f"{wrong[0]} is a number, is changed, or has strides of its own"
            if wrong
            else "an operator has tensors that it takes and tensors that it makes",
            try_="a kernel that makes its results of compact tensors",
        )


def _word(name: str, i: int) -> str:
    # torch's schemas give ``self`` a meaning of their own
    return name if name.isidentifier() and name != "self" else f"x{i}"


def _sizes(signature: Signature, args: Sequence[torch.Tensor]) -> Mapping[str, Any]:
    """The dims that the shapes of the inputs tell."""
    found: dict[str, Any] = {}
    for p, x in zip((p for p in signature.params if not p.output), args, strict=True):
        for n, have in zip(p.shape, x.shape, strict=True):
            if isinstance(n, str):
                found.setdefault(n, have)
    return found


def _value(size: Any, sizes: Mapping[str, Any]) -> Any:
    """A size in terms of these."""
    if isinstance(size, tuple):
        op, a, b = size
        return _ARITHMETIC[op](_value(a, sizes), _value(b, sizes))
    return sizes[size] if isinstance(size, str) else size
