"""What must not be harmed or left unsaid: files of others, a search that is stopped, open sizes, caches that
cannot be written, settings of the environment."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import pytest

import autosched
import tensorlang as tl
from autosched.cli import main
from autosched.doctor import examine
from autosched.tuning.open_sizes import measured_at, note_of
from tensorlang import te
from tensorlang.__main__ import main as tensorlang_main
from tensorlang.graph.kernel_cache import Cache
from tensorlang.runtime.codes import KernelCode
from tests.autosched.workloads import Pretend, matmul


def task() -> autosched.SearchTask:
    return autosched.SearchTask(matmul, (16, 16, 16), "llvm -mcpu=haswell -num-cores=2")


@pytest.mark.parametrize("text", ["milk, bread\n", '{"a": 1}\n{"b": 2}\n', "x" * 100])
def test_a_file_of_somebody_else_is_not_appended_to(tmp_path: Path, text: str) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text(text)
    for refuse in (
        lambda: autosched.tune(task(), trials=1, records=notes, measurer=Pretend(), progress=False),
        lambda: autosched.RecordLog(notes).open(),
    ):
        with pytest.raises(tl.TensorLangError, match="is not a file of records"):
            refuse()
    assert notes.read_text() == text


@pytest.mark.parametrize("command", ["show", "best", "merge"])
def test_who_only_reads_is_not_told_of_appending(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("milk, bread\n")
    out = ["-o", str(tmp_path / "all.jsonl")] if command == "merge" else []
    assert main([command, str(notes), *out]) == 1
    said = capsys.readouterr().err
    assert "is not a file of records" in said and "append" not in said and "line 1:" in said


def test_a_file_that_became_somebody_elses_is_not_appended_to(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    log = autosched.RecordLog(notes)
    notes.write_text("milk, bread\n")
    log.refresh()
    with pytest.raises(tl.TensorLangError, match="nothing is appended to it"):
        log.open()
    assert notes.read_text() == "milk, bread\n"


def test_a_record_that_a_kill_cut_off_is_ours(tmp_path: Path) -> None:
    torn = tmp_path / "r.jsonl"
    torn.write_text('{"task":"3f2a","tar')
    autosched.tune(task(), trials=1, records=torn, model="random", measurer=Pretend(), progress=False)
    assert len(autosched.RecordLog(torn)) >= 1


class Stopped(Pretend):
    """A measurer whose user presses Ctrl-C after the second candidate."""

    def run(self, jobs):  # type: ignore[no-untyped-def]
        for n, outcome in enumerate(super().run(jobs)):
            yield outcome
            if n == 1:
                raise KeyboardInterrupt


def test_stopping_says_what_was_found_and_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for records, on in ((tmp_path / "r.jsonl", "the same call goes on"), (None, "records='f.jsonl' keeps")):
        with pytest.raises(KeyboardInterrupt):
            autosched.tune(task(), 16, records, model="random", measurer=Stopped(), progress=False)
        said = capsys.readouterr().err
        assert "measured, the best takes" in said and on in said


def test_open_sizes_say_at_which_size_they_are_measured() -> None:
    m = te.dim("m", 1, 64, hint=32)
    X = te.placeholder((m, 8), name="X")
    assert measured_at([X]) == "m=32"
    assert note_of([X])[0].startswith("measured at m=32; te.dim(…, hint=…)")
    assert note_of([te.placeholder((8,))]) == []


def test_merge_says_of_what_it_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, out = tmp_path / "r.jsonl", tmp_path / "out.jsonl"
    autosched.tune(task(), 4, records, model="random", measurer=Pretend(), progress=False)
    assert main(["merge", str(records), "-o", str(out), "--keep", "1"]) == 0
    assert "(of the 1 fastest of each task and target) in" in capsys.readouterr().out


def test_a_merge_writes_over_records_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records, notes = tmp_path / "r.jsonl", tmp_path / "notes.txt"
    autosched.tune(task(), trials=1, records=records, model="random", measurer=Pretend(), progress=False)
    notes.write_text("milk, bread\n")
    held = records.read_text()
    assert main(["merge", str(records), "-o", str(notes)]) == 1
    assert "is not a file of records" in "".join(capsys.readouterr()) and notes.read_text() == "milk, bread\n"
    assert main(["merge", str(records), "-o", str(records), "--keep", "0"]) == 1
    assert "at least one" in "".join(capsys.readouterr()) and records.read_text() == held
    assert main(["merge", str(records), "-o", str(tmp_path / "all.jsonl")]) == 0


def test_a_report_that_cannot_be_written_is_told_before_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["tune", "nothere.py:f", "8", "--records", str(tmp_path / "r.jsonl"), "--html"]
    for place in (tmp_path, tmp_path / "nowhere" / "r.html"):
        assert main([*asked, str(place)]) == 1
        assert "cannot write the report" in "".join(capsys.readouterr())


def test_doctor_shows_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_NUM_THREADS", "1")
    lines = [str(finding) for finding in itertools.islice(examine(), 12)]
    assert any("TENSORLANG_NUM_THREADS=1, from the environment" in line for line in lines)


def test_a_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("in the way")
    with pytest.warns(UserWarning, match="TENSORLANG_CACHE"):
        Cache(tmp_path).put("ab" * 20, _code())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cache(tmp_path).put("cd" * 20, _code())  # said once


def _code() -> KernelCode:
    A = te.placeholder((4,), name="A")
    f = tl.compile([A, te.compute((4,), lambda i: A[i] + 1, name="B")])
    return KernelCode(f.object_code, f.signature, ())


@pytest.mark.parametrize(("command", "name"), [(main, "autosched"), (tensorlang_main, "tensorlang")])
def test_commands_know_their_version_and_help(command, name, capsys: pytest.CaptureFixture[str]) -> None:  # type: ignore[no-untyped-def]
    for flag, text in (("--version", tl.__version__), ("--help", f"usage: {name}")):
        with pytest.raises(SystemExit) as e:
            command([flag])
        assert e.value.code == 0 and text in capsys.readouterr().out
