"""What people see: the report as text, page and picture, and progress on terminals and elsewhere."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import tensorlang as tl
from autosched import Record, RecordLog, SearchTask, TuneResult, tune
from autosched.cli import main
from autosched.reporting.progress import Lines, Live, Notebook, Standing, reporter
from autosched.reporting.search_quality import (
    apart_text,
    gain_text,
    machine_text,
    model_text,
    placed,
    sketch_texts,
)
from autosched.reporting.units import best_text, seconds_text
from autosched.templates import matmul as template
from tensorlang.errors import TensorLangError
from tensorlang.roofline import LARGEST, SMALLEST, Peaks, Position, peaks, position

from .workloads import Pretend, matmul

VOID = {"meta", "line", "path", "rect", "circle", "br"}


@pytest.fixture(scope="module")
def result() -> TuneResult:
    return tune(
        SearchTask(matmul, (64, 64, 64), template=template),
        trials=40,
        batch=8,
        measurer=Pretend(fail=True),
        progress=False,
        seed=1,  # some end where they began, for every third measurement crashes
    )


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
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_text_tells_the_story(result: TuneResult) -> None:
    text = str(result.report())
    for words in (
        "matmul(64, 64, 64)",
        "40, 40 measured",
        "GFLOP/s",
        "roofline",
        "operations a byte",
        "cost model",
        "13 × crash: the worker died",
        "def apply(s):",
        f"{result.gain:.2f}× as fast as",
    ):
        assert words in text
    assert "None" not in text and "inf" not in text.split()


def test_the_costs_are_the_last_word(result: TuneResult) -> None:
    """A cost for each candidate, repeated measurements taken together: the smallest is that of the best, the
    first that of the template as written."""
    assert len(result.costs) == result.trials and min(result.costs) == result.best.cost
    assert result.begun == result.costs[0] and result.gain == result.costs[0] / result.best.cost > 1
    assert sum(c == math.inf for c in result.costs) == sum(result.failures.values())


def test_the_schedule_can_be_pasted(result: TuneResult) -> None:
    scope: dict[str, object] = {}
    exec(result.report().python, scope)  # as a person would
    assert "sample" not in result.report().python
    s = scope["apply"](result.task.schedule())  # type: ignore[operator]
    assert str(tl.lower(s, result.tensors)) == str(tl.lower(result.schedule, result.tensors))
    a, b = np.arange(64 * 64, dtype=np.float32).reshape(2, 64, 32).repeat(2, axis=2) % 7
    assert (tl.build(s, result.tensors)(a, b) == a @ b).all()


def test_the_page_is_whole_small_and_alone(result: TuneResult, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    result.report().save(path)
    page = path.read_text(encoding="utf-8")
    assert len(page.encode()) <= 500_000 and "http" not in page
    seen = Checked()
    seen.feed(page)
    seen.close()
    assert not seen.open and {"svg", "path", "circle", "rect", "table", "pre"} <= set(seen.tags)
    assert "def apply(s):" in seen.text and "the worker died of SIGSEGV" in seen.text and "nan" not in page
    assert all(name in seen.text for name, _ in result.report().weights)
    assert result.report()._repr_html_() in page
    with pytest.raises(TensorLangError, match="cannot write the report"):
        result.report().save(tmp_path / "nowhere" / "r.html")


def test_a_page_of_anything_is_small_and_harmless() -> None:
    task = SearchTask(matmul, (8, 8, 8), name="<script>alert(1)</script>")
    steps = (
        '{"version":1,"steps":['
        + ",".join(['["unroll",{"stage":"C","loop":"<i>"}]'] * 20000)
        + '],"decisions":{}}'
    )
    best = Record(task.workload_key, "llvm", steps, "ok", (1e-3,))
    big = TuneResult(
        task,
        best,
        10**6,
        10**6,
        1.0,
        0.0,
        tuple(1 / (n + 1) for n in range(100_000)),
        0.5,
        {f"s{i}": 1 for i in range(8)},
        {f"s{i}": "<b>" * 100_000 for i in range(8)},
        ("x" * 10**6,),
        {"<u>" * 1000: 1.0},
    )
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

    r = tune(
        SearchTask(matmul, (16, 16, 16), template=template),
        trials=3,
        measurer=Nothing(),
        model="random",
        progress=False,
    )
    text = str(r.report())
    assert "no candidate worked" in text and "3 × timeout" in text and "def apply" not in text
    assert "<svg" not in r.report().to_html() and r.report().roofline is None
    assert "3 × timeout" in str(r)


def test_the_curve_falls_and_is_plotted(result: TuneResult) -> None:
    curve = result.report().curve
    costs = [c for _, c in curve]
    assert costs == sorted(costs, reverse=True) and curve[-1][0] == len(result.costs) == len(result.history)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    axes = result.report().plot()
    stairs = axes.lines[0].get_ydata()
    assert (
        axes.get_ylabel() == "GFLOP/s"
        and len(stairs) == 40
        and (np.diff(stairs) >= 0).all()
        and stairs[-1] == pytest.approx(result.gflops)
    )
    assert [len(x.get_offsets()) for x in axes.collections] == [27, 13]  # candidates, and those that failed
    assert result.report().plot(axes) is axes
    ranks = result.report().plot_ranks()
    assert ranks.get_xlabel() == "place by the model" and len(ranks.lines) == 1
    pyplot.close("all")


def test_without_matplotlib() -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None\nfrom autosched.reporting.plot import tuning_curve\n"
        "try: tuning_curve([1.0], None, 0.0, '')\nexcept Exception as e: print(e)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2]
    ).stdout
    assert "tensorlang[viz]" in said


def test_roofline_arithmetic() -> None:
    p = Position(2.0, 50e9, 100e9, "bandwidth", Peaks(200e9, 50e9, 2, 3 << 20))
    assert (
        p.share == 0.5
        and "50% of the 100.0 that bandwidth allows at 2 operations a byte" in str(p)
        and "50 GB/s with 3 MiB of arrays" in str(p)
    )


def test_the_roof_of_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of 64³ has 2·64³ operations for 3·64² floats, and may use the bandwidth of arrays of that
    size."""
    asked: list[int] = []

    def bandwidth(threads: int, size: int) -> float:
        asked.append(size)
        return 4e9

    monkeypatch.setattr("tensorlang.roofline._bandwidth", bandwidth)
    monkeypatch.setattr("tensorlang.roofline._flops", lambda threads: 100e9)
    p = position(matmul(64, 64, 64), 2 * 64**3, 1e-4)
    assert (
        asked == [3 * 64 * 64 * 4]
        and p.intensity == pytest.approx(64 / 6)
        and p.limit == "bandwidth"
        and p.roof == pytest.approx(4e9 * 64 / 6)
    )
    assert (
        peaks().size == LARGEST
        and peaks(1).size == SMALLEST
        and position(matmul(512, 512, 512), 2 * 512**3, 1.0).limit == "arithmetic"
    )


OK, BAD = Record("t", "llvm", "{}", "ok", (1e-3,)), Record("t", "llvm", "{}", "crash")


@pytest.fixture
def peak(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.reporting.progress.peak_flops", lambda: 8e9)


def test_plain_lines(peak: None) -> None:
    plain = io.StringIO()
    lines = Lines(plain)
    lines.begin("conv", 100, 20)
    for i in range(80):
        lines.round([BAD if i % 4 == 0 else OK], OK, 2e6)
    said = plain.getvalue().splitlines()
    assert said[0] == "tune conv: 100 trials, 20 of them from records" and len(said) == 9
    assert (
        said[1].startswith("   30/100  best 1 ms  2.0 GFLOP/s  25% of peak  ")
        and "s left" in said[1]
        and said[1].endswith("failed: 3 crash")
    )
    assert "100/100" in said[-1] and "left" not in said[-1] and said[-1].endswith("failed: 20 crash")
    lines.end(None)
    assert plain.getvalue().splitlines() == said
    lines.begin("conv", 1000, 0, 60.0)
    assert plain.getvalue().endswith("tune conv: 1000 trials, at most 60 s\n")


def test_a_terminal_shows_it_live_and_is_left_as_it_was(peak: None) -> None:
    out = io.StringIO()
    live = Live(Console(file=out, force_terminal=True, width=100))
    live.begin("conv", 4, 0)
    for r in (OK, BAD, OK, OK):
        live.round([r], OK, 2e6)
    live.end(None)  # as when it is broken off
    said = out.getvalue()
    assert "best 1 ms  2.0 GFLOP/s  25% of peak" in said and "failed: 1 crash" in said and "4/4" in said
    assert said.rindex("\x1b[?25h") > said.rindex("\x1b[?25l")  # the cursor is back
    Live().end(None)  # broken off before it began


def test_a_notebook_shows_it_in_place(peak: None, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("IPython")
    shown = Notebook()
    shown.EVERY = 0.0  # type: ignore[misc]
    shown.begin("<conv>", 4, 0)
    for r in (OK, BAD, OK, OK):
        shown.round([r], OK, 2e6)
    shown.end(None)
    page = shown._repr_html_()
    seen = Checked()
    seen.feed(page)
    assert (
        not seen.open
        and "tune <conv>" in seen.text
        and "best 1 ms  2.0 GFLOP/s  25% of peak" in seen.text
        and "failed: 1 crash" in seen.text
    )
    assert capsys.readouterr().out.count("failed: 1 crash") >= 1  # without a front end, as text
    assert isinstance(reporter(None), Lines) and not isinstance(reporter(False), Lines)


class Lucky(Pretend):
    """While it searches, a third faster than when the fastest are timed again."""

    def run(self, jobs):  # type: ignore[no-untyped-def]
        for job in jobs:
            (outcome,) = super().run([job])
            lucky = 0.67 if not job.process else 1.0
            yield replace(outcome, times=tuple(lucky * t for t in outcome.times))


def test_one_best_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The bar ended with the fastest single measurement, and the line below it had the time that decided."""
    pytest.importorskip("IPython")
    plain, screen = io.StringIO(), io.StringIO()
    shown = (Lines(plain), Live(Console(file=screen, force_terminal=True, width=200)), Notebook())
    for n, progress in enumerate(shown):
        task = SearchTask(matmul, (64, 64, 64), template=template)
        records = tmp_path / f"{n}.jsonl"
        result = tune(task, trials=16, records=records, measurer=Lucky(), model="random", progress=progress)
        assert result.best is not None and progress.now is not None
        best = f"best {seconds_text(result.best.cost)}"
        assert progress.now.best.startswith(f"{best}  ") and f"  {best}  " in str(result)
        lucky = min(r.cost for r in RecordLog(records) if r.ok)
        assert lucky < 0.7 * result.best.cost and result.single == pytest.approx(lucky)
        assert f"\n  {seconds_text(lucky)} in the search: " in str(result)
        facts = dict(result.report().facts)
        assert facts["best"].startswith(f"{best[5:]}  ") and f": {best[5:]}, " in facts["sketch"]
        assert main(["show", str(records)]) == 0 and f", {best}" in capsys.readouterr().out
        if isinstance(progress, Notebook):
            assert f"<b>{best}  " in progress._repr_html_()
        if isinstance(progress, Lines):
            assert f"\n  timed again  {best}  " in plain.getvalue()
        if isinstance(progress, Live):  # in the bar, and in the line below
            assert screen.getvalue().count(f"{best}  ") == 2


def test_how_long_it_will_take(peak: None, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("autosched.reporting.progress.time.monotonic", lambda: clock[0])
    now = Standing("conv", 1000, 100, 60.0)
    assert now.left == 60.0 and now.share == 0.1
    clock[0] = 20.0
    now.add([OK] * 100, OK, 0.0)
    # the clock ends it, not the count
    assert now.rate == 5.0 and now.left == 40.0 and now.share == pytest.approx(1 / 3)
    assert now.best == "best 1 ms" == best_text(OK, 0.0)  # operations are not counted
    later = Standing("conv", 400, 0, None)
    clock[0] = 30.0
    assert later.left is None
    later.add([BAD] * 100, None, 1.0)
    assert later.left == 30.0 and later.best == "nothing works yet"


def test_a_broken_tune_ends_its_display(peak: None) -> None:
    class Stopped(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            yield from super().run([next(iter(jobs))])
            raise KeyboardInterrupt

    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        tune(
            SearchTask(matmul, (16, 16, 16), template=template),
            trials=3,
            measurer=Stopped(),
            model="random",
            progress=Live(Console(file=out, force_terminal=True, width=100)),
        )
    assert out.getvalue().rindex("\x1b[?25h") > out.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize("t, text", [(1.5, "1.5 s"), (2.34567e-3, "2.35 ms"), (5e-6, "5 µs"), (3e-9, "3 ns")])
def test_seconds(t: float, text: str) -> None:
    assert seconds_text(t) == text


def test_what_the_search_was_worth() -> None:
    """The sketch that won, ranks of the model by hand, and a gain beyond the noise or within it."""
    assert placed([(0.5, 3.0), (2.0, 1.0), (1.0, 9.0)]) == [(3, 2), (1, 1), (2, 3)]
    assert "put 67% of pairs in order" in model_text([[(0.5, 3.0), (2.0, 1.0), (1.0, 9.0)]])
    assert "too few" in model_text([[(1.0, 1.0)]])
    assert gain_text((1.1, 1.3)).endswith("1.10 to 1.30, significant)")
    assert "not significant" in gain_text((0.9, 1.3)) and gain_text(None) == ""
    assert machine_text(0.02, -0.01, 0.1) == "noise 2%, drift -1%, others took 10% of its processors"
    assert machine_text(None, None, 0.8).endswith("too busy to tell small gains")
    assert machine_text(None, None, None) == ""


def test_why_the_end_is_slower_than_the_search() -> None:
    """A person who saw 1 ms all along and reads 4 ms at the end is told why."""
    said = apart_text(1e-3, 4e-3, 0.62)
    assert said.startswith("1 ms in the search: others took 62% of the processors;")
    assert "slower at the end" in apart_text(1e-3, 4e-3, 0.1) and "slower at the end" in apart_text(
        1e-3, 4e-3, None
    )
    assert apart_text(1e-3, 1.1e-3, 0.9) == apart_text(None, 1e-3, 0.9) == ""
    texts = sketch_texts([("1: tiling", 3, 1e-3), ("0: default", 1, 2e-3), ("2: none", 1, float("inf"))])
    assert texts == ["1: tiling: 1 ms, 3 tried", "0: default: 2 ms, 1 tried, 2.00× as long"]
    task = SearchTask(matmul, (16, 16, 16), template=template)
    result = tune(task, trials=8, measurer=Pretend(), progress=False)
    facts = dict(result.report().facts)
    assert "template" in facts["sketch"] and "of pairs in order" in facts["model"]
    assert len(result.ranks[0]) >= 7 and "ranks of the model" in result.report().to_html()
