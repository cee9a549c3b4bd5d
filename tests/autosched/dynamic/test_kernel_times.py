"""Tables of times: read back, or a miss with a reason."""

from __future__ import annotations

import hashlib
import itertools
import json
import time

import tensorlang as tl
from autosched.dynamic import kernel_times
from autosched.dynamic.kernel_times import Tables, holds, times


def test_every_candidate_is_called_in_turns():
    order: list[str] = []
    found = times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 0.0)
    assert set(found) == {"a", "b"} and all(s >= 0 for s in found.values())
    switches = sum(x != y for x, y in itertools.pairwise(order))
    assert switches >= 2 * kernel_times.ROUNDS[0]


def test_the_slowest_are_not_timed_to_the_end():
    calls = dict.fromkeys(("fast", "slow"), 0)

    def takes(name, seconds):
        def run():
            calls[name] += 1
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                pass

        return run

    found = times({"slow": takes("slow", 0.02), "fast": takes("fast", 1e-3)}, 0.0, within=2.0)
    assert set(found) == set(calls) and found["slow"] >= 0.02  # a rough time, but one
    assert calls == {"slow": 2 + kernel_times.TRIED, "fast": 2 + kernel_times.ROUNDS[0]}


def test_tables_come_back(tmp_path):
    t = Tables(tmp_path, tl.Target.host())
    assert t.read(["x", 1]) is None and t.misses == ["there is no table yet"]
    t.write(["x", 1], {"1": [1.5, 2.0]})
    assert t.read(["x", 1]) == {"1": [1.5, 2.0]}
    assert t.read(["x", 2]) is None


def test_no_directory_no_table(tmp_path):
    t = Tables(False, tl.Target.host())
    t.write("x", 1)
    assert t.read("x") is None and t.directory is None
    blocked = tmp_path / "file"
    blocked.write_text("")
    Tables(blocked, tl.Target.host()).write("x", 1)  # cannot be written: no concern of the user


def test_a_cut_table_is_a_miss(tmp_path):
    t = Tables(tmp_path, tl.Target.host())
    t.write("x", list(range(200)))
    (path,) = (tmp_path / "dynamic").iterdir()
    data = path.read_bytes()
    for cut in [*range(0, len(data), 64), len(data) - 1]:
        path.write_bytes(data[:cut])
        assert t.read("x") is None
        assert "torn" in t.misses[-1]
    path.write_bytes(data[:-1] + b" ")
    assert t.read("x") is None


def test_a_table_of_another_machine_or_version_is_a_miss(tmp_path):
    t = Tables(tmp_path, tl.Target.host())
    t.write("x", 1)
    (path,) = (tmp_path / "dynamic").iterdir()
    document = json.loads(path.read_bytes().partition(b"\n")[2])
    for part, word in (("cpu", "cpu"), ("package", "package"), ("threads", "threads"), ("format", "format")):
        body = json.dumps({**document, "parts": {**document["parts"], part: "other"}}).encode()
        path.write_bytes(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
        assert t.read("x") is None and t.misses[-1] == f"it was made for another {word}"


def test_sentinels_count_ratios_only():
    assert holds([1.0, 2.0, 3.0], [2.0, 4.0, 6.1]) == ""
    assert "2.00×" in holds([1.0, 2.0, 3.0], [1.0, 2.0, 6.0])
