"""The graph a user meets: a program, and what it becomes. Knows engines; no files of other frameworks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..runtime.engine import Engine
from .engine import compiled
from .graph import Program
from .kernels import Compiler, Progress
from .passes import Hooks


class Graph(Program):
    """A program of operators over values with open sizes.

    Made by hand::

        g = tl.Graph()
        x = g.input((te.dim("n"), 64), "float32", "x")
        g.output(g.call(ops.relu, x))
        engine = g.compile()
        y = engine(np.ones((3, 64), "float32"))

    or by ``tl.load_onnx``.
    """

    def compile(
        self,
        *,
        target: Any = None,
        level: int = 2,
        math: str = "default",
        cache: Any = None,
        workers: int | None = None,
        progress: Progress | None = None,
        without: Collection[str] = (),
        hooks: Hooks = (),
    ) -> Engine:
        """The graph as an engine, which takes every size of its open dims.

        ``level`` 0 computes every operator by a kernel of its own; 1 simplifies the graph where that keeps
        every bit, and fuses operators; 2 (the default) also moves the rounding of floats. ``without`` names
        passes to leave out (``graph.passes.PASSES``, and ``"regions"`` for fusing), and each of ``hooks`` is
        called with the name of a pass and the graph before and after it. Distinct
        kernels are compiled by ``workers`` processes (None: as many as are worth it, 1: this one only) and
        kept in the directory ``cache`` (None: the user's, False: nowhere). ``progress(ready, all)`` is called
        as kernels are compiled. Raises TensorLangError for what cannot be compiled.
        """
        return compiled(self, Compiler(target, math, cache, workers, progress), level, without, hooks)
