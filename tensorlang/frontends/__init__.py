"""Doors for programs written elsewhere: each room makes a ``tensorlang.graph.Graph`` of a file or a module.

A room is imported with the first program that needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph import Graph

Function = Callable[..., Any]


def load_onnx(source: Any) -> Graph:
    """The graph of an ONNX model: a path, the bytes of a file, or an ``onnx.ModelProto``.

    Sizes that the file leaves open stay open. ``model.compile()`` makes an engine of it::

        engine = tl.load_onnx("model.onnx").compile()
        y = engine(x)

    An initialiser that the file lists as an input, too, is a default that a call may override by name,
    ``engine(x, w=a)``. Unless one does it is a constant, folded and packed: old files list every weight so.

    Needs the package ``onnx`` (extra ``onnx``). Raises TensorLangError for what is not a model, and for
    operators that are not supported, all of them at once and before any work.
    """
    from .onnx import load_onnx

    return load_onnx(source)


def load_torch(program: Any) -> Graph:
    """The graph of a program that ``torch.export`` made. Sizes exported as dynamic stay open::

        program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},))
        engine = tl.load_torch(program).compile()
        y = engine(x)

    The engine needs no torch: it is saved, loaded and called with arrays. Needs torch (extra ``torch``) here.
    Raises TensorLangError for what is no such program, and for operators that are not supported, all of them
    at once.
    """
    from .torch import load_torch

    return load_torch(program)


def onnx_op(domain: str, name: str) -> Callable[[Function], Function]:
    """A decorator that makes a function of te tensors an operator of ONNX files::

        @tl.onnx_op("my.domain", "Swish2")
        def swish2(x, *, alpha=1.0):
            return ops.multiply(x, ops.sigmoid(ops.multiply(x, alpha)))

    Inputs come by position, None for one that is left out; parameters by keyword only are the attributes.
    The operator may be one that is known already: the new one takes its place.
    """
    from .onnx.table import te_op

    return te_op(name, domain=domain)
