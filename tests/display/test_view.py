"""The page of a schedule: whole, small, self-contained, and drawn from the tree."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.display import tree_svg

from .test_objects import BAD, Balanced


def program(name: str = "A"):
    A = te.placeholder((64, 64), name=name)
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(s[C].split(C.op.axis[1], 16)[1])
    return s, [A, C]


def test_the_page_is_whole_small_and_its_own(tmp_path):
    s, args = program(BAD)
    v = tl.view(s, args, name="matmul")
    page = Balanced(v.html.replace("<!DOCTYPE html>", ""))
    assert not {"img", "script", "link", "iframe"} & page.seen and "http" not in v.html
    assert len(v.html.encode()) < 500_000
    for word in ("schedule tree", "passes", "LLVM", "assembly"):
        assert f">{word}</a>" in v.html, word
    assert ("vectorize: " in v.html and "vmovups" in v.html) or "mov" in v.html
    v.save(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text(encoding="utf-8") == v.html
    with pytest.raises(tl.TensorLangError, match="cannot write"):
        v.save(tmp_path / "no" / "view.html")
    assert repr(v).startswith("<view of matmul for llvm")


def test_the_tree_is_drawn_line_by_line():
    s, _ = program()
    drawn = tree_svg(s.tree())
    assert drawn.count("<rect") == len(s.tree().splitlines())
    assert ">loop C.j.inner</text>" in drawn and ">0..16  vectorized</text>" in drawn
    Balanced(drawn)


def test_a_mistake_is_that_of_lower():
    s, args = program()
    with pytest.raises(tl.LowerError):
        tl.view(s, args[0])
