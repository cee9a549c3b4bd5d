"""resample: tensors of any rank in other sizes along any dimensions, by every rule in use for where an
element of the result lies (ONNX's Resize). Knows the checks of arguments; no other operator.

``ops.resize`` is the short way for images. Here each dimension is one stage, the last one first, after two
small ones that say for each place of the result where it reads (``.at``, a whole number) and with which
weights (``.weights``). Places are computed in float64; where the size is given and not the scale, as ratios
of whole numbers that are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

from .. import te
from ..core.dtype import FLOAT32, FLOAT64, INT32, DType
from ..core.dtype import dtype as as_dtype
from ..errors import DeclareError, counted
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .places import cubic_weight, kept_within, linear_weight

__all__ = ["resample"]

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "tf_half_pixel_for_nn",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
)
ROUNDING = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
MOST_EXACT = 1 << 29  # elements before times after, up to which places are made of whole numbers of 32 bits
OPEN_TIMES = (2, 3, 4)  # that an open size is looked at for


@dataclass(frozen=True, slots=True)
class Rule:
    """How places of a result become places of a tensor, and what is taken there."""

    mode: str
    coordinates: str
    rounding: str
    cubic: float
    exclude_outside: bool
    extrapolation: float
    antialias: bool
    weights_in: DType | None


@dataclass(frozen=True, slots=True)
class Line:
    """One dimension: its sizes before and after, the scale where it was given, and the part that is taken."""

    extent: Expr
    to: Expr
    scale: float | None
    part: tuple[float, float]

    def width(self) -> Expr:
        """The size after, before it was rounded down to a whole number: float64."""
        if self.scale is None:
            return te.cast(FLOAT64, self.to)
        # not the whole number of the result: coordinates follow the scale that was asked for
        return te.cast(FLOAT64, self.extent) * _number(self.scale)

    def ratio(self) -> Expr:
        """Size after ÷ size before: float64."""
        if self.scale is not None:
            return _number(self.scale)
        return te.cast(FLOAT64, self.to) / te.cast(FLOAT64, self.extent)


def _number(v: float) -> Expr:
    return make.const(v, FLOAT64)


def resample(
    x: Tensor,
    size: Sequence[ExprLike] | None = None,
    scales: Sequence[float] | None = None,
    axes: Sequence[int] | None = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    rounding: str = "round_prefer_floor",
    *,
    roi: Sequence[float] | None = None,
    cubic_coeff: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    weights_in: str | DType | None = None,
) -> Tensor:
    """``x`` with the dimensions ``axes`` (all when left out) in the ``size`` given, or in their size times
    ``scales``, rounded down.

    ``mode`` ``"nearest"`` takes one element (``rounding`` says which), of any dtype; ``"linear"`` two and
    ``"cubic"`` four along each dimension (Keys 1981, with ``cubic_coeff``), integers cut to whole numbers.
    ``coordinates`` says where place i of the result lies: ``"half_pixel"`` at ``(i + 1/2) / scale - 1/2``,
    ``"asymmetric"`` at ``i / scale``, ``"align_corners"`` at ``i (n - 1) / (m - 1)``;
    ``"tf_crop_and_resize"`` takes the part ``roi`` (all begins, then all ends, as shares of the size) and
    puts ``extrapolation_value`` where it leaves the tensor; ``"half_pixel_symmetric"``,
    ``"pytorch_half_pixel"`` and ``"tf_half_pixel_for_nn"`` are ONNX's variants. Beyond the border its element
    is repeated, or with ``exclude_outside`` counts nothing. ``antialias`` widens the weights where the size
    shrinks; ``weights_in`` is a type of floats to which weights are rounded (and of two the first is what the
    second then leaves of 1), as torch does with ``"bfloat16"``. Sizes may be symbolic.
    ``ops.resample(x, size=(h, w), axes=(2, 3), mode="cubic")``. Raises
    DeclareError for other words, and for sizes and scales that do not fit the axes.
    """
    x = inputs.tensor("resample", x)
    for what, word, legal in (
        ("mode", mode, MODES),
        ("coordinates", coordinates, COORDINATES),
        ("rounding", rounding, ROUNDING),
    ):
        if word not in legal:
            raise DeclareError(f"ops.resample: {what}={word!r}", legal=", ".join(map(repr, legal)))
    which = [inputs.axis_of("resample", a, x.ndim, "axes") for a in (range(x.ndim) if axes is None else axes)]
    numbers = (
        inputs.number("resample", "cubic_coeff", cubic_coeff),
        exclude_outside,
        inputs.number("resample", "extrapolation_value", extrapolation_value),
        antialias,
        None if weights_in is None else as_dtype(weights_in),
    )
    rule = Rule(mode, coordinates, rounding, *numbers)
    lines = _lines(x, which, size, scales, roi)
    crop = coordinates == "tf_crop_and_resize"
    # integers are interpolated in float32, and rounded when all dimensions are done
    inside = x.dtype if mode == "nearest" else inputs.wide(x.dtype) if x.dtype.is_float else FLOAT32
    out = x
    # one dimension after the other: the weights are a product, and two taps each are fewer than four
    # together. The last one first, where neighbours are vectors
    for d in sorted(which, reverse=True):
        line = lines[d]
        # a scale of 1.1 may leave the size as it is and still move the places
        if crop or line.scale not in (None, 1.0) or not inputs.equal(line.to, line.extent):
            out = _along(out, d, line, rule, inside)
    if out is x:
        # nothing changes, but the result is a tensor of its own: callers put it beside x
        return te.compute(x.shape, lambda *i: x(*i), name="resample", tag=tags.RESIZE)  # type: ignore[no-any-return]
    if out.dtype is x.dtype:
        return out
    return inputs.stage("resample.cast", tags.ELEMENTWISE, out.shape, lambda *i: te.cast(x.dtype, out(*i)))


def _lines(x: Tensor, which: Sequence[int], size: Any, scales: Any, roi: Any) -> dict[int, Line]:
    """The dimensions that change. Raises DeclareError."""
    op = "resample"
    if len(set(which)) != len(which):
        raise DeclareError(f"ops.{op}: axes={tuple(which)} names a dimension twice")
    if (size is None) == (scales is None):
        raise DeclareError(
            f"ops.{op}: {'neither' if size is None else 'both'} of size and scales given", try_="one of them"
        )
    for what, given, n in (("size", size, 1), ("scales", scales, 1), ("roi", roi, 2)):
        if given is not None and len(given) != n * len(which):
            raise DeclareError(
                f"ops.{op}: {what} has {counted(len(given), 'number')}",
                because=f"{n * len(which)} are needed for {len(which)} dimension(s) of {inputs.named(x)}",
            )
    lines = {}
    for k, d in enumerate(which):
        extent = x.shape[d]
        begin, end = (0.0, 1.0) if roi is None else (float(roi[k]), float(roi[len(which) + k]))
        if size is not None:
            to, scale = make.as_expr(size[k]), None
        else:
            scale = float(inputs.number(op, "a scale", scales[k]))
            if not scale > 0:
                raise DeclareError(f"ops.{op}: a scale of {scale}", because="it is size after ÷ size before")
            # the ratio that was meant, not the float next to it: 10 times 0.7 is 7, 10 times float32(0.7) is
            # less
            exact = Fraction(scale).limit_denominator(1 << 12)
            to = make.floordiv(make.mul(extent, exact.numerator), exact.denominator)
        least = const_int(to)
        if not to.dtype.is_index or (least is not None and least < 0):
            raise DeclareError(f"ops.{op}: size {to} of dimension {d}", try_="a whole number, or a symbol")
        lines[d] = Line(extent, to, scale, (begin, end))
    return lines


def _place(line: Line, rule: Rule, i: Expr) -> Expr:
    """Where place ``i`` of the result lies in the tensor: float64."""
    # in float64: floor of a place decides which element is read, and float32 would miss by one in large
    # images
    at, n = te.cast(FLOAT64, i), te.cast(FLOAT64, line.extent)
    if rule.coordinates == "align_corners":
        last = line.width() - 1.0
        return te.select(make.eq(last, 0.0), _number(0.0), at * (n - 1.0) / last)
    if rule.coordinates == "tf_crop_and_resize":
        begin, end = line.part
        last, part = line.width() - 1.0, (n - 1.0) * (end - begin)
        # a result of one element takes the middle of the part
        inner = te.select(make.eq(last, 0.0), part / 2.0, at * part / last)
        return inner + (n - 1.0) * begin
    if rule.coordinates == "asymmetric":
        return at * n / te.cast(FLOAT64, line.to) if line.scale is None else at / _number(line.scale)
    if line.scale is None:
        # (at + 0.5) n / to - 0.5 with one division, exact up to it: halves stay halves for the rounding rules
        half = ((at * 2.0 + 1.0) * n - te.cast(FLOAT64, line.to)) / (te.cast(FLOAT64, line.to) * 2.0)
    else:
        half = (at + 0.5) / _number(line.scale) - 0.5
    if rule.coordinates == "pytorch_half_pixel":
        # as ONNX's reference implementation has it, where the words of the operator say 0
        return te.select(make.eq(line.to, 1), _number(-0.5), half)
    if rule.coordinates == "tf_half_pixel_for_nn":
        return half + 0.5
    if rule.coordinates == "half_pixel_symmetric" and line.scale is not None:
        # the part that rounding the size down cuts off is taken from both ends
        return half + (n / 2.0) * (1.0 - te.cast(FLOAT64, line.to) / line.width())
    return half


def _along(x: Tensor, d: int, line: Line, rule: Rule, inside: DType) -> Tensor:
    """One dimension in its new size."""
    name, shape = "resample", [line.to if k == d else n for k, n in enumerate(x.shape)]

    def at(i: Sequence[Any], place: Expr) -> Expr:
        kept = kept_within(place, line.extent)
        return te.cast(inside, x(*[kept if k == d else j for k, j in enumerate(i)]))

    times = _times(line, rule) if rule.mode == "nearest" else None
    if times is not None:
        value = lambda *i: te.cast(inside, x(*[j // times if k == d else j for k, j in enumerate(i)]))
    elif rule.mode == "nearest":
        chosen = _places(line, rule, lambda i: _nearest(line, rule, i))
        value = lambda *i: at(i, chosen(i[d]))
    else:
        first = _places(line, rule, lambda i: _below(_place(line, rule, i)))
        weights, taps, before = _weights(line, rule, first, inside)
        count = const_int(taps)
        # written out: without a reduction the taps are plain operands of a vector
        if count is not None and count <= 4:

            def value(*i: Any) -> Expr:
                total = weights(i[d], 0) * at(i, first(i[d]) + before)
                for t in range(1, count):
                    total = total + weights(i[d], t) * at(i, first(i[d]) + (before + t))
                return total
        else:
            t = te.reduce_axis((0, taps), "t")

            def value(*i: Any) -> Expr:
                return te.sum(weights(i[d], t) * at(i, first(i[d]) + (before + t)), axis=t)

    if rule.coordinates != "tf_crop_and_resize":
        out = inputs.stage(name, tags.RESIZE, shape, value)
        return inputs.needing(name, out, x, d, 1, unless_empty=True)
    part = inputs.stage(f"{name}.inside", tags.RESIZE, shape, value)
    fill = make.const(rule.extrapolation, inside)

    def cropped(*i: Any) -> Expr:
        place = _place(line, rule, make.as_expr(i[d]))
        # judged by the place and not by the taps: a place between the last two elements is inside
        outside = te.any(place < 0.0, place > te.cast(FLOAT64, line.extent - 1))
        return te.select(outside, fill, part(*i))

    out = inputs.stage(name, tags.RESIZE, shape, cropped)
    return inputs.needing(name, out, x, d, 1, unless_empty=True)


def _places(line: Line, rule: Rule, at: Callable[[Any], Expr]) -> Callable[[Any], Expr]:
    """Where each place of the result reads: by whole numbers where the sizes are known and such a rule gives
    the same, so that it is known how neighbours lie; else in a table, of each place once, which all other
    dimensions share."""
    table = inputs.stage("resample.at", tags.INJECTIVE, [line.to], at)
    n, to = const_int(line.extent), const_int(line.to)
    if n is None or to is None or not 0 < n * to < MOST_EXACT:
        return table
    wanted = te.reference.evaluate(table, {})[0].tolist()
    if rule.coordinates == "align_corners":
        ratio = Fraction(n - 1, max(1, to - 1))
    else:
        ratio = Fraction(n, to) if line.scale is None else 1 / Fraction(line.scale).limit_denominator(1 << 12)
    for times in (1, 2):  # the second for halves that are rounded
        up, by = times * ratio.numerator, times * ratio.denominator
        least = max(place * by - up * i for i, place in enumerate(wanted))
        most = min((place + 1) * by - up * i for i, place in enumerate(wanted)) - 1
        if least <= most:
            return partial(_on_line, up, least, by)
    return table


def _on_line(up: int, begin: int, by: int, i: Any) -> Expr:
    return make.floordiv(make.add(make.mul(make.as_expr(i), up), begin), by)


def _times(line: Line, rule: Rule) -> int | None:
    """How often each element stands side by side in the result, where that is all there is to the nearest:
    then no table of places is read, and neighbours of the result are known to be of one element. None where
    it is not."""
    half = rule.coordinates in ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
    if not (half and rule.rounding.startswith("round_prefer")) and not (
        rule.coordinates == "asymmetric" and rule.rounding == "floor"
    ):
        return None
    if line.scale is not None:
        found = int(line.scale) if line.scale == int(line.scale) else 0
    else:
        # sizes that are numbers, or one that is a multiple of the other by its formula
        n, to = const_int(line.extent), const_int(line.to)
        if n is not None and to is not None:
            found = to // n if n and to % n == 0 else 0
        else:
            found = next((k for k in OPEN_TIMES if inputs.equal(line.to, make.mul(line.extent, k))), 0)
    if found < 1 or (rule.coordinates == "pytorch_half_pixel" and const_int(line.to) in (1, None)):
        return None
    return found


def _nearest(line: Line, rule: Rule, i: Any) -> Expr:
    x = _place(line, rule, make.as_expr(i))
    rounded = {
        "round_prefer_floor": lambda: te.ceil(x - 0.5),
        "round_prefer_ceil": lambda: te.floor(x + 0.5),
        "floor": lambda: te.floor(x),
        "ceil": lambda: te.ceil(x),
    }[rule.rounding]()
    return te.cast(INT32, rounded)


def _below(x: Expr) -> Expr:
    """The last whole number below ``x``, which is not ``x`` itself."""
    return te.cast(INT32, te.ceil(x) - 1.0)


def _weights(
    line: Line, rule: Rule, first: Callable[[Any], Expr], inside: DType
) -> tuple[Tensor, Expr, Expr]:
    """The weights [place, tap], how many taps there are, and where the first one lies from ``.at``."""
    reach = 1 if rule.mode == "linear" else 2
    # a result at least as large has nothing to smooth
    narrow = rule.antialias and not inputs.at_most(line.extent, line.to)
    taps, before = make.as_expr(2 * reach), make.as_expr(1 - reach)
    shrink = _number(1.0)
    if narrow:
        shrink = make.min_(line.ratio(), _number(1.0))
        if line.scale is None:
            before = make.add(make.floordiv(make.mul(line.extent, -reach), line.to), 1)
            before = make.min_(before, 1 - reach)
        else:
            # of the exact scale, since the size was rounded
            before = make.as_expr(int(-reach / min(line.scale, 1.0) // 1) + 1)
        taps = make.sub(2, make.mul(before, 2))

    def raw(i: Any, t: Any) -> Expr:
        x = _place(line, rule, make.as_expr(i))
        away = te.cast(FLOAT64, first(i) + before + t) - x
        u = te.abs(away * shrink)
        weight = linear_weight(u) if rule.mode == "linear" else cubic_weight(u, rule.cubic)
        if not rule.exclude_outside:
            return weight
        place = first(i) + before + t
        return te.select(te.all(place >= 0, place < line.extent), weight, _number(0.0))

    def rounded(i: Any, t: Any) -> Expr:
        kind = rule.weights_in
        if kind is None:
            return te.cast(inside, raw(i, t))
        weight = raw(i, t)
        if rule.mode == "linear":
            # the two weights of a place sum to 1 in the narrow type too, as where one is made of the other
            rest = 1.0 - te.cast(FLOAT64, te.cast(kind, raw(i, make.as_expr(1))))
            weight = te.select(make.eq(t, 0), rest, weight)
        return te.cast(inside, te.cast(kind, weight))

    name = "resample.weights"
    if not narrow and not rule.exclude_outside:
        weights = inputs.stage(name, tags.INJECTIVE, [line.to, taps], rounded)
        return weights, taps, before
    each = inputs.stage(f"{name}.each", tags.INJECTIVE, [line.to, taps], raw)
    r = te.reduce_axis((0, taps), "t")
    total = inputs.stage(f"{name}.sum", tags.REDUCE, [line.to], lambda i: te.sum(each(i, r), axis=r))
    weights = inputs.stage(
        # what is left of the weights at a border, or after smoothing, is made to sum to 1
        name,
        tags.BROADCAST,
        [line.to, taps],
        lambda i, t: te.cast(inside, each(i, t) / total(i)),
    )
    return weights, taps, before
