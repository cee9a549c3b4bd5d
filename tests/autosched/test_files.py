"""What is left on disk and in shared memory when disks are full, directories are gone and everybody is
killed."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.dynamic.kernel_times import Tables
from autosched.measure import directory as shared
from autosched.records import RecordLog, load, merge
from autosched.templates import matmul as template
from autosched.whole_files import write_whole
from tests.autosched.workloads import Pretend, matmul
from tests.house.source import HOME, ROOT


class Full(io.RawIOBase):
    """A file on a disk that is full."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(fd: int, mode: str) -> Full:
        os.close(fd)
        return Full()

    monkeypatch.setattr("autosched.whole_files.os.fdopen", opened)


def test_a_full_disk_leaves_no_file(full_disk: None, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "f", "text")
    assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    result = tune(
        SearchTask(matmul, (64, 64, 64), template=template),
        trials=2,
        measurer=Pretend(),
        model="random",
        progress=False,
    )
    page, out = tmp_path / "page.html", tmp_path / "all.jsonl"
    result.report().save(page)
    log = RecordLog(tmp_path / "r.jsonl")
    log.append(result.best)
    merge([log.path], out)
    before = page.read_bytes(), out.read_bytes(), sorted(tmp_path.iterdir())
    request.getfixturevalue("full_disk")
    for broken in (lambda: result.report().save(page), lambda: merge([log.path], out)):
        with pytest.raises(tl.TensorLangError, match="No space"):
            broken()
    Tables(tmp_path, tl.Target.host()).write("x", {"1": 2})  # none of the user's concern
    assert not list((tmp_path / "dynamic").iterdir())
    (tmp_path / "dynamic").rmdir()
    assert (page.read_bytes(), out.read_bytes(), sorted(tmp_path.iterdir())) == before and len(
        load(out)[0]
    ) == 1


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"1")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_bytes() == b"1"
    write_whole("/dev/null", "nothing")
    assert Path("/dev/null").is_char_device()


class OnlyLearns:
    """A cost model of two methods."""

    def fit(self, features: np.ndarray, costs: np.ndarray) -> None: ...

    def predict(self, features: np.ndarray) -> np.ndarray:
        return np.zeros(len(features))


def test_a_model_needs_no_prepare(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    said: list[object] = []
    monkeypatch.setattr(threading, "excepthook", said.append)
    task = SearchTask(matmul, (64, 64, 64), template=template)
    assert tune(task, trials=4, model=OnlyLearns(), measurer=Pretend(), progress=False).best is not None  # type: ignore[arg-type]
    assert not said and not capfd.readouterr().err


class Broken(OnlyLearns):
    def prepare(self) -> None:
        raise ImportError("no module of that name")


@pytest.mark.parametrize(
    "how, words",
    [
        ({"model": Broken()}, "no module of that name"),
        ({"model": 3}, r"model=3\): text or an object with fit, predict"),
        ({"model": "xbg"}, "xgb, random"),
        ({"strategy": "evolution"}, "evolutionary"),
        ({"strategy": 3}, r"strategy=3\): text or an object with .*propose"),
    ],
)
def test_what_cannot_search_is_an_error_before_anything_is_measured(
    how: dict[str, object], words: str
) -> None:
    pretend = Pretend()
    with pytest.raises(tl.TensorLangError, match=words):
        tune(
            SearchTask(matmul, (64, 64, 64), template=template),
            trials=4,
            measurer=pretend,
            progress=False,
            **how,
        )  # type: ignore[arg-type]
    assert not pretend.traces


def test_what_killed_tuners_leave_is_swept_and_what_lives_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "_SHARED_MEMORY", str(tmp_path))
    code = (
        f"from autosched.measure import directory as d; d._SHARED_MEMORY = {str(tmp_path)!r}\n"
        "one = d.Directory.new(); print(one.path, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as tuner:
        assert tuner.stdout is not None
        left = Path(tuner.stdout.readline().strip())
        (left / "a.kernel").write_text("code")
        mine = shared.Directory.new()
        assert left.exists()  # its tuner lives
        tuner.send_signal(signal.SIGKILL)
    shared.Directory.new().remove()
    assert not left.exists() and Path(mine.path).exists()
    joined = shared.Directory.join(mine.path)  # the nursery
    os.close(mine._lock)  # its tuner was killed
    shared.sweep(str(tmp_path))
    assert Path(mine.path).exists()
    joined.remove()
    (tmp_path / "autosched-old").mkdir()
    (tmp_path / "autosched.new-old").mkdir()
    shared.sweep(str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2  # perhaps just being made
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    shared.sweep(str(tmp_path))
    assert not list(tmp_path.iterdir())


def test_a_tuner_works_in_a_directory_that_was_deleted(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    code = (
        f"import shutil, sys; sys.path[:0] = ['', {str(HOME)!r}, {str(ROOT)!r}]\n"
        "from autosched import SearchTask, tune\nfrom tests.autosched.workloads import scale\n"
        "shutil.rmtree(sys.argv[1])\n"
        "r = tune(SearchTask(scale, (100,)), trials=1, model='random', progress=False)\nprint(r.best.status)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, str(place)], cwd=place, capture_output=True, text=True
    )
    assert found.stdout == "ok\n", found.stderr
    assert not place.exists()
