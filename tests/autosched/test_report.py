"""What people see: the report as text, page and picture, and progress on terminals and elsewhere."""

from __future__ import annotations

import io
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from rich.console import Console

import tensorlang as tl
from autosched import Record, SearchTask, TuneResult, tune
from autosched.progress import Lines, Live, reporter, seconds_text
from autosched.roofline import Peaks, Position
from autosched.templates import matmul as template
from tensorlang.errors import TensorLangError

from .workloads import Pretend, matmul

VOID = {"meta", "line", "path", "br"}


@pytest.fixture(scope="module")
def result() -> TuneResult:
    return tune(SearchTask(matmul, (64, 64, 64), template=template), trials=40, batch=8, measurer=Pretend(fail=True), progress=False)


class Checked(HTMLParser):
    """Tags are closed in order; nothing is loaded from anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not {"src", "href"} & {k for k, _ in attrs} and tag not in ("script", "link", "img")
        while self.open and self.open[-1] in ("td", "th") and tag in ("td", "th", "tr"):
            self.open.pop()
        if self.open and self.open[-1] == "tr" and tag == "tr":
            self.open.pop()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while tag == "table" and self.open[-1] in ("td", "th", "tr"):
            self.open.pop()
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_text_tells_the_story(result: TuneResult) -> None:
    text = str(result.report())
    for words in ("matmul(64, 64, 64)", "40, 40 measured", "GFLOP/s", "roofline", "operations a byte", "cost model", "13 × crash: the worker died", "def apply(s):"):
        assert words in text


def test_the_schedule_can_be_pasted(result: TuneResult) -> None:
    scope: dict[str, object] = {}
    exec(result.report().python, scope)  # as a person would
    s = scope["apply"](result.task.schedule())  # type: ignore[operator]
    assert str(tl.lower(s, result.tensors)) == str(tl.lower(result.schedule, result.tensors))


def test_the_page_is_whole_small_and_alone(result: TuneResult, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    result.report().save(path)
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) <= 500_000 and "http" not in page
    seen = Checked()
    seen.feed(page)
    seen.close()
    assert not seen.open and {"svg", "path", "table", "pre"} <= set(seen.tags)
    assert "def apply(s):" in seen.text and "the worker died of SIGSEGV" in seen.text
    assert result.report()._repr_html_() in page
    with pytest.raises(TensorLangError, match="cannot write the report"):
        result.report().save(tmp_path / "nowhere" / "r.html")


def test_a_page_of_anything_is_small_and_harmless() -> None:
    task = SearchTask(matmul, (8, 8, 8), name="<script>alert(1)</script>")
    steps = '{"version":1,"steps":[' + ",".join(['["unroll",{"stage":"C","loop":"<i>"}]'] * 20000) + '],"decisions":{}}'
    best = Record(task.workload_key, "llvm", steps, "ok", (1e-3,))
    big = TuneResult(task, best, 10**6, 10**6, 1.0, 0.0, tuple(1 / (n + 1) for n in range(100_000)), {f"s{i}": 1 for i in range(8)},
                     {f"s{i}": "<b>" * 100_000 for i in range(8)}, ("x" * 10**6,), {})
    page = big.report().to_html()
    assert len(page.encode()) <= 500_000
    seen = Checked()
    seen.feed(page)
    assert not seen.open and "<script>" in seen.text


def test_nothing_worked() -> None:
    class Nothing(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            for o in super().run(jobs):
                yield type(o)(o.id, "timeout", "")

    r = tune(SearchTask(matmul, (16, 16, 16), template=template), trials=3, measurer=Nothing(), model="random", progress=False)
    text = str(r.report())
    assert "no candidate worked" in text and "3 × timeout" in text and "def apply" not in text
    assert "<svg" not in r.report().to_html() and r.report().roofline is None
    assert "3 × timeout" in str(r)


def test_the_curve_falls_and_is_plotted(result: TuneResult) -> None:
    curve = result.report().curve
    costs = [c for _, c in curve]
    assert costs == sorted(costs, reverse=True) and curve[-1][0] == len(result.history)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    axes = result.report().plot()
    assert axes.get_ylabel() == "best GFLOP/s" and len(axes.lines[0].get_xdata()) == len(curve)
    assert result.report().plot(axes) is axes
    pyplot.close("all")


def test_without_matplotlib() -> None:
    code = ("import sys; sys.modules['matplotlib'] = None\nfrom autosched.plot import tuning_curve\n"
            "try: tuning_curve([(1, 1.0)], 0.0, '')\nexcept Exception as e: print(e)")
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]).stdout
    assert "tensorlang[viz]" in said


def test_roofline_arithmetic() -> None:
    p = Position(2.0, 50e9, 100e9, "memory", Peaks(200e9, 50e9, 2))
    assert p.share == 0.5 and "50% of the 100.0 that memory allows at 2 operations a byte" in str(p)


def test_progress() -> None:
    ok, bad = Record("t", "llvm", "{}", "ok", (1e-3,)), Record("t", "llvm", "{}", "crash")
    plain = io.StringIO()
    lines = Lines(plain)
    lines.begin("conv", 100, 20)
    for i in range(80):
        lines.round([bad if i % 4 == 0 else ok], ok, 2e6)
    said = plain.getvalue().splitlines()
    assert said[0] == "tune conv: 100 trials, 20 of them from records" and len(said) == 9
    assert "30/100  best 1 ms  2.0 GFLOP/s" in said[1] and "s left" in said[1] and "failed: 3 crash" in said[1]
    assert "100/100" in said[-1] and "left" not in said[-1] and "failed: 20 crash" in said[-1]
    out = io.StringIO()
    live = Live(Console(file=out, force_terminal=True, width=200))
    live.begin("conv", 4, 0)
    for r in (ok, bad, ok, ok):
        live.round([r], ok, 2e6)
    live.progress.stop()
    assert "best 1 ms  2.0 GFLOP/s" in out.getvalue() and "of peak" in out.getvalue() and "1 crash" in out.getvalue() and "4/4" in out.getvalue()
    assert isinstance(reporter(None), Lines) and not isinstance(reporter(False), Lines)


@pytest.mark.parametrize("t, text", [(1.5, "1.5 s"), (2.34567e-3, "2.35 ms"), (5e-6, "5 µs"), (3e-9, "3 ns")])
def test_seconds(t: float, text: str) -> None:
    assert seconds_text(t) == text
