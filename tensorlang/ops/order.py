"""Operators that go where data lead them: sort, argsort, top_k, nonzero, compress, unique and
non_max_suppression. Knows the programs of loops, and operators that move elements.

A result whose size depends on data has the size it may have at most, zeros behind what is meant, and beside
it the number of elements that are: int64, without dimensions. NaN is greater than every number.
"""

from __future__ import annotations

from typing import Any

from .. import te
from ..core.dtype import INT32, INT64, DType
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .best import best_rows
from .elementwise import cast
from .join import strided_slice
from .keys import key_of
from .places import kept_within
from .programs import kept_boxes, kept_elements, order_rows, unique_rows
from .programs import nonzero as nonzero_places
from .reduce import argmax
from .shape import flatten, reshape, swapaxes
from .sorting import sort_rows, sorted_places, sorted_values
from .take import take

__all__ = ["argsort", "compress", "non_max_suppression", "nonzero", "sort", "top_k", "unique"]


def _ordered(
    op: str,
    x: Any,
    axis: int | None,
    descending: bool,
    program: te.LoopProgram = sort_rows,
    few: int | None = None,
) -> list[Tensor]:
    """What ``program`` makes of ``x`` along ``axis``, values or places in order or both, or the first ``few``
    of them: rows are laid out along memory, sorted, and put back."""
    x = inputs.tensor(op, x)
    if axis is None:
        x, axis = flatten(x), 0
    d = inputs.axis_of(op, axis, x.ndim)
    # one program makes values and places together, and every row is independent of the others
    types = {sorted_values: [x.dtype], sorted_places: [INT64]}.get(program, [x.dtype, INT64])
    if inputs.is_one(x.shape[d]):
        return _alone(op, x, program)
    # rows of neighbours: a merge reads them many times
    turned = x if d == x.ndim - 1 else swapaxes(x, d, -1)
    n = turned.shape[-1]
    rows = make.as_expr(inputs.product(turned.shape[:-1])) if x.ndim > 1 else make.as_expr(1)
    flat = turned if turned.ndim == 2 else reshape(turned, (rows, n))
    size = n
    if few is not None:
        size = make.as_expr(few) if inputs.at_most(few, n) else make.min_(n, make.as_expr(few))
    both = te.loops(
        program,
        [flat],
        [(flat.shape[0], size)] * len(types),
        types,
        name=op,
        tag=tags.LOOPS,
        attrs={"descending": bool(descending), **({} if few is None else {"k": few})},
    )
    if turned.ndim != 2:
        both = [reshape(t, (*turned.shape[:-1], size)) for t in both]
    if turned is not x:
        both = [swapaxes(t, d, -1) for t in both]
    return both


def _alone(op: str, x: Tensor, program: te.LoopProgram) -> list[Tensor]:
    """What ``program`` makes of rows of one element each."""
    values = inputs.stage(op, tags.INJECTIVE, x.shape, lambda *i: x(*i))
    places = inputs.stage(f"{op}.places", tags.INJECTIVE, x.shape, lambda *i: make.const(0, INT64))
    return {sorted_values: [values], sorted_places: [places]}.get(program, [values, places])


def sort(x: Tensor, axis: int | None = -1, descending: bool = False) -> Tensor:
    """The elements along ``axis`` (of the flattened tensor for None) in rising order, or falling; NaN last,
    or first. Equal ones keep their order. Rows are put in order by a network of comparisons, many at once
    where there are many; long ones by the digits of their keys, or parted first where vectors have 512 bits.
    Rows, and parts of a single one, are shared among threads.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.sort(x, 1)
    Tensor(sort: float32[2, 3])
    """
    return _ordered("sort", x, axis, descending, sorted_values)[0]


def argsort(x: Tensor, axis: int | None = -1, descending: bool = False) -> Tensor:
    """The indices that sort x along ``axis``, int64: as :func:`sort`.

    >>> x = te.placeholder((2, 3), name="x")
    >>> ops.argsort(x, 1)
    Tensor(argsort: int64[2, 3])
    """
    return _ordered("argsort", x, axis, descending, sorted_places)[0]


def top_k(
    x: Tensor, k: ExprLike, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along ``axis`` and their indices (int64), as torch's topk: in
    order, of equals the first ones.

    ``k`` is a number or an expression of sizes. They are in order whatever ``sorted`` says. Raises
    DeclareError for a k that is negative or more than there are; of a size that is open, all where there are
    fewer: the result has ``min(n, k)``.

    >>> x = te.placeholder((4,), name="x")
    >>> values, indices = tl.compile([x, *ops.top_k(x, 2)])(np.array([1, 7, 3, 5], np.float32))
    >>> values, indices
    (array([7., 5.], dtype=float32), array([1, 3]))
    """
    x = inputs.tensor("top_k", x)
    d = inputs.axis_of("top_k", axis, x.ndim)
    count = make.as_expr(k if isinstance(k, Expr) else inputs.integer("top_k", "k", k))
    if inputs.at_most(0, count) is False or inputs.at_most(count, x.shape[d]) is False:
        raise DeclareError(
            f"ops.top_k: k={k} of dimension {d} of {inputs.named(x)}", legal=f"0 to {x.shape[d]}"
        )
    few = const_int(count)
    if few == 1:
        return _first(x, d, largest)
    # a known k keeps the best of a row in k places; one that is a symbol sorts the row
    if few is not None and few >= 1 and count is not x.shape[d]:
        values, places = _ordered("top_k", x, d, largest, best_rows, few)
        return values, places
    values, places = _ordered("top_k", x, d, largest)
    return tuple(strided_slice(t, (0,), (count,), axes=(d,)) for t in (values, places))  # type: ignore[return-value]


def _first(x: Tensor, d: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The element that comes first along dimension ``d``, and its index: by two reductions in vectors, where
    a program keeps the best of a row as it goes."""
    keys = x
    if not (x.dtype.is_float and largest):  # of which the greatest is the first, NaN among them
        keys = inputs.stage("top_k.keys", tags.ELEMENTWISE, x.shape, lambda *i: key_of(x(*i), largest))
    places = argmax(keys, d, keepdims=True)
    if not inputs.at_most(1, x.shape[d]):  # none where an open dimension turns out to be empty
        chosen, one = places, make.min_(x.shape[d], make.as_expr(1))
        shape = [one if k == d else e for k, e in enumerate(x.shape)]
        places = inputs.stage(
            "top_k.places",
            tags.INJECTIVE,
            shape,
            lambda *i: chosen(*[0 if k == d else v for k, v in enumerate(i)]),
        )

    def there(*i: Any) -> Expr:
        at = te.cast(INT32, places(*i)) if const_int(x.shape[d]) is not None else places(*i)
        return x(*[kept_within(at, x.shape[d]) if k == d else v for k, v in enumerate(i)])

    return inputs.stage("top_k", tags.INJECTIVE, places.shape, there), places


def nonzero(x: Tensor) -> tuple[Tensor, Tensor]:
    """The indices of the elements that are not zero, row by row, int64: [rank, elements of x], zeros behind
    the first ``count`` columns, and that count. numpy's nonzero as one tensor; ``places[:, :count]``."""
    x = inputs.tensor("nonzero", x)
    if x.ndim == 0:
        x = reshape(x, (1,))
    # how many there are is data, and a shape cannot wait for it: room for all, and the number beside it
    total = te.cast(INT64, inputs.product(x.shape))
    shapes: list[Any] = [(x.ndim, total), ()]
    return tuple(te.loops(nonzero_places, [x], shapes, [INT64, INT64], name="nonzero", tag=tags.LOOPS))  # type: ignore[return-value]


def compress(condition: Tensor, x: Tensor, axis: int | None = None) -> tuple[Tensor, Tensor]:
    """The slices of x along ``axis`` (elements of the flattened tensor for None) where ``condition`` [n] is
    true (not zero), zeros behind, and how many there are. A condition may be shorter than the dimension, as
    in numpy.

    Raises DeclareError for a condition that has not one dimension, or is longer.
    """
    x, condition = inputs.tensor("compress", x), inputs.tensor("compress", condition, "condition")
    if condition.ndim != 1:
        raise DeclareError(
            f"ops.compress: condition {inputs.named(condition)} has {counted(condition.ndim, 'dimension')}, "
            "1 is needed"
        )
    if axis is None:
        x, axis = flatten(x), 0
    d = inputs.axis_of("compress", axis, x.ndim)
    n = condition.shape[0]
    if inputs.at_most(n, x.shape[d]) is False:
        raise DeclareError(f"ops.compress: condition {inputs.named(condition)} for {x.shape[d]} slices")
    if x.ndim == 1:  # elements are moved as they are found
        shapes: list[Any] = [(n,), ()]
        given, types = [condition, x], [x.dtype, INT64]
        return tuple(te.loops(kept_elements, given, shapes, types, name="compress", tag=tags.LOOPS))  # type: ignore[return-value]
    places, count = nonzero(condition)
    chosen = take(x, reshape(places, (n,)), d)
    zero = make.const(0, x.dtype)
    out = inputs.stage(
        "compress",
        tags.INJECTIVE,
        chosen.shape,
        # behind the last one the places are zeros, and would show the first slice again
        lambda *i: te.select(te.cast(INT64, i[d]) < count(), chosen(*i), zero),
    )
    return out, count


def unique(
    x: Tensor, axis: int | None = None, sorted: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The different elements of x (of the flattened tensor), or its different slices along ``axis``: values,
    the index of each one's first occurrence, the number of the value that each element of x is, how often
    each occurs, and how many there are. As numpy's unique with all of its results; zeros behind.

    In rising order (slices by their first elements), or with ``sorted=False`` as they occur first.
    """
    x = inputs.tensor("unique", x)
    if axis is None:
        flat = x if x.ndim == 1 else flatten(x)
        n = flat.shape[0]
        # elements have an order by sorting, n log n; rows are compared one with another
        rows, order = reshape(flat, (n, 1)), argsort(flat)
    else:
        d = inputs.axis_of("unique", axis, x.ndim)
        front = x if d == 0 else swapaxes(x, 0, d)
        n = front.shape[0]
        rows = reshape(front, (n, inputs.product(front.shape[1:]))) if x.ndim != 2 else front
        (order,) = te.loops(order_rows, [rows], [(n,)], [INT64], name="unique.order", tag=tags.LOOPS)
    shapes: list[Any] = [rows.shape, (n,), (n,), (n,), ()]
    types: list[DType] = [x.dtype, INT64, INT64, INT64, INT64]
    values, first, inverse, counts, count = te.loops(
        unique_rows,
        [rows, order],
        shapes,
        types,
        name="unique",
        tag=tags.LOOPS,
        attrs={"sorted": bool(sorted)},
    )
    if axis is None:
        values = reshape(values, (n,))
    else:
        values = reshape(values, front.shape) if x.ndim != 2 else values
        values = values if d == 0 else swapaxes(values, 0, d)
    return values, first, inverse, counts, count


def _one_number(op: str, what: str, v: Any, t: str) -> Tensor:
    """A number, or a tensor of one, as a tensor without dimensions."""
    if isinstance(v, Tensor):
        if not all(inputs.is_one(n) for n in v.shape):
            raise DeclareError(f"ops.{op}: {what} {inputs.named(v)}", because="one number is needed")
        return inputs.stage(f"{op}.{what}", tags.ELEMENTWISE, [], lambda: te.cast(t, v(*[0] * v.ndim)))
    value = make.const(inputs.number(op, what, v), t)
    return inputs.stage(f"{op}.{what}", tags.INJECTIVE, [], lambda: value)


def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: int | Tensor = 0,
    iou_threshold: float | Tensor = 0.0,
    score_threshold: float | Tensor | None = None,
    center_point_box: bool = False,
) -> tuple[Tensor, Tensor]:
    """Of boxes [N, B, 4] with scores [N, C, B] the best of each image and class, each of which overlaps none
    better by more than ``iou_threshold`` (intersection over union): (image, class, box) [n, 3] in int64, and
    how many there are.

    A box is (y1, x1, y2, x2), in any order of corners, or with ``center_point_box`` (x, y, width, height).
    Boxes whose score is not above ``score_threshold`` are left out. The first size of the result is
    N C min(B, max_output_boxes_per_class). Raises DeclareError for shapes that do not fit together.
    """
    op = "non_max_suppression"
    boxes, scores = inputs.floating(op, boxes, "boxes"), inputs.floating(op, scores, "scores")
    for t, what in ((boxes, "[N, B, 4]"), (scores, "[N, C, B]")):
        if t.ndim != 3:
            raise DeclareError(
                f"ops.{op}: {inputs.named(t)} has {t.ndim} dimension(s), 3 are needed",
                because=f"it is {what}",
            )
    because = f"boxes are {inputs.named(boxes)}, scores {inputs.named(scores)}"
    inputs.same_size(op, "the last size of boxes", boxes.shape[2], 4, because)
    inputs.same_size(op, "the number of boxes of scores", scores.shape[2], boxes.shape[1], because)
    inputs.same_size(op, "the number of images of scores", scores.shape[0], boxes.shape[0], because)
    inside = inputs.wide(boxes.dtype)
    wide, judged = (cast(t, inside) if t.dtype is not inside else t for t in (boxes, scores))
    most = _one_number(op, "max_output_boxes_per_class", max_output_boxes_per_class, "int64")
    overlap = _one_number(op, "iou_threshold", iou_threshold, inside.name)
    # no threshold: every finite score is above the least number
    lowest = te.min_value(inside).value if score_threshold is None else score_threshold  # type: ignore[attr-defined]
    least = _one_number(op, "score_threshold", lowest, inside.name)
    each = boxes.shape[1]
    if not isinstance(max_output_boxes_per_class, Tensor):
        known, given = const_int(each), max(0, int(max_output_boxes_per_class))
        # of a class no more are kept than are wanted: a bound of the memory, where the number is known
        each = make.as_expr(min(known, given)) if known is not None else te.min(each, given)
    bound = te.cast(INT64, inputs.product([scores.shape[0], scores.shape[1], each]))
    chosen, count = te.loops(
        kept_boxes,
        [wide, judged, most, overlap, least],
        [(bound, 3), ()],
        [INT64, INT64],
        name=op,
        tag=tags.LOOPS,
        attrs={"center": bool(center_point_box)},
    )
    return chosen, count
