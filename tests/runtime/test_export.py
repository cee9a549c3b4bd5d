"""Kernels for C programs and for processes without the compiler: headers, objects, libraries, and what is
refused."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.runtime.elf import undefined_symbols

needs_cc = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="needs a C compiler (Debian: apt install gcc)"
)
HEADER = """/*
 * matmul: a kernel compiled by tensorlang for the target "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4".
 *
 *     A  in   float32[m, 24]
 *     B  in   float32[24, 40]
 *     C  out  float32[m, 40]
 *     m  size  at least 1, at most 64, a multiple of 2
 *
 * Arrays are compact, in row-major order, and not NULL; each begins at a multiple of its element's size (64 bytes are
 * faster). An output may not overlap any other array.
 * Returns 0, or 1 when there is no memory for temporary buffers (the outputs are then incomplete), or 2 when a size is
 * not what is said above (nothing is then written).
 * Safe to call from several threads at once. Link with -lm.
 */
#ifndef TENSORLANG_MATMUL_H
#define TENSORLANG_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int matmul(const float *A, const float *B, float *C, int64_t m);

#ifdef __cplusplus
}
#endif

#endif
"""


def matmul(target: str | None = None, name: str = "matmul") -> tl.Module:
    m = te.dim("m", 1, 64, multiple_of=2)
    A, B = te.placeholder((m, 24), name="A"), te.placeholder((24, 40), name="B")
    k = te.reduce_axis((0, 24), name="k")
    C = te.compute((m, 40), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return tl.build(te.create_schedule(C.op), [A, B, C], target, name)


def scaled(name: str = "scaled") -> tl.Module:
    """Numbers of every kind, and names C cannot take."""
    int_, for_ = te.placeholder((5,), name="int"), te.var("for", "int8")
    a, b, c, d = te.var("a", "float32"), te.var("b", "float64"), te.var("c", "uint32"), te.var("d", "float16")
    out = te.compute(
        (5,),
        lambda i: (
            int_[i] * a
            + b.astype("float32")
            + c.astype("float32")
            + for_.astype("float32")
            + d.astype("float32")
        ),
        name="x.y",
    )
    return tl.build(te.create_schedule(out.op), [int_, for_, a, b, c, d, out], name=name)


def run(*command: Any) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_header_says_all_a_caller_must_know(tmp_path: Path) -> None:
    f = matmul("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell -num-cores=4")
    f.export(tmp_path / "matmul.h")
    assert (tmp_path / "matmul.h").read_text() == HEADER
    f.export(tmp_path / "x.o")
    assert (tmp_path / "x.h").read_text() == HEADER
    assert sorted(p.name for p in tmp_path.iterdir()) == ["matmul.h", "x.h", "x.o"]


@needs_cc
def test_a_c_program_calls_an_object_file(tmp_path: Path) -> None:
    """Numbers of every kind, a size outside its range, an index out of bounds with its report, a thread pool
    of the program's own."""
    scaled().export(tmp_path / "scaled.o")
    matmul().export(tmp_path / "product.o", name="product")
    X, I = te.placeholder((8,), name="X"), te.placeholder((3,), "int32", name="I")
    Y = te.compute((3,), lambda i: X[I[i]], name="Y")
    tl.build(te.create_schedule(Y.op), [X, I, Y], name="pick", bounds_check=True).export(tmp_path / "pick.o")
    n = te.var("n")
    Z = te.placeholder((n,), name="Z")
    W = te.compute((n,), lambda i: te.exp(Z[i]), name="W")
    s = te.create_schedule(W.op)
    s[W].parallel(s[W].op.axis[0])
    tl.build(s, [Z, W], name="wide").export(tmp_path / "wide.o")
    (tmp_path / "main.c").write_text(r"""
#include <math.h>
#include <stdio.h>
#include "pick.h"
#include "product.h"
#include "scaled.h"
#include "wide.h"
static int regions;
void tensorlang_parallel(void (*body)(void *, int64_t, int64_t), void *context, int64_t begin, int64_t end) {
    regions++;
    for (int64_t i = end - 1; i >= begin; i--) body(context, i, i + 1);
}
static float a[6 * 24], b[24 * 40], c[64 * 40], z[100000], w[100000];
int main(void) {
    float x[5] = {0, 1, 2, 3, 4}, y[5];
    printf("%d", scaled(x, -7, 2.0f, 0.5, 4000000000u, 0.25f, y));
    for (int i = 0; i < 5; i++) printf(" %.9g", y[i]);
    for (int i = 0; i < 6 * 24; i++) a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < 24 * 40; i++) b[i] = (float)(i % 5 - 2);
    printf("\n%d %d %d %d %d\n", product(a, b, c, 6), product(a, b, c, 5), product(a, b, c, 0), product(a, b, c, 66), product(a, b, c, -2));
    int wrong = 0;
    for (int i = 0; i < 6; i++) for (int j = 0; j < 40; j++) {
        float sum = 0;
        for (int k = 0; k < 24; k++) sum += a[i * 24 + k] * b[k * 40 + j];
        wrong += sum != c[i * 40 + j];
    }
    float t[8] = {0, 10, 20, 30, 40, 50, 60, 70}, u[3];
    int32_t good[3] = {7, 0, 3}, bad[3] = {1, 9, 2};
    int64_t record[4];
    int picked = pick(t, good, u);
    printf("%d\n%d %g %g %g\n", wrong, picked, u[0], u[1], u[2]);
    printf("%d", pick(t, bad, u));
    pick_report(record);
    for (int i = 0; i < 4; i++) printf(" %d", (int)record[i]);
    for (int i = 0; i < 100000; i++) z[i] = (float)i * 1e-4f;
    int status = wide(z, w, 100000);
    for (int i = 0; i < 100000; i++) wrong += fabsf(w[i] - expf(z[i])) > 1e-6f * w[i];
    printf("\n%d %d %d\n", status, regions > 0, wrong);
    return 0;
}
""")
    said = run(
        "gcc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        tmp_path / "main",
        tmp_path / "main.c",
        *sorted(tmp_path.glob("*.o")),
        "-lm",
    )
    assert said == ""
    want = (
        np.arange(5, dtype="float32") * np.float32(2)
        + np.float32(0.5)
        + np.float32(4e9)
        - np.float32(7)
        + np.float32(0.25)
    )
    lines = run(tmp_path / "main").splitlines()
    assert [float(x) for x in lines[0].split()] == [0.0, *want.astype(float)]
    assert lines[1:] == ["0 2 2 2 2", "0", "0 70 0 30", "4 1 9 8 1", "0 1 0"]


@needs_cc
def test_the_headers_are_c_plus_plus_too(tmp_path: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler (Debian: apt install g++)")
    scaled().export(tmp_path / "scaled.o")
    (tmp_path / "main.cpp").write_text(
        '#include "scaled.h"\nint main() { float x[5] = {}, y[5]; return scaled(x, 1, 2, 3, 4, 5, y); }\n'
    )
    assert (
        run(
            "g++",
            "-Wall",
            "-Werror",
            "-o",
            tmp_path / "main",
            tmp_path / "main.cpp",
            tmp_path / "scaled.o",
            "-lm",
        )
        == ""
    )
    run(tmp_path / "main")


@needs_cc
def test_a_library_in_a_fresh_process(tmp_path: Path) -> None:
    """By plain ctypes, and by the runtime with nothing of the compiler imported."""
    f = matmul()
    f.export_library(tmp_path / "matmul.so")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["matmul.h", "matmul.so"]
    root = Path(tl.__file__).parents[1]
    script = f"""
import ctypes, sys, types
import numpy as np
rng = np.random.default_rng(3)
a, b = rng.integers(-4, 5, (6, 24)).astype("float32"), rng.integers(-4, 5, (24, 40)).astype("float32")
c = np.zeros((6, 40), "float32")
library = ctypes.CDLL({str(tmp_path / "matmul.so")!r})
status = library.matmul(*(ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)), ctypes.c_int64(6))
print(status, np.array_equal(c, a @ b), any(m.startswith("tensorlang") for m in sys.modules))
package = sys.modules["tensorlang"] = types.ModuleType("tensorlang")
package.__path__ = [{str(root / "tensorlang")!r}]
from tensorlang.runtime import load
print(np.array_equal(load({str(tmp_path / "matmul.so")!r})(a, b), a @ b))
print(sorted(m for m in sys.modules if m.startswith("tensorlang.") and m.split(".")[1] not in ("runtime", "interface", "native", "core", "boundary", "entries", "errors", "kinds", "lazy", "options", "protocols", "signposts")))
"""
    assert run(sys.executable, "-c", script) == "0 True False\nTrue\n[]\n"


def test_objects_are_loaded_like_saved_kernels(tmp_path: Path) -> None:
    f = matmul()
    f.export(tmp_path / "matmul.o")
    g = tl.load(tmp_path / "matmul.o")
    a, b = np.ones((4, 24), "float32"), np.ones((24, 40), "float32")
    assert np.array_equal(g(a, b), a @ b) and g.signature == f.signature
    matmul("llvm -mtriple=aarch64-linux-gnu").export(tmp_path / "foreign.o")
    with pytest.raises(tl.TargetError, match="compiled for aarch64-linux-gnu"):
        tl.load(tmp_path / "foreign.o")


def test_constants_are_part_of_the_object(tmp_path: Path) -> None:
    X, W = te.placeholder((3, 4), name="X"), te.placeholder((4, 5), name="W")
    k = te.reduce_axis((0, 4), name="k")
    Y = te.compute((3, 5), lambda i, j: te.sum(X[i, k] * W[k, j], axis=k), name="Y")
    w = np.arange(20, dtype="float32").reshape(4, 5)
    f = tl.build(te.create_schedule(Y.op), [X, Y], name="layer", constants={W: w})
    x = np.ones((3, 4), "float32")
    f.save(tmp_path / "layer.tl")
    f.export(tmp_path / "layer.o")
    for name in ("layer.tl", "layer.o"):
        assert np.array_equal(tl.load(tmp_path / name)(x), x @ w)
    assert "W" not in (tmp_path / "layer.h").read_text().split("int layer")[1].split(";")[0]
    if shutil.which("gcc"):
        f.export(tmp_path / "layer.so")
        y = np.zeros((3, 5), "float32")
        assert (
            ctypes.CDLL(str(tmp_path / "layer.so")).layer(
                ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data)
            )
            == 0
        )
        assert np.array_equal(y, x @ w)


def refused(f: tl.Module, path: Path, *words: str, **how: Any) -> None:
    before = sorted(path.parent.iterdir()) if path.parent.is_dir() else []
    with pytest.raises(tl.TensorLangError) as caught:
        f.export(path, **how)
    for word in words:
        assert word in str(caught.value)
    assert (sorted(path.parent.iterdir()) if path.parent.is_dir() else []) == before


def test_what_is_refused_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    f = matmul()
    refused(f, tmp_path / "matmul.dll", "no known suffix", ".so")
    refused(f, tmp_path / "matmul", "no known suffix")
    refused(f, tmp_path / "none" / "matmul.o", "cannot export matmul", "No such file")
    refused(f, tmp_path / "matmul.so", "needs a C compiler", "no-such-compiler", cc="no-such-compiler")
    for name in ("main", "for", "bool", "a-b", "1a", "errno", "NULL", "size_t"):
        refused(f, tmp_path / "matmul.o", "no C function can be called", name=name)
    for name in ("llvm", "printf", "_start"):  # LLVM's checks end the process at functions of its own names
        refused(f, tmp_path / "matmul.o", f"a C function cannot be called '{name}' here", name=name)
    (tmp_path / "dir.h").mkdir()
    refused(f, tmp_path / "dir.o", "it is a directory")
    f.save(tmp_path / "saved.tl")
    refused(tl.load(tmp_path / "saved.tl"), tmp_path / "again.o", "was loaded, not built here")
    if shutil.which("false"):
        refused(f, tmp_path / "matmul.so", "did not make", cc="false")
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    refused(f, tmp_path / "matmul.so", "there is no cc or gcc or clang", "apt install gcc")
    refused(
        matmul("llvm -mtriple=riscv64-unknown-linux-gnu"),
        tmp_path / "matmul.so",
        "riscv64-linux-gnu-gcc",
        "apt install gcc-riscv64-linux-gnu",
    )


def test_a_kernel_that_calls_python_is_refused_and_one_that_calls_c_says_so(tmp_path: Path) -> None:
    X = te.placeholder((4,), name="X")

    @tl.register_func("tests.export.twice", override=True)
    def twice(x: Any, y: Any) -> None:
        y[:] = 2 * x

    Y = te.extern(
        (4,), [X], lambda i, o: te.call_packed("tests.export.twice", i[0], o[0]), dtype="float32", name="Y"
    )
    refused(
        tl.build(te.create_schedule(Y.op), [X, Y], name="twice"),
        tmp_path / "twice.o",
        "calls tests.export.twice",
        "from C",
    )
    Z = te.extern(
        (4,), [X], lambda i, o: te.call_extern("int32", "c_twice", i[0], o[0]), dtype="float32", name="Z"
    )
    tl.build(te.create_schedule(Z.op), [X, Z], "llvm -mtriple=riscv64-linux-gnu", name="outside").export(
        tmp_path / "outside.o"
    )
    assert "The program must define what the kernel calls: c_twice." in (tmp_path / "outside.h").read_text()


def test_a_name_the_kernel_itself_calls_is_refused(tmp_path: Path) -> None:
    X = te.placeholder((4,), name="X")
    Z = te.extern(
        (4,), [X], lambda i, o: te.call_extern("int32", "c_twice", i[0], o[0]), dtype="float32", name="Z"
    )
    f = tl.build(te.create_schedule(Z.op), [X, Z], "llvm -mtriple=riscv64-linux-gnu", name="outside")
    refused(f, tmp_path / "twice.o", "calls a function of that name", name="c_twice")


def test_texts_go_with_a_kernel_for_another_machine_and_with_a_loaded_one(tmp_path: Path) -> None:
    foreign = matmul("llvm -mtriple=riscv64-linux-gnu -mattr=+v")
    assert (
        "rv64i2p1" in foreign.get_source("asm")
        and "riscv64-linux-gnu" in foreign.get_source("ll")
        and "for k in" in foreign.get_source("ir")
    )
    f = matmul()
    f.save(tmp_path / "matmul.tl", sources=True)
    g = tl.load(tmp_path / "matmul.tl")
    for kind in ("ir", "ll", "asm"):
        assert g.get_source(kind) == f.get_source(kind) != ""
    g.save(tmp_path / "again.tl", sources=True)
    assert (tmp_path / "again.tl").read_bytes() == (tmp_path / "matmul.tl").read_bytes()


@needs_cc
def test_a_parallel_loop_without_turns_in_c(tmp_path: Path) -> None:
    """It divided by its number of pieces, 0: SIGFPE. A program's own ``tensorlang_parallel`` may pass the
    empty range on too."""
    n, scale, shift = te.var("n"), te.var("scale", "float32"), te.var("shift", "int32")
    X = te.placeholder((n, 64), name="X")
    Y = te.compute((n, 64), lambda i, j: X[i, j] * scale + te.cast("float32", shift), name="Y")
    s = te.create_schedule(Y.op)
    s[Y].parallel(Y.op.axis[0])
    f = tl.build(s, [X, scale, shift, Y], name="scaled")
    assert f(np.zeros((0, 64), np.float32), 2.0, 3).shape == (0, 64)
    np.testing.assert_array_equal(f(np.ones((5, 64), np.float32), 2.0, 3), np.full((5, 64), 5))
    f.export(tmp_path / "scaled.so")
    script = (
        "import ctypes, sys\nf = ctypes.CDLL(sys.argv[1]).scaled\n"
        "x = (ctypes.c_float * 320)(*[1.0] * 320)\ny = (ctypes.c_float * 320)()\n"
        "print(*(f(x, ctypes.c_float(2), 3, y, ctypes.c_int64(n)) for n in (0, 5, -1)), set(y))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "scaled.so")],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "0 0 2 {5.0}"), done.stderr


def test_math_is_that_of_the_kernel(tmp_path: Path) -> None:
    X = te.placeholder((16,), name="X")
    Y = te.compute((16,), lambda i: te.exp(X[i]), name="Y")
    for math, calls in (("precise", True), ("default", False)):
        tl.build(te.create_schedule(Y.op), [X, Y], name="e", math=math).export(tmp_path / f"{math}.o")
        assert ("expf" in undefined_symbols((tmp_path / f"{math}.o").read_bytes())) == calls


def test_what_would_take_the_place_of_the_c_library_is_refused(tmp_path: Path) -> None:
    f = matmul()
    for name in ("exp", "memcpy", "malloc", "tanhf"):
        refused(f, tmp_path / "matmul.o", f"the C library's {name}", name=name)
    refused(f, tmp_path / "matmul.o", "the runtime's tensorlang_parallel", name="tensorlang_parallel")
    refused(f, tmp_path / "matmul.o", "can be called 3", name=3)
    refused(f, tmp_path / "matmul.so", "cc is a list", cc=["gcc", "-O2"])
    if shutil.which("true"):
        refused(f, tmp_path / "matmul.so", "wrote nothing", cc="true")
