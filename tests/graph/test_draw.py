"""Drawings of graphs and pages of engines: whole, escaped, nothing loaded from elsewhere."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.core.drawing import Box, drawing

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '<b>"&evil'


def rectangles(svg):
    """The boxes: left, top, right, bottom."""
    found = []
    for g in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        rect = g.find(f"{SVG}rect")
        if rect is not None:
            x, y, w, h = (float(rect.get(k)) for k in ("x", "y", "width", "height"))
            found.append((x, y, x + w, y + h))
    return found


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@pytest.mark.parametrize("seed", range(6))
def test_boxes_stand_apart_and_arrows_go_down(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    boxes = [
        Box(f"box {i} " + "x" * int(rng.integers(0, 60)), ("text",) * int(rng.integers(3)), end=i < 2)
        for i in range(count)
    ]
    arrows = [
        (int(rng.integers(b)), b, "value") for b in range(1, count) for _ in range(int(rng.integers(3)))
    ]
    svg = drawing(boxes, arrows)
    found = rectangles(svg)
    assert len(found) == count and svg == drawing(boxes, arrows)
    assert not any(overlap(a, b) for i, a in enumerate(found) for b in found[:i])
    assert all(found[a][3] < found[b][1] for a, b, _ in arrows)
    width, height = (float(ElementTree.fromstring(svg).get(k)) for k in ("width", "height"))
    assert all(x >= 0 and y >= 0 and r <= width and b <= height for x, y, r, b in found)


@pytest.fixture(scope="module")
def graph():
    g = tl.Graph(EVIL)
    x = g.input(("n", 8), "float32", EVIL)
    h = g.call(ops.relu, g.call(ops.matmul, x, g.constant(np.eye(8, dtype="float32"), "weight")))
    g.output(g.call(ops.softmax, g.call(ops.add, h, x), op=EVIL), f"{EVIL} out")
    return g


def test_a_graph_is_drawn_with_names_of_users_escaped(graph, tmp_path):
    graph.rename_dims({"n": "rows"}).draw(tmp_path / "g.svg")
    svg = (tmp_path / "g.svg").read_text()
    tree = ElementTree.fromstring(svg)
    texts = [t.text for t in tree.iter(f"{SVG}text")]
    assert {EVIL, "relu", "matmul", "float32[rows, 8]", f"{EVIL} out"} <= set(texts)
    assert any("weight: float32[8, 8]" in t.text for t in tree.iter(f"{SVG}title"))
    assert len(rectangles(svg)) == 6 and "<b>" not in svg
    with pytest.raises(tl.TensorLangError, match="cannot draw"):
        graph.draw(tmp_path / "none" / "g.svg")


def test_notebooks_show_graphs_and_engines(graph):
    for shown in (graph._repr_html_(), graph.compile()._repr_html_()):
        assert "<b>" not in shown and "<svg" in shown and "<details>" in shown


def test_the_page_of_an_engine(graph, tmp_path):
    engine = graph.compile(without=["regions"])
    engine.save(tmp_path / "e.engine")
    x = np.ones((3, 8), "float32")
    for e, args in ((engine, (x,)), (engine, ()), (tl.Engine.load(tmp_path / "e.engine"), (x,))):
        e.report(tmp_path / "page.html", *args, seconds=0)
        text = (tmp_path / "page.html").read_text()
        body = ElementTree.fromstring(
            text.removeprefix("<!DOCTYPE html>").replace('<meta charset="utf-8">', "")
        )
        assert "<b>" not in text and "<script" not in text
        assert not re.search(r"""(src|href|url)\s*[=(]|https?://(?!www\.w3\.org/2000/svg)""", text)
        drawn, arena = (ElementTree.tostring(s, "unicode") for s in body.iter(f"{SVG}svg"))
        assert len(rectangles(drawn)) == 6
        live = [r for r in ElementTree.fromstring(arena).iter(f"{SVG}rect") if r.get("class") == "live"]
        assert len(live) == 3  # matmul, relu, add
        assert len(list(body.iter("tr"))) == (5 if args else 0)
        assert ("n = 3" in text) == bool(args)
        assert ("Why each is what it is" in text) == (e is engine)
    with pytest.raises(tl.CallError):
        engine.report(tmp_path / "page.html", x[0])
