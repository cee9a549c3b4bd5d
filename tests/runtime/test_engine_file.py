"""Engines in files: the same answers after loading, in a process without the compiler too; files that are torn,
changed or hostile give one clear error."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, options
from tensorlang.graph import Value
from tensorlang.runtime import engine_file


def network():
    rng = np.random.default_rng(0)
    w1, w2 = (rng.integers(-2, 3, s).astype("float32") for s in ((24, 16), (16, 16)))
    g = tl.Graph("net")
    x = g.input(("rows", 24), "float32", "x")
    h = g.call(ops.relu, g.call(ops.matmul, x, g.constant(w1, "w1")))
    g.output(g.call(ops.matmul, h, g.constant(w2, "w2")), "y")
    g.output(h, "h")
    return g


class After:
    """What follows when the value of an input is known: a graph that adds it, made of nothing but the number."""

    dims = ()

    def __init__(self, pivot: Value, x: Value) -> None:
        self.pivot, self.live, self.labels = pivot, [x], ["y"]

    def graph(self, value, sizes):
        g = tl.Graph("after")
        g.inputs.append(Value("x", self.live[0].shape, "float32"))
        g.output(g.call(ops.add, g.inputs[0], g.constant(np.float32(value))), "y")
        return g


def cut():
    g = tl.Graph("cut")
    x, n = g.input((3,), "float32", "x"), g.input((), "int64", "n")
    pivot, double = g.call(ops.add, n, n), g.call(ops.add, x, x)
    g.output(pivot)
    g.output(double)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(g, "rest", After(pivot, double))
        return g.compile()


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    engine = network().compile()
    path = tmp_path_factory.mktemp("engines") / "net.engine"
    engine.save(path)
    return engine, path


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(-2, 3, (n, 24)).astype("float32")


def test_it_gives_the_same_when_loaded(saved):
    engine, path = saved
    for verify in (False, True):
        loaded = tl.Engine.load(path, verify=verify)
        for n in (0, 1, 9):
            for a, b in zip(loaded(rows(n)), engine(rows(n)), strict=True):
                assert np.array_equal(a, b)
        assert not loaded.constants[0].flags.writeable
        with pytest.raises(tl.CallError, match="axis 1 is 5, not 24"):
            loaded(np.zeros((2, 5), "float32"))


def test_a_loaded_engine_can_be_saved(saved, tmp_path):
    engine, path = saved
    tl.Engine.load(path).save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_weights_lie_on_a_page_and_are_mapped(saved):
    _, path = saved
    loaded = tl.Engine.load(path)
    for a in loaded.constants:
        assert a.ctypes.data % 64 == 0 and isinstance(a.base, memoryview | np.ndarray)


def test_another_process_runs_it_without_the_compiler(saved, tmp_path):
    engine, path = saved
    np.save(tmp_path / "x.npy", rows(4))
    text = f"""
import numpy as np, tensorlang as tl, tensorlang.codegen.llvm.compile as c, tensorlang.build as b
def no(*args, **named): raise AssertionError("compiled")
b.compile_ll = c.compile_ll = no
y, h = tl.Engine.load({str(path)!r})(np.load({str(tmp_path / "x.npy")!r}))
np.save({str(tmp_path / "y.npy")!r}, y)
"""
    subprocess.run([sys.executable, "-c", text], check=True)
    assert np.array_equal(np.load(tmp_path / "y.npy"), engine(rows(4))[0])


def test_what_was_compiled_for_values_goes_with_it(tmp_path):
    engine = cut()
    x = np.array([1, 2, 3], "float32")
    assert np.array_equal(engine(x, np.int64(2)), 2 * x + 4)
    engine.save(tmp_path / "cut.engine")
    loaded = tl.Engine.load(tmp_path / "cut.engine")
    out = np.empty(3, "float32")
    assert loaded(x, np.int64(2), out=out) is out and np.array_equal(out, 2 * x + 4)
    with pytest.raises(tl.CallError, match="saved before it met add = 10"):
        loaded(x, np.int64(5))


def test_what_calls_python_is_not_saved(tmp_path):
    g = tl.Graph("host")
    x = g.input((4,), "float32", "x")
    (found,) = g.host(np.flatnonzero, [x], [((None,), "int64")], op="NonZero")
    g.output(found)
    with pytest.raises(tl.TensorLangError, match="calls functions of Python: NonZero"):
        g.compile().save(tmp_path / "host.engine")
    assert not list(tmp_path.iterdir())


def test_other_files_are_refused(saved, tmp_path):
    kernel = tmp_path / "f.tl"
    x = tl.te.placeholder((4,), name="x")
    tl.compile([x, ops.relu(x)]).save(kernel)
    old = tmp_path / "old"
    old.write_bytes(saved[1].read_bytes().replace(b"engine 2", b"engine 7", 1))
    (tmp_path / "empty").touch()
    for path, says in (
        (kernel, "is not a saved engine"),
        (old, "format is version 7"),
        (tmp_path / "empty", "empty"),
        (tmp_path / "nowhere", "No such file"),
        (tmp_path, "directory"),
    ):
        with pytest.raises(tl.TensorLangError, match=says):
            tl.Engine.load(path)
    with pytest.raises(tl.TensorLangError, match="a path is a string") as e:
        tl.Engine.load(saved[1].read_bytes())  # not the whole file in the message
    assert len(str(e.value)) < 400


def test_changed_weights_are_found_when_asked(saved, tmp_path):
    data = bytearray(saved[1].read_bytes())
    data[-1] ^= 1
    path = tmp_path / "changed"
    path.write_bytes(data)
    tl.Engine.load(path)
    with pytest.raises(tl.TensorLangError, match="weights do not match"):
        tl.Engine.load(path, verify=True)


def mutated(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    kind = rng.randrange(4)
    at = rng.randrange(len(data))
    if kind == 0:
        return bytes(out[:at])
    if kind == 1:
        out[at] ^= 1 << rng.randrange(8)
    elif kind == 2:
        out[at : at + rng.randrange(1, 9)] = b""
    else:
        out[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(out)


def check_mutated(saved, tmp_path, count: int) -> None:
    data, path = saved[1].read_bytes(), tmp_path / "m"
    for seed in range(count):
        path.write_bytes(mutated(data, random.Random(seed)))
        try:
            tl.Engine.load(path, verify=True)
        except tl.TensorLangError as e:
            assert e.what == f"cannot load {path}" and e.because


def change(x, rng: random.Random):
    """A JSON document with one value changed."""
    if isinstance(x, list | dict) and x and rng.random() < 0.9:
        out = dict(x) if isinstance(x, dict) else list(x)
        key = rng.choice(list(x)) if isinstance(x, dict) else rng.randrange(len(x))
        out[key] = change(x[key], rng)
        if rng.random() < 0.1:
            del out[key]
        return out
    others = [None, -1, 0, 1, 2, 3, 7, 1 << 40, 1 << 70, "x", "", [], {}, True, 0.5, ["+", 0, 0], [[0, 0]]]
    return rng.choice(others)


ALONE = """
import sys
from pathlib import Path
import numpy as np
from tensorlang.native import object_code
def refused(*args):
    raise AssertionError("translated or compiled in the process that loads")
object_code.compiled = refused
from tensorlang.runtime import loader
loader.compiled = loader.module_text = refused
import tensorlang as tl
engine = tl.Engine.load(sys.argv[1])
x = np.ones((3, 8), "float32")
print(engine(x, x).sum(), engine.run({"a": x, "b": x})["y"].sum())
"""


def test_a_process_that_loads_compiles_nothing(tmp_path):
    """The helpers of the runtime come with the file."""
    g = tl.Graph("small")
    a, b = g.input(("n", 8), "float32", "a"), g.input(("n", 8), "float32", "b")
    g.output(g.call(ops.add, a, b), "y")
    g.compile(level=0).save(tmp_path / "small.engine")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, tmp_path / "small.engine"],
        capture_output=True,
        text=True,
        env=options.of_children(str(Path(tl.__file__).parents[1])),
    )
    assert done.stdout.split() == ["48.0", "48.0"], done.stderr


def check_headers(saved, tmp_path, count: int) -> None:
    """Headers that were changed by somebody who knows the hash: refused, or as good as before."""
    data, path = saved[1].read_bytes(), tmp_path / "h"
    first = data.index(b"\n") + 1
    second = data.index(b"\n", first) + 1
    header, code, start, weights = (int(n, 16) for n in data[first:second].split()[1:5])
    text, codes = data[second : second + header], data[second + header : second + header + code]
    document = json.loads(text)
    refused = 0
    for seed in range(count):
        new = json.dumps(change(document, random.Random(seed))).encode()
        path.write_bytes(engine_file.assembled(new, codes, data[start : start + weights]))
        try:
            tl.Engine.load(path)
        except tl.TensorLangError as e:
            refused += 1
            assert "\n" not in e.what
    assert refused > count // 2


def test_mutated_files(saved, tmp_path):
    check_mutated(saved, tmp_path, 60)
    check_headers(saved, tmp_path, 60)


@pytest.mark.fuzz
def test_many_mutated_files(saved, tmp_path):
    check_mutated(saved, tmp_path, 1000)
    check_headers(saved, tmp_path, 1000)


def test_a_kernel_is_asked_of_the_file_of_an_engine(tmp_path):
    g = tl.Graph("g")
    x = g.input(("n",), name="x")
    with pytest.raises(tl.DeclareError, match=r"`x`, a value of a graph(.|\n)*g\.call\(ops\.relu, x\)"):
        tl.ops.relu(x)
    g.output(g.call(tl.ops.relu, x), "y")
    g.compile(cache=False).save(tmp_path / "g.engine")
    with pytest.raises(tl.TensorLangError, match=r"tl\.Engine\.load"):
        tl.load(tmp_path / "g.engine")
