"""What became of graphs, for ``TORCH_LOGS`` and ``tlparse``: ``output_code`` shows the graph of a region and
the kernels of its engine, ``fusion`` why operators are in one kernel, ``perf_hints`` what stays in torch.
Knows torch's logging.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from ...graph import Engine, Graph

_PARENT = "torch._dynamo.backends.tensorlang"  # a name for which torch has set up where logs go
_LOGS = {n: torch._logging.getArtifactLogger(_PARENT, n) for n in ("fusion", "output_code", "perf_hints")}


def wanted() -> bool:
    """Whether somebody asks for the graphs and kernels of regions, which only compiling them shows."""
    traced = logging.getLogger(
        "torch.__trace"
    ).handlers  # torch's own writes a file, or goes when it need not
    return any(type(h).__module__.startswith("torch.") for h in traced) or any(
        _LOGS[what].isEnabledFor(logging.DEBUG) for what in ("fusion", "output_code")
    )


def tell(g: Graph, engine: Engine) -> None:
    """Show a region that was compiled, to those who asked for it."""
    _shown("output_code", lambda: f"{g}\n\n{engine}")
    _shown("fusion", engine.explain)


def hints(compiled: Any) -> None:
    """Show what stays in torch of a graph."""
    lines = [f"{name} stays in torch: {why}" for name, why in compiled.left.values() if why]
    lines += [f"the graph stays in torch: {compiled.reason}"] if compiled.reason else []
    if lines:
        _shown("perf_hints", lambda: "\n".join(dict.fromkeys(lines)))


def _shown(what: str, text: Callable[[], str]) -> None:
    logger = _LOGS[what]
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("tensorlang:\n%s", text())
    torch._logging.trace_structured(
        "artifact", metadata_fn=lambda: {"name": f"tensorlang_{what}", "encoding": "string"}, payload_fn=text
    )
