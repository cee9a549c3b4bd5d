"""Records survive what files go through."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from autosched import Record, RecordLog, SearchTask, tune
from autosched.records import best_of, load, merge, replay
from autosched.records.ranking import ranked
from autosched.records.record import median_interval
from autosched.records.replay import Replays, checked
from autosched.space import variants_of
from autosched.templates import matmul as template
from tensorlang.errors import TensorLangError

from .workloads import Pretend, matmul

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
    bad = [
        "{",
        "[]",
        "null",
        '"text"',
        good[:40],
        json.dumps({**json.loads(good), "version": 99}),
        json.dumps({"version": 1}),
        good.replace("0.001", "-1"),
        good.replace("0.001", "NaN"),
        good.replace("0.001", "true"),
        good.replace('"llvm"', "7"),
        "[" * 5000,
        "\xff",
    ]
    path.write_bytes(
        b"\n".join([good.encode(), *[b.encode("latin-1") for b in bad], b"", b"\x80\x81", good.encode()])
        + b"\n"
    )
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
    code = (
        "import sys; from autosched import Record, RecordLog; log = RecordLog(sys.argv[1])\n"
        "for i in range(200): log.append(Record('t' + sys.argv[2], 'llvm', '{\"version\":1,\"steps\":[],\"decisions\":{},\"pad\":\"' + 'x' * (i * 7) + '\"}', 'ok', (1e-3,)))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(3)]
    assert [w.wait() for w in writers] == [0, 0, 0]
    records, bad = load(path)
    assert len(records) == 600 and not bad


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(TensorLangError, match="cannot write"):
        RecordLog(tmp_path / "r.jsonl").append(_record())


def test_a_directory_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TensorLangError, match="cannot read"):
        load(tmp_path)
    log = RecordLog(None)
    monkeypatch.setattr(log, "path", tmp_path)
    with pytest.raises(TensorLangError, match="cannot write"):
        log.append(_record())


def test_the_median_and_its_confidence_are_written() -> None:
    r = _record(1, (3e-3, 1e-3, 2e-3))
    written = json.loads(r.to_json())
    assert written["median"] == 2e-3 and written["interval"] == [1e-3, 3e-3]
    assert median_interval(range(9)) == (
        1,
        7,
    )  # P(1 < median < 7 of 9) = 1 - 2 (1 + 9) / 512 = 0.961, and one pair further in 0.82
    assert "median" not in json.loads(_record(2, ()).to_json())


def test_a_wrong_answer_is_never_forgiven() -> None:
    wrong = Record("task", "llvm", STEPS % 1, "wrong_answer", error="C: 3 of 4 elements differ")
    best = best_of([_record(1, (1e-4,)), _record(2, (2e-3,)), wrong], "task", "llvm")
    assert best is not None and best.trace().decisions == {"t": (2,)}


def test_others_lines_are_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    mine, other = RecordLog(path), RecordLog(path)
    mine.append(_record(1))
    other.append(_record(2))
    path.open("a").write("nonsense\n")
    other.append(_record(3))
    assert [r.steps for r in mine.refresh()] == [STEPS % 2, STEPS % 3] and not mine.refresh()
    assert [b.line for b in mine.bad] == [3] and len(mine) == 3
    assert [r.steps for r in other.refresh()] == [STEPS % 1]
    path.open("a").write(_record(4).to_json())  # the end of the line is still to come
    late = RecordLog(path)
    assert len(late) == 4
    late.append(_record(5))
    assert len(load(path)[0]) == 5 and not late.refresh()


def test_a_disk_that_is_full_loses_nothing(tmp_path: Path) -> None:
    log = RecordLog(tmp_path / "r.jsonl")
    log.open()
    write, room = os.write, 1500

    def full(fd: int, data: bytes) -> int:
        nonlocal room
        n = write(fd, data[:room])
        room -= n
        return n

    os.write = full  # type: ignore[assignment]
    try:
        result = tune(
            SearchTask(matmul, (64, 64, 64), template=template),
            trials=8,
            records=log,
            measurer=Pretend(),
            model="random",
            progress=False,
        )
    finally:
        os.write = write
    assert result.trials == 8 and result.best is not None
    assert "in memory only" in str(result) and "disk is full" in str(result) and str(log.path) in str(result)
    n = len(log.unwritten)
    log.append(_record(1))  # there is room again: what waited is written too
    records, bad = load(tmp_path / "r.jsonl")
    assert n and len(records) == len(log) and len(bad) == 1  # the line at which it stopped


def test_a_file_that_cannot_be_written_is_an_error_before_anything_is_measured(tmp_path: Path) -> None:
    pretend = Pretend()
    (tmp_path / "file").write_text("")
    with pytest.raises(TensorLangError, match="cannot write records"):
        tune(
            SearchTask(matmul, (64, 64, 64), template=template),
            trials=8,
            records=tmp_path / "file" / "r.jsonl",
            measurer=pretend,
            progress=False,
        )
    assert not pretend.traces


def test_traces_that_begin_alike_are_replayed_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    task = SearchTask.of(matmul(13, 16, 24), name="product")
    variants = variants_of(task)
    rng = np.random.default_rng(0)
    traces = [v.trace_of(row).to_json() for v in variants for row in v.sample_valid(rng, 3)]
    shared = Replays(tl.create_schedule(task.outputs))
    module = sys.modules[Replays.__module__]  # `records.replay` is the function
    monkeypatch.setattr(module, "MAX_KEPT", 40)  # what is remembered is forgotten on the way
    refused = json.loads(traces[0])
    refused["steps"].append(["vectorize", {"stage": "nobody", "loop": "i"}])
    for trace in [*traces, json.dumps(refused), traces[0]]:
        found: list[str] = []
        for once in (shared.replay, lambda x: replay(x, tl.create_schedule(task.outputs))):
            try:
                s = once(trace)
                found.append(f"{s.tree()}\n{s.trace.to_json()}")
            except tl.ScheduleError as e:
                found.append(str(e).partition("  at ")[0])  # but for the line of this file
        assert found[0] == found[1]


def test_merge_and_distill(tmp_path: Path) -> None:
    a, b, out = (tmp_path / f"{n}.jsonl" for n in "abc")
    for r in (_record(1, (1e-3,)), _record(2, (2e-3,)), _record(3, ())):
        RecordLog(a).append(r)
    for r in (_record(2, (2e-3,)), _record(4, (4e-3,)), Record("other", "llvm", STEPS % 1, "ok", (1.0,))):
        RecordLog(b).append(r)
    b.open("a").write("{\n")
    n, bad = merge([a, b], out)
    assert n == 5 == len(load(out)[0]) and [str(x).startswith(f"{b}:4") for x in bad] == [True]
    assert merge([out], out, keep=1) == (2, [])
    assert sorted(r.task for r in load(out)[0]) == ["other", "task"]
    with pytest.raises(TensorLangError, match="cannot read"):
        merge([tmp_path / "nowhere"], out)
    assert len(load(out)[0]) == 2
    with pytest.raises(TensorLangError, match="cannot write"):
        merge([a], tmp_path)


def test_the_best_that_replays_is_taken_and_the_message_tells_the_rest(tmp_path: Path) -> None:
    task, path = SearchTask(matmul, (16, 16, 16)), tmp_path / "r.jsonl"
    key, target = task.workload_key, str(task.target)
    log = RecordLog(path)
    broken = '{"version":1,"steps":[["unroll",{"stage":"C","loop":"nowhere"}]],"decisions":{}}'
    log.append(Record(key, target, broken, "ok", (1e-9,)))
    path.open("a").write("{\n")
    log.append(Record(key, "llvm -mcpu=other", STEPS % 1, "ok", (1e-9,)))
    log.append(Record(key, target, STEPS % 1, "crash", error="the worker died"))
    log.append(Record("else", target, STEPS % 1, "ok", (1e-9,)))
    with pytest.raises(TensorLangError) as e:
        task.apply_best(path)
    for words in (
        "1 × crash",
        "measured for llvm -mcpu=other only",
        "1 record cannot be replayed",
        "nowhere",
        "1 record of other tasks",
        f"1 line skipped, the first {path}:2",
    ):
        assert words in str(e.value)
    log.append(Record(key, target, '{"version":1,"steps":[],"decisions":{}}', "ok", (1e-3,)))
    assert task.apply_best(path)[0].trace.steps == ()


@pytest.mark.parametrize(
    "steps, words",
    [
        ([["split", {"stage": "C", "loop": "i", "factor": 2, "tail": "auto"}]] * 2001, "2001 steps"),
        ([["unroll", {"stage": "C", "loop": "i"}], ["unroll", {"stage": "C", "loop": "j"}]], "written out"),
        ([["cache_write", {"stage": "C", "scope": "global"}]], "bytes"),
        ([["exec", {"code": "print(1)"}]], "does not exist"),
        ([["unroll", {"stage": "C", "loop": ["i"]}]], "i"),
    ],
)
def test_replay_is_bounded(steps: list[object], words: str) -> None:
    n = 1 << 17 if "bytes" in words else 1000
    c = SearchTask(matmul, (n, n, 4))
    with pytest.raises(tl.ScheduleError, match=words):
        replay(json.dumps({"version": 1, "steps": steps, "decisions": {}}), c.schedule())
    with pytest.raises(tl.ScheduleError, match="too long"):
        replay(" " * (1 << 21), c.schedule())


def _nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


def _steps(*steps: object, decisions: str = "{}") -> str:
    return f'{{"version":1,"steps":{json.dumps(steps)},"decisions":{decisions}}}'


TILE = {"stage": "C", "loop": "i", "decision": "t"}
HOSTILE = {
    "a factor in 600 lists": _steps(["split", {"stage": "C", "loop": "i", "factor": _nested(600)}]),
    "a factor in 20 lists": _steps(["split", {"stage": "C", "loop": "i", "factor": _nested(20)}]),
    "a factor beyond 64 bits": _steps(["split", {"stage": "C", "loop": "i", "factor": 10**30}]),
    "an alignment beyond 64 bits": _steps(["storage_align", {"stage": "C", "axis": "i", "factor": 10**30}]),
    "digits of two numbers": _steps(["transform_layout", {"stage": "X", "digits": [[0, 1]]}]),
    "digits of text": _steps(["transform_layout", {"stage": "X", "digits": [[0, 1, "x"], [1, 1, 0]]}]),
    "digits in no list": _steps(["transform_layout", {"stage": "X", "digits": [0, 1, 0]}]),
    "1,999 loops of one turn": _steps(*[["fuse", {"stage": "C", "loops": []}]] * 1999),
    "infinity in decisions": _steps(["sample_tile", TILE], decisions='{"t":[Infinity]}'),
    "no number in decisions": _steps(["sample_tile", TILE], decisions='{"t":[NaN]}'),
    "more than all numbers in decisions": _steps(["sample_tile", TILE], decisions='{"t":[1%s]}' % ("0" * 40)),
    "48 lanes × 2,048 copies": _steps(
        ["split", {"stage": "C", "loop": "i", "factor": 48}],
        ["split", {"stage": "C", "loop": "j", "factor": 2048}],
        ["reorder", {"stage": "C", "loops": ["i.outer", "j.outer", "k", "j.inner", "i.inner"]}],
        ["vectorize", {"stage": "C", "loop": "i.inner"}],
        ["unroll", {"stage": "C", "loop": "j.inner"}],
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
def test_a_hostile_record_is_passed_over_with_its_reason(hostile: str, tmp_path: Path) -> None:
    task, path = SearchTask(matmul, (96, 2048, 4)), tmp_path / "r.jsonl"
    key, target = task.workload_key, str(task.target)
    good = Record(
        key,
        target,
        '{"version":1,"steps":[["unroll",{"stage":"C","loop":"k"}]],"decisions":{}}',
        "ok",
        (1e-3,),
    )
    line = good.to_json().replace(good.steps, hostile).replace("0.001", "1e-09")
    path.write_text(f"{line}\n")
    with pytest.raises(TensorLangError, match="no measured schedule") as refused:
        task.apply_best(path)
    assert ("cannot be replayed" in str(refused.value) or "skipped" in str(refused.value)) and len(
        str(refused.value)
    ) < 2000
    path.open("a").write(good.to_json() + "\n")
    assert str(task.apply_best(path)[0].trace) == "  1  unroll(C, k)"


def _mutated(rng: random.Random, line: str) -> bytes:
    """A record as files, disks and malice may leave it."""
    data = bytearray(line.encode())
    kind = rng.randrange(6)
    if kind == 0:
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 1:
        del data[rng.randrange(len(data)) :]
    elif kind == 2:
        at = rng.randrange(len(data))
        data[at:at] = data[rng.randrange(len(data)) :][: rng.randrange(200)]
    elif kind == 3:
        document = json.loads(line)
        place = document if rng.random() < 0.5 else document["steps"]
        place[rng.choice(list(place))] = rng.choice(
            [
                None,
                True,
                -1,
                1e308,
                10**30,
                "x",
                [],
                {},
                [[]],
                [["unroll", {}]],
                {"t": [1.5]},
                "__import__('os')",
            ]
        )
        data = bytearray(json.dumps(document).encode())
    elif kind == 4:
        document = json.loads(line)
        step = rng.choice(document["steps"]["steps"])
        step[1][rng.choice(list(step[1]))] = rng.choice(
            [None, -1, 0, 10**9, "C", "i", ["i", "j"], {"knob": "t"}, {"a": 1}, [[[]]]]
        )
        data = bytearray(json.dumps(document).encode())
    else:
        document = json.loads(line)
        del document[rng.choice(list(document))]
        data = bytearray(json.dumps(document).encode())
    return bytes(data).replace(b"\n", b" ")


def _fuzzed_records(count: int, replays: int, path: Path) -> None:
    task = SearchTask(matmul, (16, 16, 16), template=template)
    pretend = Pretend()
    log = RecordLog(None)
    tune(task, trials=8, records=log, measurer=pretend, model="random", progress=False)
    lines = [r.to_json() for r in log]
    rng = random.Random(7)
    path.write_bytes(b"\n".join(_mutated(rng, rng.choice(lines)) for _ in range(count)) + b"\n")
    blank = sum(not raw.strip() for raw in path.read_bytes().split(b"\n")[:-1])
    start = time.process_time()
    records, bad = load(path)
    print(f"{(time.process_time() - start) / count * 1e3:.3f} ms a line")
    assert len(records) + len(bad) + blank == count
    assert 0.05 < len(records) / count < 0.95
    for r in records[:: max(1, len(records) // replays)]:
        with contextlib.suppress(tl.ScheduleError):
            checked(r.steps, task.schedule())


def test_mutated_records_are_taken_or_named(tmp_path: Path) -> None:
    _fuzzed_records(2000, 150, tmp_path / "r.jsonl")


FUZZ = pytest.mark.skipif("TENSORLANG_FUZZ_ROUNDS" not in os.environ, reason="make fuzz")


@FUZZ
@pytest.mark.fuzz
def test_many_mutated_records_are_taken_or_named(tmp_path: Path) -> None:
    _fuzzed_records(100_000, 20_000, tmp_path / "r.jsonl")


TUNER = """
import sys, time
from autosched import RecordLog, SearchTask, tune
from autosched.records import Record
from autosched.space import variants_of
from autosched.templates import matmul as template
from tests.autosched.workloads import Pretend, matmul
log = RecordLog(sys.argv[1])
write = log.append
def append(r):
    write(r)
    print(r.steps, flush=True)  # acknowledged
log.append = append
print("ready", flush=True)
tune(SearchTask(matmul, (96, 80, 64), "llvm -mcpu=haswell -num-cores=2", template=template), trials=100000, batch=8, records=log,
     strategy="random", model="random", measurer=Pretend(), progress=False)
"""


def _killed_and_resumed(rounds: int, path: Path) -> None:
    rng = random.Random(3)
    acknowledged: list[str] = []
    for _ in range(rounds):
        with subprocess.Popen(
            [sys.executable, "-c", TUNER, str(path)], stdout=subprocess.PIPE, text=True
        ) as tuner:
            assert tuner.stdout is not None and tuner.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.0, 0.4))
            tuner.send_signal(signal.SIGKILL)
            acknowledged += [line.rstrip("\n") for line in tuner.stdout if line.endswith("}\n")]
        records, bad = load(path)
        kept = [r.steps for r in records]
        assert set(acknowledged) <= set(kept)
        assert len(kept) == len(set(kept)), "something was measured twice"
        assert not bad
    assert acknowledged


def test_kill_9_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    _killed_and_resumed(5, tmp_path / "r.jsonl")


@FUZZ
@pytest.mark.fuzz
def test_kill_9_a_hundred_times(tmp_path: Path) -> None:
    _killed_and_resumed(100, tmp_path / "r.jsonl")


def test_the_schedule_a_search_began_with_is_kept_unless_clearly_beaten() -> None:
    def record(steps: str, times: list[float], start: bool = False) -> Record:
        return Record(
            "k", "llvm", f'{{"steps":[],"decisions":{{"{steps}":[1]}}}}', "ok", tuple(times), start=start
        )

    begun = record("begun", [1.00, 1.01, 0.99, 1.02, 0.98, 1.0, 1.0], start=True)
    little = record("little", [0.98, 0.99, 0.98, 0.98, 0.97, 0.98, 0.98])
    noisy = record("noisy", [0.90, 0.80, 1.10, 1.20, 0.70, 0.90, 0.95])
    much = record("much", [0.70, 0.71, 0.70, 0.69, 0.70, 0.71, 0.70])
    assert best_of([little, noisy, begun], "k", "llvm").steps == begun.steps
    assert best_of([little, noisy, begun, much], "k", "llvm").steps == much.steps
    # a file that does not say what the search began with
    assert best_of([little, noisy], "k", "llvm").steps == noisy.steps
    assert Record.from_json(begun.to_json()).start and not Record.from_json(much.to_json()).start


def _turns(ratio: float, first: float, drift: list[float]) -> list[Record]:
    """A start and a candidate ``ratio`` times as slow, in turns on a machine that drifts; before that each was
    measured alone, the candidate in ``first`` seconds."""
    found = [_record(1, (1.0,), start=True), _record(2, (first,))]
    for n, speed in enumerate(drift):
        found += [_record(1, (speed,), start=True, turn=f"t{n}"), _record(2, (ratio * speed,), turn=f"t{n}")]
    return found


DRIFT = [1.0, 1.6, 1.1, 2.0, 1.5, 1.0, 1.7]


def test_what_was_measured_in_turns_is_judged_by_its_turns() -> None:
    """A machine that becomes twice as slow hides no gain of a tenth, and a lucky moment makes none."""
    first = ranked(_turns(0.9, 1.5, DRIFT), "task", "llvm")
    assert [r.steps for r in first] == [STEPS % 2, STEPS % 1]
    assert first[0].cost == pytest.approx(0.9 * first[1].cost)
    lucky = ranked(_turns(1.0, 0.5, DRIFT), "task", "llvm")
    assert lucky[0].start and lucky[1].cost == lucky[0].cost


def test_one_that_was_never_beside_the_start_does_not_beat_it() -> None:
    found = ranked([*_turns(0.9, 1.0, DRIFT), _record(3, (0.1,) * 9)], "task", "llvm")
    assert [r.steps for r in found] == [STEPS % n for n in (2, 1, 3)]
    apart = ranked([_record(1, (1.0,) * 9, start=True), _record(3, (0.1,) * 9)], "task", "llvm")
    assert apart[0].steps == STEPS % 3  # a file of before, or of a search that was killed, has no turns


def test_turns_that_chose_do_not_count_for_whom_they_chose() -> None:
    """Of eight finalists the luckiest goes on: what made it so is no gain that anybody will see."""
    lucky = [
        r
        for n in range(3)
        for r in (_record(1, (1.0,), start=True, turn=f"l{n} look"), _record(2, (0.5,), turn=f"l{n} look"))
    ]
    true = _turns(0.9, 1.0, [1.0] * 6)
    best = ranked([*lucky, *true], "task", "llvm")[0]
    assert best.steps == STEPS % 2 and best.cost == pytest.approx(0.9) and len(best.times) == 6
    assert ranked(lucky, "task", "llvm")[0].cost == pytest.approx(0.5)  # there are no others
    # nor does one win that was left behind
    left = [_record(3, (0.6,), turn=f"l{n} look") for n in range(3)]
    assert [r.steps for r in ranked([*lucky, *left, *true], "task", "llvm")] == [STEPS % n for n in (2, 1, 3)]


def test_turns_on_processors_that_shared_a_core_count_only_without_others() -> None:
    """Two threads of one core are another machine, where another schedule may be the better one."""
    elsewhere = [
        r
        for n in range(9)
        for r in (
            _record(1, (2.0,), start=True, turn=f"s{n} shared"),
            _record(2, (1.0,), turn=f"s{n} shared"),
        )
    ]
    few = ranked([*elsewhere, *_turns(0.9, 1.0, [1.0] * 2)], "task", "llvm")
    assert few[0].steps == STEPS % 2 and len(few[0].times) == 11
    best, start = ranked([*elsewhere, *_turns(0.9, 1.0, [1.0] * 3)], "task", "llvm")
    assert best.steps == STEPS % 2 and best.cost == pytest.approx(0.9) and start.cost == 1.0


def test_who_is_compared_further_is_not_chosen_by_turns_on_a_shared_core() -> None:
    """The one that is the best of two threads of one core is not sent on in place of the best of two cores."""
    looks = [
        r
        for turn, ratios in {
            **{f"a{n} look": (0.7, 0.8) for n in range(3)},
            **{f"s{n} shared look": (0.9, 0.5) for n in range(4)},
        }.items()
        for r in (
            _record(1, (1.0,), start=True, turn=turn),
            *[_record(2 + i, (x,), turn=turn) for i, x in enumerate(ratios)],
        )
    ]
    assert [r.steps for r in ranked(looks, "task", "llvm")] == [STEPS % n for n in (2, 3, 1)]
    few = [r for r in looks if r.turn != "a0 look"]
    assert [r.steps for r in ranked(few, "task", "llvm")] == [STEPS % n for n in (3, 2, 1)]


def test_times_of_a_turn_are_compared_one_by_one() -> None:
    """The machine slowed down in the middle of every turn: the median of each alone says nothing."""
    slow = (1.0, 1.0, 3.0, 3.0, 3.0)
    mine = tuple(0.9 * t for t in slow[:2]) + tuple(0.9 * t for t in slow[2:])
    found = [
        r
        for n in range(3)
        for r in (
            _record(1, slow[n:] + slow[:n], start=True, turn=f"t{n}"),
            _record(2, mine[n:] + mine[:n], turn=f"t{n}"),
        )
    ]
    best = ranked(found, "task", "llvm")[0]
    assert best.steps == STEPS % 2 and [t / 3.0 for t in best.times] == pytest.approx([0.9] * 3)


def test_a_turn_travels_with_the_record() -> None:
    r = _record(2, turn="1763.25")
    assert Record.from_json(r.to_json()) == r and "turn" not in _record(2).to_json()


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((3,), "missing a required argument: 'target'"),
        ((3, "llvm", "{}", "ok"), r"Record\(task=3\): text is needed"),
        (("task", "llvm", {}, "ok"), r"Record\(steps=a dict\): text is needed"),
        (("task", "llvm", "{}", "fine"), "there is no such outcome"),
    ],
)
def test_records_that_are_none(values: tuple[Any, ...], text: str) -> None:
    with pytest.raises(TensorLangError, match=text):
        Record(*values)


def test_an_outcome_that_this_release_does_not_know_is_a_bad_line() -> None:
    with pytest.raises(TensorLangError, match="the status 'melted' is none"):
        Record.from_json(_record().to_json().replace('"status":"ok"', '"status":"melted"'))
