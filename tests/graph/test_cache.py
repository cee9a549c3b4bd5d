"""Kernels on the disk: found again, and only when they are whole and one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, options, te
from tensorlang.graph import kernels
from tensorlang.native import object_code


@pytest.fixture
def model():
    g = tl.Graph()
    x = g.input(("n", 6), "float32", "x")
    g.output(g.call(ops.matmul, x, g.constant(np.arange(12, dtype="float32").reshape(6, 2))))
    return g


def compiles(model, monkeypatch, **options) -> int:
    """How many kernels are compiled, not found."""
    counted = []
    real = kernels.compile_all
    monkeypatch.setattr(
        kernels, "compile_all", lambda jobs, *a: (counted.append(len(jobs)), real(jobs, *a))[1]
    )
    engine = model.compile(**options)
    x = np.ones((3, 6), "float32")
    assert np.array_equal(engine(x), x @ np.arange(12, dtype="float32").reshape(6, 2))
    return sum(counted)


def test_the_second_time_nothing_is_compiled(model, monkeypatch, tmp_path):
    assert compiles(model, monkeypatch, cache=tmp_path) == 1
    assert compiles(model, monkeypatch, cache=str(tmp_path)) == 0
    assert compiles(model, monkeypatch, cache=tmp_path, math="precise") == 1
    assert compiles(model, monkeypatch, cache=False) == 1


def test_what_is_torn_or_of_others_is_a_miss(model, monkeypatch, tmp_path):
    compiles(model, monkeypatch, cache=tmp_path)
    (file,) = tmp_path.rglob("*.kernel")
    whole = file.read_bytes()
    for change in (
        lambda: file.write_bytes(whole[:-1]),
        lambda: file.write_bytes(b""),
        lambda: os.chmod(file, 0o666),
    ):
        change()
        assert compiles(model, monkeypatch, cache=tmp_path) == 1
        assert compiles(model, monkeypatch, cache=tmp_path) == 0


HELPERS = """
import sys
import numpy as np
from tensorlang.native import object_code
from tensorlang.runtime import loader
seen = []
text = loader.module_text
loader.module_text = lambda exports: (seen.append(list(exports)), text(exports))[1]
import tensorlang as tl
g = tl.Graph()
g.output(g.call(tl.ops.relu, g.input(("n", 6), "float32", "x")))
engine = g.compile(cache=sys.argv[1], workers=1)
print(len(seen), engine(np.ones((2, 6), "float32")).sum())
"""


def test_the_second_process_translates_no_helpers(tmp_path):
    """Those that the first has compiled are in the cache; a torn file is a miss, and written anew."""

    def made() -> int:
        env = options.of_children(str(Path(tl.__file__).parents[1]))
        args = [sys.executable, "-c", HELPERS, tmp_path]
        done = subprocess.run(args, capture_output=True, text=True, env=env)
        count, total = done.stdout.split()
        assert total == "12.0", done.stderr
        return int(count)

    assert made() > 0
    assert made() == 0
    file = tmp_path / "kernels" / "helpers"
    file.write_bytes(file.read_bytes()[:-1])
    assert made() > 0
    assert made() == 0


def test_helpers_of_another_version_are_not_asked_for(monkeypatch):
    calls = []

    def text():
        calls.append(1)
        return "define i64 @one() {\n  ret i64 1\n}\n"

    first = object_code.compiled_once("one=here.one", text)
    assert object_code.compiled_once("one=here.one", text) == first and len(calls) == 1
    monkeypatch.setattr(object_code, "_compiler", lambda: "another")
    assert object_code.kept() == {}
    object_code.compiled_once("one=here.one", text)
    assert len(calls) == 2


def test_a_place_that_cannot_be_written_keeps_nothing(model, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    assert compiles(model, monkeypatch, cache=tmp_path / "file") == 1
    assert compiles(model, monkeypatch, cache=tmp_path / "file") == 1


def test_progress_is_told(model):
    told = []
    model.compile(cache=False, progress=lambda ready, whole: told.append((ready, whole)))
    assert told == [(1, 1)]


def test_a_cache_is_named_by_a_path(model):
    with pytest.raises(tl.TensorLangError, match="a path is a string"):
        model.compile(cache=3)


def test_a_process_begins_ahead_for_a_graph_that_is_new(model, monkeypatch, tmp_path):
    asked = []

    class Asked(kernels.Ahead):
        def __init__(self, distinct, workers=None):
            asked.append(distinct)
            super().__init__(distinct, workers)

    monkeypatch.setattr(kernels, "Ahead", Asked)
    for _ in range(2):
        compiles(model, monkeypatch, cache=tmp_path)
    assert asked == [1]
    compiles(model, monkeypatch, cache=False)
    assert asked == [1, 1]


def test_a_program_of_loops_of_the_caller_is_neither_kept_nor_sent(tmp_path):
    """Its name in the text says nothing of what it does, which changes from one process to the next."""

    def doubled(b, given, made):
        (x,), (out,) = given, made
        with b.loop("i", x.shape[0]) as i:
            out[i] = x[i] * 2

    program = te.loop_program("test.doubled", lambda x: [x * 2])(doubled)
    g = tl.Graph()
    x = g.input((4,), "float32", "x")
    g.output(g.call(lambda t: te.loops(program, [t], [(4,)], ["float32"])[0], x))
    engine = g.compile(cache=tmp_path)
    assert np.array_equal(engine(np.ones(4, "float32")), np.full(4, 2, "float32"))
    assert not list(tmp_path.rglob("*.kernel"))
