"""ONNX's operators on shapes and places of elements. Knows ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ... import ops, te
from ...arith.facts import Facts
from ...errors import TensorLangError, counted
from ...expr import make
from ...expr.nodes import Expr, const_int
from ...expr.walk import variables
from ...ops.inputs import at_most
from ...te import Tensor
from .proto import Call
from .table import graph_op, one, te_op

if TYPE_CHECKING:
    from .importer import Importer


@te_op("Reshape", values=(1,))
def reshape(x: Tensor, target: Any = None, *, shape: Any = None, allowzero: int = 0) -> Tensor:
    wanted = list(shape if target is None else target)
    if not allowzero:
        # 0 copies the size that was there
        wanted = [x.shape[d] if isinstance(n, int) and n == 0 else n for d, n in enumerate(wanted)]
    return ops.reshape(x, wanted)


@te_op("Transpose")
def transpose(x: Tensor, *, perm: Any = None) -> Tensor:
    # exporters write transposes that move nothing
    return x if perm is not None and list(perm) == list(range(x.ndim)) else ops.transpose(x, perm)


@graph_op("Squeeze")
def squeeze(c: Importer, call: Call) -> Any:
    """Without axes every dimension of one element is left out: which of the open ones are is decided by the
    sizes of a call."""
    x = c.tensor(call.inputs[0])
    axes = c.numbers(call.inputs[1]) if any(call.inputs[1:]) else call.attrs.get("axes")
    if axes is None:
        axes = [d for d, n in enumerate(x.shape) if not _several(c, n, call.inputs[0])]
    return c.g.call(
        ops.squeeze, x, op=call.op, name=call.name, outputs=call.outputs, axis=tuple(_listed(axes))
    )


def _several(c: Importer, n: Expr, name: str) -> bool:
    """Whether a size is another than 1."""
    known = const_int(n)
    return c.decided(make.or_(make.lt(n, 1), make.lt(1, n)), name) if known is None else known != 1


@te_op("Unsqueeze", values=(1,))
def unsqueeze(x: Tensor, where: Any = None, *, axes: Any = None) -> Tensor:
    return ops.expand_dims(x, tuple(_listed(axes if where is None else where)))


def dimensions(x: Tensor, axes: Any) -> list[int]:
    """The numbers of these dimensions, of all for None."""
    return list(range(x.ndim)) if axes is None else [a % x.ndim for a in axes]


def _listed(x: Any) -> Any:
    """Axes that are one number are a list of one."""
    return x if x is None or isinstance(x, list) else [x]


@te_op("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    """The sizes are products, for beside one of 0 no size follows from the others."""
    axis = axis + x.ndim if axis < 0 else axis
    return ops.reshape(x, (_product(x.shape[:axis]), _product(x.shape[axis:])))


def _product(sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for n in sizes:
        total = total * n
    return total


@te_op("Concat")
def concat(*tensors: Tensor, axis: int) -> Tensor:
    return tensors[0] if len(tensors) == 1 else ops.concatenate(list(tensors), axis)


@te_op("Expand", values=(1,))
def expand(x: Tensor, shape: Any) -> Tensor:
    """To the shape that both broadcast to."""
    rank = max(x.ndim, len(shape))
    own, wanted = [1] * (rank - x.ndim) + list(x.shape), [1] * (rank - len(shape)) + list(shape)
    # both ways, where numpy's broadcast_to repeats only what is there
    sizes = [a if te.whole.is_one(b) else b for a, b in zip(own, map(_expr, wanted), strict=True)]
    return ops.broadcast_to(x, sizes)


def _expr(n: Any) -> Expr:
    return n if isinstance(n, Expr) else te.const(n, "int64" if abs(n) >= 1 << 31 else "int32")


@graph_op("Slice")
def slice_(c: Importer, call: Call) -> Any:
    """The numbers are attributes in old opsets, inputs since. An open one counts from the end in calls that
    make it negative: those are decided by their sizes."""
    x = c.tensor(call.inputs[0])
    names = ("starts", "ends", "axes", "steps")
    inputs: dict[str, str] = dict(zip(names, call.inputs[1:], strict=False))
    given: list[Any] = [c.numbers(inputs[k]) if inputs.get(k) else call.attrs.get(k) for k in names]
    begin, end, where, steps = given
    steps = [1] * len(begin) if steps is None else steps
    where = list(range(len(begin))) if where is None else where
    begin = [
        _first(_place(c, b, s, x.shape[d], inputs.get("starts", "")), s, x.shape[d])
        for b, s, d in zip(begin, steps, where, strict=True)
    ]
    end = [
        _last(_place(c, e, s, x.shape[d], inputs.get("ends", "")), s)
        for e, s, d in zip(end, steps, where, strict=True)
    ]
    return c.g.call(
        ops.strided_slice,
        x,
        op=call.op,
        name=call.name,
        outputs=call.outputs,
        begin=begin,
        end=end,
        strides=steps,
        axes=where,
    )


def _place(c: Importer, place: Any, step: int, n: Expr, name: str) -> Any:
    """An open place from the beginning; below it where it lies before the first element. Numbers stay."""
    if not isinstance(place, Expr):
        return place
    facts = Facts(sizes=variables(place) | variables(n))
    below = make.lt(place, 0)
    # negative only where n + place is, too: counted from either end it is cut at the first element
    if step == 1 and facts.assume(below).prove(make.le(n + place, 0)) is True:
        return place
    known = facts.prove(below)
    negative = not c.decided(make.le(0, place), name) if known is None else known
    return n + place if negative else place


def to_the_end(end: int, step: int) -> bool:
    """Whether this number is ONNX's word for the last element in that direction: the largest of either width,
    which onnxruntime takes so backwards too, or backwards any that is before the first."""
    return end in (2**31 - 1, 2**63 - 1) or (end > 2**31 if step > 0 else end <= -(2**31) + 1)


def _first(begin: Any, step: int, n: Expr) -> Any:
    """Where a slice begins: backwards from before the first element is from the first for ONNX, where Python
    has nothing left. From the last, -1, is from there for both."""
    if isinstance(begin, Expr):
        return _at_least_0(begin)
    if step > 0 or begin >= -1:
        return begin
    size = const_int(n)
    return te.max(n + begin, 0) if size is None else max(begin + size, 0)


def _last(end: Any, step: int) -> Any:
    """Where a slice ends, None for after the last element in its direction."""
    if isinstance(end, Expr):
        # an open place that is known here does not count from the end again
        return _at_least_0(end) if step > 0 else None if (const_int(end) or 0) < 0 else end
    return None if to_the_end(end, step) else end


def _at_least_0(place: Expr) -> Expr:
    return place if at_most(0, place) else te.max(place, 0)


@te_op("Split", values=(1,))
def split(
    x: Tensor,
    sizes: Any = None,
    *,
    axis: int = 0,
    split: Any = None,
    num_outputs: int | None = None,
    results: int,
) -> Any:
    sizes = split if sizes is None else sizes
    if num_outputs not in (None, results):
        raise TensorLangError(
            f"Split: num_outputs is {num_outputs}, the node has {counted(results, 'output')}"
        )
    if sizes is None:
        n = x.shape[axis]
        # the last part is the smaller one, since version 18
        each = te.ceildiv(n, results)
        ends: list[Any] = [each * k for k in range(1, results)]
    else:
        ends, at = [], 0
        for size in sizes[:-1]:
            at = at + size
            ends.append(at)
    return tuple(ops.split(x, ends, axis)) if ends else (x,)


@te_op("Tile", values=(1,))
def tile(x: Tensor, repeats: Any) -> Tensor:
    return ops.tile(x, repeats)


@te_op("Pad", values=(1, 3))
def pad(
    x: Tensor,
    width: Any = None,
    filler: Tensor | None = None,
    axes: Any = None,
    *,
    mode: str = "constant",
    pads: Any = None,
    value: float = 0.0,
) -> Tensor:
    """Widths below 0 cut off."""
    width = pads if width is None else width
    where = dimensions(x, axes)
    margins = [(0, 0)] * x.ndim
    for k, d in enumerate(where):
        # all widths before, then all behind
        margins[d] = (width[k], width[k + len(where)])
    if any(isinstance(n, int) and n < 0 for pair in margins for n in pair):
        # what follows from open sizes stays: a constant may be cut off by it
        begin = [0 if isinstance(a, Expr) else max(0, -a) for a, _ in margins]
        end = [
            n if isinstance(b, Expr) else n - max(0, -b) for n, (_, b) in zip(x.shape, margins, strict=True)
        ]
        x = ops.strided_slice(x, begin, end)
        margins = [(_at_least_none(a), _at_least_none(b)) for a, b in margins]
    return ops.pad(x, margins, mode, value if filler is None else filler)


def _at_least_none(width: Any) -> Any:
    return width if isinstance(width, Expr) else max(0, width)


@te_op("CenterCropPad", values=(1,))
def center_crop_pad(x: Tensor, wanted: Any, *, axes: Any = None) -> Tensor:
    """What is too long loses both ends, what is too short gets zeros at both."""
    size = dict(zip(dimensions(x, axes), wanted, strict=True))
    shape = [size.get(d, n) for d, n in enumerate(x.shape)]

    def element(*at: Any) -> Any:
        own, inside = list(at), []
        for d, n in size.items():
            have = x.shape[d]
            # of an odd difference one more at the end, both for cropping and for padding
            own[d] = at[d] + te.floordiv(te.max(have - n, 0), 2) - te.floordiv(te.max(n - have, 0), 2)
            inside += [own[d] >= 0, own[d] < have]
        return te.if_then_else(te.all(*inside), x(*own), te.const(0, x.dtype)) if inside else x(*own)

    return te.compute(shape, element, name="center")


@te_op("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    return ops.depth_to_space(x, blocksize, mode)


@te_op("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    return ops.space_to_depth(x, blocksize, mode)


@te_op("Trilu", values=(1,))
def trilu(x: Tensor, k: Any = 0, *, upper: int = 1) -> Tensor:
    return ops.triu(x, one(k)) if upper else ops.tril(x, one(k))


@te_op("Einsum")
def einsum(*tensors: Tensor, equation: str) -> Tensor:
    return ops.einsum(equation, *tensors)
