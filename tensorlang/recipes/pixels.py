"""The nest of convolutions, channels first: register tiles of pixels × vectors of output channels, summed
from packed weights, and a strip of finished pixels that is transposed back into the layout of the output.
Recipes give it numbers, families of dynamic kernels give it tables. Uses public primitives only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..analysis import Conv, constant
from ..ops import tags
from ..schedule import Schedule, Stage
from ..te import ComputeOp, IterVar, Tensor
from .common import LINE
from .nests import Axes, Cut, Loops, nest, pack, sums

WINDOW_TAPS = 9  # of a whole window that are written out: in a weight they lie side by side
FEW = 4  # elements of 32 bits that are transposed together
BESIDE = 8  # pixels of an image that are transposed side by side: half a cache line
# lines of a pixel from which on they are odd in number. The pixels of a tile are read side by side, and where
# they are a power of two apart they all want the same set of the first cache. Measured (Zen 4): 1024 channels
# of 14 × 14 take 0.91 of the time, at stride 2 0.86, 2048 of 7 × 7 0.68 to 0.86
FAR_APART = 8


def transposed_at_once(out: Stage) -> int:
    """Outputs of a pixel that are written together: 128 bits of them are transposed in registers. Measured
    (Emerald Rapids, uint8, 32 to 16 channels of 112 × 112, 1×1): 0.8 of the time of four."""
    return max(FEW, 16 // out.op.outputs[0].dtype.bytes)


def strips(
    s: Schedule,
    out: Stage,
    inside: Stage,
    layout: Callable[..., list[Any]],
    whole: int | None = None,
    between: Stage | None = None,
) -> Stage:
    """The stage of finished pixels between the sums and ``out``, a new one unless there is one ``between``
    them; of sums alone where ``out`` reads more of its own shape, which lies as ``out`` does. It and the sums
    lie in memory as ``layout`` says, pixels and channels last. With ``whole`` the sums are of whole panels or
    vectors of so many channels, also of those there are not, which nobody reads: products that are summed
    together bear no test."""

    def in_panels(*at: Any) -> list[Any]:
        *front, pixel, o = layout(*at)
        return [*front, o // whole, pixel, o % whole]

    # such as the other branch of a residual layer: it is read in vectors of pixels then and not lane by lane,
    # which was half of the code. Measured (Zen 5): 512 to 1024 channels of 14 × 14 compile in 0.72 of the
    # time and take 0.95, of 7 × 7 0.98
    if between is None and _reads_beside(out, inside):
        between = s[s.cache_read(inside.op.outputs[0], "local", [out.name])]
    if whole is None:
        inside.transform_layout(layout)
    else:
        inside.transform_layout(in_panels, pad_value="any")
    finished = s[s.cache_write(out.name, "local")] if between is None else between
    finished.set_scope("local")
    finished.transform_layout(layout)
    return finished


def _reads_beside(out: Stage, inside: Stage) -> bool:
    """Whether ``out`` reads a tensor of its own shape beside the sums, which are no wider than its
    elements."""
    mine, sums = out.op.outputs[0], inside.op.outputs[0]
    read = out.op.input_tensors
    if sums not in read or sums.dtype.bytes > mine.dtype.bytes:
        return False
    return any(t is not sums and _sizes(t) == _sizes(mine) for t in read)


def _sizes(t: Tensor) -> list[Any]:
    """Numbers, and of open sizes which they are: expressions are not compared."""
    return [id(n) if (c := constant(n)) is None else c for n in t.shape]


def convolve(
    s: Schedule,
    out: Stage,
    finished: Stage,
    inside: Stage,
    axes: Axes,
    order: str,
    cuts: Mapping[str, Cut | None],
    high: Cut,
    deep: Sequence[IterVar],
    *,
    strip: int = -3,
    wide: int | None = None,
    together: int = 1,
    vector: int | None = None,
    parallel: bool,
) -> Loops:
    """The nest of ``out``, in strips of pixels that are finished in the loop ``strip`` of those around its
    tile: ``high`` pixels at a time, all channels of the strip or ``wide`` of them, their sums over ``deep``,
    whose last loop is of so many products as are summed ``together``. With ``vector`` the sums are laid out
    in whole vectors of so many channels."""
    loops = nest(out, axes, order, cuts, parallel=parallel)
    finished.compute_at(out, loops.around[strip])
    *_, p, o = finished.op.axis
    if vector is not None:
        tiles = nest(finished, {"p": p, "o": o}, "po | pi oo oi", {"p": high, "o": vector})
    elif wide is None:
        tiles = nest(finished, {"p": p, "o": o}, "po | pi o", {"p": high})
    else:
        tiles = nest(finished, {"p": p, "o": o}, "oo po | pi oi", {"p": high, "o": (wide, "shift")})
    *front, p, o = inside.op.axis
    if together > 1:
        axes = {"f": front, "k": deep[:-1], "c": deep[-1], "p": p, "o": o}
        sums(s, inside, finished, tiles.place, axes, "f k co | p ci o", {"c": (together, "zeros")})
    elif vector is not None:
        *front, v = front
        axes = {"f": front, "k": deep, "p": p, "v": v, "o": o}
        sums(s, inside, finished, tiles.place, axes, "f k | p v o")
    else:
        sums(s, inside, finished, tiles.place, {"f": front, "k": deep, "p": p, "o": o}, "f k | p o")
    return loops


def pack_weight(
    s: Schedule,
    conv: Conv,
    inside: Stage,
    width: int,
    deep: Sequence[IterVar],
    together: int = 1,
    filled: bool = False,
    dtype: str = "",
) -> Stage:
    """The weight in panels of ``width`` outputs of a group, the rest in the order of the reduction, of whose
    last loop so many neighbours are multiplied ``together``. One loop after the other writes it, unless it is
    ``filled`` by a nest of its own."""
    groups = conv.groups > 1
    whole = groups and (conv.each == width or conv.each % width > 0)
    weight = pack(
        s,
        inside,
        conv.weight,
        conv.weight_axes,
        conv.outputs,
        conv.each if whole else width,
        deep=deep,
        each=conv.each if groups and not whole else 0,
        together=together,
        dtype=dtype,
    )
    if together == 1 and not filled:
        weight.vectorize(weight.op.axis[-1])
    return weight


def fill_weight(
    weight: Stage, conv: Conv, deep: Sequence[IterVar], lanes: int, together: int = 1
) -> Sequence[IterVar]:
    """The loops of a weight that is packed in each call: as many of its neighbours side by side as can be
    transposed, for a vector of outputs. The loops over its panels."""
    if together > 1:
        *front, lane, group = weight.op.axis
        nest(weight, {"f": front, "g": group, "o": lane}, "f | g o")
        return front[: -len(deep)]
    *front, lane = weight.op.axis
    loops = dict(zip(deep, front[-len(deep) :], strict=True))
    axes: Axes = {"f": front[: -len(deep)], "c": loops[conv.channels], "o": lane}
    *some, last = [loops[a] for a in conv.taps]
    axes |= {"t": some, "l": last}
    # lane by lane, each behind a test, is how the last outputs are read: of them as few as can be. Measured
    # (Zen 4): 281 to 28 channels of 6 × 6, 5×5, take 0.75 of the time, 256 to 28 of 16 × 16, 3×3, 0.83
    whole = conv.each % lanes == 0
    if math.prod(constant(a.extent) or 1 for a in conv.taps) <= WINDOW_TAPS:
        # a vector of them at a time: a panel of four took LLVM four times as long, and 1.4 times the call; to
        # the end of what they have side by side, so that no more lines are read at a time than a processor
        # follows. Measured (Zen 4): 512 to 512 channels of 14 × 14, stride 2, take 0.8 of the time, 47 drawn
        # shapes 0.98; those that are read in fours 1.04
        around = "oo co" if whole else "co oo"
        nest(weight, axes, f"f {around} | ci t l oi", {"c": FEW, "o": lanes if whole else FEW})
    elif whole:
        nest(weight, axes, "f c t | l o")
    else:
        nest(weight, axes, "f c t oo | l oi", {"o": lanes})
    return front[: -len(deep)]


def counted(at: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Indices as one number, the last the fastest; those of a single value stand in front by themselves."""
    long = [d for d, n in enumerate(sizes) if n > 1] or [len(sizes) - 1]
    total = at[long[0]]
    for d in long[1:]:
        total = total * sizes[d] + at[d]
    return [*[i for d, i in enumerate(at) if d not in long], total]


def by_pixel(s: Schedule, conv: Conv, inside: Stage, together: int, dtype: str = "") -> Stage:
    """The image with the channels of each pixel side by side, or those that are multiplied ``together``;
    pixels that a stride leaves out are not copied."""
    copy = s[s.cache_read(conv.data, "global", [inside.name], dtype)]

    def transposed(*place: Any) -> list[Any]:
        n, c, at = place[: len(conv.batch)], place[len(conv.batch)], place[len(conv.batch) + 1 :]
        phases = [i % st for i, st in zip(at, conv.strides, strict=True) if st > 1]
        pixel = counted([i // st for i, st in zip(at, conv.strides, strict=True)], conv.sizes)
        if together > 1:
            return [*n, *phases, c // together, *pixel, c % together]
        return [*n, *phases, *pixel, c]

    copy.transform_layout(transposed)
    line = LINE // conv.data.dtype.bytes
    if together == 1 and (constant(copy.op.axis[-1].extent) or 0) >= FAR_APART * line:
        copy.storage_align(copy.op.axis[-2], 2 * line, line)
    return copy


def made_in(s: Schedule, copy: Stage) -> None:
    """Let ``copy`` itself turn signs or take away a zero point, where an image that nobody else reads is made
    for that: a pass over memory less."""
    for t in copy.op.input_tensors:
        made = s.state.of(t)
        of_lines = isinstance(made.op, ComputeOp) and made.op.tag == tags.LINES and not made.is_output
        if of_lines and len(s.state.readers(made.name)) == 1 and s.can("compute_inline", made.name):
            s[made.name].compute_inline()


def transpose_pixels(image: Stage, lanes: int) -> Loops:
    """The loops of an image that is copied with its channels innermost: vectors of them, a few pixels side by
    side."""
    *front, p, c = image.op.axis
    return nest(image, {"f": front, "p": p, "c": c}, "f po co | pi ci", {"p": BESIDE, "c": lanes})


def quads(image: Stage, batch: int, lanes: int, together: int) -> None:
    """Lay an image out so that ``together`` channels of a pixel are neighbours, and fill it: vectors of
    pixels of so many channels."""
    image.transform_layout(
        lambda *at: [*at[:batch], at[batch] // together, *at[batch + 1 :], at[batch] % together]
    )
    fill_quads(image, lanes)


def fill_quads(image: Stage, lanes: int) -> Loops:
    """The loops of an image in which channels that are multiplied together are neighbours: vectors of pixels
    of so many channels."""
    *front, p, c = image.op.axis
    return nest(image, {"f": front, "p": p, "c": c}, "f po | ci pi", {"p": lanes, "c": None})
