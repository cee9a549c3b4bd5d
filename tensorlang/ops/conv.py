"""Convolutions (cross-correlations, as in torch) over one, two and three dimensions, in plain and packed
layouts. Knows windows and what products share; no other operator.

Stages: ``convNd.pad`` (when there is padding), ``convNd`` (the reduction, with the tag), ``convNd.bias``,
``convNd.cast``. Layouts: channels first (``NCHW``), last (``NHWC``), or in blocks that stand together, so
that a vector holds neighbouring channels (``NCHW8c``; Georganas et al. 2018, "Anatomy of high-performance
deep learning convolutions"). The dtype rules are those of ``ops.matmul``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import te
from ..core.dtype import DType
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .matmul import accumulator, biased, rounded
from .window import (
    SPATIAL,
    Layout,
    Padding,
    Sizes,
    Window,
    axis_names,
    image,
    layout_of,
    padded,
    taps,
    window,
)

__all__ = ["conv1d", "conv2d", "conv3d", "depthwise_conv2d"]


def conv1d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCW",
    weight_layout: str | None = None,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """:func:`conv2d` over one dimension: [N, C, W] and ``weight`` [O, C / groups, KW] give [N, O, OW].
    Layouts NCW, NWC, NCW8c."""
    return convolution(
        "conv1d", 1, data, weight, bias, stride, padding, dilation, groups, layout, weight_layout, out_dtype
    )


def conv2d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCHW",
    weight_layout: str | None = None,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """The convolution of [N, C, H, W] with ``weight`` [O, C / groups, KH, KW]: [N, O, OH, OW],
    ``OH = (H + padding - dilation (KH - 1) - 1) // stride + 1``.

    ``bias`` [O] is added. ``padding`` is an int, one for each dimension, a pair (before, after) for each,
    ``"valid"``, or ``"same"`` (OH is H / stride, rounded up). ``groups`` cuts the channels into groups that
    do not see each other; ``groups == C`` is a depthwise convolution. ``layout="NHWC"`` takes the weight as
    HWIO, ``"NCHW8c"`` as [O / 8, I / 8, KH, KW, 8, 8] (OIHW8i8o, any block sizes; of a depthwise convolution
    [C / 8, 1, KH, KW, 1, 8]); ``weight_layout`` is another order of the letters O, I, H, W for plain layouts.
    N, H and W may be symbolic. ``out_dtype`` and sums as in ``ops.matmul``. Raises DeclareError when channels
    do not fit, ``groups`` does not divide them, or the kernel is larger than the padded input.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> w = te.placeholder((4, 3, 3, 3), name="w")
    >>> ops.conv2d(image, w, padding=1)
    Tensor(conv2d: float32[1, 4, 8, 8])
    """
    return convolution(
        "conv2d", 2, data, weight, bias, stride, padding, dilation, groups, layout, weight_layout, out_dtype
    )


def conv3d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCDHW",
    weight_layout: str | None = None,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """:func:`conv2d` over three dimensions: [N, C, D, H, W] and ``weight`` [O, C / groups, KD, KH, KW].
    Layouts NCDHW, NDHWC, NCDHW8c."""
    return convolution(
        "conv3d", 3, data, weight, bias, stride, padding, dilation, groups, layout, weight_layout, out_dtype
    )


def depthwise_conv2d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    layout: str = "NCHW",
    weight_layout: str | None = None,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """A convolution of each channel by itself: [N, C, H, W] and ``weight`` [C * m, 1, KH, KW] give [N, C * m,
    OH, OW].

    The same as ``conv2d(…, groups=C)``, and like it otherwise. C must be a number. Raises DeclareError as
    :func:`conv2d`, and for an open C."""
    lay = layout_of("depthwise_conv2d", layout, 2)
    data = image("depthwise_conv2d", data, lay)
    # the number of groups is part of what the operator is, and so cannot be a symbol
    channels = const_int(lay.channels(data.shape))
    if channels is None:
        raise DeclareError(
            f"ops.depthwise_conv2d: data {inputs.named(data)} has a symbolic number of channels",
            because="each is a group of its own",
            try_="a number of channels",
        )
    return convolution(
        "depthwise_conv2d",
        2,
        data,
        weight,
        bias,
        stride,
        padding,
        dilation,
        channels,
        layout,
        weight_layout,
        out_dtype,
    )


def convolution(
    op: str,
    n: int,
    data: Any,
    weight: Any,
    bias: Tensor | None,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    layout: str,
    weight_layout: str | None,
    out_dtype: str | DType | None,
    margin: ExprLike = 0,
) -> Tensor:
    """What all of them are: ``n`` spatial dimensions, with elements ``margin`` around them."""
    lay = layout_of(op, layout, n)
    data, weight = image(op, data, lay), inputs.tensor(op, weight, "weight")
    kernel = Weight(op, weight, lay, weight_layout)
    channels = lay.channels(data.shape)
    divided(op, groups, channels, f"data {data.name}", kernel.outputs, weight)
    each = make.floordiv(channels, groups)
    inputs.same_size(
        op,
        f"the number of input channels of weight {weight.name}",
        kernel.inputs,
        each,
        f"data {inputs.text(data.shape)} has {channels} "
        f"channels{f' in {groups} groups' if groups > 1 else ''}, "
        f"weight {inputs.text(weight.shape)} is {kernel.text}",
    )
    extents = [data.shape[d] for d in lay.spatial]
    w = window(op, extents, kernel.taps, stride, padding, dilation)
    # after the window is made, for SAME its margins follow from the sizes
    w.fits(op, "the kernel", extents, SPATIAL[n])
    places = w.output(extents)
    inside, out = accumulator(op, data.dtype, weight.dtype, out_dtype)
    if const_int(margin) == 0 and data.dtype.is_float and lay.block is None:
        first, w = w.seeing(extents)
        if any(first):
            kernel = Weight(op, _taps_from(op, kernel, first, w), lay, weight_layout)
    source = padded(f"{op}.pad", data, lay.spatial, w.before, w.after, margin)
    depthwise = groups > 1 and const_int(each) == 1
    if depthwise:
        _check_depthwise_blocks(op, kernel, weight, lay, channels)
    elif lay.block is not None:
        _check_blocks(op, kernel, lay, channels, groups)
    # without the reduction over one channel: its loop would stand between the taps and their vectors
    element, axes = (_depthwise if depthwise else _grouped)(source, kernel, lay, w, groups, inside)
    batch, _, _ = lay.parts(data.shape)
    result_channels = (
        (kernel.outputs,)
        if lay.block is None
        else (make.floordiv(kernel.outputs, kernel.out_block), make.as_expr(kernel.out_block))
    )
    shape = lay.arranged(batch, result_channels, places)
    total = te.compute(
        shape,
        lambda *i: te.sum(element(*lay.parts(i)), axis=axes),
        name=op,
        varargs_names=axis_names(lay, "o"),
        tag=tags.conv_tag(tags.DEPTHWISE_CONV if depthwise else tags.CONV, n, layout),
    )

    def channel(i: Sequence[Any]) -> Any:
        _, c, _ = lay.parts(i)
        return c[0] if lay.block is None else c[0] * kernel.out_block + c[1]

    return rounded(op, biased(op, total, bias, channel, kernel.outputs), out)


def _taps_from(op: str, kernel: Weight, first: Sequence[int], w: Window) -> Tensor:
    """The taps of a weight that ``w`` has, from ``first`` on."""
    begins, sizes = (
        dict(zip(kernel.spatial, first, strict=True)),
        dict(zip(kernel.spatial, w.kernel, strict=True)),
    )
    shape = [sizes.get(c, n) for c, n in zip(kernel.order, kernel.tensor.shape, strict=True)]
    return te.compute(  # type: ignore[no-any-return]
        tuple(shape),
        lambda *i: kernel.tensor(*[n + begins.get(c, 0) for n, c in zip(i, kernel.order, strict=True)]),
        name=f"{op}.taps",
        tag=tags.LINES,
    )


def _check_depthwise_blocks(op: str, kernel: Weight, weight: Tensor, lay: Layout, channels: Expr) -> None:
    if lay.block is None:
        return
    same = kernel.out_block == lay.block and kernel.in_block == 1 and inputs.equal(kernel.outputs, channels)
    if not same:
        raise DeclareError(
            f"ops.{op}: weight {inputs.text(weight.shape)} does not fit a depthwise convolution in "
            f"{lay.text}",
            because="a packed one has one output for each channel, in the same blocks",
            try_=f"({make.floordiv(channels, lay.block)}, 1, {', '.join(map(str, kernel.taps))}, 1, "
            f"{lay.block})",
        )


def divided(op: str, groups: Any, channels: Expr, what: str, outputs: Expr, weight: Tensor) -> None:
    """Raises DeclareError unless ``groups`` divides both numbers of channels."""
    groups = inputs.integer(op, "groups", groups)
    if groups < 1:
        raise DeclareError(f"ops.{op}: groups={groups}, 1 is the least")
    for count, of in (
        (channels, f"channels of {what}"),
        (outputs, f"output channels of weight {weight.name}"),
    ):
        size = const_int(count)
        if groups > 1 and (size is None or size % groups):
            raise DeclareError(
                f"ops.{op}: groups={groups} does not divide the {count} {of}"
                if size is not None
                else f"ops.{op}: groups={groups}, and the number of {of} is the symbol {count}",
                because="each group has the same number of channels",
                legal=None
                if size is None
                else ", ".join(str(g) for g in range(1, min(size, 64) + 1) if size % g == 0),
            )


class Weight:
    """A weight in its layout: how many outputs and inputs and taps, and its element by these."""

    def __init__(self, op: str, weight: Tensor, layout: Layout, order: str | None) -> None:
        spatial = "".join(layout.letters[d] for d in layout.spatial)
        plain = f"OI{spatial}"
        self.tensor, self.spatial = weight, spatial
        self.in_block = self.out_block = 1
        if layout.block is not None:
            if order is not None:
                raise DeclareError(
                    f"ops.{op}: weight_layout={order!r} with layout={layout.text!r}",
                    because=f"the weight of a packed layout is {plain} with blocks of inputs and outputs "
                    "behind",
                    try_="weight_layout=None",
                )
            order = plain
        # what goes with channels last elsewhere: HWIO beside NHWC
        order = (plain if layout.letters.startswith("NC") else f"{spatial}IO") if order is None else order
        if not isinstance(order, str) or sorted(order) != sorted(plain):
            raise DeclareError(
                f"ops.{op}: weight_layout={order!r}",
                legal=f"the letters {', '.join(plain)} in any order",
                try_=repr(plain),
            )
        self.order = order
        self.text = order if layout.block is None else f"{order} with blocks of inputs and outputs behind"
        rank = len(order) + (2 if layout.block is not None else 0)
        if weight.ndim != rank:
            raise DeclareError(
                f"ops.{op}: weight {inputs.named(weight)} has {weight.ndim} dimension(s), {rank} are needed",
                because=f"with layout={layout.text!r} it is {self.text}",
            )
        if layout.block is not None:
            # the order of NCHW8c in TVM: inputs of a block, then its outputs, which are a vector
            blocks = [const_int(n) for n in weight.shape[-2:]]
            if blocks[0] is None or blocks[1] is None:
                raise DeclareError(
                    f"ops.{op}: weight {inputs.named(weight)} has a symbolic block",
                    try_="numbers for its last two dimensions",
                )
            self.in_block, self.out_block = blocks[0], blocks[1]
        self.outputs = make.mul(weight.shape[order.index("O")], self.out_block)
        self.inputs = make.mul(weight.shape[order.index("I")], self.in_block)
        self.taps = tuple(weight.shape[order.index(c)] for c in spatial)

    def __call__(self, output: Sequence[Any], input_: Sequence[Any], tap: Sequence[Any]) -> Expr:
        """Its element; ``output`` and ``input_`` are one index, or the block and the place in the block."""
        place = {"O": output[0], "I": input_[0], **dict(zip(self.spatial, tap, strict=True))}
        return self.tensor(*[place[c] for c in self.order], *input_[1:], *output[1:])


def _check_blocks(op: str, kernel: Weight, lay: Layout, channels: Expr, groups: int) -> None:
    """Raises DeclareError for a packed weight whose blocks are not those of the data, or are cut by a border
    of groups."""
    if kernel.in_block != lay.block:
        raise DeclareError(
            f"ops.{op}: weight {kernel.tensor.name} has blocks of {kernel.in_block} inputs, data blocks of "
            f"{lay.block}",
            because=f"weight {inputs.text(kernel.tensor.shape)} is {kernel.text}, the layout {lay.text}",
        )
    for count, block, what in ((channels, lay.block, "input"), (kernel.outputs, kernel.out_block, "output")):
        size = const_int(count)
        # a block would belong to two groups, which read different channels
        if groups > 1 and size is not None and size // groups % block:
            raise DeclareError(
                f"ops.{op}: a group of {size // groups} {what} channels is not a multiple of the block of "
                f"{block}",
                try_="another block",
            )


def _depthwise(
    source: Tensor, kernel: Weight, lay: Layout, w: Window, groups: int, inside: DType
) -> tuple[Any, list[te.IterVar]]:
    ry = taps(w.kernel)
    times = make.floordiv(kernel.outputs, groups)  # outputs of each channel

    def element(batch: Any, channel: tuple[Any, ...], place: tuple[Any, ...]) -> Expr:
        # in blocked layouts ``_check_depthwise_blocks`` has made sure that outputs are the channels
        read = channel if lay.block is not None else (make.floordiv(channel[0], times),)
        x = source(*lay.arranged(batch, read, w.reads(place, ry)))
        return te.cast(inside, x) * te.cast(inside, kernel(channel, (0,) * len(channel), ry))

    return element, ry


def _grouped(
    source: Tensor, kernel: Weight, lay: Layout, w: Window, groups: int, inside: DType
) -> tuple[Any, list[te.IterVar]]:
    ry = taps(w.kernel)
    each = kernel.tensor.shape[kernel.order.index("I")]  # input channels of a group, or blocks of them
    outputs = make.floordiv(kernel.tensor.shape[kernel.order.index("O")], groups)
    rc = te.reduce_axis((0, each), "rc")
    inner = [] if lay.block is None else [te.reduce_axis((0, lay.block), "ri")]

    def element(batch: Any, channel: tuple[Any, ...], place: tuple[Any, ...]) -> Expr:
        # written as no addition at all for one group, which recipes recognise by its plain reads
        first = 0 if groups == 1 else make.mul(make.floordiv(channel[0], outputs), each)
        x = source(*lay.arranged(batch, (rc + first, *inner), w.reads(place, ry)))
        return te.cast(inside, x) * te.cast(inside, kernel(channel, (rc, *inner), ry))

    # in the order of the dimensions they run along in the data
    return element, [*ry, rc] if lay.letters.endswith("C") else [rc, *ry, *inner]
