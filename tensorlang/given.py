"""What ``build`` is given besides a schedule, checked: the arrays of constants, how arguments lie in memory,
the name of a kernel and what it does without. Knows tensors and arrays; nothing of loops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .boundary import shown
from .core.names import COMPILERS, RUNTIMES, identifier
from .core.text import type_of
from .errors import CallError, LowerError
from .expr.nodes import Expr, Var, const_int
from .runtime import dlpack
from .te.strides import BufferDecl
from .te.tensor import PlaceholderOp, Tensor

Args = Sequence[Tensor | Var]


def strides_of(args: Args, binds: Mapping[Tensor, BufferDecl]) -> dict[Tensor, tuple[Expr, ...] | None]:
    """The strides of the arguments that are bound to a buffer."""
    if not isinstance(binds, Mapping):
        raise LowerError(
            "binds is not a mapping", try_="binds={A: te.decl_buffer(A.shape, A.dtype, strides=…)}"
        )
    for t, b in binds.items():
        name = getattr(t, "name", type(t).__name__)
        if not isinstance(t, Tensor) or not any(t is a for a in args):
            raise LowerError(
                f"binds has the key {name}, which is not an argument",
                because=f"the arguments are {', '.join(a.name for a in args)}",
                try_="binds={A: te.decl_buffer(A.shape, …)}",
            )
        if not isinstance(b, BufferDecl):
            raise LowerError(
                f"binds[{name}] is not a buffer, but {type_of(b)}",
                try_="te.decl_buffer(A.shape, A.dtype, strides=…)",
            )
        if not b.describes(t.dtype, t.shape):
            raise LowerError(
                f"binds[{name}] is {b.dtype}[{', '.join(map(str, b.shape))}]",
                because=f"{name} is {t.dtype}[{', '.join(map(str, t.shape))}]",
                try_=f"te.decl_buffer({name}.shape, {name}.dtype, strides=…)",
            )
    return {t: b.strides for t, b in binds.items()}


def mapping_of(constants: Mapping[Tensor, Any] | None) -> Mapping[Tensor, Any]:
    """The constants, by their tensors. Raises LowerError for anything but a mapping."""
    if constants is None or isinstance(constants, Mapping):
        return constants or {}
    raise LowerError(
        "build: constants is not a mapping", try_="constants={W: array} with W = te.placeholder(…)"
    )


def values_of(constants: Mapping[Tensor, Any]) -> dict[Tensor, Any]:
    """The arrays of constants, checked against their declarations."""
    out: dict[Tensor, Any] = {}
    for t, value in constants.items():
        if not isinstance(t, Tensor):
            raise LowerError(
                f"build: constants has the key {t!r}, which is not a tensor",
                try_="constants={W: array} with W = te.placeholder(…)",
            )
        array = _array(t, value)
        wanted = tuple(const_int(n) for n in t.shape)
        if (
            isinstance(t.op, PlaceholderOp)
            and None not in wanted
            and (array.shape != wanted or array.dtype != t.dtype.to_numpy())
        ):
            raise LowerError(
                f"constant `{t.name}` is {array.dtype.name}{list(array.shape)}",
                because=f"it is declared as {t.dtype}{[n or 0 for n in wanted]}",
                try_="an array of that shape and dtype",
            )
        out[t] = array
    return out


def _array(t: Tensor, value: Any) -> Any:
    """The array a constant is given by: what a call of the kernel takes, and what numpy makes an array of."""
    if isinstance(value, np.ma.MaskedArray):
        raise LowerError(
            f"constant `{t.name}` is a masked array",
            because="a kernel would use the masked elements too",
            try_=f"constants={{{t.name}: array.filled(value)}}",
        )
    if dlpack.exports(value) and not isinstance(value, np.ndarray | np.generic):
        try:
            return dlpack.array_of(value, f"constant `{t.name}`", str(t.dtype))
        except CallError as error:
            raise LowerError(error.what, because=error.because, try_=error.try_) from None
    try:
        return np.asarray(value)
    except Exception as error:  # the value's own
        raise LowerError(
            f"constant `{t.name}` is not an array", because=f"{error}", try_="an array of its shape and dtype"
        ) from None


def check_lists(args: Any, outputs: Any) -> None:
    """Of ``compile``."""
    if not isinstance(args, list | tuple):
        raise LowerError(
            f"compile({getattr(args, 'name', type(args).__name__)}): the arguments are not a list",
            try_=f"{getattr(args, 'name', 'model')}.compile()"
            if hasattr(args, "compile")
            else "tl.compile([A, B, C])",
        )
    for n, a in enumerate(args, 1):
        if isinstance(a, list | tuple):
            raise LowerError(
                f"compile: argument {n} is a {type(a).__name__} of {len(a)}",
                because="what a kernel is called with are single tensors, in one list",
                try_="tl.compile([A, *results])",
            )
    if outputs is not None and not isinstance(outputs, list | tuple):
        raise LowerError(
            f"compile(outputs={shown(outputs)}): a list of tensors is needed",
            try_="outputs=[C] with C among args",
        )


def check_name(name: Any) -> None:
    """Looked at after the arguments: in ``tl.build(s, A, B)``, which wants a list, B stands in its place."""
    if not isinstance(name, str):
        raise LowerError(f"the name of a kernel is text, not {shown(name)}", try_="name='matmul'")
    if name != identifier(name):
        raise LowerError(
            f"the name of a kernel is {name!r}",
            because="it is the name of a function in machine code and in C: letters, digits and _",
            try_=f"name={identifier(name)!r}" if name else "name='matmul'",
        )
    if name == COMPILERS:
        raise LowerError(
            f"the name of a kernel is {name!r}",
            because=f"its parts would be called {name}.…, as the compiler's own functions are",
            try_=f"name='{name}_kernel'; a target is target={name!r}",
        )
    if name in RUNTIMES:
        raise LowerError(
            f"the name of a kernel is {name!r}",
            because="kernels call a function of the runtime by that name",
            try_=f"name='{name}_kernel'",
        )


def check_without(without: Any) -> None:
    if isinstance(without, str) or not isinstance(without, Iterable) or set(without) - {"winograd"}:
        raise LowerError(
            f"compile(without={shown(without)}): not a list of what a kernel can do without",
            try_='without=["winograd"], which keeps direct sums',
        )


def with_a_schedule(given: Any, args: Any) -> str:
    """The call of ``lower`` with a schedule of the tensor that was given, or of the last argument."""
    names = [getattr(a, "name", "…") for a in args] if isinstance(args, list | tuple) and args else ["…"]
    return (
        f"tl.lower(te.create_schedule({given.name if isinstance(given, Tensor) else names[-1]}.op), "
        f"[{', '.join(names)}])"
    )
