"""The schedule tree as text: loops with true extents, storage with bytes, computes with what they read. Knows tree and bounds."""

from __future__ import annotations

from ...core.text import TreeNode as Line
from ...core.text import bytes_text, draw_tree
from ...expr import make
from ...expr.nodes import Expr, Var, const_int
from ...expr.walk import substitute
from ..bounds import Bounds, bounds_of, region_size
from ..state import ScheduleState
from .nodes import ComputeNode, LoopNode, StorageNode, TreeNode, tree_of


def draw(state: ScheduleState, mark: tuple[str, str | None] | None = None) -> str:
    """The tree of a state. ``mark`` = (stage, loop or None for its compute) points at one line with ``← asked for``."""
    bounds = bounds_of(state)
    chosen: dict[Var, Expr] = {k: make.const(v, k.dtype) for d in state.decisions for k, v in zip(d.knobs, d.values, strict=False)}
    root = Line("root")
    root.children = [_line(n, bounds, chosen, mark) for n in tree_of(state)]
    return draw_tree(root)


def _line(node: TreeNode, bounds: Bounds, chosen: dict[Var, Expr], mark: tuple[str, str | None] | None) -> Line:
    b = bounds[node.stage.name]
    name = node.stage.name
    if isinstance(node, LoopNode):
        extent = b.loops[node.loop]
        now = substitute(extent, chosen)
        kind = node.stage.kind(node.loop)
        words = [f"0..{now}"]
        if now is not extent:
            words.append(f"({extent})")
        if node.loop.kind == "reduce":
            words.append("reduce")
        if kind != "serial":
            words.append(kind)
        if mark == (name, node.loop.name):
            words.append("← asked for")
        return Line(f"loop {name}.{node.loop.name}", "  ".join(words), [_line(c, bounds, chosen, mark) for c in node.children])
    if isinstance(node, StorageNode):
        shape = [substitute(e, chosen) for e in region_size(node.stage.op.outputs[0], bounds)]
        sizes = [const_int(e) for e in shape]
        outputs = node.stage.op.outputs
        total: int | None = sum(t.dtype.bytes for t in outputs)
        for n in sizes:
            total = None if total is None or n is None else total * n
        amount = "" if total is None else f"  {bytes_text(total)}"
        return Line(f"storage {name}", f"{outputs[0].dtype}[{', '.join(map(str, shape))}]  {node.stage.scope}{amount}")
    assert isinstance(node, ComputeNode)
    reads = ", ".join(t.name for t in node.stage.op.input_tensors)
    words = [f"reads {reads}" if reads else ""]
    if mark == (name, None):
        words.append("← asked for")
    return Line(f"compute {name}", "  ".join(w for w in words if w))
