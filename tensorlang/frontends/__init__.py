"""Doors for programs written elsewhere: each room makes a ``tensorlang.graph.Graph`` of a file or a module.

A room is imported with the first program that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..graph import Graph


def load_onnx(source: Any) -> Graph:
    """The graph of an ONNX model: a path, the bytes of a file, or an ``onnx.ModelProto``.

    Sizes that the file leaves open stay open. ``model.compile()`` makes an engine of it::

        engine = tl.load_onnx("model.onnx").compile()
        y = engine(x)

    Needs the package ``onnx`` (extra ``onnx``). Raises TensorLangError for what is no model, and for
    operators that are not supported, all of them at once and before any work.
    """
    from .onnx import load_onnx

    return load_onnx(source)
