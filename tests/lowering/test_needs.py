"""What kernels need of symbolic sizes: nothing is read from an empty tensor, and a reflection fits; every way
to run a kernel refuses the rest."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.loopir.interpret import InterpretError, interpret
from tensorlang.loopir.verify import VerifyError, verify
from tensorlang.te.serialize import from_json, to_json


def some(*shape: int, t: str = "float32") -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=t).reshape(shape)


def placeholders() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    n, r = te.var("n"), te.var("r")
    return (
        te.placeholder((n, 3), name="x"),
        te.placeholder((r,), "int32", name="i"),
        te.placeholder((r, 3), "int32", name="ix"),
    )


CASES = {
    "take": lambda x, i, ix: ([x, i], ops.take(x, i, 0)),
    "take wrap": lambda x, i, ix: ([x, i], ops.take(x, i, 0, "wrap")),
    "gather": lambda x, i, ix: ([x, ix], ops.gather(x, 0, ix)),
    "gather wrap": lambda x, i, ix: ([x, ix], ops.gather(x, 0, ix, "wrap")),
    "declared": lambda x, i, ix: (
        [x, i],
        te.compute(i.shape, lambda a: x[te.max(te.min(i[a], x.shape[0] - 1), 0), 1], name="y"),
    ),
    "declared wrap": lambda x, i, ix: (
        [x, i],
        te.compute(i.shape, lambda a: x[te.floormod(i[a], x.shape[0]), 1], name="y"),
    ),
    "first": lambda x, i, ix: (
        [x, i],
        te.compute(i.shape, lambda a: x[0, 1] + x[x.shape[0] - 1, 2] * i[a].astype("float32"), name="y"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_taken_from_nothing(name: str) -> None:
    args, y = CASES[name](*placeholders())
    func = tl.lower(te.create_schedule(y.op), [*args, y])
    assert len(func.needs) == 1 and "require 1 <= n or r < 1" in str(func)
    verify(func, in_bounds=True)
    f = tl.compile([*args, y])
    wide = (3,) if "gather" in name else ()
    inputs = {(n, r): [some(n, 3), np.zeros((r, *wide), "int32")] for n, r in ((0, 0), (0, 2), (1, 2))}
    assert f(*inputs[0, 0]).shape[0] == 0
    assert np.array_equal(f(*inputs[1, 2])[0], f(*inputs[1, 2])[1])
    with pytest.raises(tl.CallError, match=r"sizes.*\n.*needs .*1"):
        f(*inputs[0, 2])
    out = np.full((2, *(3 for _ in y.shape[1:])), 7, "float32")
    for call, error in (
        (lambda: f(*inputs[0, 2], out), tl.CallError),
        (lambda: interpret(func, *inputs[0, 2], out), InterpretError),
    ):
        with pytest.raises(error):
            call()
    assert (out == 7).all(), "a refused call writes nothing"


@pytest.mark.parametrize("mode, margin, least", [("edge", 2, 1), ("reflect", 1, 2), ("reflect", 3, 4)])
def test_margins_of_symbolic_sizes(mode: str, margin: int, least: int) -> None:
    x, _, _ = placeholders()
    y = ops.pad(x, ((0, margin), (0, 0)), mode)
    verify(tl.lower(te.create_schedule(y.op), [x, y]), in_bounds=True)
    f = tl.compile([x, y])
    assert np.array_equal(f(some(least, 3)), np.pad(some(least, 3), ((0, margin), (0, 0)), mode))
    with pytest.raises(tl.CallError, match=f"ops.pad needs n >= {least}"):
        f(some(least - 1, 3))
    with pytest.raises(tl.DeclareError):
        ops.pad(te.placeholder((least - 1, 3)), ((0, margin), (0, 0)), mode)


def test_images_without_rows() -> None:
    n = te.var("n")
    x = te.placeholder((1, 1, n, 3), name="x")
    y = ops.resize(x, (4, 3))
    assert tl.compile([x, y])(some(1, 1, 2, 3)).shape == (1, 1, 4, 3)
    with pytest.raises(tl.CallError, match=r"ops\.resize needs n >= 1"):
        tl.compile([x, y])(some(1, 1, 0, 3))
    with pytest.raises(tl.DeclareError, match="empty"):
        ops.resize(te.placeholder((1, 1, 0, 3)), (4, 3))


@pytest.mark.parametrize("mode", ["clip", "wrap"])
def test_constant_sizes(mode: str) -> None:
    x, i, none = (
        te.placeholder((0, 3), name="x"),
        te.placeholder((4,), "int32"),
        te.placeholder((0,), "int32"),
    )
    with pytest.raises(tl.DeclareError, match=r"dimension 0 of x \(0, 3\) is 0"):
        ops.take(x, i, 0, mode)
    y = ops.take(x, none, 0, mode)
    assert tl.compile([x, none, y])(some(0, 3), np.zeros(0, "int32")).shape == (0, 3)
    z = te.compute((4,), lambda a: x[i[a], 0], name="z")
    with pytest.raises(tl.LowerError, match="z reads x"):
        tl.lower(te.create_schedule(z.op), [x, i, z])


def test_needs_travel(tmp_path: Path) -> None:
    x, i, _ = placeholders()
    args, y = CASES["take"](x, i, None)
    again = from_json(to_json([*args, y]))
    for f in (tl.compile([*args, y], name="k"), tl.compile(again, name="k")):
        f.save(tmp_path / "k.tl")
        f.export(tmp_path / "k.o")
        assert "5 when sizes do not go together" in (tmp_path / "k.h").read_text()
        with pytest.raises(tl.CallError, match=r"ops\.take needs n >= 1"):
            tl.load(tmp_path / "k.tl")(some(0, 3), np.zeros(2, "int32"))


def test_what_is_known_of_sizes_is_not_asked_for() -> None:
    n = te.dim("n", 1, 64)
    x, i = te.placeholder((n, 3), name="x"), te.placeholder((5,), "int32", name="i")
    y = ops.take(x, i, 0)
    assert not tl.lower(te.create_schedule(y.op), [x, i, y]).needs
    x, _, _ = placeholders()
    for z in (ops.softmax(x), ops.flip(x, 0), ops.concat([x, x], 0), ops.max(x, axis=0)):
        assert not tl.lower(te.create_schedule(z.op), [x, z]).needs, z.op.name


def test_the_verifier_finds_a_clamp_into_what_may_be_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    args, y = CASES["take"](*placeholders())
    func = tl.lower(te.create_schedule(y.op), [*args, y])
    monkeypatch.setattr(func, "needs", ())
    with pytest.raises(VerifyError, match="may be empty"):
        verify(func, in_bounds=True)
