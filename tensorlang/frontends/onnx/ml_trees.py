"""ONNX's ensembles of trees (``TreeEnsembleRegressor`` and ``TreeEnsembleClassifier``). Knows ops.

A row goes down all trees at once: as many steps as the deepest has, each of which reads, by the number of a
node, its feature, its bound and the numbers of the two below. A leaf leads to itself. What leaves say is a
table, summed over the trees.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import ops, te
from ...core.dtype import FLOAT32
from ...errors import TensorLangError
from ...expr import make
from ...te import Tensor
from ..words import constant_like, of_type
from .ml import ML, after, no_strings, numbers
from .proto import Call
from .table import graph_op

if TYPE_CHECKING:
    from .importer import Importer

_ASKS: dict[str, Any] = {
    "BRANCH_LEQ": lambda a, b: a <= b,
    "BRANCH_LT": lambda a, b: a < b,
    "BRANCH_GTE": lambda a, b: a >= b,
    "BRANCH_GT": lambda a, b: a > b,
    "BRANCH_EQ": make.eq,
    "BRANCH_NEQ": make.ne,
}
MODES = list(_ASKS)


class _Trees:
    """The trees of a node in tables: ``arrays`` of all nodes, ``depth`` steps, and ``modes`` that occur."""

    def __init__(self, call: Call, prefix: str, columns: int) -> None:
        attrs = call.attrs
        place = {key: i for i, key in enumerate(_keys(attrs, "nodes"))}
        ids = [tree for tree, _ in place]
        modes = [str(m) for m in attrs["nodes_modes"]]
        own = np.arange(len(place), dtype=np.int32)
        leaf = np.array([m == "LEAF" for m in modes])

        def below(word: str) -> np.ndarray:
            found = [
                i if leaf[i] else place[t, int(n)]
                for i, (t, n) in enumerate(zip(ids, attrs[f"nodes_{word}nodeids"], strict=True))
            ]
            return np.array(found, np.int32)

        yes, no = below("true"), below("false")
        roots = np.unique(ids, return_index=True)[1]  # the first node of each tree
        self.depth, at = 0, roots
        while not leaf[at].all():
            self.depth += 1
            if self.depth > len(own):
                raise TensorLangError(f"{call!r}: a tree leads back into itself")
            at = np.unique(np.concatenate([yes[at], no[at]]))
        weights = np.zeros((len(place), columns), np.float32)
        for key, column, w in zip(
            _keys(attrs, prefix), attrs[f"{prefix}_ids"], attrs[f"{prefix}_weights"], strict=True
        ):
            weights[place[key], int(column)] += w
        asked = [MODES.index(m) if m != "LEAF" else 0 for m in modes]
        self.modes = sorted({a for a, is_leaf in zip(asked, leaf, strict=True) if not is_leaf})
        lost = numbers(attrs.get("nodes_missing_value_tracks_true"), "int64")
        self.missing = bool(lost.any())
        self.arrays = {
            "roots": roots.astype(np.int32),
            "feature": np.where(leaf, 0, numbers(attrs["nodes_featureids"], "int64")).astype(np.int32),
            "bound": numbers(attrs["nodes_values"]),
            "yes": yes,
            "no": no,
            "mode": np.array(asked, np.int32),
            "lost": lost.astype(np.int32) if lost.size else np.zeros(len(place), np.int32),
            "weights": weights,
        }


def _keys(attrs: Mapping[str, Any], word: str) -> list[tuple[int, int]]:
    pairs = zip(attrs[f"{word}_treeids"], attrs[f"{word}_nodeids"], strict=True)
    return [(int(t), int(n)) for t, n in pairs]


def _called(c: Importer, call: Call, trees: _Trees, fn: Any, base: Any, more: Any = (), **attrs: Any) -> Any:
    if any(k.endswith("_as_tensor") and x is not None for k, x in call.attrs.items()):
        raise TensorLangError(f"{call!r}: numbers of trees in float64 are not supported")
    columns = trees.arrays["weights"].shape[1]
    start = numbers(base) if base is not None and len(base) else np.zeros(columns, np.float32)
    arrays = {**trees.arrays, "base": np.broadcast_to(start, (columns,)).copy()}
    held = [c.g.constant(a, f"{call.outputs[0]}_{word}") for word, a in arrays.items()]
    return c.g.call(
        fn,
        c.tensor(call.inputs[0]),
        *held,
        *more,
        op=call.op,
        name=call.name,
        outputs=call.outputs,
        depth=trees.depth,
        modes=trees.modes,
        missing=trees.missing,
        how=call.attrs.get("post_transform", "NONE"),
        **attrs,
    )


@graph_op("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(c: Importer, call: Call) -> Any:
    trees = _Trees(call, "target", int(call.attrs.get("n_targets", 1)))
    aggregate = call.attrs.get("aggregate_function", "SUM")
    return _called(c, call, trees, _regressed, call.attrs.get("base_values"), aggregate=aggregate)


@graph_op("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(c: Importer, call: Call) -> Any:
    no_strings(call)
    labels = numbers(call.attrs.get("classlabels_int64s"), "int64")
    columns = {int(i) for i in call.attrs["class_ids"]}
    # of two classes leaves may speak of one alone: the other is what it is not
    single = len(labels) == 2 and len(columns) == 1
    trees = _Trees(call, "class", len(labels))
    if single:
        trees.arrays["weights"] = trees.arrays["weights"][:, [columns.pop()]]
    held = c.g.constant(labels, f"{call.outputs[0]}_labels")
    shares = all(w >= 0 for w in call.attrs["class_weights"])
    base = call.attrs.get("base_values")
    return _called(c, call, trees, _classified, base, [held], single=single, shares=shares)


def _leaves(x: Tensor, tables: Any, depth: int, modes: list[int], missing: bool) -> Tensor:
    """The number of the leaf that each row comes to in each tree."""
    roots, feature, bound, yes, no, mode, lost = tables
    shape = [x.shape[0], roots.shape[0]]
    at = te.compute(shape, lambda i, t: roots(t), name="root")
    for _ in range(depth):

        def below(i: Any, t: Any, at: Any = at) -> Any:
            node = at(i, t)
            value, limit = x(i, feature(node)), te.cast(x.dtype, bound(node))
            goes = _ASKS[MODES[modes[0]]](value, limit)
            for m in modes[1:]:
                goes = te.select(make.eq(mode(node), m), _ASKS[MODES[m]](value, limit), goes)
            if missing:
                goes = te.any(goes, te.all(te.isnan(value), make.ne(lost(node), 0)))
            return te.select(goes, yes(node), no(node))

        at = te.compute(shape, below, name="node")
    return at  # type: ignore[return-value]


def _scores(x: Tensor, tables: Any, aggregate: str = "SUM", **how: Any) -> Tensor:
    *nodes, weights, base = tables
    x = x if x.dtype.is_float and x.dtype.bits == 64 else of_type(x, FLOAT32)
    leaf = _leaves(x, nodes, **how)
    t = te.reduce_axis((0, leaf.shape[1]), name="t")
    reduce: Any = {"SUM": te.sum, "AVERAGE": te.sum, "MIN": te.min, "MAX": te.max}[aggregate]
    made = te.compute(
        (x.shape[0], weights.shape[1]), lambda i, k: reduce(weights(leaf(i, t), k), axis=t), name="scores"
    )
    if aggregate == "AVERAGE":
        made = ops.divide(made, constant_like(made, int(leaf.shape[1])))
    return ops.add(made, base)


def _regressed(x: Tensor, *tables: Tensor, aggregate: str, how: str, **walk: Any) -> Tensor:
    return after(_scores(x, tables, aggregate, **walk), how)


def _classified(x: Tensor, *given: Tensor, single: bool, shares: bool, how: str, **walk: Any) -> Any:
    *tables, labels = given
    scores = _scores(x, tables, **walk)
    if not single:
        return ops.take(labels, ops.argmax(scores, -1), 0, "clip"), after(scores, how)
    # a share from 0 to 1 of the second class, or how much speaks for it
    half = constant_like(scores, 0.5 if shares else 0)
    second = ops.cast(ops.squeeze(ops.greater(scores, half), (1,)), "int64")
    shared = shares and how != "LOGISTIC"
    other = ops.subtract(constant_like(scores, 1), scores) if shared else ops.negative(scores)
    both = after(ops.concatenate([other, scores], 1), how)
    return ops.take(labels, second, 0, "clip"), both
