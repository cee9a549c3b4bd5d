"""Windows whose elements are laid back or lie anywhere: col2im and deform_conv, over any number of
dimensions. Knows windows and what products share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from .. import te
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .matmul import biased, rounded
from .places import corners, kept_within
from .window import Padding, Sizes, Window, sizes, window

__all__ = ["col2im", "deform_conv"]


def col2im(
    x: Tensor,
    image_size: Sequence[ExprLike],
    kernel_size: Sequence[int],
    dilation: Sizes = 1,
    padding: Padding = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Windows x [N, C × taps, windows] laid back and added up where they overlap: ``[N, C, *image_size]``, as
    torch's fold.

    ``kernel_size`` are the taps of a window in each dimension; others as for ``ops.conv2d``. Each element of
    the image is a sum over the taps that may lie there. Raises DeclareError for shapes that do not fit.
    """
    op = "col2im"
    x, n = inputs.tensor(op, x), len(image_size)
    kernel = sizes(op, "kernel_size", list(kernel_size), n, 1)
    extents = [make.as_expr(m) for m in image_size]
    w = window(op, extents, [make.as_expr(k) for k in kernel], stride, padding, dilation)
    count, places = math.prod(kernel), w.output(extents)
    _check_windows(op, x, kernel, places)
    # each place gathers what reaches it: no two iterations add to one element, and all may run in parallel
    # with a stride, a place of the image has taps of one phase only
    spans = [apart * (k - 1) + 1 for k, apart in zip(kernel, w.dilation, strict=True)]
    taps = [k if st == 1 else -(-span // st) for k, span, st in zip(kernel, spans, w.stride, strict=True)]
    axes = [te.reduce_axis((0, k), f"r{d}") for d, k in enumerate(taps)]
    # narrow integers are added up in wider ones and wrapped once
    out = inputs.sum_type(x.dtype) if x.dtype.is_int else x.dtype
    inside = inputs.wide(out)

    def element(b: Any, c: Any, *p: Any) -> Expr:
        tap, flat, inside_of = make.as_expr(0), make.as_expr(0), []
        for d, (i, t) in enumerate(zip(p, axes, strict=True)):
            stride, apart, place = w.stride[d], w.dilation[d], make.add(i, w.before[d])
            own: Expr = t.var
            if stride == 1:
                at = make.sub(place, own * apart)
            else:
                at = make.sub(make.floordiv(place, stride), t.var)
                reached = make.add(make.floormod(place, stride), t.var * stride)
                inside_of += [reached < spans[d], make.eq(make.floormod(reached, apart), 0)]
                own = make.floordiv(reached, apart)
            inside_of += [at >= 0, at < places[d]]
            # neighbours along the last dimension stay neighbours; the others are within for all to see
            at = at if d == n - 1 else kept_within(at, places[d])
            tap, flat = tap * kernel[d] + own, make.add(make.mul(flat, places[d]), at)
        value = te.cast(inside, x(b, c * count + tap, flat))
        return te.sum(te.if_then_else(te.all(*inside_of), value, make.const(0, inside)), axis=axes)

    channels = make.floordiv(x.shape[1], count)
    total = inputs.stage(op, tags.REDUCE, [x.shape[0], channels, *extents], element)
    return rounded(op, total, x.dtype)


def _check_windows(op: str, x: Tensor, kernel: Sequence[int], places: Sequence[Expr]) -> None:
    if x.ndim != 3:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} has {counted(x.ndim, 'dimension')}, 3 are needed",
            because="it is [N, C × taps, windows]",
        )
    count = math.prod(kernel)
    if not inputs.divides(count, x.shape[1]):
        raise DeclareError(
            f"ops.{op}: dimension 1 of {inputs.named(x)} is not a multiple of {count}",
            because=f"a window has {kernel} taps",
        )
    inputs.same_size(
        op,
        f"the last size of {x.name}",
        x.shape[2],
        inputs.product(places),
        f"so many windows of {kernel} fit the image",
    )


def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    offset_groups: int = 1,
) -> Tensor:
    """A convolution of x [N, C, H, W] with ``weight`` [O, C / groups, KH, KW] whose taps are moved by
    ``offset`` [N, offset_groups × taps × 2, OH, OW] and multiplied by ``mask`` [N, offset_groups × taps, OH,
    OW] (Zhu et al. 2019), as torchvision's deform_conv2d; over any number of dimensions.

    What lies between elements is interpolated linearly, beyond the image it is 0. ``bias`` [O] is added.
    Stages: ``.taps``, the elements under each window, and the product. Of floats. Raises DeclareError for
    shapes that do not fit.
    """
    op = "deform_conv"
    x, weight, offset = (
        inputs.floating(op, x),
        inputs.floating(op, weight, "weight"),
        inputs.floating(op, offset, "offset"),
    )
    kernel = _kernel(op, x, weight, offset)
    extents, each = x.shape[2:], weight.shape[1]
    w = window(op, extents, list(weight.shape[2:]), stride, padding, dilation)
    out = w.output(extents)
    by = (inputs.integer(op, "groups", groups), inputs.integer(op, "offset_groups", offset_groups))
    _check_groups(op, x, weight, by)
    if mask is not None:
        mask = inputs.floating(op, mask, "mask")
    _check_moves(op, x, weight, offset, mask, by[1] * math.prod(kernel), out)
    inside = inputs.wide(x.dtype)
    # as a stage: each moved tap is four reads and is used for every output channel
    columns = _taps(op, x, offset, mask, w, kernel, make.floordiv(x.shape[1], by[1]), out)
    per_out = make.floordiv(weight.shape[0], by[0])
    rc, rt = (
        te.reduce_axis((0, each), "rc"),
        [te.reduce_axis((0, k), f"r{d}") for d, k in enumerate(weight.shape[2:])],
    )

    def product(b: Any, f: Any, *o: Any) -> Expr:
        flat: Expr = make.as_expr(0)
        for r, k in zip(rt, kernel, strict=True):
            flat = flat * k + r.var
        c = make.add(rc.var, 0 if by[0] == 1 else make.mul(make.floordiv(make.as_expr(f), per_out), each))
        return te.sum(columns(b, c, flat, *o) * te.cast(inside, weight(f, rc, *rt)), axis=[rc, *rt])

    total = inputs.stage(op, tags.REDUCE, [x.shape[0], weight.shape[0], *out], product)
    return rounded(op, biased(op, total, bias, lambda i: i[1], weight.shape[0]), x.dtype)


def _kernel(op: str, x: Tensor, weight: Tensor, offset: Tensor) -> list[int]:
    """The taps of a weight of as many dimensions as the image and its offsets. Raises DeclareError."""
    n = x.ndim - 2
    if n < 1 or weight.ndim != x.ndim or offset.ndim != x.ndim:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)}, weight {inputs.named(weight)}, offset {inputs.named(offset)}",
            because="they are [N, C, H, W], [O, C / groups, KH, KW] and [N, offsets, OH, OW]",
        )
    kernel = [const_int(k) or 0 for k in weight.shape[2:]]
    if 0 in kernel:
        raise DeclareError(
            f"ops.{op}: weight {inputs.named(weight)} has no number of taps", try_="numbers of taps"
        )
    return kernel


def _check_groups(op: str, x: Tensor, weight: Tensor, by: tuple[int, int]) -> None:
    if (
        min(by) < 1
        or not all(inputs.divides(g, x.shape[1]) for g in by)
        or not inputs.divides(by[0], weight.shape[0])
    ):
        raise DeclareError(
            f"ops.{op}: groups={by[0]} and offset_groups={by[1]} of {inputs.named(x)}",
            because="they divide the channels",
        )
    inputs.same_size(
        op,
        f"dimension 1 of weight {weight.name}",
        make.mul(weight.shape[1], by[0]),
        x.shape[1],
        f"x is {inputs.named(x)} in {by[0]} group(s)",
    )


def _check_moves(
    op: str,
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    taps: int,
    out: Sequence[ExprLike],
) -> None:
    """A number for each of the ``taps`` of all groups at each place of the output: as many as there are
    dimensions by which it is moved, and one that it is multiplied with."""
    wanted = [(offset, "offset", taps * (x.ndim - 2))]
    if mask is not None:
        wanted.append((mask, "mask", taps))
    for t, what, channels in wanted:
        need: tuple[ExprLike, ...] = (x.shape[0], channels, *out)
        for d, want in enumerate(need):
            inputs.same_size(
                op,
                f"dimension {d} of {what} {t.name}",
                t.shape[d],
                want,
                f"x is {inputs.named(x)}, weight {inputs.named(weight)}",
            )


def _taps(
    op: str,
    x: Tensor,
    offset: Tensor,
    mask: Tensor | None,
    w: Window,
    kernel: Sequence[int],
    per_offset: Expr,
    out: Sequence[ExprLike],
) -> Tensor:
    """The elements under each window, [N, C, taps, OH, OW]; ``per_offset`` channels are moved alike."""
    inside, extents, n, count = inputs.wide(x.dtype), x.shape[2:], x.ndim - 2, math.prod(kernel)

    def tap(b: Any, c: Any, t: Any, *o: Any) -> Expr:
        group, rest = make.floordiv(make.as_expr(c), per_offset), make.as_expr(t)
        own: list[Expr] = []
        # the tap's number back into its row and column, the last dimension first
        for k in reversed(kernel):
            own.insert(0, make.floormod(rest, k))
            rest = make.floordiv(rest, k)
        places = []
        for d, (i, at_tap) in enumerate(zip(o, own, strict=True)):
            # the order of torchvision and ONNX: group, tap, then y before x
            moved = te.cast(inside, offset(b, (group * count + t) * n + d, *o))
            start = make.sub(make.add(make.mul(i, w.stride[d]), make.mul(at_tap, w.dilation[d])), w.before[d])
            places.append(te.cast(inside, start) + moved)
        terms = []
        for at, share in corners(places):
            # each of the four neighbours counts by itself: at a border half of them are outside and are zeros
            there = te.all(*[c for a, m in zip(at, extents, strict=True) for c in (a >= 0, a < m)])
            value = te.cast(inside, x(b, c, *[kept_within(a, m) for a, m in zip(at, extents, strict=True)]))
            terms.append(te.select(there, share * value, make.const(0.0, inside)))
        value = reduce(make.add, terms)
        return value if mask is None else value * te.cast(inside, mask(b, group * count + t, *o))

    return inputs.stage(f"{op}.taps", tags.BROADCAST, [x.shape[0], x.shape[1], count, *out], tap)
