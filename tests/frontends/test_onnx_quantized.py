"""Files with quantised weights: what they hold is what engines hold."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.recipes.common import together_of
from tensorlang.target import as_target

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from .beside import ran  # noqa: E402
from .test_onnx_models import model  # noqa: E402

RNG = np.random.default_rng(5)


def test_an_encoder_with_int8_weights_holds_int8():
    """A table of rows with a scale each, a dense layer with a scale a column, one with a transposed weight."""
    table, dense, last = (
        RNG.integers(-127, 128, s).astype("int8") for s in ((300, 64), (64, 256), (128, 256))
    )
    arrays = {
        "table": table,
        "table_scale": np.float32(2.0) ** RNG.integers(-6, -2, 300).astype("float32"),
        "dense": dense,
        "dense_scale": np.float32(2.0) ** RNG.integers(-9, -5, 256).astype("float32"),
        "dense_zero": np.zeros(256, "int8"),
        "last": last,
        "last_scale": np.float32(2.0**-9),
        "bias": RNG.integers(-3, 4, 128).astype("float32"),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["table", "table_scale"], ["t"], axis=0),
        helper.make_node("Gather", ["t", "ids"], ["h"]),
        helper.make_node("DequantizeLinear", ["dense", "dense_scale", "dense_zero"], ["w"], axis=1),
        helper.make_node("MatMul", ["h", "w"], ["d"]),
        helper.make_node("Relu", ["d"], ["r"]),
        helper.make_node("DequantizeLinear", ["last", "last_scale"], ["v"]),
        helper.make_node("Gemm", ["r", "v", "bias"], ["y"], transB=1),
    ]
    m = model(nodes, [("ids", TensorProto.INT64, ["n"])], [("y", TensorProto.FLOAT, None)], opset=21)
    m.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items())
    engine = tl.load_onnx(m).compile()
    large = sorted(a.size for a in engine.constants if a.dtype == np.int8)
    assert large == sorted([table.size, dense.size, last.size])
    assert all(a.size < 1000 for a in engine.constants if a.dtype != np.int8)
    w = dense * arrays["dense_scale"]
    for n in (1, 4):
        ids = RNG.integers(-300, 300, n)
        h = table[ids] * arrays["table_scale"][ids][:, None]
        y = np.maximum(h.astype("float64") @ w, 0) @ (last.T * arrays["last_scale"]) + arrays["bias"]
        np.testing.assert_allclose(engine(ids), y, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("zero", [None, 0, 3, "columns"])
def test_products_of_what_a_call_quantises(zero):
    """DynamicQuantizeLinear, MatMulInteger, and the scales behind: exact in whole numbers, whatever the zero
    points are; the weight is packed once."""
    q = RNG.integers(-127, 128, (64, 96)).astype("int8")
    zeros = RNG.integers(-5, 6, 96).astype("int8") if zero == "columns" else None
    zeros = zeros if zero == "columns" or zero is None else np.int8(zero)
    arrays = {"q": q, "scale": np.float32(2.0**-6)} | ({} if zero is None else {"zeros": zeros})
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        helper.make_node("MatMulInteger", ["xq", "q", "xz", *(["zeros"] if zero is not None else [])], ["s"]),
        helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["xs", "scale"], ["both"]),
        helper.make_node("Mul", ["f", "both"], ["y"]),
    ]
    outputs = [
        ("y", TensorProto.FLOAT, None),
        ("s", TensorProto.INT32, None),
        ("xq", TensorProto.UINT8, None),
    ]
    m = model(nodes, [("x", TensorProto.FLOAT, ["n", 64])], [*outputs, ("xz", TensorProto.UINT8, None)])
    m.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items())
    engine = tl.load_onnx(m).compile()
    four = together_of(*(te.placeholder((4, 4), t) for t in ("uint8", "int8")), as_target(None)) == 4
    # whether the differences are bytes or not: zero points are taken away after
    assert max(engine.constants, key=lambda a: a.size).dtype == ("int8" if four else "int16")
    for n in (1, 5, 40):
        x = RNG.standard_normal((n, 64)).astype("float32")
        y, s, xq, xz = engine(x)
        wanted = (xq.astype(int) - int(xz)) @ (q.astype(int) - (0 if zeros is None else zeros))
        assert np.array_equal(s, wanted)
        np.testing.assert_allclose(
            y, wanted * ((max(x.max(), 0) - min(x.min(), 0)) / 255 * 2.0**-6), rtol=1e-5
        )


@pytest.mark.parametrize("op", ["ConvInteger", "QLinearConv", "QLinearMatMul", "MatMulIntegerToFloat"])
def test_zero_points_of_weights_are_in_the_packed_weights(op):
    """A call shifts the data only: beside what is packed, an engine has no weight. A convolution's is int8,
    and the rest of its zero point is taken away with the sums of windows."""
    rng = np.random.default_rng(0)
    conv = "Conv" in op
    x = rng.integers(0, 255, (1, 16, 6, 6) if conv else (3, 32)).astype("uint8")
    w = rng.integers(0, 255, (32, 16, 3, 3) if conv else (32, 48)).astype("uint8")
    s, xz, wz = np.array(0.02, "float32"), np.array(120, "uint8"), np.array(131, "uint8")
    domain = "com.microsoft" if "ToFloat" in op else ""
    given = {"ConvInteger": [x, w, xz, wz], "MatMulIntegerToFloat": [x, w, s, s, xz, wz]}.get(
        op, [x, s, xz, w, s, wz, s, xz]
    )
    graph, _, model, _ = ran(op, given, known=range(1, len(given)), domain=domain, closed=[0], opset=17)
    held = tl.load_onnx(model).compile().constants
    assert not any(a.dtype == np.uint8 and a.size >= w.size for a in held)
    packed = [a for a in held if a.size >= w.size]
    wanted = w.astype("int16") - (128 if conv else 131)
    assert len(packed) == 1  # perhaps with zeros to the end of a panel
    assert sorted(packed[0][packed[0] != 0]) == sorted(wanted[wanted != 0])


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        ("MatMulInteger", (2, 1, 24)),
        ("MatMulInteger", (1, 1, 24)),
        ("MatMulInteger", (2, 1, 1)),
        ("MatMulInteger", (24,)),
        ("MatMulInteger", (1, 1, 1)),
        ("ConvInteger", (1, 1, 1, 1)),
        ("ConvInteger", (24, 1, 1, 1)),
        ("ConvInteger", (1,)),
    ],
)
def test_zero_points_of_unsigned_weights_in_any_shape(op, shape):
    """What is left of them when the weight is made int8 belongs to the same elements: those of a batch of
    matrices were once one row of numbers."""
    rng = np.random.default_rng(1)
    conv = op == "ConvInteger"
    x = rng.integers(0, 256, (1, 8, 5, 6) if conv else (2, 5, 16)).astype("uint8")
    w = rng.integers(0, 256, (24, 8, 1, 1) if conv else (2, 16, 24)).astype("uint8")
    wz = rng.integers(1, 256, shape).astype("uint8")
    given = {"w": w, "xz": np.array(9, "uint8"), "wz": wz}
    m = model(
        [helper.make_node(op, ["x", *given], ["y"])],
        [("x", TensorProto.UINT8, x.shape)],
        [("y", TensorProto.INT32, None)],
    )
    m.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in given.items())
    left, right = x.astype("int32") - 9, w.astype("int32") - wz.astype("int32")
    want = np.einsum("nchw,ocij->nohw", left, right) if conv else left @ right
    assert np.array_equal(tl.load_onnx(m).compile()(x), want)
