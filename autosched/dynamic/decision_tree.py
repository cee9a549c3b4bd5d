"""From predicted times to a decision tree: which route for which sizes. The only file that imports
scikit-learn, when a tree is fitted.

The tree is advice only: every leaf is right for every shape, so what is fitted from samples can cost time,
never an answer. Shapes count by what the wrong choice would lose; leaves that one choice serves nearly as
well are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LEAVES = 64
# routes that differ by less are equal: the last of them is taken, for families list what is best in general
# last
TIE = 0.01
MERGE = 0.01  # what two leaves may lose, on average, to become one

Tree = Any  # a slot, or (dim, most, tree where dim <= most, tree where it is more)


@dataclass(frozen=True)
class Fit:
    """A tree with what it loses against the best of the routes, by the model, over the shapes it was fitted
    or verified on: 0.01 is 1 %."""

    tree: Tree
    leaves: int
    mean_loss: float
    worst_loss: float
    worst_shape: tuple[int, ...]
    shapes: int
    exhaustive: bool


def fit(
    dims: Sequence[str], shapes: Any, seconds: Any, weights: Any, exhaustive: bool, leaves: int = LEAVES
) -> Fit:
    """A tree of at most ``leaves`` leaves over ``shapes`` [n, dims], where route r takes ``seconds`` [n,
    routes]; ``weights`` [n]."""
    seconds = np.maximum(seconds, 1e-12)
    best = seconds.min(axis=1)
    # the last of those that are nearly best: argmax finds the first of the reversed row
    choice = seconds.shape[1] - 1 - (seconds <= best[:, None] * (1 + TIE))[:, ::-1].argmax(axis=1)
    if len(shapes) == 0 or len(np.unique(choice)) == 1:
        tree: Tree = int(choice[0]) if len(shapes) else seconds.shape[1] - 1
    else:
        tree = _grown(dims, shapes, seconds / best[:, None], choice, weights, leaves)
    picked = seconds[np.arange(len(shapes)), picks(tree, dims, shapes)] if len(shapes) else np.ones(0)
    loss = picked / best - 1 if len(shapes) else np.zeros(1)
    worst = int(loss.argmax())
    shape = tuple(int(n) for n in shapes[worst]) if len(shapes) else ()
    # geometric, as ratios are averaged
    mean = float(np.exp(np.average(np.log1p(loss), weights=weights if len(shapes) else None)) - 1)
    return Fit(tree, count(tree), mean, float(loss.max()), shape, len(shapes), exhaustive)


def _grown(dims: Sequence[str], shapes: Any, slower: Any, choice: Any, weights: Any, leaves: int) -> Tree:
    from sklearn.tree import DecisionTreeClassifier  # takes seconds to import

    sorted_ = np.sort(slower, axis=1)
    # a shape weighs what choosing wrongly there costs: mostly the second best, a little the worst, and no
    # more than twice the time, or one hopeless route would decide everything
    regret = (
        sorted_[:, -1] - 1
        if slower.shape[1] == 2
        else np.minimum(sorted_[:, 1] - 1 + 0.1 * (sorted_[:, -1] - 1), 1.0)
    )
    model = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
    model.fit(shapes, choice, sample_weight=weights * (regret + 1e-6))
    t = model.tree_
    apply = model.apply(shapes)
    log = np.log(slower) * weights[:, None]
    sums = np.zeros((t.node_count, slower.shape[1]))
    np.add.at(sums, apply, log)
    totals = np.zeros(t.node_count)
    np.add.at(totals, apply, weights)

    def visit(node: int) -> tuple[Tree, Any, float, float]:
        """The tree below a node, the log of what each route would lose there, the weight, and what the tree
        loses."""
        if t.children_left[node] < 0:
            return int(sums[node].argmin()), sums[node], totals[node], float(sums[node].min())
        low, low_sums, low_total, low_loss = visit(int(t.children_left[node]))
        high, high_sums, high_total, high_loss = visit(int(t.children_right[node]))
        both, total, loss = low_sums + high_sums, low_total + high_total, low_loss + high_loss
        # from the leaves up: two that one route serves nearly as well need no compare between them
        if both.min() - loss <= MERGE * total and (isinstance(low, int) and isinstance(high, int)):
            return int(both.argmin()), both, total, float(both.min())
        # thresholds lie between two sizes; sizes are whole, so the floor is the greatest that goes left
        return (dims[int(t.feature[node])], int(np.floor(t.threshold[node])), low, high), both, total, loss

    return visit(0)[0]


def picks(tree: Tree, dims: Sequence[str], shapes: Any) -> Any:
    """The route the tree picks for each shape."""
    out = np.zeros(len(shapes), dtype=np.int64)

    def visit(node: Tree, rows: Any) -> None:
        if isinstance(node, int):
            out[rows] = node
            return
        dim, most, low, high = node
        inside = shapes[rows, list(dims).index(dim)] <= most
        visit(low, rows[inside])
        visit(high, rows[~inside])

    visit(tree, np.arange(len(shapes)))
    return out


def count(tree: Tree) -> int:
    """How many leaves it has."""
    return 1 if isinstance(tree, int) else count(tree[2]) + count(tree[3])


def guarded(tree: Tree, box: dict[str, tuple[int, int]], general: int) -> Tree:
    """The tree inside a box, the route ``general`` outside."""
    for dim, (least, most) in box.items():
        tree = (dim, most, tree, general)
        # nothing is smaller than 0
        if least > 0:
            tree = (dim, least - 1, general, tree)
    return tree


def limited(tree: Tree, least: Sequence[Mapping[str, int]], general: int, box: Mapping[str, int]) -> Tree:
    """The tree with the route ``general`` wherever a route would get a size below its least; ``box`` has the
    sizes that come at least."""
    if isinstance(tree, int):
        for dim, n in least[tree].items():
            if n > box[dim]:
                return (dim, n - 1, general, limited(tree, least, general, {**box, dim: n}))
        return tree
    dim, most, low, high = tree
    return (
        dim,
        most,
        limited(low, least, general, box),
        limited(high, least, general, {**box, dim: max(box[dim], most + 1)}),
    )
