"""The command line: what it says, and its exit status."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from autosched import Record, RecordLog, SearchTask, tune
from autosched.cli import main
from autosched.records import load
from autosched.templates import matmul as template

from .workloads import Pretend, matmul

HERE = "tests.autosched.workloads"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "r.jsonl"
    tune(SearchTask(matmul, (64, 64, 64), template=template), trials=9, records=path, measurer=Pretend(fail=True), model="random", progress=False)
    return path


def test_tune_and_read_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, page = tmp_path / "r.jsonl", tmp_path / "r.html"
    command = ["tune", f"{HERE}:scale", "50", "--template", f"{HERE}:scale_template", "--trials", "3", "--records", str(path), "--strategy", "random"]
    assert main([*command, "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "tune scale(50): 3 trials" in said and "3/3  best" in said and "GFLOP/s" in said
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert main(["show", str(path)]) == 0 and "scale(50)" in capsys.readouterr().out
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
    assert main(["best", str(out), "--task", "matmul"]) == 0 and "# matmul(64, 64, 64)" in capsys.readouterr().out


def test_nothing_worked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.jsonl"
    RecordLog(path).append(Record("key", "llvm", '{"version":1,"steps":[],"decisions":{}}', "timeout", name="slow"))
    assert main(["best", str(path)]) == 1 and "nothing worked" in capsys.readouterr().out
    assert main(["show", str(path)]) == 0 and "1 × timeout: no reason given" in capsys.readouterr().out


@pytest.mark.parametrize("command, words", [
    (["tune", "nowhere:f", "--records", "x"], "names no function"),
    (["tune", f"{HERE}:scale", "--records", "x"], "missing 1 required"),
    (["tune", f"{HERE}:scale", "8", "--target", "llvm -mcpu=nonsense", "--records", "x"], "nonsense"),
    (["tune", f"{HERE}:scale", "8", "--trials", "0", "--records", "x"], "at least one"),
    (["show", "nowhere.jsonl"], "no such file"),
    (["merge", "nowhere.jsonl", "-o", "x"], "no such file"),
])
def test_mistakes_are_told_in_one_message(command: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                          capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 1
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said
    assert not list(tmp_path.iterdir())


def test_no_such_task(records: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(records), "--task", "conv"]) == 1
    assert "none of a task 'conv'" in capsys.readouterr().err


def test_doctor(records: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    records.open("a").write("{\n")
    status = main(["doctor", str(records)])
    said = capsys.readouterr().out
    for words in ("llvmlite", "measurement works", "GFLOP/s", f"cache {tmp_path}", "1 lines skipped", f"{records}:"):
        assert words in said
    assert status == 1  # for the line that was skipped


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "autosched", "show", "nowhere.jsonl"], capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert done.returncode == 1 and done.stderr.startswith("cannot read records from nowhere.jsonl")
