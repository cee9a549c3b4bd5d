"""Transposed convolutions, as torch has them: the gradient of a convolution by its input. Knows windows and
what products share.

Written as what each output gathers, not as what each input scatters: the outputs whose places are equal
modulo the stride form a phase, and each phase is a plain convolution with every stride-th tap of the kernel
(the sub-pixel convolution of Shi et al. 2016), so no multiplication by an inserted zero is made. Stages:
``.pad``, ``.weight`` (turned round where there is one phase, with zeros up to a multiple of the stride where
there are several of many taps; reads the weight only), the reduction with the tag, ``.places`` (where outputs
are not the sums as they lie), ``.bias``, ``.cast``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import te
from ..core.dtype import INT32, DType
from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .conv import divided
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
    sizes,
    taps,
    window,
)

__all__ = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"]

FEW_TAPS = 9  # of a phase


def conv_transpose1d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """:func:`conv_transpose2d` over one dimension: [N, C, W] and ``weight`` [C, O / groups, KW]. Raises
    DeclareError as it does."""
    return _transposed(
        "conv_transpose1d",
        1,
        data,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        out_dtype,
    )


def conv_transpose2d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """The transposed convolution of [N, C, H, W] with ``weight`` [C, O / groups, KH, KW]: [N, O, OH, OW],
    ``OH = (H - 1) stride - padding + dilation (KH - 1) + output_padding + 1``, padding on both sides.

    ``padding`` is taken away from the output, which ``output_padding`` (less than stride or dilation) makes
    longer at the end. KH and KW are numbers; N, H and W may be symbolic. Dtypes as in ``ops.matmul``. Raises
    DeclareError when channels do not fit or nothing of the output is left.
    """
    return _transposed(
        "conv_transpose2d",
        2,
        data,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        out_dtype,
    )


def conv_transpose3d(
    data: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    out_dtype: str | DType | None = None,
) -> Tensor:
    """:func:`conv_transpose2d` over three dimensions: [N, C, D, H, W] and ``weight`` [C, O / groups, KD, KH,
    KW]. Raises DeclareError as it does."""
    return _transposed(
        "conv_transpose3d",
        3,
        data,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        groups,
        dilation,
        out_dtype,
    )


class _Phases:
    """One spatial dimension: the taps that an output of each phase gathers, and from where.

    Output ``y`` gathers tap ``k`` of input ``x`` where ``y + cut = x stride + k dilation``. With ``cycle =
    stride / gcd(stride, dilation)``, the taps ``k = phase + t cycle`` meet the same outputs, ``y + cut = u
    stride + phase dilation``, each ``apart`` inputs before the last. So the sums are counted by ``u`` and
    the phase: those of a kernel without dilation, and of the phases that have a tap only. Where the dilation
    is 1 and all phases have one, they are the outputs as they lie; ``place`` says where others lie.
    """

    def __init__(self, kernel: int, w: Window, d: int, extent: Expr, extra: int) -> None:
        self.step, self.dilation, self.cut = w.stride[d], w.dilation[d], int(w.before[d])  # type: ignore[arg-type]
        self.kernel, common = kernel, math.gcd(self.step, self.dilation)
        self.cycle, self.apart = self.step // common, self.dilation // common
        self.phases, self.taps = min(self.cycle, kernel), -(-kernel // self.cycle)
        self.in_place = self.step == 1 or (self.dilation == 1 and self.phases == self.step)
        # torch's formula: (extent - 1) stride + span + extra - before - after
        span = self.dilation * (kernel - 1) + 1
        self.output = make.sub(
            make.add(make.mul(make.sub(extent, 1), self.step), span + extra - self.cut), w.after[d]
        )
        # the least and the last u of an output; what the padding cuts off in front need not be there to be
        # read
        last_phase = 0 if self.in_place else (self.phases - 1) * self.dilation
        self.first = self.cut // self.step if self.in_place else -((last_phase - self.cut) // self.step)
        self.before = max(0, (self.taps - 1) * self.apart - self.first)
        # a margin there is reaches as far as whole phases read, so that as many outputs of each are computed
        whole = make.mul(make.ceildiv(self.output, self.step), self.step)
        end = (
            whole if self.in_place and self.before > 0 and const_int(self.output) is not None else self.output
        )
        last = make.floordiv(make.add(end, self.cut - 1), self.step)
        self.after = make.max_(make.sub(last, make.sub(extent, 1)), 0)
        self.sums = self.output if self.in_place else make.mul(make.sub(last, self.first - 1), self.phases)

    @property
    def as_is(self) -> bool:
        """Whether the kernel needs no zeros behind it."""
        return self.kernel % self.phases == 0

    def held(self, tap: Any) -> list[Expr]:
        """Under what conditions the kernel has that tap, zeros counted."""
        # a phase of the last taps begins behind the kernel's end
        return [] if self.as_is else [make.lt(make.as_expr(tap), make.const(self.kernel, INT32))]

    def read(self, y: Any, t: Any) -> Expr:
        """Where in the padded input the sum ``y`` has its tap ``t``."""
        y, ahead = make.as_expr(y), self.before
        u = (
            make.floordiv(make.add(y, self.cut), self.phases)
            if self.in_place
            else make.floordiv(y, self.phases)
        )
        ahead += 0 if self.in_place else self.first
        return make.add(make.sub(u, make.mul(make.as_expr(t), self.apart)), ahead)

    def tap(self, y: Any, t: Any) -> Expr:
        """Which tap of the kernel, zeros counted."""
        if self.phases == 1:
            return make.as_expr(t)
        y = make.add(make.as_expr(y), self.cut) if self.in_place else make.as_expr(y)
        return make.add(make.floormod(y, self.phases), make.mul(make.as_expr(t), self.cycle))

    def place(self, y: Any) -> tuple[Expr, list[Expr]]:
        """Which sum the output ``y`` is, and under what conditions it is one: no tap reaches others."""
        y = make.as_expr(y)
        if self.in_place:
            return y, []
        at, zero = make.add(y, self.cut), make.const(0, INT32)
        if self.phases == 1:
            met = [make.eq(make.floormod(at, self.step), zero)]
            return make.sub(make.floordiv(at, self.step), self.first), met
        common = self.step // self.cycle
        met = [make.eq(make.floormod(at, common), zero)] if common > 1 else []
        # the phase is what times the dilation leaves the same as the output
        turn = pow(self.apart, -1, self.cycle)
        phase = make.floormod(make.mul(make.floordiv(at, common), turn), self.cycle)
        if self.phases < self.cycle:
            met.append(make.lt(phase, make.const(self.phases, INT32)))
        u = make.floordiv(make.sub(at, make.mul(phase, self.dilation)), self.step)
        return make.add(make.mul(make.sub(u, self.first), self.phases), phase), met


def _transposed(
    op: str,
    n: int,
    data: Any,
    weight: Any,
    bias: Tensor | None,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    groups: int,
    dilation: Sizes,
    out_dtype: str | DType | None,
) -> Tensor:
    lay = layout_of(op, f"NC{SPATIAL[n]}", n)
    data, weight = image(op, data, lay), inputs.tensor(op, weight, "weight")
    kernel = _kernel(op, n, data, weight, groups, padding)
    dims = _phases(op, data, kernel, weight, stride, padding, output_padding, dilation)
    inside, out = accumulator(op, data.dtype, weight.dtype, out_dtype)
    source = padded(f"{op}.pad", data, lay.spatial, [p.before for p in dims], [p.after for p in dims], 0)
    element, axes = (_plain if all(p.phases == 1 for p in dims) else _by_phase)(
        op, source, weight, dims, groups
    )

    def total_of(*i: Any) -> Expr:
        x, f, where = element(*i)
        return te.sum(te.cast(inside, x) * te.cast(inside, f), axis=axes, where=where)

    total = te.compute(
        (data.shape[0], make.mul(weight.shape[1], groups), *[p.sums for p in dims]),
        total_of,
        name=op,
        tag=tags.conv_tag(tags.CONV_TRANSPOSE, n, lay.text),
        varargs_names=axis_names(lay, "o"),
    )
    total = _placed(f"{op}.places", total, dims, lay)
    return rounded(op, biased(op, total, bias, lambda i: i[1], total.shape[1]), out)


def _plain(
    op: str, source: Tensor, weight: Tensor, dims: Sequence[_Phases], groups: int
) -> tuple[Any, list[te.IterVar]]:
    """What is multiplied where there is one phase, as without a stride: a convolution by the weight turned
    round, of whose taps the last one meets the first element, for which recipes know more. The axes it is
    summed over."""
    outputs, each = weight.shape[1], make.floordiv(source.shape[1], groups)

    def turned(o: Any, c: Any, *taps: Any) -> Expr:
        o, c = make.as_expr(o), make.as_expr(c)
        first = 0 if groups == 1 else make.mul(make.floordiv(o, outputs), each)
        own = o if groups == 1 else make.floormod(o, outputs)
        back = [make.sub(p.taps - 1, make.as_expr(t)) for p, t in zip(dims, taps, strict=True)]
        return weight(c + first, own, *back)  # type: ignore[no-any-return]

    kernel = te.compute(
        (make.mul(outputs, groups), each, *[p.taps for p in dims]),
        turned,
        name=f"{op}.weight",
        tag=tags.LINES,
    )
    depthwise = groups > 1 and const_int(each) == 1
    rc, ry = te.reduce_axis((0, each), "rc"), taps([make.as_expr(p.taps) for p in dims])

    def element(b: Any, o: Any, *place: Any) -> tuple[Expr, Expr, None]:
        first = 0 if groups == 1 else make.mul(make.floordiv(make.as_expr(o), outputs), each)
        channel = first if depthwise else rc + first
        back = [make.sub(p.taps - 1, t) for p, t in zip(dims, ry, strict=True)]
        at = [p.read(y, t) for p, y, t in zip(dims, place, back, strict=True)]
        return source(b, channel, *at), kernel(o, 0 if depthwise else rc, *ry), None

    # without the sum over one channel, as in a convolution
    return element, ry if depthwise else [rc, *ry]


def _by_phase(
    op: str, source: Tensor, weight: Tensor, dims: Sequence[_Phases], groups: int
) -> tuple[Any, list[te.IterVar]]:
    """What is multiplied of several phases, the condition that there is such a tap, or None; the axes it is
    summed over."""
    # few taps are written out, and those that a phase lacks are left out; more read zeros
    few = math.prod(p.taps for p in dims) <= FEW_TAPS
    spread = weight if few else _spread(f"{op}.weight", weight, dims)
    outputs, each = weight.shape[1], make.floordiv(source.shape[1], groups)
    rc, ry = te.reduce_axis((0, each), "rc"), taps([make.as_expr(p.taps) for p in dims])

    def element(b: Any, o: Any, *place: Any) -> tuple[Expr, Expr, Expr | None]:
        channel = rc if groups == 1 else rc + make.mul(make.floordiv(make.as_expr(o), outputs), each)
        own = o if groups == 1 else make.floormod(make.as_expr(o), outputs)
        x = source(b, channel, *[p.read(y, t) for p, y, t in zip(dims, place, ry, strict=True)])
        tap = [p.tap(y, t) for p, y, t in zip(dims, place, ry, strict=True)]
        # as the condition of the sum: the taps are unrolled, and those that are not held fold away
        held = [c for p, t in zip(dims, tap, strict=True) for c in p.held(t)] if few else []
        return x, spread(channel, own, *tap), te.all(*held) if held else None

    return element, [rc, *ry]


def _placed(name: str, total: Tensor, dims: Sequence[_Phases], lay: Layout) -> Tensor:
    """The sums where the outputs lie, zeros where no tap reaches."""
    if all(p.in_place for p in dims):
        return total

    def element(b: Any, o: Any, *at: Any) -> Expr:
        places = [p.place(y) for p, y in zip(dims, at, strict=True)]
        value = total(b, o, *[v for v, _ in places])
        met = [c for _, conditions in places for c in conditions]
        return te.if_then_else(te.all(*met), value, te.const(0, total.dtype)) if met else value

    return te.compute(  # type: ignore[no-any-return]
        (*total.shape[:2], *[p.output for p in dims]),
        lambda *i: element(*i),
        name=name,
        varargs_names=axis_names(lay, "o"),
    )


def _kernel(op: str, n: int, data: Tensor, weight: Tensor, groups: int, padding: Padding) -> list[int]:
    """The taps of a weight that fits the data. Raises DeclareError for one that does not, and where the taps
    that an output gathers are not known."""
    if weight.ndim != n + 2:
        raise DeclareError(
            f"ops.{op}: weight {inputs.named(weight)} has {weight.ndim} dimension(s), {n + 2} are needed",
            because=f"it is IO{SPATIAL[n]}",
        )
    inputs.same_size(
        op,
        f"the number of input channels of weight {weight.name}",
        weight.shape[0],
        data.shape[1],
        f"data is {inputs.named(data)}, weight {inputs.text(weight.shape)} is IO{SPATIAL[n]}, its outputs "
        "those of one group",
    )
    divided(op, groups, data.shape[1], f"data {data.name}", make.mul(weight.shape[1], groups), weight)
    kernel = [k for e in weight.shape[2:] if (k := const_int(e)) is not None]
    if isinstance(padding, str) or len(kernel) < n:
        what = (
            f"padding={padding!r}"
            if isinstance(padding, str)
            else f"weight {inputs.named(weight)} has a symbolic kernel"
        )
        raise DeclareError(
            f"ops.{op}: {what}",
            because="which taps an output gathers is known when the kernel is declared",
            try_="numbers",
        )
    return kernel


def _phases(
    op: str,
    data: Tensor,
    kernel: Sequence[int],
    weight: Tensor,
    stride: Sizes,
    padding: Padding,
    output_padding: Sizes,
    dilation: Sizes,
) -> list[_Phases]:
    """What each dimension of the result reads. Raises DeclareError where nothing is left of it."""
    extents, n = list(data.shape[2:]), len(kernel)
    w = window(op, extents, weight.shape[2:], stride, padding, dilation)
    extra = sizes(op, "output_padding", output_padding, n, 0)
    for d, e in enumerate(extra):
        # torch's bound; more of it would be rows that no tap reaches
        if e >= max(w.stride[d], w.dilation[d]):
            raise DeclareError(
                f"ops.{op}: output_padding={output_padding} is not less than stride {w.stride[d]} or "
                f"dilation {w.dilation[d]}",
                because="it chooses among the sizes that a convolution of that stride makes equal",
            )
    dims = [_Phases(k, w, d, extents[d], extra[d]) for d, k in enumerate(kernel)]
    for d, p in enumerate(dims):
        left = const_int(p.output)
        if left is not None and left < 1:
            raise DeclareError(
                f"ops.{op}: the output along {SPATIAL[n][d]} has {left} elements",
                because=f"padding {w.before[d]} and {w.after[d]} are taken away",
                try_="less padding",
            )
    return dims


def _spread(name: str, weight: Tensor, dims: Sequence[_Phases]) -> Tensor:
    """The weight with zeros behind its taps, where phases ask for them."""
    if all(p.as_is for p in dims):
        return weight
    shape = (
        *weight.shape[:2],
        *[k if p.as_is else p.taps * p.cycle for p, k in zip(dims, weight.shape[2:], strict=True)],
    )

    def element(i: Any, o: Any, *taps: Any) -> Expr:
        held = [c for p, t in zip(dims, taps, strict=True) for c in p.held(t)]
        return te.if_then_else(te.all(*held), weight(i, o, *taps), te.const(0, weight.dtype))

    return te.compute(shape, lambda *i: element(*i), name=name, tag=tags.PAD)  # type: ignore[no-any-return]
