"""Types of few bits are storage: read, rounded and given back, and computed with in wider ones."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tensorlang as tl
from tensorlang.frontends.onnx.narrow import WIDE

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from .test_onnx_models import model  # noqa: E402


@pytest.mark.parametrize("kind", WIDE)
def test_every_number_of_a_type_of_few_bits_has_its_place_in_the_wider_one(kind):
    t = np.dtype(getattr(ml_dtypes, kind))
    bits = int(
        next(c for c in kind.replace("float", "").replace("uint", "").replace("int", "") if c.isdigit())
    )
    every = np.arange(2**bits, dtype=np.uint8).view(t)
    again = every.astype(WIDE[kind]).astype(t)
    same = (again == every) | (np.isnan(every.astype("float32")) & np.isnan(again.astype("float32")))
    assert same.all()


def test_few_bits_go_through_a_reshape_of_their_numbers():
    """A Cast, a product, and a Cast back, at an open size."""
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "wide"], ["square"]),
        helper.make_node("CastLike", ["square", "x"], ["y"]),
    ]
    m = model(
        nodes, [("x", TensorProto.FLOAT8E4M3FN, ["n"])], [("y", TensorProto.FLOAT8E4M3FN, None)], opset=21
    )
    engine = tl.load_onnx(m).compile(level=0)
    for n in (3, 5):
        x = np.linspace(-30, 30, n).astype(ml_dtypes.float8_e4m3fn)
        wide = x.astype("float32")
        wanted = np.clip(wide * wide, -448, 448).astype(ml_dtypes.float8_e4m3fn)
        found = engine(x)
        assert found.dtype == wanted.dtype and np.array_equal(found.view("uint8"), wanted.view("uint8"))
    with pytest.raises(tl.CallError, match="float8_e4m3fn is needed"):
        engine(np.ones(3, "float32"))
