"""Normalisations: layer, RMS, group and instance norm over statistics of the tensor itself, batch norm over
given ones.

Statistics are made in float32 for 16-bit floats, the variance in a second pass about the mean (the two-pass
algorithm of Chan, Golub and LeVeque, "Algorithms for Computing the Sample Variance", 1983). The stages are
row by row: ``.sum`` and ``.mean`` (rows), ``.squares`` and ``.rstd`` (rows), then the elements. Knows
reductions over dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import te
from ..errors import DeclareError
from ..expr import make
from ..expr.make import ExprLike
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs, tags
from .inputs import Axis
from .reduce import count, mean_stages, over, scaled, squares_about

__all__ = ["batch_norm", "group_norm", "instance_norm", "layer_norm", "rms_norm"]

Index = Sequence[Any]

# torch's default for rms_norm: the machine epsilon of the type that it is computed in
_EPS = {"float32": 2.0**-23, "float64": 2.0**-52}


def _eps(op: str, eps: Any) -> float:
    e = inputs.number(op, "eps", eps)
    if e < 0:
        raise DeclareError(
            f"ops.{op}: eps={eps}", because="the root is taken of the variance plus eps", try_="eps=1e-5"
        )
    return e


def _which(x: Tensor, axes: Sequence[int]) -> str:
    many = "" if len(axes) == 1 else "s"
    return f"{inputs.named(x)} is normalised over dimension{many} {', '.join(map(str, axes))}"


def _normalised(op: str, x: Tensor, shape: Any, axis: Axis) -> tuple[int, ...]:
    """The dimensions that are normalised: the last ones, of the sizes ``shape`` as in torch, or ``axis``."""
    if shape is None:
        return inputs.axes_of(op, -1 if axis is None else axis, x.ndim)
    if axis is not None:
        raise DeclareError(f"ops.{op}: both normalized_shape and axis are given", try_="one of them")
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
    for t in sizes:
        if isinstance(t, Tensor):
            raise DeclareError(
                f"ops.{op}: normalized_shape is the tensor {t.name}",
                because="as in torch, the sizes come before the weight",
                try_=f"weight={t.name}",
            )
    if len(sizes) > x.ndim:
        raise DeclareError(
            f"ops.{op}: normalized_shape {inputs.text(sizes)} has more dimensions than {inputs.named(x)}"
        )
    for want, have in zip(sizes, x.shape[x.ndim - len(sizes) :], strict=True):
        if not inputs.equal(want, have):
            raise DeclareError(
                f"ops.{op}: normalized_shape {inputs.text(sizes)} is not the end of the shape of "
                f"{inputs.named(x)}",
                because=f"{want} stands where the tensor has {have}",
                try_=f"axis={want}"
                if isinstance(want, int) and want < 0
                else f"normalized_shape={inputs.text(x.shape[-len(sizes) :])}",
            )
    return tuple(range(x.ndim - len(sizes), x.ndim))


def _parameter(op: str, what: str, p: Any, x: Tensor, axes: Sequence[int], because: str) -> Tensor | None:
    """A weight or bias over the dimensions ``axes`` of ``x``, or None."""
    if p is None:
        return None
    p = inputs.floating(op, p, what)
    if p.ndim != len(axes):
        raise DeclareError(
            f"ops.{op}: the shape of {what} is {inputs.text(p.shape)}, "
            f"{inputs.text([x.shape[d] for d in axes])} is needed",
            because=because,
        )
    for d, a in enumerate(axes):
        inputs.same_size(op, f"dimension {d} of {what} {p.name}", p.shape[d], x.shape[a], because)
    return p


def _affine(e: Expr, weight: Tensor | None, bias: Tensor | None, own: Sequence[ExprLike]) -> Expr:
    if weight is not None:
        e = e * te.cast(e.dtype, weight(*own))
    return e if bias is None else e + te.cast(e.dtype, bias(*own))


def layer_norm(
    x: Tensor,
    normalized_shape: int | Sequence[Any] | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    axis: Axis = None,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with mean and variance over the last dimensions (Ba,
    Kiros and Hinton 2016).

    They are those of ``normalized_shape``, as in torch, or the dimensions ``axis``; the last one when neither
    is given. ``weight`` and ``bias`` have their shape. Of floats; the dtype of ``x``. attrs["axes"] are the
    dimensions. Raises DeclareError for parameters of other shapes.

    >>> x = te.placeholder((2, 8), name="x")
    >>> ops.layer_norm(x)
    Tensor(layer_norm: float32[2, 8])
    """
    x = inputs.floating("layer_norm", x)
    axes = _normalised("layer_norm", x, normalized_shape, axis)
    because = _which(x, axes)
    weight = _parameter("layer_norm", "weight", weight, x, axes, because)
    bias = _parameter("layer_norm", "bias", bias, x, axes, because)
    return _normal(
        "layer_norm",
        x,
        x.shape,
        axes,
        x,
        lambda i: list(inputs.without(i, axes)),
        lambda i: [i[d] for d in axes],
        weight,
        bias,
        eps,
    )


def _normal(
    op: str,
    x: Tensor,
    box: Sequence[Expr],
    axes: Sequence[int],
    element: Callable[..., Expr],
    row: Callable[[Index], Index],
    own: Callable[[Index], Index],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    """``x`` less the mean, over the deviation: both over the dimensions ``axes`` of a box of elements. Expr
    ``i`` of ``x`` belongs to the row ``row(i)`` of the statistics and to the place ``own(i)`` of ``weight``
    and ``bias``."""
    e0, inside = _eps(op, eps), inputs.wide(x.dtype)

    def wide(*i: Any) -> Expr:
        return te.cast(inside, element(*i))

    # in two passes: the mean of squares less the square of the mean cancels where the mean is large
    mean = mean_stages(f"{op}.mean", box, axes, wide)
    squares = squares_about(f"{op}.squares", box, axes, wide, mean)
    rstd = _rstd(op, squares, box, axes, e0)

    def normalised(*i: Any) -> Expr:
        e = (te.cast(inside, x(*i)) - mean(*row(i))) * rstd(*row(i))
        return te.cast(x.dtype, _affine(e, weight, bias, own(i)))

    return inputs.stage(op, tags.NORM, x.shape, normalised, {"axes": tuple(axes)})


def _rstd(op: str, squares: Tensor, box: Sequence[Expr], axes: Sequence[int], eps: float) -> Tensor:
    t = squares.dtype
    # a root and a division for each row, and not for each element
    return scaled(f"{op}.rstd", squares, lambda e: te.rsqrt(e / count(box, axes, t) + make.const(eps, t)), t)


def rms_norm(
    x: Tensor,
    normalized_shape: int | Sequence[Any] | None = None,
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    axis: Axis = None,
) -> Tensor:
    """``x / sqrt(mean(x²) + eps) * weight`` over the last dimensions (Zhang and Sennrich 2019).

    Dimensions as for :func:`layer_norm`; ``eps``, when left out, is the machine epsilon of the dtype, of
    float32 for those of 16 bits, as in torch. Raises DeclareError for parameters of other shapes.

    >>> x = te.placeholder((2, 8), name="x")
    >>> ops.rms_norm(x)
    Tensor(rms_norm: float32[2, 8])
    """
    x = inputs.floating("rms_norm", x)
    axes = _normalised("rms_norm", x, normalized_shape, axis)
    because = _which(x, axes)
    weight = _parameter("rms_norm", "weight", weight, x, axes, because)
    inside = inputs.wide(x.dtype)
    e0 = _EPS[inside.name] if eps is None else _eps("rms_norm", eps)

    def square(e: Expr) -> Expr:
        return te.cast(inside, e) * te.cast(inside, e)

    total = over("rms_norm.squares", x, axes, te.sum, square)
    rstd = _rstd("rms_norm", total, x.shape, axes, e0)

    def element(*i: Any) -> Expr:
        e = te.cast(inside, x(*i)) * rstd(*inputs.without(i, axes))
        return te.cast(x.dtype, _affine(e, weight, None, [i[d] for d in axes]))

    return inputs.stage("rms_norm", tags.NORM, x.shape, element, {"axes": axes})


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    axis: int = 1,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with given statistics, one for each channel along
    ``axis`` (Ioffe and Szegedy 2015; inference).

    Folded, as torch does, into ``x * scale + shift``: stages ``batch_norm.scale`` and ``batch_norm.shift``
    have one number for each channel. Raises DeclareError for parameters of other shapes.

    >>> image = te.placeholder((1, 3, 8, 8), name="image")
    >>> m, v = te.placeholder((3,), name="m"), te.placeholder((3,), name="v")
    >>> ops.batch_norm(image, m, v)
    Tensor(batch_norm: float32[1, 3, 8, 8])
    """
    x = inputs.floating("batch_norm", x)
    d = inputs.axis_of("batch_norm", axis, x.ndim)
    because = f"the channels of {inputs.named(x)} are dimension {d}"
    given = [
        _parameter("batch_norm", what, p, x, (d,), because)
        for what, p in (
            ("running_mean", running_mean),
            ("running_var", running_var),
            ("weight", weight),
            ("bias", bias),
        )
    ]
    mean, variance, weight, bias = given
    if mean is None or variance is None:
        raise DeclareError(
            "ops.batch_norm: running_mean and running_var are needed",
            because="in inference the statistics are given",
            try_="ops.instance_norm or ops.layer_norm for the statistics of x itself",
        )
    e0, inside = _eps("batch_norm", eps), inputs.wide(x.dtype)

    def scaling(c: Any) -> Expr:
        # a root for each channel, not for each element: for those a multiply and an add are left
        r = te.rsqrt(te.cast(inside, variance(c)) + make.const(e0, inside))
        return r if weight is None else te.cast(inside, weight(c)) * r

    scale = inputs.stage("batch_norm.scale", tags.ELEMENTWISE, variance.shape, scaling)

    def shifting(c: Any) -> Expr:
        m = te.cast(inside, mean(c)) * scale(c)
        return make.neg(m) if bias is None else te.cast(inside, bias(c)) - m

    shift = inputs.stage("batch_norm.shift", tags.ELEMENTWISE, variance.shape, shifting)
    return inputs.stage(
        "batch_norm",
        tags.BROADCAST,
        x.shape,
        lambda *i: te.cast(x.dtype, te.cast(inside, x(*i)) * scale(i[d]) + shift(i[d])),
        {"axis": d},
    )


def group_norm(
    x: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Statistics over each of ``num_groups`` groups of neighbouring channels and all positions; x is [N, C,
    …] (Wu and He 2018).

    ``weight`` and ``bias`` have one number for each channel. Raises DeclareError unless the groups are sure
    to divide C.
    """
    x = inputs.floating("group_norm", x)
    groups = inputs.integer("group_norm", "num_groups", num_groups)
    if x.ndim < 2:
        raise DeclareError(
            f"ops.group_norm: the shape of {x.name} is {inputs.text(x.shape)}",
            because="it has samples and channels at least: [N, C, …]",
        )
    channels = x.shape[1]
    if not inputs.divides(groups, channels):
        raise DeclareError(
            f"ops.group_norm: num_groups={groups} does not divide the {channels} channels of "
            f"{inputs.named(x)}",
            because="every group has as many channels",
            try_=None
            if groups < 1 or const_int(channels) is not None
            else f"te.dim('c', multiple_of={groups}) for the channels",
        )
    weight, bias = _channel_parameters("group_norm", x, weight, bias)
    each = make.floordiv(channels, groups)
    # groups are only another way to count: nothing is copied
    box = (x.shape[0], make.as_expr(groups), each, *x.shape[2:])
    return _normal(
        "group_norm",
        x,
        box,
        tuple(range(2, len(box))),
        lambda n, g, c, *p: x(n, g * each + c, *p),
        lambda i: [i[0], make.floordiv(i[1], each)],
        lambda i: [i[1]],
        weight,
        bias,
        eps,
    )


def _channel_parameters(op: str, x: Tensor, *given: Tensor | None) -> list[Tensor | None]:
    because = f"the channels of {inputs.named(x)} are dimension 1"
    return [
        _parameter(op, what, p, x, (1,), because) for what, p in zip(("weight", "bias"), given, strict=True)
    ]


def instance_norm(
    x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Statistics over the positions of each channel of each sample; x is [N, C, …] (Ulyanov et al. 2016). One
    weight and bias a channel. Raises DeclareError for parameters of other shapes."""
    x = inputs.floating("instance_norm", x)
    if x.ndim < 3:
        raise DeclareError(
            f"ops.instance_norm: the shape of {x.name} is {inputs.text(x.shape)}",
            because="it has samples, channels and positions: [N, C, …]",
        )
    weight, bias = _channel_parameters("instance_norm", x, weight, bias)
    return _normal(
        "instance_norm",
        x,
        x.shape,
        tuple(range(2, x.ndim)),
        x,
        lambda i: list(i[:2]),
        lambda i: [i[1]],
        weight,
        bias,
        eps,
    )
