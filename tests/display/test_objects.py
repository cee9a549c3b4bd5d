"""Every public class shows something a person wants, as text and in a notebook, with users' names escaped."""

from __future__ import annotations

import inspect
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.measure import fingerprint  # the package has been imported whole
from autosched.reporting.report import TuneResult
from tensorlang import display, te
from tensorlang.entries import show

BAD = "<img/src=x/onerror=alert(1)>"  # a name that a user may give


class Balanced(HTMLParser):
    """Asserts that tags close in order; keeps the names of all."""

    EMPTY = ("line", "br", "img", "meta", "rect", "path", "circle")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    A = te.placeholder((16, 16), name=BAD)
    k = te.reduce_axis((0, 16), name="k")
    C = te.compute((16, 16), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 8)
    times = tl.TimeTable()
    f = tl.build(s, [A, C], times=times)
    a = np.ones((16, 16), np.float32)
    task = autosched.SearchTask.of([A, C], name=BAD)
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    record = autosched.Record(
        task.workload_key,
        str(task.target),
        '{"version":1,"steps":[],"decisions":{}}',
        "ok",
        (1e-6, 2e-6),
        name=BAD,
    )
    path.write_text(record.to_json() + "\n")
    result = TuneResult(task, record, 1, 1, 0.5, task.flops, (1e-6,), 2e-6, {"crash": 1}, {"crash": BAD})
    listed = [A, C, s, s[C], s.trace, tl.lower(s, [A, C]), f, f.benchmark(a, seconds=0.01)]
    listed += [
        f.profile(a, seconds=0.02),
        times,
        tl.Target.host(),
        task,
        result,
        autosched.RecordLog(path),
        record,
    ]
    listed += [result.report(), autosched.ShapeProfile({"m": (1, 8, 64)})]
    listed += [autosched.TasksResult((task,), (result,), (1.0,), {0: BAD}, (0,), 0.5)]
    g = tl.Graph("mlp")
    x = g.input(("rows", 8), "float32", "x")
    g.output(g.call(tl.ops.relu, x), "y")
    engine = g.compile(cache=False)
    listed += [g, engine, engine.profile(np.ones((2, 8), np.float32), seconds=0)]
    return {type(x).__name__: x for x in listed}


def test_text_is_for_people(objects):
    for name, x in objects.items():
        assert repr(x) and " object at 0x" not in repr(x), name
    assert repr(objects["Schedule"]) == objects["Schedule"].tree()
    assert repr(objects["Func"]).startswith("def main(")
    assert repr(objects["Timing"]).startswith("median ")
    assert re.fullmatch(r"<records .*r\.jsonl: 1 of 1 task>", repr(objects["RecordLog"]))
    assert repr(objects["Graph"]) == "<graph mlp(x: float32[rows, 8]) → y: 1 operator>"
    assert repr(objects["EngineProfile"]) == str(objects["EngineProfile"])
    assert repr(objects["TuneResult"]) == str(objects["TuneResult"])


def test_pages_are_small_balanced_and_escaped(objects):
    shown = {n: x._repr_html_() for n, x in objects.items() if hasattr(x, "_repr_html_")}
    assert {
        "Tensor",
        "Schedule",
        "Trace",
        "Func",
        "Module",
        "Timing",
        "Profile",
        "TuneResult",
        "RecordLog",
        "Record",
        "Graph",
        "Engine",
        "EngineProfile",
    } <= set(shown)
    for name, page in shown.items():
        assert page and len(page) < 100_000, name
        assert not {"img", "script", "link", "iframe"} & Balanced(page).seen, name
        assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", ""), name
    assert all("&lt;img/src=x" in shown[n] for n in ("Tensor", "Func", "SearchTask", "RecordLog"))


def test_every_ground_is_see_through(objects):
    """A page may be light or dark whatever the system's colours are, so what is shown brings no ground of its
    own. Drawings are files too, which have one; inside a page a rule takes it away again."""
    grounds = {"none", display.html.BLUE, "rgba(128,128,128,.10)", "rgba(128,128,128,.18)"}
    for name in sorted({n for n in objects if hasattr(objects[n], "_repr_html_")} - {"Graph", "Engine"}):
        page = objects[name]._repr_html_()
        assert set(re.findall(r"background(?:-color)?:([^;}\"]+)", page)) <= grounds, name
        assert "prefers-color-scheme" not in page, name
    for name in ("Graph", "Engine"):
        assert ".tl-in .tl{--bg:transparent;" in objects[name]._repr_html_(), name


def test_every_public_class_shows_itself(objects):
    plain = {"Stage", "Rows", "Dispatcher", "Engine"}  # a line of text, or pages of their own
    for package in (tl, autosched):
        for name in package.__all__:
            cls = getattr(package, name)
            if inspect.isclass(cls) and not issubclass(cls, Exception) and name not in plain:
                assert hasattr(cls, "_repr_html_"), name
                assert cls.__repr__ is not object.__repr__, name


def test_loops_fold_and_words_are_set_apart(objects):
    page = objects["Func"]._repr_html_()
    assert page.count("<details open>") == 5  # the function and its loops
    assert '<span class="tl-k">for</span>' in page and '<span class="tl-t">float32</span>' in page
    assert display.coloured("x < 1") == 'x &lt; <span class="tl-n">1</span>'
    text = "def f():\n" + "".join(f"    a{n} = 0\n" for n in range(3 * display.MANY))
    assert "more lines" in display.folded(text) and display.folded(text).count("\n") < 2 * display.MANY


def test_a_picture_that_fails_is_no_error():
    class Broken:
        pass

    show(Broken, page="math:sqrt")  # which takes numbers
    assert Broken()._repr_html_() is None


def test_a_strip_of_equal_samples_and_bars_of_nothing():
    assert "aria-label" in display.strip([1.0, 1.0], 1.0, "two")
    assert display.bars([]) == "<table></table>"
    Balanced(display.strip([], 2.0, "none") + display.table([(1, "a")], ("n", "word")))
