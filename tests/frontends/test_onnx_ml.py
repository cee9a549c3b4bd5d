"""ONNX's operators of classical machine learning beside onnxruntime's: features, linear models, trees."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

F, I = TensorProto.FLOAT, TensorProto.INT64
ML = "ai.onnx.ml"


def rows(n=9, width=3, seed=0):
    return np.random.default_rng(seed).standard_normal((n, width)).astype("float32")


def listed(*shape, seed=1):
    return [float(v) for v in np.random.default_rng(seed).standard_normal(shape).reshape(-1)]


def model(nodes, outputs, width=3, version=3, kind=F, constants=()):
    made = helper.make_graph(
        nodes,
        "ml",
        [helper.make_tensor_value_info("x", kind, ["n", width])],
        [helper.make_tensor_value_info(n, t, None) for n, t in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants],
    )
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, version)]
    made = helper.make_model(made, opset_imports=sets)
    made.ir_version = 8
    return made


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs, outputs, domain=ML, **attrs)


def as_onnxruntime(made, x, atol=1e-5):
    want = runtime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    got = tl.load_onnx(made).compile()(x)
    for a, b in zip(got if isinstance(got, tuple | list) else [got], want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol)


def test_features():
    x = rows()
    x[2, 1] = np.nan
    nodes = [
        node("Imputer", ["x"], ["i"], imputed_value_floats=[0.5, 1, 2], replaced_value_float=float("nan")),
        node("Scaler", ["i"], ["s"], offset=[0.1, 0.2, 0.3], scale=[2.0, 3, 4]),
        node("Binarizer", ["s"], ["b"], threshold=0.2),
        node("ArrayFeatureExtractor", ["s", "places"], ["a"]),
        node("FeatureVectorizer", ["s", "a"], ["f"], inputdimensions=[3, 2]),
    ]
    outputs = [("s", F), ("b", F), ("a", F), ("f", F)]
    as_onnxruntime(model(nodes, outputs, version=1, constants=[("places", np.array([2, 0]))]), x)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_rows_by_their_size(norm):
    x = rows()
    x[4] = 0
    as_onnxruntime(model([node("Normalizer", ["x"], ["y"], norm=norm)], [("y", F)]), x)


def test_labels():
    x = np.array([[3, -1, 7], [100, 0, 3]])
    nodes = [
        node(
            "LabelEncoder",
            ["x"],
            ["f"],
            keys_int64s=[7, 3, 0],
            values_floats=[0.5, 1.5, 2.5],
            default_float=9.0,
        ),
        node("LabelEncoder", ["x"], ["i"], keys_int64s=[100, 3], values_int64s=[1, 2]),
        node("LabelEncoder", ["f"], ["b"], keys_floats=[1.5, 0.5], values_int64s=[4, 5], default_int64=6),
        node("OneHotEncoder", ["x"], ["o"], cats_int64s=[0, 3, 7], zeros=1),
    ]
    as_onnxruntime(model(nodes, [("f", F), ("i", I), ("b", I), ("o", F)], kind=I, version=2), x)


@pytest.mark.parametrize("after", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(after):
    classes = {"coefficients": listed(4, 3), "intercepts": listed(4), "classlabels_ints": [4, 7, 1, 0]}
    nodes = [
        node("LinearClassifier", ["x"], ["l", "p"], post_transform=after, **classes),
        node("LinearRegressor", ["x"], ["r"], coefficients=listed(2, 3), intercepts=[0.5, 1], targets=2),
    ]
    as_onnxruntime(model(nodes, [("l", I), ("p", F), ("r", F)], version=1), rows())


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
def test_support_vectors(kernel):
    own = {"support_vectors": listed(5, 3), "n_supports": 5, "coefficients": listed(5, seed=2), "rho": [0.1]}
    given = {"kernel_type": kernel, "kernel_params": [0.5, 1.0, 3.0], **own}
    nodes = [
        node("SVMRegressor", ["x"], ["y"], **given),
        node("SVMRegressor", ["x"], ["z"], one_class=1, **given),
    ]
    as_onnxruntime(model(nodes, [("y", F), ("z", F)]), rows())


def forest(trees, depth, modes, missing=False, seed=3):
    """Full trees, whose nodes are asked in ``modes`` in turn."""
    rng = np.random.default_rng(seed)
    inner, whole = 2**depth - 1, 2 ** (depth + 1) - 1
    at = [(t, i) for t in range(trees) for i in range(whole)]
    leaves = [(t, i) for t, i in at if i >= inner]
    attrs = {
        "nodes_treeids": [t for t, _ in at],
        "nodes_nodeids": [i for _, i in at],
        "nodes_featureids": [int(rng.integers(3)) if i < inner else 0 for _, i in at],
        "nodes_values": [round(float(rng.standard_normal()), 1) if i < inner else 0.0 for _, i in at],
        "nodes_modes": [modes[i % len(modes)] if i < inner else "LEAF" for _, i in at],
        "nodes_truenodeids": [2 * i + 1 if i < inner else 0 for _, i in at],
        "nodes_falsenodeids": [2 * i + 2 if i < inner else 0 for _, i in at],
    }
    if missing:
        attrs["nodes_missing_value_tracks_true"] = [int(rng.integers(2)) for _ in at]
    return attrs, leaves


def said(leaves, word, columns, weights):
    return {
        f"{word}_treeids": [t for t, _ in leaves for _ in columns],
        f"{word}_nodeids": [i for _, i in leaves for _ in columns],
        f"{word}_ids": [c for _ in leaves for c in columns],
        f"{word}_weights": list(weights[: len(leaves) * len(columns)]),
    }


ALL = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


@pytest.mark.parametrize("modes", [["BRANCH_LEQ"], ALL], ids=["one", "all"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_trees_of_numbers(aggregate, modes):
    attrs, leaves = forest(5, 4, modes)
    attrs |= said(leaves, "target", [0, 1], listed(500))
    tree = node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        n_targets=2,
        base_values=[0.5, -1],
        aggregate_function=aggregate,
        **attrs,
    )
    x = np.round(rows(40), 1)
    as_onnxruntime(model([tree], [("y", F)]), x)


def test_trees_and_what_is_no_number():
    attrs, leaves = forest(5, 4, ["BRANCH_LEQ"], missing=True)
    tree = node(
        "TreeEnsembleRegressor",
        ["x"],
        ["y"],
        n_targets=1,
        **attrs,
        **said(leaves, "target", [0], listed(500)),
    )
    x = rows(40)
    x[::3, 1] = np.nan
    as_onnxruntime(model([tree], [("y", F)]), x)


@pytest.mark.parametrize("after", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("columns", [[0, 1, 2], [0, 1]], ids=["three", "two"])
def test_trees_of_classes(columns, after):
    attrs, leaves = forest(4, 3, ["BRANCH_LT"])
    labels = {"classlabels_int64s": [5, 3, 8][: len(columns)], "post_transform": after}
    tree = node(
        "TreeEnsembleClassifier",
        ["x"],
        ["l", "p"],
        **labels,
        **attrs,
        **said(leaves, "class", columns, listed(500)),
    )
    made, x = model([tree], [("l", I), ("p", F)]), rows(40)
    if len(columns) > 2:
        return as_onnxruntime(made, x)
    # onnxruntime says 0 and 1 of two labels, by the sign of the second score: the operator says otherwise
    label, scores = tl.load_onnx(made).compile()(x)
    np.testing.assert_allclose(
        scores, runtime.InferenceSession(made.SerializeToString()).run(["p"], {"x": x})[0], 1e-5
    )
    assert np.array_equal(label, np.array([5, 3])[scores.argmax(1)])


@pytest.mark.parametrize("after", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("shares", [True, False])
def test_trees_that_speak_of_one_class_of_two(shares, after):
    attrs, leaves = forest(4, 3, ["BRANCH_LEQ"])
    weights = [abs(w) / 4 if shares else w for w in listed(500)]
    tree = node(
        "TreeEnsembleClassifier",
        ["x"],
        ["l", "p"],
        classlabels_int64s=[0, 1],
        post_transform=after,
        **attrs,
        **said(leaves, "class", [0], weights),
    )
    as_onnxruntime(model([tree], [("l", I), ("p", F)]), rows(40))


def test_strings_are_refused_with_what_to_do():
    made = model(
        [
            node(
                "LinearClassifier",
                ["x"],
                ["l", "p"],
                coefficients=listed(2, 3),
                classlabels_strings=["a", "b"],
            )
        ],
        [("l", TensorProto.STRING), ("p", F)],
        version=1,
    )
    with pytest.raises(tl.TensorLangError, match="no strings"):
        tl.load_onnx(made)
