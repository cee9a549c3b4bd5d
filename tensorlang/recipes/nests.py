"""The one nest of loops that tiles are computed in: recipes give it numbers, rules of a search give it knobs,
families of dynamic kernels give it tables, and templates show it. Uses public primitives only; decides no
number.

A nest is written as the order of its loops. Axes have names of the caller's choice, and a split of ``j``
makes ``jo`` and ``ji``, as it does in most papers; so the loops of a matrix product, after Goto and van de
Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34, 2008), are::

    nest(out, {"i": i, "j": j}, "(joo) io joi | ii ji", {"i": 6, "j": 16, "jo": 16}, parallel=True)

The loops in parentheses are fused and may be shared out among threads; behind the bar is the register tile,
whose last loop is a vector and whose others are unrolled. The innermost loop before the bar is the place
where the sums of a tile are computed (:func:`sums`). What they read may be copied into panels (:func:`pack`),
filled line by line or transposed in registers (:func:`fill`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis import constant, reads_of
from ..errors import ScheduleError
from ..schedule import Schedule, Stage
from ..te import Expr, IterVar, Tensor
from .common import in_registers

# lanes of a panel that are transposed in registers together, along the whole of their lines before the next:
# lines whose starts lie 1024 bytes apart or a multiple of it share the sets of the first cache, and of more
# than 16 each would come from the second one for every few elements. Measured (Zen 4, one thread, few rows by
# a transposed right operand, beside 64 lanes at a time; depth 256 0.91 of the time, 512 0.80, 768 0.91, 1000
# 0.95, 1024 and 2048 0.65, 4096 0.69; on two threads the same)
STRIP = 16
LINE_BYTES = 16  # of a line that are transposed together, where those of a group stay side by side
Size = int | Expr  # a number or a knob
# how a loop is split: by a size, by one that is sampled for the loop, by one with the tail of its rest
Cut = Size | Callable[[IterVar], Size] | tuple[int, str]

Axes = dict[str, IterVar | Sequence[IterVar]]  # loops by name, some of them, or none


@dataclass(frozen=True)
class Loops:
    """The loops of a nest by their names, and those around the tile from the outermost on, the fused ones as
    one."""

    named: Mapping[str, Sequence[IterVar]]
    around: Sequence[IterVar]

    @property
    def place(self) -> IterVar:
        """The loop in which a tile is computed."""
        return self.around[-1]


def nest(
    stage: Stage,
    axes: Axes,
    order: str,
    cuts: Mapping[str, Cut | None] | None = None,
    *,
    parallel: bool = False,
    unroll: bool = True,
    whole: int = 0,
) -> Loops:
    """Split the loops of ``stage`` in the order of ``cuts`` and put them in ``order``.

    A name may stand for several loops, or for none. A loop that is cut by None stays whole: it is the inner
    part, and there is no outer one. The shared loop is parallel if ``parallel``, the tile is unrolled if
    ``unroll``; a rest of its vectors is one masked vector of at most ``whole`` lanes, if that is not 0.
    Raises ScheduleError for an order that names a loop there is not, or no tile.
    """
    _check(stage, axes, order, cuts or {})
    named = {name: [at] if isinstance(at, IterVar) else list(at) for name, at in axes.items()}
    for name, cut in (cuts or {}).items():
        pairs = [] if cut is None else [_split(stage, loop, cut) for loop in named[name]]
        named[name + "o"] = [outer for outer, _ in pairs]
        named[name + "i"] = named[name] if cut is None else [inner for _, inner in pairs]
    around, _, within = order.partition("|")
    front, _, rest = around.rpartition("(")
    middle, _, rest = rest.rpartition(")")
    outer, fused, inner, tile = (
        [loop for name in part.split() for loop in named[name]] for part in (front, middle, rest, within)
    )
    stage.reorder(*outer, *fused, *inner, *tile)
    for loop in tile[:-1] if unroll else ():
        stage.unroll(loop)
    for loop in tile[-1:]:
        stage.vectorize(loop)
        if whole > 1:
            stage.pragma(loop, "whole_vectors", whole)
    shared = [fuse(stage, fused)] if fused else []
    for loop in shared if parallel else ():
        stage.parallel(loop)
    return Loops(named, [*outer, *shared, *inner])


def _check(stage: Stage, axes: Axes, order: str, cuts: Mapping[str, Cut | None]) -> None:
    known = {*axes, *(name + part for name in cuts for part in "oi")}
    unknown = [name for name in (*re.findall(r"\w+", order), *cuts) if name not in known]
    if unknown or not order.partition("|")[2].strip():
        raise ScheduleError(
            f"nest of {stage.name}: the order {order!r}",
            because=f"there is no loop {unknown[0]!r}" if unknown else "it has no tile",
            try_=f"the loops {', '.join(sorted(known))}, those of the tile behind a bar",
        )


def _split(stage: Stage, loop: IterVar, cut: Cut) -> tuple[IterVar, IterVar]:
    size, tail = cut if isinstance(cut, tuple) else (cut(loop) if callable(cut) else cut, "auto")
    return stage.split(loop, size, tail=tail)


def fuse(stage: Stage, loops: Sequence[IterVar]) -> IterVar:
    """One loop of one or more neighbouring loops of the stage: itself where there is one."""
    return loops[0] if len(loops) == 1 else stage.fuse(*loops)


def sums(
    s: Schedule,
    inside: Stage,
    out: Stage,
    place: IterVar,
    axes: Axes,
    order: str,
    cuts: Mapping[str, Cut | None] | None = None,
    *,
    whole: int = 0,
) -> Loops:
    """Compute the reduction ``inside`` in ``place`` of ``out``, in registers, as a nest of its own."""
    inside.compute_at(out, place)
    in_registers(s, inside)
    return nest(inside, axes, order, cuts, whole=whole)


def pack(
    s: Schedule,
    inside: Stage,
    tensor: Tensor,
    axes: Mapping[IterVar, int],
    across: IterVar,
    width: Size | None,
    *,
    deep: Sequence[IterVar] = (),
    each: int = 0,
    together: int = 1,
    step: int = 0,
    dtype: str = "",
    also: Sequence[str] = (),
) -> Stage:
    """A copy of an operand in panels: data axes first, then the panel, the axes of the reduction, and
    ``width`` elements along ``across`` (None: all of them, in one panel).

    ``axes`` are the dimensions of the axes in the operand; ``deep`` is the order of the reduction, in which
    an axis that the operand lacks has a single value. Of groups of ``each`` elements every one begins a
    panel; so many neighbours along the last axis of the reduction as are multiplied ``together`` lie side by
    side; that axis is cut into parts of ``step``, if that is not 0, and padded to whole ones. Stages ``also``
    named read the copy too.
    """
    copy = s[s.cache_read(tensor, "global", [inside.name, *also], dtype)]
    deep = deep or [a for a in inside.op.reduce_axis if a in axes]
    front = [d for a, d in axes.items() if a is not across and a.kind != "reduce"]
    front += [d for d in range(len(tensor.shape)) if d not in axes.values()]

    def layout(*at: Any) -> list[Any]:
        a, along = at[axes[across]], [at[axes[k]] if k in axes else 0 for k in deep]
        last = [along.pop()] if together > 1 else []
        ahead = [at[d] for d in front]
        if width is None:
            return [*ahead, *along, a]
        ahead += [a // each, a // width % (each // width)] if each else [a // width]
        lanes = [] if isinstance(width, int) and width == 1 else [a % width]  # the only place in a panel
        cut = [d // step for d in last] if step else []
        groups = [d // together % (step // together) if step else d // together for d in last]
        return [*ahead, *along, *cut, *groups, *lanes, *[d % together for d in last]]

    copy.transform_layout(layout)
    return copy


def widen(s: Schedule, inside: Stage, packed: Stage, deep: int, lanes: int) -> Stage:
    """A copy in the type of the sums of a few panels, which the last ``deep`` dimensions of a narrower
    operand that is packed hold: its elements are converted by whole vectors, and not each where it is
    used."""
    sizes = [constant(a.extent) for a in packed.op.axis]
    long = [d for d in range(len(sizes) - deep, len(sizes)) if sizes[d] != 1] or [len(sizes) - 1]

    def in_line(*at: Any) -> list[Any]:
        total = at[long[0]]
        for d in long[1:]:
            total = total * sizes[d] + at[d]
        return [*[i for d, i in enumerate(at) if d not in long], total]

    packed.transform_layout(in_line)
    copy = s[s.cache_read(packed.op.outputs[0], "global", [inside.name], inside.op.body[0].dtype.name)]
    _, lane = copy.split(copy.op.axis[-1], lanes)
    copy.vectorize(lane)
    return copy


def lines_at_once(depth: int | None) -> int:
    """How many of so many lines are transposed in registers at a time."""
    return 8 if depth is None or depth % 8 == 0 else 4


def fill(copy: Stage, deep: int, transposed: int | None = None, together: int = 1) -> Loops:
    """The loops of a copy in panels with ``deep`` dimensions between panel and column: whole lines are read
    one after the other; or, where columns are not neighbours in memory, ``transposed`` lines are transposed
    in registers."""
    axes = list(copy.op.axis)
    group = [axes.pop()] if together > 1 else []
    *others, lane = axes
    if transposed is None or reads_of(copy.op).along(lane):
        panel = others.pop(len(others) - 1 - deep)
        return nest(copy, {"f": others, "p": panel, "r": group, "l": lane}, "f p | r l")
    named: Axes = {"f": others[:-1], "k": others[-1], "r": group, "l": lane}
    read = copy.op.input_tensors[0].dtype.bytes
    deep = max(1, LINE_BYTES // (read * together)) if group else transposed
    return nest(copy, named, "f lo ko | ki r li", {"k": deep, "l": _strip(constant(lane.extent))})


def _strip(width: int | None) -> int | None:
    """Lanes of a panel that are transposed together, None for all."""
    if width is None or width <= STRIP:
        return None
    strips = [n for n in range(8, STRIP + 1, 8) if width % n == 0]
    return max(strips, key=lambda n: (n & -n, n), default=None)  # of whole vectors, and of few
