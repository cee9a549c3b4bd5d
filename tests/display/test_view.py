"""The page of a schedule: whole, small, self-contained, and drawn from the tree."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.display import tree_svg
from tensorlang.display.linked import MOST, Row, ends, linked

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
    assert not {"img", "link", "iframe"} & page.seen and "http" not in v.html
    assert not re.search(r"<[^>]*\ssrc=", v.html) and "<script" not in v.body
    assert len(v.html.encode()) < 500_000
    for word in ("schedule tree", "bytes and reuse", "loop IR and assembly", "roofline", "passes", "LLVM"):
        assert f">{word}</a>" in v.html, word
    assert ("vectorize: " in v.html and "vmovups" in v.html) or "mov" in v.html
    v.save(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text(encoding="utf-8") == v.html
    with pytest.raises(tl.TensorLangError, match="cannot save the page"):
        v.save(tmp_path / "no" / "view.html")
    assert repr(v).startswith("<view of matmul for llvm")


def test_the_tree_is_drawn_line_by_line():
    s, _ = program()
    drawn = tree_svg(s.tree())
    assert drawn.count("<rect") == len(s.tree().splitlines())
    assert ">loop C.j.inner</text>" in drawn and ">0..16  vectorized</text>" in drawn
    Balanced(drawn)


def test_loops_have_buttons_their_bytes_and_their_instructions():
    s, args = program()
    page = tl.view(s, args).html
    assert "<td>A 16 KiB, C 256 B</td>" not in page and ">C.i</button>" in page
    assert re.search(r'<button data-n="(\d+)" data-e="\d+">for k in range\(0, 64\)</button>', page)
    assert re.search(r"<td>innermost</td>", page)
    # i: all of A is read, 64 rows of C are written
    assert "C 16 KiB, A 16 KiB" in page


def test_arrays_put_the_kernel_under_the_roof():
    s, args = program()
    a = np.ones((64, 64), np.float32)
    f = tl.build(s, args, name="matmul")
    page = f.view(a).html
    assert 'aria-label="roofline"' in page and "% of the" in page and "schedule tree" in page
    plain = tl.build(tl.lower(s, args)).view()
    assert "schedule tree" not in plain.html and "passes" not in plain.html  # made of loop IR alone
    with pytest.raises(tl.CallError):
        f.view(a[:3])


def test_a_loaded_kernel_has_no_page(tmp_path):
    s, args = program()
    tl.build(s, args).save(tmp_path / "f.tl")
    with pytest.raises(tl.TensorLangError, match="was loaded, not built here"):
        tl.load(tmp_path / "f.tl").view()


def test_lines_that_open_blocks_end_with_them():
    assert ends(["def f():", "    for i in range(3):", "        a = 0", "    b = 0"]) == [4, 3, 3, 4]
    Balanced(linked(["a = 0"], [Row("\tret", 1, False)] * (MOST + 5)))
    assert "… 5 more lines" in linked(["a = 0"], [Row("\tret", 1, False)] * (MOST + 5))


def test_a_mistake_is_that_of_lower():
    s, args = program()
    with pytest.raises(tl.LowerError):
        tl.view(s, args[0])
