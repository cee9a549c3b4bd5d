"""ATen's operators of the way back that torch does not take apart: of convolutions, attention, pools and
embeddings. Knows ops.

Each result is an operator of its own, so that what nobody asks for is not computed, and regions form as they
do forward.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops, te
from ...core.dtype import INT64
from ...ops.places import kept_within
from ...ops.reduce import count
from ...te import Tensor
from ..words import by_channel, constant_like, inverse_root, times
from .attention import factor, scores
from .norms import last_axes, native_layer_norm_parts
from .table import aten, graph_op, known, needs
from .types import as_type, rounded_once, widened
from .windows import convolution, each


@graph_op("convolution_backward")
def convolution_backward(
    g: Any,
    grad: Any,
    x: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    n = weight.ndim - 2
    how = {
        "stride": each(stride, n),
        "padding": each(padding, n),
        "dilation": each(dilation, n),
        "groups": groups,
    }
    pair = (grad, x) if not transposed else (x, grad)

    def data_back() -> Any:
        if transposed:
            return g(_conv_transpose_data_back, grad, x, weight, **how)
        spans = [known(k, "a window") - 1 for k in weight.shape[2:]]
        wide = each(dilation, n)
        around = [w * k - p for w, k, p in zip(wide, spans, each(padding, n), strict=True)]
        if groups > 1 or any(s != 1 for s in each(stride, n)) or min(around) < 0:
            return g(_conv_data_back, grad, x, weight, **how)
        turned = g(_turned, weight)  # by itself: what is left is a convolution like any other
        return g(_conv_turned, grad, turned, padding=around, dilation=wide)

    return (data_back, lambda: g(_conv_weight_back, *pair, weight, **how), lambda: g(_conv_bias_back, grad))


def _conv_data_back(
    grad: Tensor, x: Tensor, weight: Tensor, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """By the transposed convolution, to the very size there was."""
    extra = []
    for d, (s, p, w) in enumerate(zip(stride, padding, dilation, strict=True)):
        if s == 1:
            extra.append(0)
            continue
        size, out = known(x.shape[2 + d], "an image"), known(grad.shape[2 + d], "an image")
        window = known(weight.shape[2 + d], "a window")
        # rows at the end that no window reached: their gradient is zero, and they are there
        extra.append(size - ((out - 1) * s - 2 * p + w * (window - 1) + 1))
    return convolution(grad, weight, None, stride, padding, dilation, True, extra, groups)


def _turned(weight: Tensor) -> Tensor:
    """Outputs and channels change places, and windows are read backwards."""
    turned: Tensor = ops.flip(
        ops.transpose(weight, (1, 0, *range(2, weight.ndim))), tuple(range(2, weight.ndim))
    )
    return turned


def _conv_turned(grad: Tensor, turned: Tensor, *, padding: Any, dilation: Any) -> Tensor:
    return convolution(grad, turned, None, [1] * len(padding), padding, dilation, False, 0, 1)


def _conv_transpose_data_back(
    grad: Tensor, x: Tensor, weight: Tensor, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    return convolution(grad, weight, None, stride, padding, dilation, False, 0, groups)


def _conv_weight_back(
    small: Tensor, large: Tensor, weight: Tensor, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    """Of each place in the window the products of what it met: ``large`` is what the window goes over. Of 16
    bits they are summed in float32, as everywhere."""
    small, large, kind = widened(small), widened(large), weight.dtype
    margins = [(0, 0), (0, 0), *((p, p) for p in padding)]
    # written out: each element of it is read once for every output channel
    padded = ops.pad(large, margins) if any(padding) else large
    rows = [te.reduce_axis((0, small.shape[0]), name="n")]
    rows += [te.reduce_axis((0, m), name=f"r{d}") for d, m in enumerate(small.shape[2:])]
    per = te.floordiv(small.shape[1], groups)
    inner = weight.shape[1]

    def element(o: Any, i: Any, *k: Any) -> Any:
        batch, *at = rows
        places = [r * s + kk * w for r, s, kk, w in zip(at, stride, k, dilation, strict=True)]
        channel = i if groups == 1 else te.floordiv(o, per) * inner + i
        return te.sum(small(batch, o, *at) * padded(batch, channel, *places), axis=rows)

    found: Any = te.compute(weight.shape, element, name="weight_back")
    return as_type(found, kind)


def _conv_bias_back(grad: Tensor) -> Tensor:
    return _over_channels(grad)


@graph_op("native_batch_norm_backward")
def batch_norm_backward(
    g: Any,
    grad: Any,
    x: Any,
    weight: Any,
    running_mean: Any,
    running_var: Any,
    mean: Any,
    factor: Any,
    train: bool,
    eps: float,
    mask: Any,
) -> Any:
    """Of the statistics of the batch: two sums over each channel and one pass over all elements, where
    torch's decomposition makes tensors as large as the image in between."""
    kinds = [t.dtype for t in (x, x if weight is None else weight)]
    narrow = x.dtype.bits == 16
    if narrow:  # computed in float32, each result rounded once
        grad, x = g(widened, grad), g(widened, x)
        weight, running_mean, running_var, mean, factor = (
            t if t is None else g(widened, t) for t in (weight, running_mean, running_var, mean, factor)
        )
    if not train:
        mean, factor = running_mean, g(inverse_root, running_var, epsilon=eps)

    @functools.cache
    def total() -> Any:
        return g(_over_channels, grad)

    @functools.cache
    def along() -> Any:
        return g(_off_the_mean, grad, x, mean)

    def data_back() -> Any:
        scale = factor if weight is None else g(ops.multiply, factor, weight)
        if not train:
            return g(_each_channel_times, grad, scale)
        return g(_batch_norm_data_back, grad, x, mean, factor, scale, total(), along())

    def rounded(made: Any, kind: Any) -> Any:
        return g(as_type, made, t=str(kind)) if narrow else made

    # as functions: those of results that nobody reads are never called
    return (
        lambda: rounded(data_back(), kinds[0]),
        lambda: rounded(g(ops.multiply, along(), factor), kinds[1]),
        lambda: rounded(total(), kinds[1]),
    )


def _over_channels(x: Tensor) -> Tensor:
    return ops.sum(x, tuple(d for d in range(x.ndim) if d != 1))


def _off_the_mean(grad: Tensor, x: Tensor, mean: Tensor) -> Tensor:
    return _over_channels(ops.multiply(grad, ops.subtract(x, by_channel(mean, x))))


def _each_channel_times(x: Tensor, scale: Tensor) -> Tensor:
    return ops.multiply(x, by_channel(scale, x))


def _batch_norm_data_back(
    grad: Tensor, x: Tensor, mean: Tensor, factor: Tensor, scale: Tensor, total: Tensor, along: Tensor
) -> Tensor:
    each = count(x.shape, [d for d in range(x.ndim) if d != 1], x.dtype)

    def share(t: Tensor) -> Any:
        return te.compute(t.shape, lambda c: t(c) / each, name="share")

    slope = by_channel(ops.multiply(ops.square(factor), share(along)), x)
    # what the mean and the deviation take with them when an element moves
    fitted = ops.multiply(ops.subtract(x, by_channel(mean, x)), slope)
    rest = ops.subtract(ops.subtract(grad, fitted), by_channel(share(total), x))
    return _each_channel_times(rest, scale)


@graph_op("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    g: Any,
    grad: Any,
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    sums: Any,
    dropout: float,
    is_causal: bool,
    mask: Any = None,
    scale: float | None = None,
) -> Any:
    """With the weights of the attention made anew from the sums that were kept. Of 16 bits all is computed in
    float32; weights and slopes are rounded where a product reads them, and the results, as torch does."""
    needs(not dropout, "attention with dropout")

    @functools.cache
    def weights() -> Any:
        return g(_weights, q, k, mask, sums, is_causal=is_causal, scale=scale)

    @functools.cache
    def slopes() -> Any:
        return g(_slopes, weights(), grad, v, g(_along, grad, out), q)

    return (
        lambda: g(_across, slopes(), k, scale=scale),
        lambda: g(_product, slopes(), q, scale=scale),
        lambda: g(_product, weights(), grad, scale=1.0),
    )


# weights and slopes have a row for each key, and a column for each query: two of the three products with them
# then read them as they lie. Measured (8 heads of 512 rows): a product across takes twice the time


def _weights(
    q: Tensor, k: Tensor, mask: Tensor | None, sums: Tensor, *, is_causal: bool, scale: float | None
) -> Tensor:
    s = scores(q, k, mask, is_causal, scale, by_key=True)
    # the sums are logarithms: no maximum and no division once more
    return ops.exp(ops.subtract(s, ops.expand_dims(as_type(sums, s.dtype), (-2,))))


def _along(grad: Tensor, out: Tensor) -> Tensor:
    return ops.sum(ops.multiply(widened(grad), widened(out)), -1)


def _slopes(p: Tensor, grad: Tensor, v: Tensor, along: Tensor, q: Tensor) -> Tensor:
    products = ops.matmul(widened(v), widened(grad), False, True)
    return as_type(ops.multiply(p, ops.subtract(products, ops.expand_dims(along, (-2,)))), q.dtype)


def _product(a: Tensor, b: Tensor, *, scale: float | None) -> Tensor:
    made = ops.matmul(widened(as_type(a, b.dtype)), widened(b))
    return as_type(times(made, factor(b, scale)), b.dtype)


def _across(a: Tensor, b: Tensor, *, scale: float | None) -> Tensor:
    made = ops.matmul(widened(as_type(a, b.dtype)), widened(b), True, False)
    return as_type(times(made, factor(b, scale)), b.dtype)


@graph_op("native_layer_norm")
def native_layer_norm(g: Any, x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """The result, and what the way back reads."""
    count = len(shape)
    return (
        lambda: g(_layer_norm, x, weight, bias, count=count, eps=eps),
        lambda: g(_layer_mean, x, count=count, eps=eps),
        lambda: g(_layer_factor, x, count=count, eps=eps),
    )


def _layer_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *, count: int, eps: float) -> Tensor:
    return ops.layer_norm(x, None, weight, bias, eps, axis=last_axes(x, count))


def _layer_mean(x: Tensor, *, count: int, eps: float) -> Tensor:
    return native_layer_norm_parts(x, count, eps)[0]


def _layer_factor(x: Tensor, *, count: int, eps: float) -> Tensor:
    return native_layer_norm_parts(x, count, eps)[1]


@graph_op("_weight_norm_interface_backward")
def weight_norm_backward(g: Any, grad: Any, v: Any, scale: Any, norm: Any, axis: int) -> Any:
    """Of ``v * (scale / norm)``, whose norms are over all axes but one: for the direction and the scale."""
    met = g(_met, grad, v, axis=axis % v.ndim)
    return lambda: g(_direction_back, grad, v, scale, norm, met), lambda: g(_scale_back, met, norm)


def _met(grad: Tensor, v: Tensor, *, axis: int) -> Tensor:
    return ops.sum(widened(grad) * widened(v), axis=[d for d in range(v.ndim) if d != axis], keepdims=True)


def _direction_back(grad: Tensor, v: Tensor, scale: Tensor, norm: Tensor, met: Tensor) -> Tensor:
    norm = widened(norm)
    off = widened(grad) - widened(v) * (met / (norm * norm))
    return as_type(off * (widened(scale) / norm), v.dtype)


def _scale_back(met: Tensor, norm: Tensor) -> Tensor:
    return as_type(met / widened(norm), norm.dtype)


@aten("max_pool2d_with_indices_backward", "adaptive_max_pool2d_backward")
def max_pool_backward(grad: Tensor, x: Tensor, *args: Any) -> Tensor:
    """Every number goes where it was the largest."""
    places, width = args[-1], x.shape[-1]
    lead = x.ndim - 2

    def where(*i: Any) -> Any:
        at = places(*i)
        return (*i[:lead], te.floordiv(at, te.cast(INT64, width)), te.floormod(at, te.cast(INT64, width)))

    # windows overlap: several gradients may go to one element, and are added
    return te.scatter(0, grad.shape, where, lambda *i: grad(*i), shape=x.shape, dtype=x.dtype)


@aten("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    grad: Tensor,
    x: Tensor,
    size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: int | None,
) -> Tensor:
    """Every element has a share of each window that it is in."""
    n = 3 if len(each(size, 1)) == 3 else 2
    sizes, margins = each(size, n), each(padding, n)
    dims = list(zip(sizes, each(stride, n) if stride else sizes, margins, x.shape[-n:], strict=True))

    def share(at: Sequence[Any]) -> Any:
        """Of the elements of the window at this place of the gradient."""
        count = te.const(divisor or 1, INT64)
        if divisor is None:
            for o, (k, s, p, length) in zip(at[-n:], dims, strict=True):
                start = o * s - p
                end = te.min(start + k, length + p)
                if not count_include_pad:
                    start, end = te.max(start, 0), te.min(end, length)
                count = count * te.cast(INT64, end - start)
        return grad(*at) / te.cast(grad.dtype, count)

    return (_by_windows if grad.dtype.bits == 16 else _by_elements)(grad, x, dims, share)


def _by_elements(grad: Tensor, x: Tensor, dims: Sequence[Any], share: Callable[..., Any]) -> Tensor:
    """Each element adds its shares: of the windows along a dimension, counted back from the last that begins
    before it."""
    lead = x.ndim - len(dims)
    reach = [te.reduce_axis((0, -(-k // s)), name=f"w{d}") for d, (k, s, _, _) in enumerate(dims)]

    def element(*i: Any) -> Any:
        at, inside = [], []
        for d, ((k, s, p, _), w) in enumerate(zip(dims, reach, strict=True)):
            o = te.floordiv(i[lead + d] + p, s) - w
            at.append(o)
            inside += [o >= 0, o < grad.shape[lead + d], o * s - p + k > i[lead + d]]
        value = te.if_then_else(te.all(*inside), share((*i[:lead], *at)), te.const(0, grad.dtype))
        return te.sum(value, axis=reach)

    found: Any = te.compute(x.shape, element, name="avg_pool_back")
    return found


def _by_windows(grad: Tensor, x: Tensor, dims: Sequence[Any], share: Callable[..., Any]) -> Tensor:
    """Each window adds its share to its elements. So does torch, which rounds 16-bit floats after each:
    another order would give another sum."""
    rank, lead = x.ndim, x.ndim - len(dims)

    def places(i: Sequence[Any]) -> list[Any]:
        return [o * s - p + w for o, w, (_, s, p, _) in zip(i[lead:rank], i[rank:], dims, strict=True)]

    def where(*i: Any) -> Any:
        kept = (te.max(0, te.min(at, length - 1)) for at, (*_, length) in zip(places(i), dims, strict=True))
        return (*i[:lead], *kept)

    def value(*i: Any) -> Any:
        inside = [at == kept for at, kept in zip(places(i), where(*i)[lead:], strict=True)]
        # margins add zero: a scatter cannot leave out a place
        return te.if_then_else(te.all(*inside), share(i[:rank]), te.const(0, grad.dtype))

    windows = (*grad.shape, *(k for k, *_ in dims))
    return te.scatter(0, windows, where, value, shape=x.shape, dtype=x.dtype)


@aten("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def replication_pad_backward(grad: Tensor, x: Tensor, padding: Sequence[Any]) -> Tensor:
    """Margins go to the element at their edge; ``padding`` has the last dimension first. Torch rounds each
    sum of 16-bit floats, as a scatter does."""
    before = list(reversed(padding[::2]))
    lead = x.ndim - len(before)

    def where(*i: Any) -> Any:
        inner = (
            te.max(0, te.min(k - p, n - 1)) for k, p, n in zip(i[lead:], before, x.shape[lead:], strict=True)
        )
        return (*i[:lead], *inner)

    return te.scatter(0, grad.shape, where, lambda *i: grad(*i), shape=x.shape, dtype=x.dtype)


@aten("embedding_dense_backward")
def embedding_backward(
    grad: Tensor, indices: Tensor, rows: Any, padding_idx: int, by_count: bool = False
) -> Tensor:
    needs(not by_count, "gradients by how often an index occurs")
    rank = indices.ndim

    def where(*i: Any) -> Any:
        return te.cast(INT64, indices(*i[:rank])), i[rank]

    def value(*i: Any) -> Any:
        none = te.cast(INT64, indices(*i[:rank])) == te.const(padding_idx, INT64)
        # added as zero: a scatter cannot leave out a place
        return te.select(none, te.const(0, grad.dtype), grad(*i))

    return te.scatter(0, grad.shape, where, value, shape=(rows, grad.shape[-1]), dtype=grad.dtype)


@aten("threshold_backward")
def threshold_backward(grad: Tensor, x: Tensor, least: float) -> Tensor:
    # asked this way round, since what comes to a NaN goes on
    return ops.where(ops.less_equal(x, constant_like(x, least)), constant_like(grad, 0), grad)


@aten("_softmax_backward_data")
def softmax_backward(grad: Tensor, y: Tensor, axis: int, kind: str) -> Tensor:
    return as_type(rounded_once(_softmax_back)(grad, y, axis), kind)


def _softmax_back(grad: Tensor, y: Tensor, axis: int) -> Tensor:
    product = ops.multiply(grad, y)
    total = product if y.ndim == 0 else ops.sum(product, axis, keepdims=True)
    return ops.subtract(product, ops.multiply(y, total) if y.ndim else total)


@aten("_log_softmax_backward_data")
def log_softmax_backward(grad: Tensor, y: Tensor, axis: int, kind: str) -> Tensor:
    return as_type(rounded_once(_log_softmax_back)(grad, y, axis), kind)


def _log_softmax_back(grad: Tensor, y: Tensor, axis: int) -> Tensor:
    total = grad if y.ndim == 0 else ops.sum(grad, axis, keepdims=True)
    return ops.subtract(grad, ops.multiply(ops.exp(y), total))


def _targets(x: Tensor, target: Tensor, ignore: int) -> tuple[Any, Any]:
    """For an element of the target: whether it counts, and its class."""

    def counts(*i: Any) -> Any:
        return te.cast(INT64, target(*i)) != te.const(ignore, INT64)

    def chosen(*i: Any) -> Any:
        # the class to be ignored may be any number, -100 by default, and is read before it is known not to
        # count
        return kept_within(te.cast(INT64, target(*i)), te.cast(INT64, x.shape[min(1, x.ndim - 1)]))

    return counts, chosen


def _with_class(i: Sequence[Any], c: Any) -> tuple[Any, ...]:
    """The place in [N, C, …] of a place in [N, …]."""
    return (*i[:1], c, *i[1:])


@graph_op("nll_loss_forward", "nll_loss2d_forward")
def nll_loss_forward(g: Any, x: Any, target: Any, weight: Any, reduction: int, ignore: int) -> Any:
    """The loss, and the sum of the weights of what counts."""

    @functools.cache
    def weights() -> Any:
        return g(_nll_weights, x, target, weight, reduction=reduction, ignore=ignore)

    def loss() -> Any:
        each_ = g(_nll_each, x, target, weight, ignore=ignore)
        if reduction == 0:
            return each_
        summed = g(_nll_sum, each_)
        return summed if reduction == 2 else g(ops.divide, summed, weights())

    return loss, weights


def _class_weight(weight: Tensor | None, x: Tensor, c: Any) -> Any:
    return te.const(1, x.dtype) if weight is None else weight(c)


def _nll_each(x: Tensor, target: Tensor, weight: Tensor | None, *, ignore: int) -> Tensor:
    counts, chosen = _targets(x, target, ignore)

    def element(*i: Any) -> Any:
        c = chosen(*i)
        loss = -_class_weight(weight, x, c) * x(*_with_class(i, c)[-x.ndim :])
        return te.select(counts(*i), loss, te.const(0, x.dtype))

    found: Any = te.compute(target.shape, element, name="nll")
    return found


def _nll_sum(each_: Tensor) -> Tensor:
    return ops.sum(each_) if each_.ndim else each_


def _nll_weights(x: Tensor, target: Tensor, weight: Tensor | None, *, reduction: int, ignore: int) -> Tensor:
    if reduction == 0:
        return ops.full((), 0.0, x.dtype)
    counts, chosen = _targets(x, target, ignore)

    def element(*i: Any) -> Any:
        return te.select(counts(*i), _class_weight(weight, x, chosen(*i)), te.const(0, x.dtype))

    found: Any = te.compute(target.shape, element, name="counted")
    return _nll_sum(found)


@aten("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore: int, total: Tensor
) -> Tensor:
    counts, chosen = _targets(x, target, ignore)
    axis = min(1, x.ndim - 1)

    def element(*i: Any) -> Any:
        at = (*i[:axis], *i[axis + 1 :])
        slope: Any = grad(*at) if grad.ndim else grad()
        if reduction == 1:
            slope = slope / total()
        c = chosen(*at)
        mine = te.all(counts(*at), c == te.cast(INT64, i[axis]))
        return te.select(mine, -slope * _class_weight(weight, x, c), te.const(0, x.dtype))

    found: Any = te.compute(x.shape, element, name="nll_back")
    return found
