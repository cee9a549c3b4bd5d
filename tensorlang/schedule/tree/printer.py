"""The schedule tree as text: loops with true extents, storage with bytes, computes with what they read. Knows
tree and bounds."""

from __future__ import annotations

from ...core.recursion import Steps, run
from ...core.text import TreeNode as Line
from ...core.text import bytes_text, draw_tree
from ...expr import make
from ...expr.nodes import Expr, Var, const_int
from ...expr.walk import substitute
from ..bounds import Bounds, bounds_of, padded, region_size
from ..legality.places import pending_verdict
from ..legality.tensorize import other_than
from ..sliding import slide_of
from ..state import ScheduleState, StageState
from .nodes import ComputeNode, LoopNode, StorageNode, TreeNode, tree_of
from .repeats import note, repeats


def draw(state: ScheduleState, mark: tuple[str, str | None] | None = None) -> str:
    """The tree of a state. ``mark`` = (stage, loop or None for its compute) points at one line with ``← asked
    for``."""
    bounds = bounds_of(state)
    chosen: dict[Var, Expr] = {
        k: make.const(v, k.dtype) for d in state.decisions for k, v in zip(d.knobs, d.values, strict=False)
    }
    root = Line("root")
    root.children = run(_lines(tree_of(state), bounds, chosen, mark))
    return draw_tree(root)


def _lines(
    nodes: tuple[TreeNode, ...],
    bounds: Bounds,
    chosen: dict[Var, Expr],
    mark: tuple[str, str | None] | None,
    inside: StageState | None = None,
    lanes: tuple[Expr, ...] = (),
) -> Steps[list[Line]]:
    """The lines of neighbours inside vector loops of this many ``lanes``; before the first of a stage that
    waits for its place, one that says so."""
    lines: list[Line] = []
    for p, node in enumerate(nodes):
        st = node.stage
        if st.pending is not None and st is not inside and all(n.stage is not st for n in nodes[:p]):
            reason = pending_verdict(bounds.state, st).reason
            lines.append(Line(f"pending {st.name}", f"at {st.pending.place}: {reason}"))
        if (
            st.tensorized is not None
            and st.pending is None
            and st is not inside
            and all(n.stage is not st for n in nodes[:p])
        ):
            why = other_than(bounds.state, st)
            lines += (
                [Line(f"pending {st.name}", f"tensorize({', '.join(st.tensorized)}): {why}")] if why else []
            )
        lines.append((yield _line(node, bounds, chosen, mark, lanes)))
    return lines


def _storage_line(
    node: StorageNode, bounds: Bounds, chosen: dict[Var, Expr], lanes: tuple[Expr, ...]
) -> Line:
    """The memory of a stage: its shape with padded strides, what it takes, and whether it is a ring."""
    slide = slide_of(bounds.state, bounds, node.stage)
    region = slide.shape(region_size(node.stage.op.outputs[0], bounds))
    shape = [substitute(e, chosen) for e in (*region, *lanes)]
    strides = padded(tuple(shape), node.stage.align)
    sizes = [const_int(e) for e in ((shape[0], strides[0]) if strides else shape)]
    outputs = node.stage.op.outputs
    total: int | None = sum(t.dtype.bytes for t in outputs)
    for n in sizes:
        total = None if total is None or n is None else total * n
    kept = (
        f"  ring of {', '.join(str(n) for _, n in slide.ring)}"
        if slide.ring
        else "  kept between iterations"
        if slide.conditions
        else ""
    )
    double = "  double" if node.stage.double else ""
    amount = "" if total is None else f"  {bytes_text(total)}"
    return Line(
        f"storage {node.stage.name}",
        f"{outputs[0].dtype}[{', '.join(map(str, shape))}]  {node.stage.scope}{amount}{double}{kept}",
    )


def _line(
    node: TreeNode,
    bounds: Bounds,
    chosen: dict[Var, Expr],
    mark: tuple[str, str | None] | None,
    lanes: tuple[Expr, ...],
) -> Steps[Line]:
    b = bounds[node.stage.name]
    name = node.stage.name
    if isinstance(node, LoopNode):
        extent = b.loops[node.loop]
        now = substitute(extent, chosen)
        kind = node.stage.kind(node.loop)
        wide = (extent,) if kind == "vectorized" and const_int(extent) != 1 else ()
        words = [f"0..{now}"]
        # a sampled size: what it is at present, then what it depends on
        if now is not extent:
            words.append(f"({extent})")
        if node.loop.kind == "reduce":
            words.append("reduce")
        if kind != "serial":
            words.append(kind)
        if mark == (name, node.loop.name):
            words.append("← asked for")
        return Line(
            f"loop {name}.{node.loop.name}",
            "  ".join(words),
            (yield _lines(node.children, bounds, chosen, mark, node.stage, (*lanes, *wide))),
        )
    if isinstance(node, StorageNode):
        return _storage_line(node, bounds, chosen, lanes)
    assert isinstance(node, ComputeNode)
    reads = ", ".join(t.name for t in node.stage.op.input_tensors)
    words = [f"reads {reads}" if reads else "", note(repeats(bounds, node.stage, chosen))]
    if mark == (name, None):
        words.append("← asked for")
    return Line(f"compute {name}", "  ".join(w for w in words if w))
