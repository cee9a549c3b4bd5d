"""Which operators are computed by one kernel. Knows graphs and what their te reads; no kernels' code.

Operators are told apart by their te alone (``facts``), never by their names. Groups begin as single operators
and merge while that saves a pass over memory and costs no work or vectors that weigh more (``merge``).

Values between kernels are in the order of their axes, never in blocks of channels: recipes of convolutions
bring pixels into the order that their vectors want tile by tile, in the first cache. Measured (Zen 5, one
thread, fixed sizes, chains of one layer, without Winograd) against onnxruntime, which keeps blocks of 16
channels from the first convolution to the last; its time over ours: 3×3 from 64 × 56 × 56 to 512 × 7 × 7 0.93
to 1.16, pairs of 1×1 0.88 to 1.05, inverted residuals 0.92 to 1.33, in the mean of these twelve 1.02;
depthwise 1.00 to 1.24, and 0.46 for planes of 7 × 7 alone. What is lost to blocks is lost in those planes.

The parts of a join are written in place where they lie one behind the other (``joins``), and copied into it
where that would take stores with strides: 0.6 to 0.9 % of the time of an OCR detector (Zen 5, one thread).
"""

from __future__ import annotations

from ...target import Target, as_target
from ..graph import Program, needed
from ..kernels import Part, Region
from .merge import grouped

__all__ = ["regions"]


def regions(graph: Program, level: int = 2, target: Target | None = None) -> list[Part]:
    """The graph as regions and the nodes that no kernel computes, in an order in which they can run. At level
    0 each operator is a region. ``target`` (None: this machine) is what the regions are made for."""
    nodes = needed(graph.nodes, graph.outputs)
    if level == 0:
        return [Region([n], list(n.outputs)) if n.kind == "te" else n for n in nodes]
    return grouped(graph, nodes, as_target(target))
