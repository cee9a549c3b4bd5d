"""What control groups grant, read from trees of files as Linux shows them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tensorlang.runtime import processors


def tree(root: Path, lines: str, files: dict[str, str]) -> float:
    """What is granted to a process with these groups and these files."""
    (root / "cgroup").write_text(lines)
    for name, text in files.items():
        path = root / "fs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return processors.granted(root / "cgroup", root / "fs")


@pytest.mark.parametrize(
    ("lines", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000\n"}, math.inf),
        (
            "0::/a/b\n",
            {"cpu.max": "max 100000\n", "a/cpu.max": "200000 100000\n", "a/b/cpu.max": "400000 100000\n"},
            2.0,
        ),
        ("0::/of/the/host\n", {"cpu.max": "50000 100000\n"}, 0.5),  # seen from inside a container
        (
            "4:memory:/x\n1:cpu,cpuacct:/x\n0::/\n",
            {"cpu,cpuacct/x/cpu.cfs_quota_us": "300000\n", "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n"},
            3.0,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, math.inf),
        ("0::/\n", {"unified/cpu.max": "100000 100000\n"}, 1.0),
        ("0::/\n", {"cpu.max": ""}, math.inf),
        ("1:cpuset:/\n", {"cpuset/cpu.max": "1 1"}, math.inf),
        ("", {}, math.inf),
    ],
)
def test_shares(lines: str, files: dict[str, str], expected: float, tmp_path: Path) -> None:
    assert tree(tmp_path, lines, files) == expected


def test_no_groups_at_all(tmp_path: Path) -> None:
    assert processors.granted(tmp_path / "none", tmp_path) == math.inf


@pytest.mark.parametrize(
    ("share", "usable", "whole"), [(math.inf, 4, 4), (1.5, 2, 1), (0.2, 1, 1), (3.0, 3, 3), (64.0, 4, 4)]
)
def test_processors_of_a_share(
    share: float, usable: int, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processors, "granted", lambda: share)
    monkeypatch.setattr(processors, "_affinity", lambda: 4)
    assert (processors.processors(), processors.whole_processors()) == (usable, whole)
