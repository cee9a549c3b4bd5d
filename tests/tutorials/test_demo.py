"""The demo runs from the photograph to the table, in plain text when nobody looks at a terminal."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("PIL")
from PIL import Image

ROOT = Path(__file__).parents[2]


@pytest.mark.tutorial
@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "tutorials" / "demo.py"),
            "--trials",
            "2",
            "--seconds",
            "1",
            "--rounds",
            "1",
            "--out",
            str(tmp_path),
        ],
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert done.stdout.count("the same as numpy's") == 2
    assert "storage B.global" in done.stdout and "for k.outer in range(0, 512)" in done.stdout
    rows = re.findall(
        r"^  (plain loops|tl\.compile|by hand|searched|numpy) +([\d.]+) +[\d.]+× +([\d.]+) ",
        done.stdout,
        re.MULTILINE,
    )
    assert [row[0] for row in rows] == ["plain loops", "tl.compile", "by hand", "searched", "numpy"]
    assert all(float(figure) > 0 for row in rows for figure in row[1:])
    step5 = done.stdout[done.stdout.index("5  Let a search") :]
    assert "tune conv2d(48, 28, 28, 32): 5000 trials, at most 1 s" in step5 and "def apply(s):" in step5
    assert re.findall(r"^  (tl\.compile|found|numpy) +[\d.]+ +[\d.]+× ", step5, re.MULTILINE) == [
        "tl.compile",
        "found",
        "numpy",
    ]
    assert re.search(r"Gain over the default schedule: +[\d.]+×", step5)
    step6 = done.stdout[done.stdout.index("6  A whole network") :]
    if importlib.util.find_spec("onnx"):
        assert "kernel 0: Conv → Shift → Relu gives relu1" in step6 and "15 operators, sizes open" in step6
        assert re.search(r"From file to engine in [\d.]+ s", step6)
        assert re.search(r"classes +float32\[1, 10\] +[\d.e+-]+ of [\d.e+-]+ ", step6)
        rows = re.findall(r"(\w+) [\d.]+\S* +[\d.]+ s +([\d.]+) ms .* [\d.]+× ", step6)
        wanted = [
            "tensorlang",
            *(n for n in ("onnxruntime", "openvino", "MNN") if importlib.util.find_spec(n)),
        ]
        assert [row[0] for row in rows] == wanted and all(float(row[1]) > 0 for row in rows)
        assert (tmp_path / "network.onnx").exists()
    else:
        assert "needs the package onnx" in step6
    page = (tmp_path / "layer.html").read_text(encoding="utf-8")
    assert len(page.encode()) <= 500_000 and "def apply(s):" in page
    records = [json.loads(line) for line in (tmp_path / "demo.jsonl").read_text().splitlines()]
    assert {record["status"] for record in records} == {"ok"} and len(
        {record["task"] for record in records}
    ) == 2
    picture = Image.open(tmp_path / "demo.png")
    assert picture.size == (2 * 640 + 30, 2 * (427 + 40) + 10)
    before, after = (picture.crop((x, 40, x + 640, 467)) for x in (10, 660))
    assert before.tobytes() != after.tobytes() and len(after.getcolors(1 << 20)) > 10_000
