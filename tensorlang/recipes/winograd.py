"""Convolutions by Winograd's minimal filtering (``ops.conv2d_winograd``, ``ops.conv3d_winograd``): a block of
tiles at a time, all its transforms and products, so that what lies between them stays in the second cache.
Lanes are channels; a tile's transform is written out for a vector of them, its rows in registers.

After Lavin and Gray, "Fast algorithms for convolutional neural networks", CVPR 2016, section 5, and Jia et
al., "Optimizing N-dimensional, Winograd-based convolution for manycore CPUs", PPoPP 2018, section 4. Uses
public primitives only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..analysis import SIDE, alone_in_of, bytes_of, constant, cost_of, own_index, own_place, reads_of, typical
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, Tensor
from .common import in_registers, is_known, share_out, size, work
from .conv import rows_in_vectors
from .nests import Axes, fill, lines_at_once, nest, pack, sums
from .pixels import FEW, transpose_pixels
from .register_tile import even, in_whole_vectors, tile_for, time_of

# tiles of a block, at least, where the weight is larger than the second cache and comes from behind it for
# each block
MOST_READ = 32
# second caches that a weight fills which comes from memory for each block; images of open size that share it
# then. Measured (Zen 4), 512 to 512 channels: 8 images of 4 × 4 0.68 of the time, on two threads 0.53, of
# 14 × 14 0.98 and 0.58, 3 of 7 × 7 0.95 and 0.61; 256 channels, which stay in the third cache, 1.1 to 1.27
CACHES, TOGETHER = 16, 4
# elements of a channel for each tile: its pixels and those around, with their margin and once more
# transposed. Measured (Emerald Rapids): where they did not stay too, 128 to 32 channels of 56 × 56 took three
# times as long
COPIES = 48
PRODUCTS_OF_TRANSFORM = 16  # iterations of products for one of the weight's copy
# elements: points whose distance is a multiple of the first fall into few sets of a cache, and are written
# side by side; they are the second further apart
FAR, APART = 256, 16
# times a weight is larger than what a volume is transformed to, from which on each thread reads a part of it.
# Measured (Zen 5, two threads): 512 to 512 channels of 2 × 7 × 7 take 0.72 of the time
LARGER = 8
OPEN_PLANES = 4  # of a block of a volume of open height or width
CHANNELS = 8  # of a weight whose taps are transposed before they are transformed


class Filtering(NamedTuple):
    """The stages of one convolution, from its result back, each read by the one before it alone, and the
    image with its margin, where it has one."""

    inverse: Stage
    inverse_rows: Stage
    product: Stage
    data: Stage
    data_rows: Stage
    pixels: Stage
    margin: Stage | None
    places: tuple[IterVar, ...]  # of the result: images, the planes of a volume, height, width, channels


def keeps(s: Schedule, stage: Stage) -> bool:
    """Whether ``stage`` is a margin that a recipe for these convolutions wants by itself: written into the
    copy that follows, it would be a test for each element, unless channels are last in both."""
    return stage.op.tag == tags.PAD and any(
        r.compute.tag == tags.WINOGRAD_DATA and not reads_of(r.compute).along(r.compute.axis[-1])
        for r in s.state.readers(stage.name)
    )


def filtering_of(s: Schedule, out: Stage) -> Filtering | None:
    """The convolution whose result ``out`` reads, each element at its own place; None where there is none,
    more than one, or no channels of known number."""
    if out.op.reduce_axis or len(out.op.axis) not in (4, 5) or any(size(a) == 0 for a in out.op.axis):
        return None
    found = [t for t in out.op.input_tensors if _tagged(s, t, tags.WINOGRAD_INVERSE)]
    if len(found) != 1:
        return None
    places = _places(out, found[0])
    if places is None or size(places[-1]) is None:
        return None
    chain = [s[found[0].op]]
    for tag in (
        tags.WINOGRAD_INVERSE,
        tags.WINOGRAD_MATMUL,
        tags.WINOGRAD_DATA,
        tags.WINOGRAD_DATA,
        tags.WINOGRAD_DATA,
    ):
        made = [t for t in chain[-1].op.input_tensors if _tagged(s, t, tag)]
        if len(made) != 1:
            return None
        chain.append(s[made[0].op])
    behind = [t for t in chain[-1].op.input_tensors if _tagged(s, t, tags.PAD)]
    margin = s[behind[0].op] if behind else None
    if any(size(a) == 0 for st in chain for a in (*st.op.axis, *st.op.reduce_axis)):
        return None
    inverse, back, product, data, half, pixels = chain
    return Filtering(inverse, back, product, data, half, pixels, margin, places)


def _places(out: Stage, made: Tensor) -> tuple[IterVar, ...] | None:
    """The axes of ``out`` for images, planes, height, width and channels, which are second or last in it;
    None where an element reads another than its own of ``made``, which has channels last."""
    n, second, *others = out.op.axis
    beside = [at for t, at in reads_of(out.op).plain if t is made]
    for own in ((n, *others, second), (n, second, *others)):
        # of a single image, n may be missing
        if all(own_index(i, axis) for at in beside for i, axis in zip(at, own[-len(at) :], strict=True)):
            return own
    return None


def ends(s: Schedule, stage: Stage) -> bool:
    """Whether ``stage`` is the result of one, and no more would be the one stage that reads it: written into
    the next layer's margin, or into two readers, it would leave its transforms to loops of their own."""
    readers = s.state.readers(stage.name)
    if len(readers) == 1 and not readers[0].compute.reduce_axis:
        beside = reads_of(readers[0].compute).of(stage.op)
        if all(own_place(readers[0].compute, at) for at in beside):
            return False
    return filtering_of(s, stage) is not None


def _tagged(s: Schedule, tensor: Tensor, tag: str) -> bool:
    """Whether ``tensor`` is made by a stage of this tag at the root, which one stage alone reads."""
    stage = s.state.of(tensor)
    return (
        isinstance(stage.op, ComputeOp)
        and stage.op.tag == tag
        and stage.attach is None
        and not stage.is_output
        and not stage.relations
        and len(s.state.readers(stage.name)) == 1
    )


def by_block(s: Schedule, out: Stage, f: Filtering, target: Target, constants: Sequence[Tensor]) -> set[str]:
    """Schedule the convolution in blocks of ``out``. The names of the stages that are done."""
    lanes = target.vector_lanes(f.product.op.body[0].dtype)
    shared = cost_of(target).shared(work(f.product))
    tile = (size(f.product.op.axis[0]) or 0) - 2
    images, *volume, y, x, o = f.places
    planes = [size(z) for z in volume]
    threads = target.num_cores if shared else 1
    if size(y) is None or size(x) is None:
        # a row of tiles: how wide one is, and so how many would stay in the cache, is known at a call only
        tiles, by_phase, high, deep = -(-typical(x.extent, SIDE) // tile), False, 1, OPEN_PLANES
        many = min(size(images) or TOGETHER, TOGETHER) if _from_memory(f.product, target) else 1
    else:
        grid = (-(-(size(y) or 1) // tile), -(-(size(x) or 1) // tile))
        block_of = _volume_block if volume else _block
        many, deep, high, tiles, by_phase = block_of(f, grid, threads, target)
    blocks = (size(images) or 0) // many * -(-(size(y) or 0) // (high * tile))
    for depth in planes:
        blocks *= -(-(depth or 0) // deep)
    kernel = _transform_of_call(s, f.product, constants)
    # each thread transforms a weight that stays with it, rather than wait for what others have written
    mine = (
        kernel is not None
        and threads > 1
        and blocks >= threads
        and not by_phase
        and (bytes_of(kernel.op.outputs[0]) or target.l2_bytes) < target.l2_bytes
    )
    no, ni = out.split(images, many)
    apart = [out.split(z, min(deep, n or deep)) for z, n in zip(volume, planes, strict=True)]
    yo, yi = out.split(y, min(high * tile, size(y) or high * tile))
    if o is out.op.axis[-1]:
        order, cuts = "n d s m z (y) x oo | oi" if by_phase else "(n d s) m z y x oo | oi", {"o": lanes}
    else:
        order = "n d s m (oo) z y xo | oi xi" if by_phase else "(n d s) m oo z y xo | oi xi"
        cuts = {"o": FEW, "x": lanes}
    axes: Axes = {"n": no, "m": ni, "s": yo, "y": yi, "o": o, "x": x}
    axes |= {"d": [outer for outer, _ in apart], "z": [inner for _, inner in apart]}
    loops = nest(out, axes, order, cuts, parallel=shared and not mine)
    block = yo if by_phase else loops.around[0]
    share = None
    if mine:
        share, block = out.split(block, -(-blocks // threads))
        out.parallel(share)
    names = [st.name for st in f if isinstance(st, Stage)]
    for name in names:
        s[name].compute_at(out, block)
    if f.margin is not None:
        rows_in_vectors(f.margin, lanes)
    pixels = transpose_pixels(f.pixels, lanes).named
    if by_phase:
        share_out(f.pixels, [*pixels["f"], *pixels["po"]], work(f.product), target)
        if f.margin is not None:
            share_out(f.margin, list(f.margin.op.axis[:2]), work(f.product), target)
    if volume and size(y) is not None and size(x) is not None and high * tile >= (size(y) or 0):
        _planes_in_line(s, f)
    _transform(s, f.data, f.data_rows, lanes, by_phase)
    beside = _products(s, f.product, tiles, lanes, constants, by_phase, kernel, mine, target)
    if kernel is not None and share is not None:
        kernel.compute_at(out, share)
    *n, y, x, c = f.inverse.op.axis
    cuts = {"y": tile, "x": tile, "c": lanes}
    place = nest(
        f.inverse, {"n": n, "y": y, "x": x, "c": c}, "n (yo xo) co | yi xi ci", cuts, parallel=by_phase
    ).place
    f.inverse_rows.compute_at(f.inverse, place)
    in_registers(s, f.inverse_rows)
    nest(f.inverse_rows, _rows_of(s, f.inverse_rows, y), "p | j i c")
    return {out.name, *names, *beside}


def _planes_in_line(s: Schedule, f: Filtering) -> None:
    """Count the tiles of all planes of a volume as one axis, where a block has whole planes: the tiles of
    registers then run over the end of one, and few tiles of a plane are no small ones."""
    plane = size(f.product.op.axis[-2]) or 1

    def in_line(*at: Any) -> list[Any]:
        *front, z, p, c = at
        return [*front, z * plane + p, c] if plane > 1 else [*front, p, z, c]

    for stage in (f.data, f.product):
        stage.transform_layout(in_line)


def _rows_of(s: Schedule, rows: Stage, axis: IterVar) -> Axes:
    """The axes of the rows of a transform, whoever declared them in what order: ``i`` that of ``axis`` in
    their one reader, ``j`` the elements of a row, which the reader counts, ``c`` the lanes, ``p`` the
    rest."""
    (reader,) = s.state.readers(rows.name)
    at = next(at for t, at in reads_of(reader.compute).plain if t in rows.op.outputs)
    named: dict[str, list[IterVar]] = {"i": [], "j": [], "p": []}
    *others, c = rows.op.axis
    for a, i in zip(others, at, strict=False):
        named["j" if constant(i) is not None else "i" if i is axis.var else "p"].append(a)
    if not named["i"]:  # a row of a tile, where the reader's axis counts tiles too
        named["i"] = [named["p"].pop(0)]
    return {**named, "c": c}


def _block(
    f: Filtering, grid: tuple[int, int], threads: int, target: Target
) -> tuple[int, int, int, int, bool]:
    """Images, planes (one) and rows of tiles of a block, its tiles, and whether its steps are shared out one
    after the other, instead of blocks: as many as fit half of the second cache on both sides of the product,
    and blocks for all threads. Where the weight is larger than that cache, and all tiles are one block of
    those that the threads' caches hold together, each thread reads a part of the weight, and not all of it
    for a part of the tiles."""
    product, images = f.product, size(f.places[0]) or 1
    rows, columns = grid
    a, b, *_, o = (size(axis) or 1 for axis in product.op.axis)
    channels, each = size(product.op.reduce_axis[0]) or 1, a * b * product.op.body[0].dtype.bytes
    copies = COPIES * channels * product.op.body[0].dtype.bytes
    fit = target.l2_bytes // 2 // (each * (channels + o) + copies)
    if each * channels * o > target.l2_bytes:
        fit = max(fit, MOST_READ)
        if threads > 1 and images * rows * columns <= 2 * fit:
            return images, 1, rows, images * rows * columns, True
    high = even(rows, max(1, min(rows, fit // columns)))
    if images * -(-rows // high) < threads:
        high = even(rows, max(1, rows * images // threads))
    if images == 1 and high < rows:
        high = min(range(high, 0, -1), key=lambda h: _last(product, rows, columns, h, threads, target))
    if images > 1 and rows % high:
        # a block that could reach into the next image would copy both whole. Measured (Zen 4, one thread): 32
        # to 48 channels of 8 × 28 × 28 0.67 of the time, of 2 images 0.73, 64 to 96 of 3 × 22 × 22 0.80
        whole = [h for h in range(high, 0, -1) if rows % h == 0]
        high = min(whole, key=lambda h: _last(product, rows, columns, h, 1, target))
    if high < rows:
        return 1, 1, high, high * columns, False
    most = max(1, min(fit // (rows * columns), images // threads))
    many = max(d for d in range(1, most + 1) if images % d == 0)
    return many, 1, rows, many * rows * columns, False


def _volume_block(
    f: Filtering, grid: tuple[int, int], threads: int, target: Target
) -> tuple[int, int, int, int, bool]:
    """The same of a volume: the planes and rows with the least time of the thread with the most blocks. Each
    block transforms the planes around its own again; one that does not stay in the second cache, and a
    weight that does not, come from the third."""
    lanes, table = target.vector_lanes(f.product.op.body[0].dtype), cost_of(target)
    (rows, columns), planes, images = grid, size(f.places[1]) or 1, size(f.places[0]) or 1
    a, b, *_, o = (size(axis) or 1 for axis in f.product.op.axis)
    *taps, channels = (size(k) or 1 for k in f.product.op.reduce_axis)
    around, points, each = sum(taps) - len(taps), a * b, f.product.op.body[0].dtype.bytes
    depth = channels * (around + 1)
    weight, near = points * depth * o * each, target.l2_bytes // 2

    def nbytes(deep: int, high: int) -> int:
        tiles = high * columns
        seen = channels * (deep + around) * tiles
        return each * (points * (seen + o * deep * tiles) + COPIES * seen)

    def time(deep: int, high: int) -> float:
        tiles = high * columns
        lines, beside = (1, deep * tiles) if high == rows else (deep, tiles)
        tile = tile_for(beside, o, lanes, target.vector_registers, table.of_panels)
        products = points * depth * lines * time_of(beside, o, *tile, lanes, table)
        made = channels * (deep + around) * tiles + o * deep * tiles
        passes = 2 * nbytes(deep, high) if nbytes(deep, high) > near else 0
        comes = weight / (table.l3_rate if weight > near else table.l2_rate)
        block = max(products, comes) + points * table.transform / lanes * made + passes / table.l3_rate
        return -(-(images * -(-planes // deep) * -(-rows // high)) // threads) * block

    whole = nbytes(planes, rows)
    if weight > target.l2_bytes and threads > 1 and images == 1 and whole <= max(2 * near, weight // LARGER):
        return 1, planes, rows, planes * rows * columns, True
    shapes = {(even(planes, d), even(rows, h)) for d in range(1, planes + 1) for h in range(1, rows + 1)}
    deep, high = min(shapes, key=lambda shape: (time(*shape), shape))
    return 1, deep, high, high * columns * (deep if high == rows else 1), False


def _from_memory(product: Stage, target: Target) -> bool:
    """Whether the transformed weight is so large that it is dear to read for each image anew."""
    a, b, *_, o = (size(axis) or 1 for axis in product.op.axis)
    channels = size(product.op.reduce_axis[0]) or 1
    return a * b * channels * o * product.op.body[0].dtype.bytes > CACHES * target.l2_bytes


def _last(product: Stage, rows: int, columns: int, high: int, threads: int, target: Target) -> float:
    """Cycles until the thread with the most rows of tiles is done with its blocks, ``high`` rows each. Blocks
    are counted to the thread that owns them: one that another takes lies in the wrong cache."""
    lanes, table = target.vector_lanes(product.op.body[0].dtype), cost_of(target)
    a, b, *_, o = (size(axis) or 1 for axis in product.op.axis)
    channels, points_of_tile = size(product.op.reduce_axis[0]) or 1, a * b

    def block(h: int) -> float:
        tile = tile_for(h * columns, o, lanes, target.vector_registers, table.of_panels)
        products = channels * time_of(h * columns, o, *tile, lanes, table)
        weight = channels * o * product.op.body[0].dtype.bytes / table.l2_rate
        transforms = table.transform / lanes * (channels + o) * h * columns
        return points_of_tile * (max(products, weight) + transforms)

    whole, rest = divmod(rows, high)
    first = -(-(whole + (rest > 0)) // threads)  # blocks of the first thread, which has the most
    return min(first, whole) * block(high) + (block(rest) if rest and first > whole else 0.0)


def _transform(s: Schedule, data: Stage, rows: Stage, lanes: int, parallel: bool) -> None:
    """The transform of one tile after the other, for a vector of channels."""
    a, b, *p, c = data.op.axis
    axes: Axes = {"a": a, "b": b, "p": p, "c": c}
    place = nest(data, axes, "(p) co | a b ci", {"c": lanes}, parallel=parallel).place
    rows.compute_at(data, place)
    if rows.state.scope != "local":
        rows.set_scope("local")
    nest(rows, _rows_of(s, rows, a), "p | j i c")


def _products(
    s: Schedule,
    product: Stage,
    tiles: int,
    lanes: int,
    constants: Sequence[Tensor],
    parallel: bool,
    kernel: Stage | None,
    alone: bool,
    target: Target,
) -> set[str]:
    """The products of all points, in register tiles of rows × vectors of outputs. ``kernel`` transforms a
    weight that comes with the call, in each thread if ``alone``. The names of the stages of the weight and of
    the sums."""
    inside = s[s.cache_write(product.name, "local")]
    right, right_axes = _weight_of(inside)
    table, iterations, column = cost_of(target), work(inside), inside.op.axis[-1]
    columns = size(column)
    whole = in_whole_vectors(columns, lanes)
    high, vectors = tile_for(tiles, columns, lanes, target.vector_registers, table.of_panels, masks=whole)
    width = lanes * vectors
    done = {inside.name}
    if kernel is not None:
        among = not alone and table.shared(iterations // PRODUCTS_OF_TRANSFORM)
        done |= _transformed_in_panels(s, kernel, width, lanes, among)
    else:
        weight = pack(s, inside, right, right_axes, column, width)
        done.add(weight.name)
    if whole:
        inside.transform_layout(lambda *at: [*at[:-1], at[-1] // lanes, at[-1] % lanes], pad_value="any")
    a, b, *front, p, o = product.op.axis
    around = nest(
        product,
        {"k": [a, b], "f": front, "p": p, "o": o},
        "(k oo) f po | pi oi" if parallel else "k oo f po | pi oi",
        # of open rows a last tile that begins earlier computes more again than smaller ones take. Measured
        # (Zen 5, one thread), 28 × 28 to 80 × 80: 0.72 to 0.96 of the time, compiled in 0.85
        {"p": high if size(p) is None else (high, "shift"), "o": width},
        parallel=parallel,
    )
    # those in front of rows of tiles are among them
    points, (p, *outputs) = inside.op.axis[: 2 + len(front)], inside.op.axis[2 + len(front) :]
    k = inside.op.reduce_axis
    made = sums(s, inside, product, around.place, {"f": points, "k": k, "p": p, "o": outputs}, "f k | p o")
    if is_known(right, constants):
        inside.prefetch(weight.name, made.place, share=True)
    elif kernel is None:
        fill(weight, len(k), lines_at_once(size(k[-1])))
        share_out(weight, [weight.leaf_iter_vars[0]], iterations // PRODUCTS_OF_TRANSFORM, target)
    return done


def _transform_of_call(s: Schedule, products: Stage, constants: Sequence[Tensor]) -> Stage | None:
    """The stage of the transformed weight that a call computes; None of one that is known ahead of it."""
    right, _ = _weight_of(products)
    kernel = s[s.state.of(right).name]
    of_call = kernel.op.tag == tags.WINOGRAD_WEIGHT and not _made_of(right, constants)
    return kernel if of_call else None


def _weight_of(products: Stage) -> tuple[Tensor, dict[IterVar, int]]:
    """The transformed weight that products read, with the dimension of each of their axes."""
    found = alone_in_of(products.op)
    assert found is not None
    return found[:2]


def _made_of(tensor: Tensor, constants: Sequence[Tensor]) -> bool:
    """Whether ``tensor`` is one of the constants, or is computed from one."""
    if is_known(tensor, constants):
        return True
    op = tensor.op
    return isinstance(op, ComputeOp) and any(_made_of(t, constants) for t in op.input_tensors)


def _transformed_in_panels(s: Schedule, kernel: Stage, width: int, lanes: int, shared: bool) -> set[str]:
    """The transform of a weight that comes with the call, into the panels of the products: for a few channels
    the taps are transposed in registers, so that outputs are neighbours, then a vector of outputs at a
    time. The names of its stages."""
    rows = s[s.state.of(kernel.op.input_tensors[0]).name]
    source = s[s.state.of(rows.op.input_tensors[0]).name]
    kernel.transform_layout(lambda a, b, *at: [a, b, at[-1] // width, *at[:-1], at[-1] % width])
    a, b, panel, *deep, c, lane = kernel.op.axis
    axes: Axes = {"a": a, "b": b, "p": [panel, *deep], "c": c, "l": lane}
    loops = nest(kernel, axes, "(p co) ci lo | a b li", {"c": CHANNELS, "l": lanes}, parallel=shared)
    rows.compute_at(kernel, loops.place)
    in_registers(s, rows)
    nest(rows, _rows_of(s, rows, a), "p | j i c")
    kernel.storage_align(b, FAR, APART)
    done = {kernel.name, rows.name}
    if isinstance(source.op, ComputeOp) and source.op.tag == tags.WINOGRAD_WEIGHT:
        source.compute_at(kernel, loops.around[0])
        *front, c, i, j, o = source.op.axis
        axes = {"f": front, "c": c, "t": [i, j], "o": o}
        nest(source, axes, "f co oo | ci t oi", {"c": FEW, "o": lanes})
        done.add(source.name)
    return done
