"""default_schedule: a good schedule with no tuning, for elementwise, reduction, matmul-like and
convolution-like computes.

Inline what is cheap; compute a reduction in the register tile of what reads it; vectorise along memory; share
the outermost loops out among threads when there is enough work. Every step is asked for with ``s.can`` first:
a computation the rules do not fit keeps its plain loops. Uses public primitives only, and knows no passes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from types import ModuleType

from ..analysis import (
    Contraction,
    cost_of,
    divides_places,
    edges_of,
    has_calls,
    joins,
    reads_of,
    reducer_kind,
    reduces_rows,
    ways_of,
)
from ..schedule import Schedule, Stage, create_schedule
from ..target import Target, as_target
from ..te import ComputeOp, Operation, Tensor, TensorRead
from . import (
    across,
    boxes,
    channels_last,
    chosen,
    columns,
    contraction,
    conv,
    copies,
    depthwise,
    direct,
    enlarged,
    few_columns,
    flat,
    fourier,
    gemm,
    groups_last,
    integers,
    interleaved,
    lines,
    memory_order,
    mixed_axes,
    narrow_strips,
    neighbourhoods,
    open_rows,
    phases,
    picks,
    planes,
    pointwise,
    repeats,
    rows,
    sampled,
    scans,
    separable,
    short_rows,
    slabs,
    small_images,
    sparse,
    stencils,
    subpixel,
    terms,
    whole_rows,
    windows,
    winograd,
)
from .as_one import elements_of, is_run, stretch_of
from .attention import PARTS as ATTENTIONS
from .attention import attention
from .common import plain_work, read_again, share_out, size, stream_stores, work
from .inlining import KEPT, inline, reduction_to_fuse
from .lanes import (
    FEW_STRETCHES,
    apart_from_parts,
    moved_in_halves,
    parts_inside,
    reduce_in_lanes,
    share_reduction,
    vector_width,
)
from .minimal_filtering import all_by_block, filtered_in_place
from .tiles import ALONG_MEMORY, NO_VECTORS, in_sums, register_tiles
from .written_out import repeats as places_repeat
from .written_out import write_out

# reductions with a recipe of their own: applies(s, inside, target, constants) and apply(s, out, inside,
# target, constants)
FAMILIES = (
    sparse,
    sampled,
    short_rows,
    whole_rows,
    gemm,
    pointwise,
    small_images,
    boxes,
    flat,
    conv,
    planes,
    windows,
    lines,
    direct,
    separable,
    depthwise,
    channels_last,
    groups_last,
    subpixel,
    phases,
)


def default_schedule(
    outputs: Tensor | Operation | Iterable[Tensor | Operation],
    target: str | Target | None = None,
    constants: Sequence[Tensor] = (),
    without: Sequence[str] = (),
) -> Schedule:
    """A schedule for these outputs, tuned to the vector registers of ``target`` (this CPU when left out).

    ``constants`` are inputs whose values are known when the kernel is built: stages at the root that read
    nothing else cost a call nothing. ``without=["winograd"]`` keeps the sums of convolutions as they are
    declared.
    """
    return scheduled(outputs, as_target(target), constants, without)[0]


def scheduled(
    outputs: Tensor | Operation | Iterable[Tensor | Operation],
    where: Target,
    constants: Sequence[Tensor] = (),
    without: Sequence[str] = (),
) -> tuple[Schedule, dict[str, str]]:
    """The default schedule, and for each stage that a recipe was chosen for what it was taken for and how it
    is computed."""
    outputs = [outputs] if isinstance(outputs, Tensor | Operation) else list(outputs)
    begun = _begun(outputs, where, constants)
    filtered = begun.copy()
    if "winograd" not in without and filtered_in_place(filtered, where, constants):
        why = _by_recipes(filtered, where, constants)
        if all_by_block(filtered):
            return filtered, why
    return begun, _by_recipes(begun, where, constants)


def _begun(outputs: Iterable[Tensor | Operation], where: Target, constants: Sequence[Tensor]) -> Schedule:
    """A schedule whose windows read stages of their own, whose reductions have an axis for each dimension and
    go over them in an order of memory, and whose products of narrow integers have no zero points, and are of
    both signs, where that pays."""
    s = create_schedule(outputs)
    for stage in s.stages:
        while s.can("cache_windows", stage.name):
            s.cache_windows(stage.name)
    for stage in s.stages:
        if isinstance(stage.op, ComputeOp) and stage.op.tag not in KEPT:
            memory_order.reduce_in_memory_order(s, stage)
            if memory_order.counts_several(stage) and _family(s, stage, where, constants) is None:
                memory_order.tell_apart(s, stage)
    integers.begin_integers(s, where, constants)
    return s


def _by_recipes(s: Schedule, where: Target, constants: Sequence[Tensor]) -> dict[str, str]:
    """Schedule all stages; what each was taken for."""
    done: set[str] = set()
    why: dict[str, str] = {}
    for stage in s.stages:
        if stage.op.tag in ATTENTIONS:
            found = attention(s, stage, where)
            done |= found
            if found:
                why[stage.name] = "attention, a block of query rows at a time"
    for stage in s.stages:
        if stage.name not in done and isinstance(stage.op, ComputeOp) and stage.op.tag not in KEPT:
            terms.hold_terms(s, stage, where)
    strip = lambda inside: _family(s, inside, where, constants) in (conv, windows)
    hides = lambda stage: (
        _hides(s, stage, where, constants)
        or chosen.hides(s, stage)
        or rows.hides(s, stage)
        or rows.ends(s, stage)
        or narrow_strips.ends(s, stage, strip)
    )
    inline(s, done, constants, hides, where)
    for stage in reversed(s.stages):
        if (
            stage.name not in done
            and isinstance(stage.op, ComputeOp)
            and stage.state.within
            and stage.state.attach not in (None, "inlined")
        ):
            found = scans.scan_step(s, stage, where)
            done |= found
            if found:
                why[stage.name] = "the step of a recurrence, in vectors along its last axis"
        if (
            stage.name in done
            or not isinstance(stage.op, ComputeOp)
            or stage.state.is_opaque
            or stage.state.attach is not None
            or stage.state.relations  # beside a product
        ):
            continue
        filtering = winograd.filtering_of(s, stage)
        if filtering is not None:
            done |= winograd.by_block(s, stage, filtering, where, constants)
            why[stage.name] = "a convolution by minimal filtering, all its stages for a block of tiles"
            continue
        chain = fourier.chain_of(s, stage)
        if chain is not None:
            done |= fourier.apply(s, stage, chain, where)
            why[stage.name] = "a Fourier transform, its steps row by row"
            continue
        by_row = None if integers.takes_rows_away(s, stage) else rows.rows_of(s, stage)
        if by_row is not None and short_rows.known(stage, by_row, where):
            done |= short_rows.together(s, stage, by_row, where)
            why[stage.name] = f"an operator of short rows: {_known_as(short_rows)}"
            continue
        if by_row is not None and not rows.too_few(stage, by_row, where):
            done |= rows.row_by_row(s, stage, by_row, where)
            why[stage.name] = "an operator of rows: all its stages for one row, then for the next"
            continue
        # a product is finished in its tiles, and not read again for what has as many rows by chance
        by_slab = slabs.slabs_of(s, stage, where) if reduction_to_fuse(s, stage) is None else None
        if by_slab is not None:
            done |= slabs.slab_by_slab(s, stage, by_slab, where)
            why[stage.name] = "an operator along an axis before the last: all its stages for some columns"
            continue
        windows_together = neighbourhoods.windows_of(s, stage, where)
        if windows_together is not None:
            done |= neighbourhoods.apply(s, stage, windows_together, where)
            why[stage.name] = _known_as(neighbourhoods)
            continue
        between = narrow_strips.strip_of(s, stage, strip)
        inside = None if between is None else reduction_to_fuse(s, between)
        if between is not None and inside is not None:
            done |= {between.name, inside.name}
            family = windows if windows.applies(s, inside, where, constants) else conv
            why[stage.name] = f"`{inside.name}` and `{between.name}` within it; {_known_as(family)}"
            family.apply(s, stage, inside, where, constants, between)
            continue
        fused = reduction_to_fuse(s, stage)
        whole = _as_matrices(s, fused or stage, where, constants, stage if fused is not None else None)
        if whole:
            done |= whole.keys()
            why |= whole
            if stage.name not in why:
                why[stage.name] = _elementwise(s, stage, where)
        elif fused is not None:
            done.add(fused.name)
            why[stage.name] = f"`{fused.name}` within it; {_in_tiles(s, stage, fused, where, constants)}"
        elif stage.op.reduce_axis:
            why[stage.name] = _reduction(s, stage, where, constants)
        else:
            why[stage.name] = _elementwise(s, stage, where)
    return why


def _as_matrices(
    s: Schedule, stage: Stage, where: Target, constants: Sequence[Tensor], out: Stage | None
) -> dict[str, str]:
    """Schedule a reduction, which ``out`` alone may read, with its axes in another order, and copies, where
    that takes less time: a contraction as a product of matrices; how each is computed. Nothing where it does
    not."""
    c = contraction.contraction_in(stage.op)
    family = _family(s, stage, where, constants) if stage.op.reduce_axis else None
    if c is not None and (all(own for _, _, own in c.sides) or family is gemm):
        return _as_product(s, stage, c, where, constants, out)
    # of results across memory vectors would be picked together
    picked = family is short_rows and memory_order.lie_across(stage.op)
    if not stage.op.reduce_axis or (family is not None and not picked):
        return {}
    found = contraction.in_columns(s, stage, where, constants)
    found = found or memory_order.in_memory_order(s, stage, out is not None)
    if found is None:
        return {} if c is None else _as_product(s, stage, c, where, constants, out)
    inside, copied = found
    why = {copy.name: _elementwise(s, copy, where) for copy in copied}
    # in the order of memory axes may lie together that did not
    c = contraction.contraction_in(inside.op)
    whole = {} if c is None else _as_product(s, inside, c, where, constants, None)
    return why | (whole or {inside.name: _reduction(s, inside, where, constants)})


def _as_product(
    s: Schedule, stage: Stage, c: Contraction, where: Target, constants: Sequence[Tensor], out: Stage | None
) -> dict[str, str]:
    """The same for a contraction, as a product of matrices."""
    known = gemm.applies(s, stage, where, constants)
    m = contraction.as_matrices(s, stage, c, where, constants, known, out)
    if m is None:
        return {}
    why = {copy.name: _elementwise(s, copy, where) for copy in m.copies}
    if m.out is None:
        why[m.inside.name] = _reduction(s, m.inside, where, constants)
    else:
        gemm.apply(s, m.out, m.inside, where, constants)
        why[m.out.name] = f"`{m.inside.name}` within it; {_known_as(gemm)}"
        why[m.inside.name] = f"in the tiles of `{m.out.name}`"
    for view in m.views:
        view.compute_inline()
        why[view.name] = "the same memory, counted otherwise"
    return why


def _family(s: Schedule, inside: Stage, target: Target, constants: Sequence[Tensor]) -> ModuleType | None:
    """The first family that knows how to compute a reduction."""
    return next((f for f in FAMILIES if f.applies(s, inside, target, constants)), None)


def _known_as(family: ModuleType) -> str:
    """What a family takes a reduction for, and how it computes it: the first sentence of its file."""
    words = " ".join((family.__doc__ or "a family of its own").split()).partition(". ")[0].rstrip(".")
    return f"{words[0].lower()}{words[1:]} (recipes.{family.__name__.rpartition('.')[2]})"


def _hides(s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Whether ``stage`` only names other places of what it reads, as an axis of one element does, and would
    keep a reduction that it is written into from its family, which looks for axes at certain dimensions, so
    that it would run along memory, one sum at a time. The copy is little beside that; where there are
    vectors of neighbours anyway, it costs as much as a family gains.

    Measured (Zen 4, one thread): 512 filters of 10 taps over rows of 32,000 0.10 of the time, of an open
    length 0.25; 64 to 48 channels of 1024 transposed pixels, 3 taps, 0.03, to 3 channels 0.13.
    """
    if len(stage.op.body) != 1 or not isinstance(stage.op.body[0], TensorRead):
        return False
    names = [r.name for r in s.state.readers(stage.name) if r.compute.reduce_axis]
    divided = divides_places(stage.op)
    known = [name for name in names if _known(s, name, target, constants, divided)]
    if not known:
        return False
    written = s.copy()
    written[stage.name].compute_inline()
    return any(
        not _known(written, name, target, constants, divided)
        and bool(written[name].op.axis)
        and in_sums(written[name])
        for name in known
    )


def _known(s: Schedule, name: str, target: Target, constants: Sequence[Tensor], products: bool) -> bool:
    """Whether a family of windows has a recipe for this reduction, or one of ``products``, which otherwise
    are known behind other places."""
    families = [f for f in FAMILIES if f is not sparse and (products or f is not gemm)]
    return any(f.applies(s, s[name], target, constants) for f in families)


def _elementwise(s: Schedule, stage: Stage, target: Target) -> str:
    """Vectors along memory, shared out among threads; how, in words."""
    axes = list(stage.op.axis)
    if not axes:
        return "a single element"
    iterations = plain_work(stage)  # few dear elements are worth threads too
    if any(size(a) == 0 for a in axes):
        return "no elements"
    held = enlarged.held_in(s, stage)
    if held is not None and enlarged.apply(s, stage, held, target):
        return f"images in another size, with `{held.name}` of a plane held: {_known_as(enlarged)}"
    strips = stencils.strips_of(s, stage)
    if strips is not None and stencils.apply(s, stage, strips, target):
        names = ", ".join(f"`{p.name}`" for p in reversed(strips.held))
        return f"strips of `{stage.op.axis[strips.axis].name}`, with {names} held: {_known_as(stencils)}"
    if copies.turn_over(s, stage, target):
        return f"a copy in another order of axes: {_known_as(copies)}"
    ways = None if _in_whole_rows(stage, target) else ways_of(stage.op) or interleaved.planes(stage, target)
    if (
        ways is not None
        and len(axes) > 2
        and (how := _in_matrices(stage, iterations, (1, 2), target)) is not None
    ):
        return how
    if ways is not None and len(axes) > 1 and s.can("cache_write", stage.name):
        interleaved.apply(s, stage, ways, target)
        return _known_as(interleaved)
    tables = sampled.tables_of(s, stage)
    if tables:
        sampled.few_channels(s, stage, tables, target)
        return f"elements at places that are data: {_known_as(sampled)}"
    picked = picks.rows_of(stage, target)
    if picked is not None:
        picks.apply(stage, picked, target)
        return f"elements at places that are data, one by one for {picks.ROWS} of `{picked.name}`"
    again = repeats.repeats_of(stage, target)
    last = again is not None and again.axis is axes[-1]
    if last and open_rows.width_of(stage, axes[:-1], axes[-1], target) is not None:
        again = None  # lanes of one vector are picked
    together = stretch_of(stage, target) if again is None else []
    whole = whole_rows.rows_of(stage, target) if again is None and len(together) < 2 else None
    if whole is not None:
        # fewer rows than fill registers are one vector
        how = None if size(axes[-2]) is not None else _in_matrices(stage, iterations, (2,), target)
        if how is not None:
            return how
        whole_rows.elements(stage, whole, 1, target)
        return f"{whole} rows of {size(axes[-1])} elements in a vector: {_known_as(whole_rows)}"
    small = whole_rows.matrices_of(stage, target) if again is None and len(together) < len(axes) else None
    if small is not None:
        whole_rows.elements(stage, *small, target)
        return f"{small[0]} matrices of {small[1]} axes in a vector: {_known_as(whole_rows)}"
    beside = None if len(together) > 1 or again is not None else read_again(stage)
    patterned = again is None and beside is None and len(together) < len(axes)
    block = whole_rows.block_of(stage, target) if patterned else None
    if block is not None:
        whole_rows.elements(stage, *block, target)
        return f"blocks of {block[0]} rows of {block[1]} axes: {_known_as(whole_rows)}"
    if again is not None:
        axes = repeats.split(stage, again)
    if len(together) > 1:
        axes[-len(together) :] = [stage.fuse(*together)]
    # else the vectors of the one row are what threads share
    several = again is not None or any(size(a) != 1 for a in axes[:-1])
    if several and len(together) > 1:
        # few long stretches: threads share what they are made of
        rows = elements_of(axes[:-1])
        several = rows is None or rows >= FEW_STRETCHES * target.num_cores
    n = again.elements if again is not None else elements_of(together) if together else size(axes[-1])
    how = f"element by element, for `{axes[-1].name}` has one iteration"
    short = None
    if again is None and beside is None and len(together) < 2:
        short = open_rows.width_of(stage, axes[:-1], axes[-1], target)
    if short is not None:
        share_out(stage, open_rows.row_by_row(stage, axes[:-1], axes[-1], *short), iterations, target)
        return f"elements, a row in vectors of {short[1]} along `{axes[-1].name}`: {_known_as(open_rows)}"
    if n is None or n >= 2:
        width = vector_width(stage, n, target, long=len(together) == len(stage.op.axis))
        if len(together) < 2 and again is None:
            width = _within_edges(stage, width, target)
        if moved_in_halves(stage, width, target):
            width //= 2
        # a rest is a vector that overlaps the one before, where nothing shares those out: a masked store
        # takes 12 cycles on a Zen 3. Measured in the first cache: relu of rows of 100 1.24, sum of rows of 57
        # 1.4, padding of 56 × 56 1.5 times as fast
        others = [a for a in axes[:-1] if a is not beside]
        several = several and (beside is None or any(size(a) != 1 for a in others))
        apart = several or not cost_of(target).shared(iterations)
        apart = apart and not places_repeat(stage, width)
        overlaps = n is not None and n > width and n % width > 0 and len(axes) > 1 and apart
        outer, inner = (
            stage.split(axes[-1], width, tail="shift") if overlaps else stage.split(axes[-1], width)
        )
        stage.vectorize(inner)
        if not is_run(stage, together, target):
            outer = write_out(stage, outer, width)
        how = f"elements, in vectors of {width} along `{stage.op.axis[-1].name}`"
        axes[-1] = outer
        if beside is not None:
            axes.remove(beside)
            stage.reorder(*axes, beside, inner)
            stage.unroll(beside)
            how += f", all of `{beside.name}` together, which reads the same"
    if several:
        loops = apart_from_parts(stage, axes[:-1], target)
    else:
        loops = parts_inside(stage, axes) if n is None or n >= 2 else axes
    shared = share_out(stage, loops, iterations, target)
    if shared is not None and not has_calls(
        stage.op
    ):  # a long chain of operations leaves time for plain stores, and is 4 % faster with them
        stream_stores(stage, shared, target, n if again is None else size(stage.op.axis[-1]))
    return how


def _in_matrices(stage: Stage, iterations: int, vectors: Sequence[int], target: Target) -> str | None:
    """Small matrices of an open size, each in one of so many vectors that a call tells it fits into; how, in
    words. None where they may be larger."""
    *front, row, column = stage.op.axis
    lanes = open_rows.matrices(stage, front, target, vectors)
    if lanes is None:
        return None
    share_out(stage, open_rows.row_by_row(stage, front, stage.fuse(row, column), lanes), iterations, target)
    return f"elements, a small matrix in one vector of {lanes}: {_known_as(open_rows)}"


def _within_edges(stage: Stage, width: int, target: Target) -> int:
    """So many elements or fewer, that none of their vectors is computed in two ways, and thrown away by
    halves. Measured (Zen 4, one thread): rows of 64 whose halves are turned in pairs take 0.5 of the time."""
    lanes = target.vector_lanes(stage.op.body[0].dtype)
    whole = math.gcd(width, *edges_of(stage.op, stage.op.axis[-1]))
    return whole if whole % lanes == 0 else width


def _in_whole_rows(stage: Stage, target: Target) -> bool:
    """Whether a stage joins tensors of short rows, of which several fill registers: which one an element is
    of is known for each lane then, and all that is done to it is a shuffle. Not where vectors of each tensor
    are put in order."""
    if len(stage.op.axis) < 2 or interleaved.in_whole_vectors(stage, target):
        return False
    ways = (whole_rows.rows_of, whole_rows.matrices_of, whole_rows.block_of)
    return joins(stage.op) and any(find(stage, target) is not None for find in ways)


def _in_tiles(s: Schedule, out: Stage, inside: Stage, target: Target, constants: Sequence[Tensor]) -> str:
    """A reduction computed in tiles of ``out``, as the first family that knows it does, or in plain register
    tiles; how, in words."""
    family = _family(s, inside, target, constants)
    if family is not None:
        family.apply(s, out, inside, target, constants)
        return _known_as(family)
    if _of_matrix(s, inside, target, constants):
        return f"a reduction of a matrix, computed before; {_elementwise(s, out, target)}"
    if not _laid_along(s, inside, target, constants) and in_sums(inside):
        if out.op.axis and chosen.choose_in_lanes(s, inside, target, out):
            return _known_as(chosen)
        _laid_along_sums(s, inside, target, constants)
    return register_tiles(s, out, inside, target)


def _reduction(s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor]) -> str:
    """A reduction that is read by nobody in its own shape: an output, or the input of another shape. How it
    is computed, in words."""
    op = stage.op
    if any(size(a) == 0 for a in (*op.axis, *op.reduce_axis)):
        return "of no elements"
    if s.can("cache_write", stage.name) and any(f.applies(s, stage, target, constants) for f in FAMILIES):
        return _in_tiles(s, stage, s[s.cache_write(stage.name, "local")], target, constants)
    if _of_matrix(s, stage, target, constants):
        return "a reduction of a matrix, or of nearly everything to a few elements"
    _laid_along(s, stage, target, constants)
    if op.axis and not in_sums(stage) and s.can("cache_write", stage.name):
        cached = s.cache_write(stage.name, "local")
        return register_tiles(s, stage, s[cached], target)
    if chosen.choose_in_lanes(s, stage, target):
        return _known_as(chosen)
    _laid_along_sums(s, stage, target, constants)
    if reduce_in_lanes(s, stage, target):
        return ALONG_MEMORY
    share_out(stage, list(op.axis[:1]), work(stage), target)
    return NO_VECTORS


def _laid_along(s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """Copy the operands that alone lie across vectors of neighbouring results; whether there are any."""
    if not stage.op.axis or across.few_and_deep(stage, target):
        return False
    found = across.lying_across(stage, constants)
    for tensor, d in found:
        _elementwise(s, across.laid_along(s, stage, tensor, d), target)
    return bool(found)


def _laid_along_sums(s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor]) -> None:
    """Where a reduction runs along memory in all operands but one, and reads that one again and again: in a
    copy of it too. Else its elements are gathered for every sum."""
    last = stage.op.reduce_axis[-1]
    if reducer_kind(stage.op) in (None, "custom") or not reads_of(stage.op).along(last):
        return
    for tensor, d in across.lying_across(stage, constants, last):
        _elementwise(s, across.laid_along(s, stage, tensor, d), target)


def _of_matrix(s: Schedule, stage: Stage, target: Target, constants: Sequence[Tensor]) -> bool:
    """A reduction of the rows of a matrix, or of nearly everything to a few elements, scheduled at the root.
    Whether it is one."""
    if any(size(a) == 0 for a in (*stage.op.axis, *stage.op.reduce_axis)):
        return False
    rest = mixed_axes.first_of(s, stage, target)
    for st in rest or ():
        _reduction(s, st, target, constants)
    if rest:
        return True
    if columns.applies(stage) and not few_columns.of_groups(stage, target):
        columns.reduce_columns(s, stage, target)
        return True
    return reduces_rows(stage.op) and share_reduction(s, stage, target)
