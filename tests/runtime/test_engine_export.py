"""Whole models as functions of C: compiled into a program beside their values here, headers, what is refused."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.interface.signature import Dim, Param, Signature
from tensorlang.native.object_code import compiled
from tensorlang.runtime.elf import symbols, undefined_symbols
from tensorlang.runtime.elf_join import joined
from tensorlang.runtime.engine_export import c_engine
from tensorlang.runtime.engine_text import EngineText
from tensorlang.runtime.loader import load_object
from tensorlang.runtime.program import Program, Value
from tensorlang.runtime.size_table import SizeTable

needs_cc = pytest.mark.skipif(
    shutil.which("cc") is None, reason="needs a C compiler (Debian: apt install gcc)"
)
RNG = np.random.default_rng(0)
WEIGHTS = RNG.integers(-1, 2, (3, 24, 24)).astype("float32")
CONSTANT = np.arange(5, dtype="int32")


def layers(name="layers"):
    """Layers with a residual, pooled rows; also the input, a constant and a result twice as outputs."""
    g = tl.Graph(name)
    x = h = g.input(("rows", 24), "float32", "x")
    for w in WEIGHTS:
        h = g.call(ops.add, g.call(ops.relu, g.call(ops.matmul, h, g.constant(w))), x)
        h = g.call(ops.reshape, h, shape=[x.shape[0], -1])
    pooled = g.call(ops.max_pool2d, g.call(ops.reshape, h, shape=[1, 1, x.shape[0], 24]), kernel_size=2)
    for v, n in ((h, "y"), (pooled, "pooled"), (x, "same"), (g.constant(CONSTANT), "fixed"), (h, "again")):
        g.output(v, n)
    return g


@pytest.fixture(scope="module")
def engine():
    return layers().compile()


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "layers.h"
#include "other.h"

static void show(const float *a, int64_t n) {
  for (int64_t i = 0; i < n; i++) printf("%%g ", a[i]);
  printf("\\n");
}

int main(void) {
  int64_t sizes[] = {%s};
  for (int i = 0; i < %d; i++) {
    int64_t n = sizes[i], shapes[11];
    printf("%%d %%d ", layers_shapes(n, shapes), layers_arena(-n - 1) == -2);
    for (int k = 0; k < 11; k++) printf("%%d ", (int)shapes[k]);
    printf("\\n");
    float *x = malloc(96 * n + 4), *y = malloc(96 * n + 4), *again = malloc(96 * n + 4), *same = malloc(96 * n + 4);
    float *pooled = malloc(96 * n + 4);
    int fixed[5];
    for (int64_t k = 0; k < 24 * n; k++) x[k] = k %% 5 - 2;
    void *arena = aligned_alloc(64, layers_arena(n) + 64);
    int status = layers(x, y, pooled, same, fixed, again, n, arena);
    printf("%%d %%d\\n", status, fixed[4]);
    show(y, 24 * n), show(pooled, n / 2 * 12), show(same, 24 * n), show(again, 24 * n);
    status = other(x, y, pooled, same, fixed, again, n, NULL);
    printf("%%d\\n", status);
    show(y, 24 * n);
  }
  return 0;
}
"""


@needs_cc
def test_a_program_of_c_gets_the_same_values(engine, tmp_path):
    sizes = (1, 2, 7, 40)
    engine.export(tmp_path / "layers.o")
    engine.export(tmp_path / "other.o", name="other")  # the same kernels, in another object of one program
    (tmp_path / "main.c").write_text(PROGRAM % (", ".join(map(str, sizes)), len(sizes)))
    files = ["main.c", "layers.o", "other.o"]
    done = ["cc", "-Wall", "-Werror", "-o", "main", *files, "-lm"]
    subprocess.run(done, cwd=tmp_path, check=True, capture_output=True, text=True)
    lines = iter(
        subprocess.run(
            ["./main"], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.splitlines()
    )
    for n in sizes:
        x = (np.arange(24 * n) % 5 - 2).astype("float32").reshape(n, 24)
        expected = engine(x)
        shapes = [s for a in expected for s in a.shape]
        assert next(lines).split() == ["0", "1", *map(str, shapes)]
        assert next(lines).split() == ["0", "4"]
        for a in (*expected[:3], expected[4], None):
            if a is None:
                assert next(lines) == "0"
                a = expected[0]
            assert np.array_equal(np.array(next(lines).split(), "float32"), a.reshape(-1))


def test_memory_is_as_large_as_at_a_call_here(engine, tmp_path):
    """And sizes outside a profile are refused."""
    bounded = layers("bounded").compile(profile={"rows": (1, 128, 200)})
    for e, n in ((engine, 128), (engine, 3), (bounded, 200)):
        made, (run,) = _functions(e), e.steps
        inner = [v for v in run.made if v not in e.program.outputs]
        assert made("arena", n) == run.placed(inner, run.sized((n,))[1])[1] > 0
    assert made("arena", 201) == -2 and made("arena", 0) == -2


def _functions(e):
    name = e.program.name
    signature = e._signature(e.program.inputs, e.program.outputs)
    code = load_object(c_engine(e, signature, name).object_code, [f"{name}_arena"], {})

    def call(what, *sizes):
        f = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(sizes))(code.address[f"{name}_{what}"])
        return f(*sizes)

    return call


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "riscv64-linux-gnu"])
def test_objects_for_other_processors(triple, tmp_path):
    e = layers().compile(target=f"llvm -mtriple={triple}")
    e.export(tmp_path / "m.o")
    data = (tmp_path / "m.o").read_bytes()
    visible = {s.name for s in symbols(data) if s.section and s.is_function}
    assert {"layers", "layers_arena", "layers_shapes"} <= visible
    assert {"posix_memalign", "free"} <= set(undefined_symbols(data))
    assert f"-mtriple={triple}" in (tmp_path / "m.h").read_text()


def test_the_header_says_all_that_a_caller_must_know(engine, tmp_path):
    engine.export(tmp_path / "layers.h")
    text = (tmp_path / "layers.h").read_text()
    assert not (tmp_path / "layers.o").exists()
    for line in ("x       in   float32[rows, 24]", "fixed   out  int32[5]", "rows    size  at least 0"):
        assert f"\n *     {line}\n" in text
    function = (
        "int layers(const float *x, float *y, float *pooled, float *same, int32_t *fixed, float *again,"
    )
    assert f"{function} int64_t rows, void *arena);" in " ".join(text.split())
    assert "int64_t layers_arena(int64_t rows);" in text
    assert "int layers_shapes(int64_t rows, int64_t *shapes);" in text


def test_what_is_no_function_of_c(tmp_path):
    g = tl.Graph()
    x = g.input((3,), "float32", "x")
    g.output(g.host(np.cumsum, [x], [((3,), "float32")], "cumulate")[0])
    with pytest.raises(tl.TensorLangError, match="calls functions of Python: cumulate"):
        g.compile().export(tmp_path / "m.o")
    h = tl.Graph()
    h.output(h.call(ops.relu, h.input((3,), "float32", "x")))
    e = h.compile()
    for path, name, says in (
        ("m.x", None, "no known suffix"),
        ("m.o", "int", "no C function"),
        ("m.o", "malloc", "malloc"),
    ):
        with pytest.raises(tl.TensorLangError, match=says):
            e.export(tmp_path / path, name=name)
    assert not list(tmp_path.iterdir())


def test_sizes_are_computed_as_they_are_here():
    """Every operator of the table, with divisors of 0 and signs of every kind."""
    table = SizeTable()
    a, b = table.add("a"), table.add("b")
    ops_ = ("+", "-", "*", "//", "%", "tdiv", "tmod", "min", "max", "<", "<=", "==", "!=", "and", "or")
    rows = [table.add((op, a, b)) for op in ops_] + [table.add(("not", a))]
    rows.append(table.add(("if", a, rows[0], rows[1])))
    p = Program(
        "sizes", (Dim("a"), Dim("b")), table, [Value("v", "float32", tuple(rows))], (0,), ((),), (0,), ("v",)
    )
    buffers = tuple(Param(n, "buffer", "float32", ("a", "b"), n == "out") for n in ("x", "out"))
    text = EngineText(p, [], [], Signature("sizes", buffers, (Dim("a", -99), Dim("b", -99))))
    text.checks = lambda: "define internal i32 @sizes.check(i64 %a2, i64 %a3) {\n  ret i32 0\n}"
    code = load_object(
        joined([compiled(text.text(set(), _triple()), 1)], ["sizes_shapes"], ("sizes.weights", b"0")),
        ["sizes_shapes"],
        {},
    )
    f = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(
        code.address["sizes_shapes"]
    )
    made, here = np.zeros(len(rows), np.int64), table.function(rows, ["a", "b"])
    for pair in itertools.product((-7, -2, -1, 0, 1, 2, 3, 8), repeat=2):
        assert f(*pair, made.ctypes.data) == 0
        assert made.tolist() == list(here(*pair)), pair


def _triple():
    import llvmlite.binding as llvm

    return llvm.get_process_triple()


def test_what_cannot_be_joined():
    good = compiled("define void @f() {\n  ret void\n}")
    for objects, says in (
        ([good, b"x" * 99], "no ELF"),
        ([good, good], "f is defined twice"),
        ([b""], "unpack"),
    ):
        with pytest.raises(tl.TensorLangError, match=says):
            joined(objects, ["f"])
