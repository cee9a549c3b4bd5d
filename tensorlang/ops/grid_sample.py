"""Images read at places between their elements: grid_sample and the grids of affine maps, over two and three
dimensions, and roi_align. Knows the checks of arguments; no other operator.

What belongs to a place is computed once for all channels, in stages of their own: the elements it reads
(``.at``) and their weights (``.weights``).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from .. import te
from ..core.dtype import INT32
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr
from ..te import Tensor
from . import inputs, tags
from .places import corners, cubic_weight, kept_within, linear_weight
from .take import index_rule, indices_of, pixels_of

__all__ = ["affine_grid", "grid_sample", "roi_align"]

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
PADDING = ("zeros", "border", "reflection")
# torch's and ONNX's number for the free parameter of Keys' cubic; OpenCV has it too, others -0.5
CUBIC = -0.75


def grid_sample(
    x: Tensor, grid: Tensor, mode: str = "linear", padding_mode: str = "zeros", align_corners: bool = False
) -> Tensor:
    """x [N, C, H, W] (or [N, C, D, H, W]) at the places ``grid`` [N, OH, OW, 2] (or [N, …, 3]): [N, C, OH,
    OW], as torch's grid_sample.

    A place is (x, y) or (x, y, z), from -1 to 1 over the image: between the centres of the outermost elements
    with ``align_corners``, else between their borders. ``mode``: ``"nearest"`` (halves to the even one),
    ``"linear"``, ``"cubic"`` (Keys 1981, -0.75). Beyond the border ``"zeros"`` count, its elements
    (``"border"``), or the image is mirrored (``"reflection"``). Of floats. Raises DeclareError for other
    words and for shapes that do not fit.
    """
    op = "grid_sample"
    x, grid = inputs.floating(op, x), inputs.floating(op, grid, "grid")
    _check(op, x, grid, mode, padding_mode)
    n, out, count = x.ndim - 2, grid.shape[1:-1], TAPS[mode]
    sampling = _Sampling(x, grid, mode, padding_mode, align_corners)
    inside = sampling.inside

    # neighbouring pixels lie side by side, so that they are computed in vectors
    places = inputs.stage(
        f"{op}.places",
        tags.BROADCAST,
        [x.shape[0], n, *out],
        lambda b, k, *o: _each(k, [sampling.place(b, o, d) for d in range(n)]),
    )

    def weight(b: Any, *o: Any) -> Expr:
        d, t, *own = o
        value = sampling.weight(places(b, d, *own), t)
        if padding_mode != "zeros":
            return value
        # -1 marks a tap outside of the image
        return te.select(at(b, d, t, *own) < 0, make.const(0.0, inside), value)

    # one index and one weight a tap and dimension, shared by all channels, instead of all again for each
    shape: list[ExprLike] = [x.shape[0], n, count, *out]
    at = inputs.stage(
        f"{op}.at", tags.BROADCAST, shape, lambda b, d, t, *o: sampling.element_at(places(b, d, *o), d, t)
    )
    weights = inputs.stage(f"{op}.weights", tags.BROADCAST, shape, weight)
    axes = [te.reduce_axis((0, count), f"t{d}") for d in range(n)]

    def element(b: Any, c: Any, *o: Any) -> Expr:
        taps: list[ExprLike] = [a if count > 1 else 0 for a in axes]
        read = [kept_within(at(b, d, t, *o), sampling.extents[d]) for d, t in enumerate(taps)]
        factors = [weights(b, d, t, *o) for d, t in enumerate(taps)]
        value = te.cast(inside, x(b, c, *read))
        if count == 1:
            # a select and no product: 0 times an infinite pixel would be NaN
            there = te.all(*[make.ne(f, 0.0) for f in factors])
            return te.cast(x.dtype, te.select(there, value, make.const(0.0, inside)))
        return te.sum(reduce(make.mul, [*factors, value]), axis=axes)

    total = inputs.stage(op, tags.REDUCE if count > 1 else tags.INJECTIVE, [*x.shape[:2], *out], element)
    if total.dtype is x.dtype:
        return total
    return inputs.stage(f"{op}.cast", tags.ELEMENTWISE, total.shape, lambda *i: te.cast(x.dtype, total(*i)))


def _check(op: str, x: Tensor, grid: Tensor, mode: str, padding_mode: str) -> None:
    """Raises DeclareError for words that mean nothing and for shapes that do not fit."""
    for what, word, legal in (("mode", mode, tuple(TAPS)), ("padding_mode", padding_mode, PADDING)):
        if word not in legal:
            raise DeclareError(f"ops.{op}: {what}={word!r}", legal=", ".join(map(repr, legal)))
    n = x.ndim - 2
    if n not in (1, 2, 3) or grid.ndim != x.ndim:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} and grid {inputs.named(grid)}",
            because="x is [N, C, H, W] and the grid [N, OH, OW, 2], or both have a dimension more",
        )
    shown = f"x is {inputs.named(x)}"
    inputs.same_size(op, f"the last size of grid {grid.name}", grid.shape[-1], n, shown)
    inputs.same_size(op, f"the batch of grid {grid.name}", grid.shape[0], x.shape[0], shown)


class _Sampling:
    """Where a grid reads an image along one dimension, and with which weight: in elements, as numbers of the
    type that is computed in."""

    def __init__(self, x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> None:
        self.grid, self.extents, self.inside = grid, x.shape[2:], inputs.wide(x.dtype)
        self.mode, self.padding, self.align_corners = mode, padding, align_corners
        self.count = TAPS[mode]

    def place(self, b: Any, o: Sequence[Any], d: int) -> Expr:
        """Where along dimension ``d`` of the image. The last number of a grid is of the first dimension."""
        n = len(self.extents)
        # grids say x, y, z; images are [D, H, W]
        e, size = te.cast(self.inside, self.grid(b, *o, n - 1 - d)), te.cast(self.inside, self.extents[d])
        e = (e + 1.0) / 2.0 * (size - 1.0) if self.align_corners else ((e + 1.0) * size - 1.0) / 2.0
        if self.mode == "nearest":
            # halves to the even element, as torch's nearest does here
            e = te.nearbyint(e)
        if self.padding == "zeros":
            return e
        if self.padding == "border":  # each neighbour is kept within in ``element_at``
            # a place far outside would leave the integers; so many elements beyond the border all taps read
            # the border
            far = make.const(float(self.count - 1), self.inside)
            return make.max_(make.min_(e, size - 1.0 + far), -far)
        low, high = _borders(size, self.align_corners)
        # a place inside is not mirrored, which would round it
        return te.select(te.any(e < low, e > high), _mirrored(e, low, high), e)

    def element_at(self, e: Expr, d: Any, t: Any) -> Expr:
        """The element that tap ``t`` of the place ``e`` reads along dimension ``d``, -1 for none."""
        first = te.floor(e) if self.count > 1 else te.nearbyint(e)
        tap = te.cast(INT32, first) + (t - (self.count // 2 - 1 if self.count > 1 else 0))
        size = _each(d, list(self.extents))
        if self.padding == "reflection":
            low, high = _borders(te.cast(self.inside, size), self.align_corners)
            # the neighbours of a mirrored place may lie beyond the border again
            tap = te.cast(INT32, _mirrored(te.cast(self.inside, tap), low, high))
        if self.padding == "zeros":
            return te.select(te.all(tap >= 0, tap < size), tap, -1)
        return kept_within(tap, size)

    def weight(self, e: Expr, t: Any) -> Expr:
        """How much tap ``t`` counts for the place ``e``."""
        if self.count == 1:
            return make.const(1.0, self.inside)
        u = te.abs(e - (te.floor(e) + te.cast(self.inside, t - (self.count // 2 - 1))))
        return linear_weight(u) if self.count == 2 else cubic_weight(u, CUBIC)


def _each(d: Any, values: Sequence[Expr]) -> Expr:
    """The value of that number."""
    out = values[-1]
    for k in range(len(values) - 2, -1, -1):
        out = te.select(make.eq(d, k), *make.unify(values[k], out))
    return out


def _borders(size: Expr, align_corners: bool) -> tuple[Expr, Expr]:
    # the border runs through the middle of the last pixels, or along their outer edges
    half = make.const(0.0 if align_corners else 0.5, size.dtype)
    return make.const(0.0, size.dtype) - half, size - 1.0 + half


def _mirrored(e: Expr, low: Expr, high: Expr) -> Expr:
    """A place beyond a border, mirrored until it lies between both."""
    span = high - low
    away = te.abs(e - low)
    turns = te.floor(away / span)
    rest = away - turns * span
    # every second time the way back
    even = make.eq(turns - te.floor(turns / 2.0) * 2.0, 0.0)
    # an image of one pixel has no span to mirror in, and 0 / 0 would be NaN
    return te.select(make.eq(span, 0.0), low, te.select(even, low + rest, high - rest))


def affine_grid(theta: Tensor, size: Sequence[ExprLike], align_corners: bool = False) -> Tensor:
    """The grid [N, H, W, 2] (or [N, D, H, W, 3]) of the affine maps ``theta`` [N, 2, 3] ([N, 3, 4]) for
    ``ops.grid_sample``: the places from -1 to 1 of an image of ``size`` (N, C, H, W), mapped.

    As torch's affine_grid. Raises DeclareError for shapes that do not fit.
    """
    op = "affine_grid"
    theta, n = inputs.floating(op, theta, "theta"), len(size) - 2
    if n not in (2, 3):
        raise DeclareError(
            f"ops.{op}: size={inputs.text(size)}", because="it is (N, C, H, W) or (N, C, D, H, W)"
        )
    if theta.ndim != 3:
        raise DeclareError(f"ops.{op}: theta {inputs.named(theta)}", because=f"it is [N, {n}, {n + 1}]")
    extents = [make.as_expr(e) for e in size[2:]]
    for d, want in ((0, size[0]), (1, n), (2, n + 1)):
        inputs.same_size(
            op, f"dimension {d} of theta {theta.name}", theta.shape[d], want, f"size is {inputs.text(size)}"
        )
    inside = inputs.wide(theta.dtype)

    def along(d: int, i: Any) -> Expr:
        at, m = te.cast(inside, i), te.cast(inside, extents[d])
        if align_corners:
            # linspace of one element is its start
            return te.select(make.eq(m, 1.0), make.const(-1.0, inside), at * 2.0 / (m - 1.0) - 1.0)
        return (at * 2.0 + 1.0) / m - 1.0

    def element(b: Any, *o: Any) -> Expr:
        *own, row = o
        total = te.cast(inside, theta(b, row, n))
        for k in range(n):  # columns are x, y, z: the last dimension first
            total = total + te.cast(inside, theta(b, row, k)) * along(n - 1 - k, own[n - 1 - k])
        return te.cast(theta.dtype, total)

    return inputs.stage(op, tags.BROADCAST, [theta.shape[0], *extents, n], element)


def roi_align(
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    output_size: Sequence[int] = (1, 1),
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    aligned: bool = True,
    mode: str = "avg",
) -> Tensor:
    """Regions ``rois`` [R, 4] (x1, y1, x2, y2, times ``spatial_scale`` in elements) of images x [N, C, H, W],
    each of the image ``batch_indices`` [R], as ``[R, C, *output_size]`` (He et al. 2017).

    Each part of a region is the mean of ``sampling_ratio`` × ``sampling_ratio`` places in it, by linear
    interpolation; of 0 as many as the part has elements, rounded up. ``aligned`` takes half an element off
    the corners, without it a region is one element wide at least. ``mode="max"`` takes the largest weighted
    element instead. Places beyond the image count 0. Raises DeclareError for shapes that do not fit.
    """
    op = "roi_align"
    x, rois = inputs.floating(op, x), inputs.floating(op, rois, "rois")
    batch_indices = indices_of(op, batch_indices, "batch_indices")
    if mode not in ("avg", "max"):
        raise DeclareError(f"ops.{op}: mode={mode!r}", legal="'avg', 'max'")
    _check_regions(op, x, rois, batch_indices, output_size)
    parts = [inputs.integer(op, "output_size", m) for m in output_size]
    ratio = inputs.integer(op, "sampling_ratio", sampling_ratio)
    scale = inputs.number(op, "spatial_scale", spatial_scale)
    # what does not depend on the channel is computed once for a region
    regions = _Regions(op, x, rois, batch_indices, parts, ratio, scale, aligned)
    inside, many, begins = regions.inside, regions.many, regions.begins
    reducer = te.sum if mode == "avg" else te.max

    def over(r: Any, i: Any, j: Any, c: Any) -> Expr:
        (ay, ty), (ax, tx) = regions.samples(r, 0, i), regions.samples(r, 1, j)
        return reducer(regions.sampled(mode, (r, c, i, j), (ty, tx)), axis=[ay, ax])

    # where a sample lies is the same for all channels, which stand side by side
    total = inputs.stage(
        f"{op}.{'sum' if mode == 'avg' else 'max'}", tags.REDUCE, [rois.shape[0], *parts, x.shape[1]], over
    )

    def element(r: Any, c: Any, i: Any, j: Any) -> Expr:
        count = te.cast(inside, make.mul(many(r, 0), many(r, 1)))
        if mode == "avg":
            return te.cast(x.dtype, total(r, i, j, c) / make.max_(count, make.const(1.0, inside)))
        e: Expr = total(r, i, j, c)
        zero = make.const(0.0, inside)
        if begins is not None:  # what was skipped counts 0
            skipped = [
                te.any(b(r, p) > 0, many(r, d) - b(r, p) > regions.most(d))
                for d, (b, p) in enumerate(zip(begins, (i, j), strict=True))
            ]
            e = te.select(te.any(*skipped), make.max_(e, zero), e)
        return te.cast(x.dtype, te.select(make.eq(count, 0.0), zero, e))

    return inputs.stage(op, tags.BROADCAST, [rois.shape[0], x.shape[1], *parts], element)


def _check_regions(
    op: str, x: Tensor, rois: Tensor, batch_indices: Tensor, output_size: Sequence[int]
) -> None:
    if x.ndim != 4 or rois.ndim != 2 or batch_indices.ndim != 1 or len(output_size) != 2:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)}, rois {inputs.named(rois)}, batch_indices "
            f"{inputs.named(batch_indices)}",
            because="they are [N, C, H, W], [R, 4] and [R], and output_size has two numbers",
        )
    inputs.same_size(op, f"the last size of rois {rois.name}", rois.shape[1], 4, "a region has two corners")
    inputs.same_size(
        op,
        f"the size of batch_indices {batch_indices.name}",
        batch_indices.shape[0],
        rois.shape[0],
        "each region has one",
    )


class _Regions:
    """The regions of a roi_align: their corners and parts, and the samples in a part. Dimension 0 is the
    height, 1 the width."""

    def __init__(
        self,
        op: str,
        x: Tensor,
        rois: Tensor,
        images: Tensor,
        parts: Sequence[int],
        ratio: int,
        scale: float,
        aligned: bool,
    ) -> None:
        self.x, self.rois, self.images, self.parts = x, rois, images, parts
        self.ratio, self.scale, self.aligned = ratio, scale, aligned
        self.inside = inputs.wide(x.dtype)
        self.image = index_rule(op, "clip")
        self.pixels = pixels_of(f"{op}.pixels", x, inputs.product([rois.shape[0], *parts]))
        sides: list[ExprLike] = [rois.shape[0], 2]
        self.bins = inputs.stage(
            f"{op}.bins", tags.BROADCAST, sides, lambda r, d: self.length(r, d) / self.part(d)
        )
        self.number = self.begins = None
        if ratio <= 0:
            self.number = inputs.stage(
                f"{op}.number",
                tags.BROADCAST,
                sides,
                lambda r, d: te.max(te.cast(INT32, te.ceil(self.bins(r, d))), 0),
            )
            self.begins = (self.first(op, 0), self.first(op, 1))

    def corner(self, r: Any, k: int) -> Expr:
        # pixels are squares around their index: Detectron2's correction of the first RoIAlign
        offset = make.const(0.5 if self.aligned else 0.0, self.inside)
        return te.cast(self.inside, self.rois(r, k)) * make.const(self.scale, self.inside) - offset

    def length(self, r: Any, d: Any) -> Expr:
        sides = [self.corner(r, 3) - self.corner(r, 1), self.corner(r, 2) - self.corner(r, 0)]
        side = te.select(make.eq(d, 0), *sides)
        # the first one made regions of less than a pixel one pixel large
        return side if self.aligned else make.max_(side, make.const(1.0, self.inside))

    def part(self, d: Any) -> Expr:
        return te.select(make.eq(d, 0), *[make.const(float(m), self.inside) for m in self.parts])

    def many(self, r: Any, d: int) -> Expr:
        """Samples of each part."""
        return make.as_expr(self.ratio) if self.number is None else make.as_expr(self.number(r, d))

    def most(self, d: int) -> Expr:
        """Samples of a part that may lie in the image: they are half an element apart at least."""
        return make.add(make.mul(self.x.shape[2 + d], 2), 8)

    def first(self, op: str, d: int) -> Tensor:
        """Of each part the first sample that may lie in the image: a long region begins far before it."""

        def sample(r: Any, p: Any) -> Expr:
            each = self.bins(r, d) / te.cast(self.inside, self.many(r, d))
            # two elements before the image, not one: what is rounded here must not skip a sample inside
            skipped = (-2.0 - self.corner(r, 1 - d) - te.cast(self.inside, p) * self.bins(r, d)) / each
            return te.max(te.min(te.cast(INT32, te.floor(skipped)), self.many(r, d)), 0)

        return inputs.stage(f"{op}.first{d}", tags.BROADCAST, [self.rois.shape[0], self.parts[d]], sample)

    def samples(self, r: Any, d: int, p: Any) -> tuple[te.IterVar, Expr]:
        """The axis over the samples of a part, and the number of each."""
        name = "ty" if d == 0 else "tx"
        if self.begins is None:
            axis = te.reduce_axis((0, self.ratio), name)
            return axis, axis.var
        begin = self.begins[d](r, p)
        axis = te.reduce_axis((0, te.min(self.many(r, d) - begin, self.most(d))), name)
        return axis, axis.var + begin

    def sampled(self, mode: str, at: Sequence[Any], numbers: Sequence[Expr]) -> Expr:
        """The sample of these numbers of the part at (region, channel, row, column)."""
        (r, c, *part), x, inside = at, self.x, self.inside
        place, ends = [], []
        for d, (p, t) in enumerate(zip(part, numbers, strict=True)):
            count = te.cast(inside, self.many(r, d))
            along = te.cast(inside, p) * self.bins(r, d)
            along = along + (te.cast(inside, t) + 0.5) * self.bins(r, d) / count
            place.append(self.corner(r, 1 - d) + along)
            ends.append(te.cast(inside, x.shape[2 + d]))
        # up to one pixel outside a sample counts as the border's, farther away as zero
        within = te.all(*[c for e, m in zip(place, ends, strict=True) for c in (e >= -1.0, e <= m)])
        kept = [
            make.max_(make.min_(e, m - 1.0), make.const(0.0, inside))
            for e, m in zip(place, ends, strict=True)
        ]
        image = self.image(self.images(r), x.shape[0])
        terms = []
        for element, share in corners(kept):
            index = [kept_within(k, m) for k, m in zip(element, x.shape[2:], strict=True)]
            terms.append(share * te.cast(inside, self.pixels(image, c, *index)))
        value = reduce(make.add if mode == "avg" else make.max_, terms)
        return te.select(within, value, make.const(0.0, inside))
