"""ONNX files as graphs. Knows the package ``onnx`` (in ``proto``) and graphs; nothing of kernels.

``table`` lists the operators, one function and a line each, in files by family; ``importer`` walks a model;
``known`` works out shapes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...errors import TensorLangError, counted
from ...graph import Graph
from . import (  # noqa: F401  they fill the table
    activation,
    attention,
    control,
    elementwise,
    experts,
    generate,
    grouped_attention,
    image,
    index,
    linear,
    microsoft,
    microsoft_fused,
    microsoft_names,
    microsoft_quantized,
    microsoft_tables,
    ml,
    ml_trees,
    norms,
    order,
    products,
    quantized,
    recurrent,
    reduce,
    sequence,
    shape,
    spectrum,
    text,
    windows,
)
from .checked import check
from .importer import Importer
from .known import KNOWN
from .narrow import WIDE
from .proto import Model, defined, read
from .table import OPERATORS

__all__ = ["OPERATORS", "load_onnx"]


def load_onnx(source: Any) -> Graph:
    """The graph of an ONNX model: a path, the bytes of a file, or an ``onnx.ModelProto``.

    An initialiser that is listed as an input, too, is a default: ``graph.defaults`` has it. It is folded and
    packed like every constant, for many files list all their weights so; a call that gives it gets an engine
    in which it is an input, compiled when the first such call comes, see ``Graph.compile``.

    Raises TensorLangError for what is not a model or does not hold together, and for operators that are not
    supported: all of them at once, before any work.
    """
    model = read(source)
    _supported(model)
    # before any node is imported: a file that is wrong is refused as a whole, with the node and the name
    check(model)
    return _graph(model, _again(source, model))


def _again(source: Any, model: Model) -> Callable[[], Model]:
    """Reads the model once more. That of a file is not kept, for it holds the weights as they came; the
    file is found from other directories too."""
    if not isinstance(source, str | os.PathLike):
        return lambda: model
    path = Path(source).absolute()
    seen = _state(path)

    def again() -> Model:
        if _state(path) != seen:
            raise TensorLangError(
                f"load_onnx: {path} is not there as it was",
                because="a constant of it is to be an input, for which it is read again",
                try_="load_onnx on the file as it is now",
            )
        return read(path)

    return again


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _graph(model: Model, again: Callable[[], Model], given: Sequence[str] = ()) -> Graph:
    """The graph, in which these of the file's defaults are inputs."""
    body = model.body.given(given)
    graph = Graph(body.name or "model")
    graph.metadata = model.metadata
    importer = Importer(model, graph)
    importer.start(body)
    # a default can become an input where kernels have its type
    kinds = {n: t for n, t in body.defaults if t.of is None and t.element not in ("", "string", *WIDE)}
    graph.defaults = {n: body.constants[n] for n in kinds}
    graph.taken = {n: model.body.constants[n] for n in given}
    # the file is read anew, since constants may have been folded or dropped by then
    graph.remade_with = lambda names: _graph(again(), again, [*given, *names])
    return importer.finish()


def _supported(model: Any) -> None:
    missing: dict[str, list[str]] = {}

    def visit(calls: Any) -> None:
        for c in calls:
            key = (c.domain, c.op)
            # all that is missing is listed at once, and not one at each try
            own = key in OPERATORS or key in model.functions or (c.domain == "" and c.op in KNOWN)
            if not own and not defined(c, model.opsets.get(c.domain, 1)):
                missing.setdefault(f"{c.domain}.{c.op}" if c.domain else c.op, []).append(
                    c.name or ", ".join(c.outputs)
                )
            for g in c.graphs.values():
                visit(g.calls)

    visit(model.body.calls)
    for f in model.functions.values():
        visit(f.calls)
    if missing:
        raise TensorLangError(
            f"load_onnx: {counted(len(missing), 'operator is', 'operators are')} not supported: "
            f"{', '.join(missing)}",
            because="\n".join(
                f"{op}: {', '.join(nodes[:4])}{' …' if len(nodes) > 4 else ''}"
                for op, nodes in missing.items()
            ),
            try_="@tl.onnx_op(domain, name) on a function of te tensors adds one",
        )
