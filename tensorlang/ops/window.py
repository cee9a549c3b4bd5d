"""Sliding windows: layouts of images, strides, margins and output sizes, and the stage that pads. What
convolutions and pools share. Knows the checks of arguments; no operator."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .. import te
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
Sizes = int | Sequence[int]
T = TypeVar("T")
Padding = int | str | Sequence[int] | Sequence[Sequence[int]]


# --- layouts ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the dimensions of an image stand: ``letters`` such as NCHW; ``block`` channels stand last when
    they are packed (NCHW8c)."""

    text: str
    letters: str
    block: int | None

    @property
    def rank(self) -> int:
        return len(self.letters) + (self.block is not None)

    @property
    def spatial(self) -> tuple[int, ...]:
        """The dimensions a window slides over."""
        return tuple(d for d, c in enumerate(self.letters) if c not in "NC")

    def channels(self, shape: Sequence[Expr]) -> Expr:
        """The number of channels of an image of that shape."""
        n = shape[self.letters.index("C")]
        return n if self.block is None else make.mul(n, self.block)

    def arranged(self, batch: T, channel: Sequence[T], spatial: Sequence[T]) -> tuple[T, ...]:
        """Indices, sizes or names in the order of the layout; ``channel`` is one, or the block and the place
        in the block."""
        place = iter(spatial)
        outer = [batch if c == "N" else channel[0] if c == "C" else next(place) for c in self.letters]
        return (*outer, *channel[1:])

    def parts(self, indices: Sequence[Any]) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
        """Batch, channel and spatial indices: the way back from ``arranged``."""
        channel = (indices[self.letters.index("C")], *indices[len(self.letters) :])
        return indices[self.letters.index("N")], channel, tuple(indices[d] for d in self.spatial)


def layout_of(op: str, layout: Any, n: int) -> Layout:
    """The layout of that name for ``n`` spatial dimensions. Raises DeclareError."""
    plain = (f"NC{SPATIAL[n]}", f"N{SPATIAL[n]}C")
    # NCHW8c, as TVM writes it: blocks of 8 channels, each a vector
    packed = re.fullmatch(rf"({plain[0]})([1-9]\d*)c", layout) if isinstance(layout, str) else None
    if packed is None and layout not in plain:
        raise DeclareError(
            f"ops.{op}: layout={layout!r}",
            because="N is the batch, C the channels, 8c a block of 8 channels that stand together",
            legal=f"{plain[0]!r}, {plain[1]!r}, '{plain[0]}8c' with any number for 8",
        )
    return Layout(layout, plain[0], int(packed[2])) if packed else Layout(layout, layout, None)


def image(op: str, data: Any, layout: Layout) -> Tensor:
    """``data``, which must be a tensor of the layout's rank. Raises DeclareError."""
    data = inputs.tensor(op, data, "data")
    if data.ndim != layout.rank:
        raise DeclareError(
            f"ops.{op}: data {inputs.named(data)} has {data.ndim} dimension(s), {layout.rank} are needed",
            because=f"the layout is {layout.text}",
            try_=_of_that_rank(data, layout),
        )
    if layout.block is not None:
        inputs.same_size(
            op,
            f"the last dimension of data {data.name}",
            data.shape[-1],
            layout.block,
            f"the layout is {layout.text}",
        )
    return data


def spatial_rank(op: str, data: Any, any_number: bool = False) -> int:
    """The number of spatial dimensions of an image [N, C, …]: one to three, or ``any_number``. Raises
    DeclareError."""
    data = inputs.tensor(op, data, "data")
    n = data.ndim - 2
    if n < 1 or (n > 3 and not any_number):
        need = "3 at least" if any_number else "3 to 5"
        raise DeclareError(
            f"ops.{op}: data {inputs.named(data)} has {data.ndim} dimension(s), {need} are needed",
            because="it is [N, C, …]" + ("" if any_number else " with one to three dimensions of an image"),
        )
    return n


def _of_that_rank(data: Tensor, layout: Layout) -> str:
    """What to try for an image of another rank: a batch of one, or the layout that a packed or plain image
    has."""
    if data.ndim == layout.rank - 1:
        return (
            f"ops.expand_dims({data.name}, 0) for a batch of one"
            if layout.block is None
            else f"layout={layout.letters!r}"
        )
    block = const_int(data.shape[-1]) if data.ndim == layout.rank + 1 else None
    return (
        f"layout='{layout.letters}{block}c'"
        if block and layout.block is None and layout.letters.startswith("NC")
        else "ops.reshape"
    )


# --- arguments ----------------------------------------------------------------------------------------------


def sizes(op: str, what: str, value: Any, n: int, least: int) -> tuple[int, ...]:
    """One int for all of ``n`` dimensions, or one for each; none below ``least``. Raises DeclareError."""
    if isinstance(value, tuple | list):
        if len(value) != n:
            raise DeclareError(
                f"ops.{op}: {what}={value} has {counted(len(value), 'number')} for "
                f"{counted(n, 'spatial dimension')}",
                try_=f"one number, or {n}",
            )
        result = tuple(inputs.integer(op, what, v) for v in value)
    else:
        result = (inputs.integer(op, what, value),) * n
    if min(result) < least:
        raise DeclareError(f"ops.{op}: {what}={value}, {least} is the least", because=_WHY.get(what))
    return result


_WHY = {
    "stride": "it is how far the window moves",
    "dilation": "1 means taps side by side, 2 one element left out between them",
    "padding": "it is a margin added, never taken away",
    "kernel_size": "it is the number of elements in the window",
}


@dataclass(frozen=True, slots=True)
class Window:
    """A window over each spatial dimension: ``kernel`` taps ``dilation`` apart, moved by ``stride`` over the
    extent with its margins."""

    kernel: tuple[Expr, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[ExprLike, ...]
    after: tuple[ExprLike, ...]

    def span(self, d: int) -> Expr:
        """From the first tap to the last, both counted."""
        return make.add(make.mul(self.dilation[d], make.sub(self.kernel[d], 1)), 1)

    def output(self, extents: Sequence[Expr], ceil_mode: bool = False) -> tuple[Expr, ...]:
        """How often the window fits. ``ceil_mode`` counts a last one that is cut off, if it begins inside the
        extent or before it."""
        out = []
        for d, extent in enumerate(extents):
            whole = make.add(make.add(extent, self.before[d]), self.after[d])
            room = make.sub(whole, self.span(d))
            if not ceil_mode:
                out.append(make.add(make.floordiv(room, self.stride[d]), 1))
            else:
                # torch's rule: a window that would begin in the margin behind is not counted
                begins = make.ceildiv(make.add(extent, self.before[d]), self.stride[d])
                out.append(make.min_(make.add(make.ceildiv(room, self.stride[d]), 1), begins))
        return tuple(out)

    def fits(
        self, op: str, what: str, extents: Sequence[Expr], letters: str, ceil_mode: bool = False
    ) -> None:
        """Raises DeclareError for a window larger than the padded extent; with ``ceil_mode`` by less than a
        stride is no more than a first one that is cut off."""
        for d, extent in enumerate(extents):
            whole, span = (
                const_int(make.add(make.add(extent, self.before[d]), self.after[d])),
                const_int(self.span(d)),
            )
            cut = self.stride[d] - 1 if ceil_mode else 0
            if whole is not None and span is not None and span > whole + cut:
                apart = f", {span} with dilation {self.dilation[d]}," if self.dilation[d] > 1 else ""
                raise DeclareError(
                    f"ops.{op}: {what} {self.kernel[d]} along {letters[d]}{apart} is larger than the padded "
                    f"input, {whole}",
                    because=f"the input is {extent}, padded by {self.before[d]} and {self.after[d]}",
                    try_=f"padding={-(-(span - int(const_int(extent) or 0)) // 2)} or more",
                )

    def seeing(self, extents: Sequence[Expr]) -> tuple[list[int], Window]:
        """The taps that read more than a margin, the first of them along each dimension, and the window of
        those alone. It moves as often, though it would fit more often.

        Of the deep layers of a network on volumes, whose last planes are one or two, two thirds of the taps
        read nothing else, and peers leave them out. Measured (Zen 5, one thread): 122 to 126 channels of
        1 × 8 × 8, 5 × 5 × 5, 0.19 of the time, twice 32 to 192 of 1 × 16 × 24, 3 × 3 × 3, 0.11, of which
        half is that the rest is filtered.
        """
        first, kernel, before, after = list[int](), list(self.kernel), list(self.before), list(self.after)
        stride = list(self.stride)
        for d, (extent, places) in enumerate(zip(extents, self.output(extents), strict=True)):
            known = [const_int(n) for n in (extent, places, kernel[d], before[d])]
            n, many, taps, ahead = (k or 0 for k in known)
            first.append(0)
            margin = ahead or const_int(self.after[d]) != 0
            if None in known or not n or not many or not margin:
                continue
            last, step, apart = (many - 1) * self.stride[d], self.stride[d], self.dilation[d]
            seen = [
                t
                for t in range(taps)
                if any(0 <= i + t * apart - ahead < n for i in range(0, last + 1, step))
            ]
            if not seen:
                continue
            begins = min(seen[0], ahead // apart)
            first[d], kernel[d] = begins, make.as_expr(seen[-1] + 1 - begins)
            room = ahead - begins * apart
            stride[d] = 1 if many == 1 else step
            before[d], after[d] = room, max(0, last + (seen[-1] - begins) * apart + 1 - n - room)
        return first, Window(tuple(kernel), tuple(stride), self.dilation, tuple(before), tuple(after))

    def reads(self, indices: Sequence[Any], taps: Sequence[ExprLike]) -> list[Expr]:
        """Where in the padded extent tap ``taps`` of the window ``indices`` lies."""
        return [
            make.add(make.mul(make.as_expr(i), s), make.mul(make.as_expr(t), dil))
            for i, s, t, dil in zip(indices, self.stride, taps, self.dilation, strict=True)
        ]


def window(
    op: str, extents: Sequence[Expr], kernel: Sequence[Expr], stride: Sizes, padding: Padding, dilation: Sizes
) -> Window:
    """The window by its arguments as users give them. ``padding``: one int, an int for each dimension, a pair
    (before, after) for each, ``"valid"`` (none), ``"same"`` (so that the output is extent / stride, rounded
    up; the odd one behind) or ``"same_lower"`` (the odd one before). Raises DeclareError."""
    n = len(extents)
    steps, apart = sizes(op, "stride", stride, n, 1), sizes(op, "dilation", dilation, n, 1)
    result = Window(tuple(kernel), steps, apart, (0,) * n, (0,) * n)
    if isinstance(padding, str):
        if padding not in ("same", "same_lower", "valid"):
            raise DeclareError(
                f"ops.{op}: padding={padding!r}",
                legal="an int, an int or a pair (before, after) for each dimension, 'same', 'same_lower', "
                "'valid'",
            )
        if padding == "valid":
            return result
        margins = [_same(result, d, extent) for d, extent in enumerate(extents)]
        if padding == "same_lower":
            # ONNX's SAME_LOWER: of an odd margin the larger half in front
            margins = [(more, less) for less, more in margins]
        return Window(result.kernel, steps, apart, tuple(b for b, _ in margins), tuple(a for _, a in margins))
    pairs = _pairs(op, padding, n)
    return Window(result.kernel, steps, apart, tuple(b for b, _ in pairs), tuple(a for _, a in pairs))


def _same(w: Window, d: int, extent: Expr) -> tuple[Expr, Expr]:
    if w.stride[d] == 1:
        total = make.sub(w.span(d), 1)
    else:
        # where the last window begins, of ceil(extent / stride)
        last = make.mul(make.sub(make.ceildiv(extent, w.stride[d]), 1), w.stride[d])
        total = make.max_(make.sub(make.add(last, w.span(d)), extent), 0)
    before = make.floordiv(total, 2)
    return before, make.sub(total, before)


def _pairs(op: str, padding: Any, n: int) -> list[tuple[int, int]]:
    if isinstance(padding, tuple | list) and any(isinstance(p, tuple | list) for p in padding):
        if len(padding) != n or any(not isinstance(p, tuple | list) or len(p) != 2 for p in padding):
            raise DeclareError(
                f"ops.{op}: padding={padding} is not a list of {counted(n, 'pair')}",
                try_="(before, after) for each spatial dimension",
            )
        return [(b, a) for b, a in (sizes(op, "padding", p, 2, 0) for p in padding)]
    return [(p, p) for p in sizes(op, "padding", padding, n, 0)]


# --- the stage that pads ------------------------------------------------------------------------------------


def padded(
    name: str,
    x: Tensor,
    dims: Sequence[int],
    before: Sequence[ExprLike],
    after: Sequence[ExprLike],
    value: ExprLike,
) -> Tensor:
    """``x`` with margins of ``value`` along these dimensions, as a stage of its own; ``x`` itself where there
    is nothing to add."""
    margins = {
        d: (make.as_expr(b), make.as_expr(a))
        for d, b, a in zip(dims, before, after, strict=True)
        if const_int(b) != 0 or const_int(a) != 0
    }
    if not margins:
        return x
    shape = [
        make.add(make.add(n, margins[d][0]), margins[d][1]) if d in margins else n
        for d, n in enumerate(x.shape)
    ]

    def element(*i: Any) -> Expr:
        inside, place = [], list(i)
        for d, (b, a) in margins.items():
            # a side without a margin needs no test
            if const_int(b) != 0:
                inside.append(i[d] >= b)
            if const_int(a) != 0:
                inside.append(i[d] < b + x.shape[d])
            place[d] = i[d] - b
        return te.if_then_else(te.all(*inside), x(*place), te.cast(x.dtype, value))

    return te.compute(
        tuple(shape), element, name=name, tag=tags.PAD, varargs_names=[f"i{d}" for d in range(x.ndim)]
    )  # type: ignore[no-any-return]


def axis_names(layout: Layout, channel: str) -> list[str]:
    """The names of an output's axes: n, the channel's, then z, y, x; the place in a block is called after the
    channel with an ``i``."""
    place = "zyx"[3 - len(layout.spatial) :]
    return [
        str(s)
        for s in layout.arranged("n", (channel,) if layout.block is None else (channel, f"{channel}i"), place)
    ]


def taps(kernel: Sequence[ExprLike]) -> list[te.IterVar]:
    """One reduction axis for each spatial dimension of the window: rz, ry, rx."""
    return [te.reduce_axis((0, k), f"r{c}") for k, c in zip(kernel, "zyx"[3 - len(kernel) :], strict=True)]
