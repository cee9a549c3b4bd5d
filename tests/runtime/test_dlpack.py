"""Arrays of other libraries: no copy, memory given back once, wrong ones refused. torch and jax are asked
where they are installed."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import CallError

from . import kernels
from .foreign import Foreign, bfloat16


@pytest.fixture(params=["0", "1"], ids=["portable", "native"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", request.param)


def half() -> tl.Module:
    """Y = 2 X in bfloat16, inputs lying anyhow."""
    n = te.var("n")
    X = te.placeholder((n, 4), "bfloat16", name="X", strides="any")
    Y = te.compute((n, 4), lambda i, j: X[i, j] * 2, name="Y")
    return tl.build(te.create_schedule(Y.op), [X, Y], name="half")


@pytest.mark.parametrize("versioned", [True, False])
def test_inputs_and_outputs_are_used_where_they_are(versioned: bool) -> None:
    f = kernels.add()
    a, b, c = (np.arange(6, dtype=np.float32) * k for k in (1, 2, 0))
    A, B, C = (Foreign(x, versioned=versioned) for x in (a, b, c))
    out = f(A, B)
    assert type(out) is np.ndarray
    np.testing.assert_array_equal(out, a + b)
    if versioned:
        f(A, b, C)
        np.testing.assert_array_equal(c, a + b)
    else:  # it cannot say whether it may be written
        with pytest.raises(CallError, match="c, is read-only"):
            f(A, b, C)
    gc.collect()
    assert (A.exported, A.freed) == (2, 2)
    assert (B.exported, B.freed) == (1, 1)
    assert (C.exported, C.freed) == (1, 1)
    assert not Foreign.live


def test_bfloat16_is_read_without_a_copy() -> None:
    f = half()
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    bits = bfloat16(values)
    X, out = Foreign(bits, bfloat=True), np.zeros((3, 4), ml_dtypes.bfloat16)
    assert f(X, out) is None
    np.testing.assert_array_equal(out, bfloat16(2 * values))
    np.testing.assert_array_equal(f(Foreign(bits[::-1, ::-1], bfloat=True)), bfloat16(2 * values)[::-1, ::-1])
    np.testing.assert_array_equal(
        f(Foreign(bits[:1], bfloat=True, versioned=False)), bfloat16(2 * values)[:1]
    )
    assert f(Foreign(bits[:0], bfloat=True)).shape == (0, 4)
    Y = Foreign(np.zeros((3, 4), ml_dtypes.bfloat16), bfloat=True)
    f(bits, Y)
    np.testing.assert_array_equal(Y.array, bfloat16(2 * values))
    gc.collect()
    assert (X.exported, X.freed) == (1, 1)
    assert (Y.exported, Y.freed) == (1, 1)
    assert not Foreign.live


def test_wrong_ones_are_refused_and_given_back() -> None:
    f, h = kernels.add(), half()
    a, c = np.ones(6, np.float32), np.full(6, 7, np.float32)
    frozen = c.copy()
    frozen.flags.writeable = False
    kept: list[object] = []
    for wrong, words in (
        (Foreign(bfloat16(a), bfloat=True, kept=kept), "has dtype bfloat16, declared float32"),
        (Foreign(a.astype(np.float64)), "has dtype float64, declared float32"),
        (Foreign(a.astype(np.complex64)), "has dtype complex64, declared float32"),
        (Foreign(np.ones(12, np.float32)[::2]), "not compact"),
        (Foreign(a[:5]), "n is 6 by axis 0 of a, and 5"),
    ):
        with pytest.raises(CallError, match=words):
            f(a, wrong, c)
        kept.clear()
        gc.collect()
        assert wrong.exported == wrong.freed > 0
    for wrong, words in ((Foreign(frozen), "c, is read-only"), (Foreign(a), "c, overlaps a")):
        with pytest.raises(CallError, match=words):
            f(a, c.copy(), wrong)
    with pytest.raises(CallError, match="has dtype float32, declared bfloat16"):
        h(Foreign(np.ones((2, 4), np.float32)))
    assert (c == 7).all()
    gc.collect()
    assert not Foreign.live


def test_exporters_that_misbehave() -> None:
    f = kernels.add()
    a, c = np.ones(6, np.float32), np.full(6, 7, np.float32)

    class Odd:
        def __init__(self, device: object, capsule: object) -> None:
            self.device, self.capsule = device, capsule

        def __dlpack_device__(self) -> object:
            if isinstance(self.device, Exception):
                raise self.device
            return self.device

        def __dlpack__(self, **kw: object) -> object:
            if isinstance(self.capsule, Exception):
                raise self.capsule
            return self.capsule

    for odd in (
        Odd((1, 0), None),
        Odd((1, 0), 3),
        Odd((1, 0), RuntimeError("no")),
        Odd(None, None),
        Odd(ValueError("what"), None),
    ):
        with pytest.raises(CallError, match="b, cannot be read through DLPack"):
            f(a, odd, c)
    with pytest.raises(CallError, match="on a CUDA device"):
        f(a, Odd((2, 0), None), c)
    assert (c == 7).all()


def test_references_of_exporters() -> None:
    f = kernels.add()
    a, b = Foreign(np.ones(4, np.float32)), Foreign(np.ones(4, np.float32))
    before = sys.getrefcount(a), sys.getrefcount(a.array)
    for _ in range(200):
        f(a, b)
        with pytest.raises(CallError):
            f(a, 3, b)
    gc.collect()
    assert (sys.getrefcount(a), sys.getrefcount(a.array)) == before
    assert a.exported == a.freed == 400


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    f, h = kernels.add(), half()
    a, b, c = torch.arange(5.0), torch.ones(5), torch.zeros(5)
    f(a, b, c)
    assert torch.equal(c, a + b)
    assert type(f(a, b)) is np.ndarray
    x = torch.arange(8.0).reshape(4, 2).to(torch.bfloat16)
    out = torch.zeros(2, 4, dtype=torch.bfloat16)
    h(x.t(), out)
    assert torch.equal(out, 2 * x.t())
    with pytest.raises(CallError, match=r"requires? grad"):
        f(a, torch.ones(5, requires_grad=True), c)
    with pytest.raises(CallError, match="has dtype bfloat16, declared float32"):
        f(a, b.to(torch.bfloat16), c)
    with pytest.raises(CallError, match="b, "):
        f(a, torch.ones(5, device="meta"), c)


def test_views_of_torch_that_are_negated_are_refused() -> None:
    """The imaginary part of a conjugate is a mark on the memory of the number, which DLPack leaves out."""
    torch = pytest.importorskip("torch")
    a = torch.full((3, 2), 1 + 2j).conj().imag
    assert (np.from_dlpack(a) == 2).all(), "what would be read"
    f = kernels.add()
    x, y = torch.ones(6), torch.full((6,), 1 + 2j).conj().imag.contiguous()
    y = torch._neg_view(y)
    for args in ((x, y), (y, x)):
        with pytest.raises(CallError, match="is the negative of what lies in its memory") as error:
            f(*args)
    assert "resolve_neg" in str(error.value)
    np.testing.assert_array_equal(f(x, y.resolve_neg()), np.full(6, 3, np.float32))


def test_jax() -> None:
    jnp = pytest.importorskip("jax.numpy")
    f, h = kernels.add(), half()
    a, c = jnp.arange(5.0, dtype="float32"), np.zeros(5, np.float32)
    f(a, a, c)
    np.testing.assert_array_equal(c, 2 * np.arange(5))
    with pytest.raises(CallError, match="c, is read-only"):
        f(c, c.copy(), a)
    x = jnp.arange(8.0).reshape(2, 4).astype("bfloat16")
    for given in (x, np.asarray(x)):  # jax's own, and numpy's with the dtype of ml_dtypes
        np.testing.assert_array_equal(h(given), bfloat16(2 * np.arange(8.0).reshape(2, 4)))


def test_bfloat16_is_that_of_ml_dtypes() -> None:
    n = te.dim("n", 1, 100)
    X, Y = te.placeholder((n,), ml_dtypes.bfloat16, name="X"), te.placeholder((n,), "bfloat16", name="Y")
    f = tl.compile([X, Y, te.compute((n,), lambda i: X[i] + Y[i], name="Z")])
    x = np.arange(40).astype(ml_dtypes.bfloat16)
    out = f(x, x)
    assert out.dtype is x.dtype and (out == x + x).all()
    (want,) = te.reference.evaluate(te.compute((n,), lambda i: X[i] + Y[i]), {X: x, Y: x})
    assert want.dtype is x.dtype and (want == out).all()
    for wrong, hint in (
        (x.view(np.uint16), "X.view(ml_dtypes.bfloat16)"),
        (x.astype(np.float32), "X.astype(ml_dtypes.bfloat16)"),
    ):
        with pytest.raises(CallError, match="declared bfloat16") as caught:
            f(wrong, x)
        assert hint in str(caught.value)
    with pytest.raises(CallError, match="has dtype uint16, declared bfloat16"):
        f(Foreign(x.view(np.uint16)), x)


def test_a_saved_kernel_and_its_constants_of_bfloat16(tmp_path: Path) -> None:
    W, X = te.placeholder((5,), "bfloat16", name="W"), te.placeholder((5,), "bfloat16", name="X")
    w = np.arange(5).astype(ml_dtypes.bfloat16)
    f = tl.compile([X, te.compute((5,), lambda i: X[i] * W[i], name="Z")], constants={W: w})
    f.save(tmp_path / "z.tl")
    assert (tl.load(tmp_path / "z.tl")(w) == w * w).all()


def test_a_shape_that_raises_is_an_error_of_that_argument() -> None:
    """As of torch's nested tensors, asked for it when an output of open sizes is made."""

    class Nested:
        @property
        def shape(self) -> None:
            raise RuntimeError("has no sizes")

        def __dlpack__(self, **how: object) -> None:
            raise RuntimeError("has no sizes")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

    with pytest.raises(CallError, match="a, cannot be read through DLPack"):
        kernels.add()(Nested(), np.ones(5, np.float32))
