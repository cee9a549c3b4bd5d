"""The command line: what it says, and its exit status."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autosched import Record, RecordLog, SearchTask, tune
from autosched.cli import main
from autosched.records import load
from autosched.templates import matmul as template
from tests import golden

from .workloads import Pretend, matmul, scale, scale_template

HERE = "tests.autosched.workloads"
GOLDEN = Path(__file__).parent / "cli.txt"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    tune(
        SearchTask(matmul, (64, 64, 64), template=template),
        trials=9,
        records=path,
        measurer=Pretend(fail=True),
        model="random",
        progress=False,
    )
    return path


def test_tune_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "r.jsonl", tmp_path / "r.html"
    command = [
        "tune",
        f"{HERE}:scale",
        "50",
        "--template",
        f"{HERE}:scale_template",
        "--trials",
        "3",
        "--records",
        str(path),
        "--strategy",
        "random",
    ]
    assert main([*command, "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "tune scale(50): 3 trials" in said and "3/3  best" in said and "GFLOP/s" in said
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert main(["show", str(path)]) == 0
    shown = re.search(r"scale\(50\).*: 3 trials and (\d+) final timings?, best", capsys.readouterr().out)
    assert shown is not None and 3 + int(shown[1]) == len(RecordLog(path))
    assert "3 trials and" in RecordLog(path)._repr_html_()
    assert main(["best", str(path)]) == 0
    text = capsys.readouterr().out
    assert "def apply(s):" in text and "vectorize" in text
    assert main([*command[:-1], "exhaustive"]) == 0 and "3 of them from records" in capsys.readouterr().out


def test_show_best_merge(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records.open("a").write("{\n")
    assert main(["show", str(records)]) == 0
    said = capsys.readouterr().out
    assert "3 × crash: the worker died of SIGSEGV" in said and f"skipped {records}:" in said
    out = tmp_path / "out.jsonl"
    assert main(["merge", str(records), str(records), "-o", str(out), "--keep", "2"]) == 0
    assert f"skipped {records}" in capsys.readouterr().out and len({r.steps for r in load(out)[0]}) == 2
    assert (
        main(["best", str(out), "--task", "matmul"]) == 0
        and "# matmul(64, 64, 64)" in capsys.readouterr().out
    )


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the records of two tasks, always the same."""
    monkeypatch.chdir(tmp_path)
    log = RecordLog("r.jsonl")
    tasks = [
        SearchTask(scale, (n,), "llvm -mcpu=haswell -num-cores=4", template=scale_template) for n in (50, 70)
    ]
    for task, factor, status, times, error in (
        (tasks[0], 4, "ok", (2e-6, 2.5e-6, 2.2e-6), ""),
        (tasks[0], 8, "ok", (1.5e-6,), ""),
        (tasks[0], 3, "crash", (), "the worker died of SIGSEGV\nwhile it ran"),
        (tasks[0], 5, "crash", (), "the worker died of SIGSEGV"),
        (tasks[1], 7, "timeout", (), ""),
    ):
        s = task.schedule()
        scale_template(s, task.tensors)
        steps = s.trace.with_decisions({"v": (factor,)}).to_json()
        log.append(Record(task.workload_key, str(task.target), steps, status, times, error, task.name))
    Path("r.jsonl").write_text(Path("r.jsonl").read_text() + '{"version":99}\n{\n')
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "show r.jsonl",
        "best r.jsonl",
        "best r.jsonl --task scale(7",
        "show r.jsonl --task conv",
        "merge r.jsonl r.jsonl -o all.jsonl",
        "merge r.jsonl -o best.jsonl --keep 1",
        "show nowhere.jsonl",
        "tune nowhere:f --records x",
        "tune nowhere.py:f --records x",
        "tune kernels.py --records x",
    ],
)
def test_what_it_says(
    command: str, told: Path, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    status = main(command.split())
    said = capsys.readouterr()
    text = "\n".join(filter(None, [said.out.rstrip(), said.err.rstrip(), f"[exit status {status}]"])).replace(
        str(told), "…"
    )
    text = "\n".join(
        line for line in text.splitlines() if not line.startswith("  at ")
    )  # the line of this test
    golden.same(pytestconfig, GOLDEN, command, text)


def test_a_function_in_a_file(told: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("kernels_of_mine.py").write_text(
        "from tensorlang import te\ndef twice(n):\n    a = te.placeholder((n,), name='a')\n"
        "    return [a, te.compute((n,), lambda i: a[i] * 2)]\n"
        "def split(s, tensors):\n    b = tensors[-1]\n"
        "    s[b].split(s[b].op.axis[0], s.sample_tile(s[b].op.axis[0], max_factor=2, name='v'))\n"
    )
    assert (
        main(
            [
                "tune",
                "kernels_of_mine.py:twice",
                "10",
                "--template",
                "kernels_of_mine.py:split",
                "--trials",
                "2",
                "--records",
                "t.jsonl",
            ]
        )
        == 0
    )
    assert "twice(10): 2 trials" in capsys.readouterr().out
    Path("wrong.py").write_text("def")
    assert (
        main(["tune", "wrong.py:f", "10", "--records", "t.jsonl"]) == 1
        and "invalid syntax" in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "command, words",
    [
        ([], "tune show best merge doctor"),
        (
            ["tune"],
            "workload size --template --target --trials --seconds --records --seed --strategy --timeout --html example:",
        ),
        (["show"], "records --task example:"),
        (["best"], "records --task ready to paste example:"),
        (["merge"], "records --output --keep example:"),
        (["doctor"], "records example:"),
    ],
)
def test_help_says_what_everything_is_for(
    command: list[str], words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--help"])
    said = capsys.readouterr().out
    assert stopped.value.code == 0
    assert all(word in said for word in words.split())
    bare = [
        line for line in said.splitlines() if line.startswith("  ") and len(line.split()) == 1
    ]  # a name without an explanation
    assert not [line for line in bare if not line.strip().startswith(("tune|show", "-"))], bare


def test_compare_says_which_file_is_faster(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half the times in the second file: twice as fast, beyond the noise; a file beside itself is not."""
    half = tmp_path / "half.jsonl"
    log = RecordLog(half)
    for r in load(records)[0]:
        log.append(replace(r, times=tuple(t / 2 for t in r.times)))
    assert main(["compare", str(records), str(half)]) == 0
    said = capsys.readouterr().out
    assert "2.00×" in said and "within the noise" not in said and "geometric mean of 1 task: 2.00×" in said
    assert main(["compare", str(records), str(records)]) == 0
    assert "1.00×, within the noise" in capsys.readouterr().out
    assert main(["compare", str(records), str(half), "--task", "conv"]) == 1


def test_nothing_worked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append(
        Record("key", "llvm", '{"version":1,"steps":[],"decisions":{}}', "timeout", name="slow")
    )
    assert main(["best", str(path)]) == 1 and "nothing worked" in capsys.readouterr().out
    assert main(["show", str(path)]) == 0 and "1 × timeout: no reason given" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command, words",
    [
        (["tune", "nowhere:f", "--records", "x"], "names no function"),
        (["tune", f"{HERE}:scale", "--records", "x"], "missing a required"),
        (["tune", f"{HERE}:scale", "8", "--target", "llvm -mcpu=nonsense", "--records", "x"], "nonsense"),
        (["tune", f"{HERE}:scale", "8", "--trials", "0", "--records", "x"], "at least one"),
        (["show", "nowhere.jsonl"], "no such file"),
        (["merge", "nowhere.jsonl", "-o", "x"], "no such file"),
    ],
)
def test_mistakes_are_told_in_one_message(
    command: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 1
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_a_file_that_fails_to_load_leaves_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("half_done.py").write_text("def f(n): pass\nimport not_to_be_had\n")
    for place, words in (("half_done.py", "No module named 'not_to_be_had'"), ("gone.py", "No such file")):
        assert main(["tune", f"{place}:f", "8", "--records", "x"]) == 1
        assert words in capsys.readouterr().err and place.removesuffix(".py") not in sys.modules
    monkeypatch.setitem(sys.modules, "half_done", sys)
    assert main(["tune", "half_done.py:f", "8", "--records", "x"]) == 1 and sys.modules["half_done"] is sys


def test_no_such_task(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(records), "--task", "conv"]) == 1
    assert "none of a task 'conv'" in capsys.readouterr().err


def test_doctor(
    records: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    records.open("a").write("{\n")
    status = main(["doctor", str(records)])
    said = capsys.readouterr().out
    for words in (
        "llvmlite",
        "measurement works",
        "GFLOP/s",
        f"cache {tmp_path}",
        "1 line skipped",
        f"{records}:",
    ):
        assert words in said
    assert status == 1  # for the line that was skipped


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "autosched", "show", "nowhere.jsonl"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 1 and done.stderr.startswith("cannot read records from nowhere.jsonl")
