"""Records survive what files go through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autosched import Record, RecordLog
from autosched.records import best_of, load
from tensorlang.errors import TensorLangError

STEPS = '{"version":1,"steps":[],"decisions":{"t":[%d]}}'


def _record(n: int = 1, times: tuple[float, ...] = (1e-3,), **more: object) -> Record:
    return Record("task", "llvm", STEPS % n, "ok" if times else "crash", times, **more)  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "deep" / "r.jsonl")
    for r in (_record(1), _record(2, (), error="the worker died\nof ümlauts"), _record(3, (2e-3, 3e-3))):
        log.append(r)
    again = RecordLog(log.path)
    assert again.records == log.records and not again.bad
    assert again.records[0].trace().decisions == {"t": (1,)}


def test_bad_lines_are_named_and_skipped(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    good = _record().to_json()
    bad = ["{", "[]", "null", '"text"', good[:40], json.dumps({**json.loads(good), "version": 99}), json.dumps({"version": 1}),
           good.replace("0.001", "-1"), good.replace("0.001", "NaN"), good.replace("0.001", "true"), good.replace('"llvm"', "7"), "[" * 5000, "\xff"]
    path.write_bytes(b"\n".join([good.encode(), *[b.encode("latin-1") for b in bad], b"", b"\x80\x81", good.encode()]) + b"\n")
    records, found = load(path)
    assert len(records) == 2
    assert [b.line for b in found] == [*range(2, 2 + len(bad)), 3 + len(bad)]
    assert str(found[0]).startswith(f"{path}:2: ") and "version 99" in str(found[5])


def test_a_torn_line_does_not_eat_the_next(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(_record(1).to_json() + "\n" + _record(2).to_json()[:50])
    RecordLog(path).append(_record(3))
    records, bad = load(path)
    assert [r.trace().decisions["t"] for r in records] == [(1,), (3,)] and [b.line for b in bad] == [2]


def test_best_takes_the_median_over_repeats() -> None:
    lucky = [_record(1, (1e-4,)), _record(1, (9e-3, 9e-3)), _record(2, (2e-3,)), _record(3, ())]
    best = best_of(lucky, "task", "llvm")
    assert best is not None and best.trace().decisions == {"t": (2,)}
    assert best_of(lucky, "task", "llvm -mcpu=other") is None and best_of([], "task", "llvm") is None


def test_several_writers(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    code = ("import sys; from autosched import Record, RecordLog; log = RecordLog(sys.argv[1])\n"
            "for i in range(200): log.append(Record('t' + sys.argv[2], 'llvm', '{\"version\":1,\"steps\":[],\"decisions\":{},\"pad\":\"' + 'x' * (i * 7) + '\"}', 'ok', (1e-3,)))")
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(3)]
    assert [w.wait() for w in writers] == [0, 0, 0]
    records, bad = load(path)
    assert len(records) == 600 and not bad


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TensorLangError, match="cannot write"):
        RecordLog(tmp_path / "r.jsonl").append(_record())


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(TensorLangError, match="cannot read"):
        load(tmp_path)
    with pytest.raises(TensorLangError, match="cannot write"):
        RecordLog(None).records.append(_record())
        log = RecordLog(None)
        log.path = tmp_path
        log.append(_record())
