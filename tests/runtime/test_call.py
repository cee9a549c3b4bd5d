"""Calls that succeed: in place, allocated, scalars, dims, odd but right arrays, on the native and the
portable path."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.errors import CallError, TensorLangError
from tensorlang.interface.signature import Dim, Param, Signature
from tensorlang.runtime import Module, call
from tensorlang.runtime.arguments import Binder

from . import kernels


@pytest.fixture(params=["0", "1"], ids=["portable", "native"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", request.param)
    return str(request.param)


def arrays(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.full(n, 2, np.float32), np.full(n, -1, np.float32)


@pytest.mark.parametrize("n", [0, 1, 7, 5000, 300_000])
def test_in_place_and_allocated(path: str, n: int) -> None:
    f = kernels.add()
    a, b, c = arrays(n)
    assert f(a, b, c) is None
    np.testing.assert_array_equal(c, a + b)
    d = f(a, b)
    np.testing.assert_array_equal(d, a + b)
    assert d.dtype == np.float32
    if n >= 1 << 18:  # a MiB: below, aligning costs more than it saves
        assert d.__array_interface__["data"][0] % 64 == 0


def test_outputs_left_out_go_through_the_native_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks in Python are for what the native entry does not take; and nothing keeps a kernel alive."""
    f = kernels.add()
    if type(f.entry).__name__ != "builtin_function_or_method":
        pytest.skip("native calls are off here")
    monkeypatch.setattr(Binder, "bind", lambda *_: pytest.fail("checked in Python"))
    a, b, _ = arrays(7)
    np.testing.assert_array_equal(f(a, b), a + b)
    monkeypatch.undo()
    with pytest.raises(CallError, match="float64"):
        f(a.astype(np.float64), b)
    entry = weakref.ref(f.entry)
    gc.collect()
    gc.disable()
    try:
        del f
        assert entry() is None
    finally:
        gc.enable()


def test_many_arrays_go_through_the_native_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region of a training takes its parameters and gives what the way back reads: more than sixteen."""
    xs = [te.placeholder((k + 1,), name=f"x{k}") for k in range(40)]
    f = tl.compile([*xs, *(ops.add(a, 1.0) for a in xs)])
    if type(f.entry).__name__ != "builtin_function_or_method":
        pytest.skip("native calls are off here")
    given = [np.full(k + 1, k, np.float32) for k in range(40)]
    outs = [np.zeros_like(a) for a in given]
    with pytest.raises(CallError, match="overlaps"):
        f(*given, *outs[:-1], given[-1])
    monkeypatch.setattr(Binder, "bind", lambda *_: pytest.fail("checked in Python"))
    f(*given, *outs)
    for a, found, again in zip(given, outs, f(*given), strict=True):
        np.testing.assert_array_equal(found, a + 1)
        np.testing.assert_array_equal(again, a + 1)


def test_native_path_is_there() -> None:
    """On CPython with a lock and a known numpy the self-test must hold; elsewhere the portable path
    serves."""
    if sys.implementation.name == "cpython" and sys.maxsize > 2**32:
        assert call.layout_holds()
        assert type(kernels.add().entry).__name__ == "builtin_function_or_method"


def test_odd_but_right_arrays(path: str) -> None:
    f = kernels.add()
    a, b, c = arrays(6)
    frozen = a.copy()
    frozen.flags.writeable = False
    strange = np.lib.stride_tricks.as_strided(
        b[:1], (1,), (4096,)
    )  # strides of axes of length 1 do not matter

    class Mine(np.ndarray):
        pass

    f(frozen, b.view(Mine), c)
    np.testing.assert_array_equal(c, a + b)
    f(a[:1], strange, c[:1])
    f(a, a, c)
    np.testing.assert_array_equal(c, a + a)
    f(c[:3], b[:3], c[3:])  # neighbours do not overlap
    equal = np.dtype(np.float32).newbyteorder("=")
    f(a.astype(equal), b, c)
    np.testing.assert_array_equal(c, a + b)


def test_scalars(path: str) -> None:
    f = kernels.scale()
    a, _, c = arrays(5)
    for alpha, k in ((2.0, 3), (2, np.int64(3)), (np.float32(2), np.uint8(3)), (np.array(2.0), np.array(3))):
        c[:] = 0
        f(a, alpha, k, c)
        np.testing.assert_array_equal(c, 2 * a + 3)
    np.testing.assert_array_equal(f(a, 0.5, -4), a / 2 - 4)
    for wrong in (2**31, -(2**31) - 1, 2**70):
        with pytest.raises(CallError):
            f(a, 1.0, wrong, c)


def test_status(path: str) -> None:
    f = kernels.status()
    assert f(0) is None
    with pytest.raises(MemoryError, match="status"):
        f(1)
    with pytest.raises(CallError, match="failed with status -7"):
        f(-7)


def test_computed_sizes_and_several_outputs(path: str) -> None:
    params = (
        Param("x", "buffer", "float32", ("n",)),
        Param("y", "buffer", "int16", (("+", "n", 2),), True),
        Param("z", "buffer", "bool", (("//", "n", 2), 3), True),
        Param("k", "scalar", "int32"),
    )
    f = Module(
        kernels.object_code(kernels.STATUS.replace("ret i32 %r", "ret i32 0")),
        Signature("status", params, (Dim("n", 1, 9),)),
    )
    y, z = f(np.zeros(6, np.float32), 1)
    assert (y.shape, y.dtype, z.shape, z.dtype) == ((8,), np.int16, (3, 3), np.bool_)
    f(np.zeros(6, np.float32), y, z, 1)
    with pytest.raises(CallError, match="n = 10 is too large"):
        f(np.zeros(10, np.float32), 1)


def test_a_scalar_may_give_a_dim(path: str) -> None:
    params = (Param("n", "scalar", "int64"), Param("x", "buffer", "float32", ("n",)))
    f = Module(
        kernels.object_code(kernels.STATUS.replace("ret i32 %r", "ret i32 0")),
        Signature("status", params, (Dim("n"),)),
    )
    f(3, np.zeros(3, np.float32))
    with pytest.raises(CallError, match="n is 4 by argument 1, and 3 by axis 0 of x"):
        f(4, np.zeros(3, np.float32))


def test_a_dim_that_cannot_be_solved() -> None:
    params = (Param("x", "buffer", "float32", (("*", "n", "n"),)),)
    with pytest.raises(TensorLangError, match="dim n cannot be solved"):
        Module(kernels.object_code(kernels.STATUS), Signature("status", params, (Dim("n"),)))


def test_references_are_kept_straight(path: str) -> None:
    f = kernels.add()
    a, b, c = arrays(4)
    objects = (a, b, c, None, f.entry)

    def calls(n: int) -> None:
        for _ in range(n):
            f(a, b, c)
            f(a, b)
            with pytest.raises(CallError):
                f(a, b, a)
        gc.collect()

    gc.collect()
    # what other tests left holds None too: collections in the midst of the calls are to take only what these
    # make
    gc.freeze()
    calls(10)  # what is made once, like the lines of a traceback
    before = [sys.getrefcount(x) for x in objects]
    calls(2000)
    after = [sys.getrefcount(x) for x in objects]
    assert all(abs(x - y) < 500 for x, y in zip(before, after, strict=True)), (
        before,
        after,
    )  # one lost or gained a call would make two thousand


def test_dropping_the_module_frees_it_at_once() -> None:
    gc.disable()
    try:
        f = kernels.add()
        seen, entry = weakref.ref(f), f.entry
        del f
        assert seen() is None
        a, b, c = arrays(4)
        entry(a, b, c)  # the entry keeps the code alive by itself
        np.testing.assert_array_equal(c, a + b)
    finally:
        gc.enable()


def test_benchmark(path: str) -> None:
    f = kernels.add()
    t = f.benchmark(*arrays(16), seconds=0.01)
    assert 0 < t.min <= t.median
    assert t.runs >= 1
    assert "median" in str(t)
    with pytest.raises(CallError):
        f.benchmark(1, 2, 3)
    with pytest.raises(CallError, match="status 3"):
        kernels.status().benchmark(3)
