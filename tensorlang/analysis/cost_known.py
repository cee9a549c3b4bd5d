"""Tables of costs for processors by the names that LLVM gives them. Knows the form of a table; measures
nothing, and asks no machine.

What a row leaves out is as in the generic table, whose numbers were measured on a Zen 3. The rows of Intel
processors before Sapphire Rapids are not measured here: latency and the widths of loads are those of their
vendor's optimization manual and of Fog's "Instruction tables", and what the second and third cache bring in a
cycle is what programs have been seen to get from them (Haswell 54 and 32 GiB/s at 2.5 GHz), not the width of
the bus.
"""

from __future__ import annotations

from dataclasses import replace

from .cost import ROOFLINE, Cost

_HASWELL = replace(ROOFLINE, latency=5, l2_rate=24)
_SKYLAKE = replace(ROOFLINE, l2_rate=28)
_SKYLAKE512 = replace(ROOFLINE, l1_rate=128, l2_rate=48, l3_rate=8)
# measured: convolutions over rows, whose vectors of pixels begin anywhere in a line, take 1.15 to 1.6 times
# as long as they should beside tiles of pixels × outputs (128 channels of 28 × 28 1.35, 64 of 56 × 56 1.2,
# 128 of 56 × 56 at stride 2 1.5), and those read an image as fast as any where a row of all channels lies
# side by side. ``remote_rate``: two threads that make an image together take 0.57 to 1.03 of the time of
# those that have rows of their own (ten of 3×3 and 5×5; 128 of 56 × 56 at stride 2 0.57, of 28 × 28 0.81).
# ``element_rate``: 256 to 1024 channels of 14 × 14, whose weight comes for each of 13 tiles of pixels, take
# 1.9 times as long as in tiles of pixels × outputs
# ``near_bytes``: against blocks of 256 columns, products with a constant right operand take 0.84 to 0.94 of
# the time on one thread and 0.82 to 1.13 on two (five of 106 to 1024 rows, in turns); in the call blocks of
# the same size take 0.79 (128 × 768 × 768 on two threads) to 1.26 (511 × 513 × 517), and stay as they were.
# ``panel_bytes``: half of the first cache; what it saves is in ``recipes.deep``
_ZEN3 = replace(
    ROOFLINE,
    crossing=1.4,
    spread=1.0,
    remote_rate=8.0,
    element_rate=4.0,
    near_bytes=192 << 10,
    panel_bytes=16 << 10,
)
# measured, one thread unless said: ``panel_load``: one vector of 64 bytes comes from the first cache in each
# cycle. Tiles of more vectors, which read fewer, take products of 2048³ 0.74, of 1024³ 0.83, of 384 × 4096 ×
# 1024 0.76 of the time; 512³ and less 0.98 to 1.03. ``spread``, ``hidden_pages``: of 18 convolutions, with a
# ``spread`` of 1.0 those take 0.98 of the time. ``crossing``, ``beside``: a cycle of this table is two
# of multiply-adds of 64 bytes, one of which begins in a cycle; vectors of pixels that cross lines hide behind
# them, and copies take half as many. Of 171 drawn 3×3 and 5×5 convolutions with a constant weight the recipe
# that is chosen takes 1.012 times as long as the better one (1.036 with 1.4 and 0.35), on two threads 1.020
# (1.044). ``whole_per_cycle``: one of 64 bytes begins in a cycle, two of 32: products of 7 and 8 columns, 49
# × 133 × 7 and 58 × 354 × 8, take 0.83 and 0.90 of the time in half vectors of the columns. ``transform``:
# of 88 drawn 3×3 convolutions the choice between direct sums and minimal filtering takes 1.04 times as long
# as the best of them, on two threads 1.03 (1.35 and 1.19 with 16). ``gathered``: elements picked one by one
# for four rows take 0.64 of the time of gathers, of vectors for four rows 0.85. ``in_place_rows``, one
# thread and two, right operands of 50 KB to 1 MB: 24 rows 0.86 of the time, 48 0.91, 80 0.96, 128 0.98, 200
# 0.99; of 4 MB that come from memory 24 1.1 to 1.3. ``by_line_rows`` (552 KB): tiles of 4 rows take 0.94 of
# the time of lines, 6 0.83, 7 0.85, 10 1.0; 3 rows 1.0; of 9 MB from memory 12 rows 1.5 to 2.6
_ZEN4 = replace(
    ROOFLINE,
    panel_load=2.0,
    crossing=1.0,
    spread=1.1,
    hidden_pages=1 << 20,
    beside=0.15,
    whole_per_cycle=1,
    transform=5,
    gathered=1.6,
    in_place_rows=128,
)
# measured: a parallel loop begins in 0.21 µs on threads that are awake, in 7 µs on threads that sleep; an
# iteration of a register tile takes 10 ps in products of 80 rows, packing included. ``asked_bytes``:
# unasked, sums of the columns of 56 to 120 MB take 0.5 to 0.6 of the time on one thread and 0.66 to 0.76 on
# two, of 64 × 256 × 1024 along the second axis 0.5 and 0.7; sums, maxima and argmax of rows and of all
# elements 0.77 to 0.93 and 0.7 to 1.0. Whole operators of rows gain by asking, and do: softmax of rows of
# 3000 takes 0.6. ``in_place_rows``, of 217 drawn shapes with right operands of 60 KB to 12 MB, against
# copies in panels from 16 rows on, on one thread and two: 0.93 and 0.92 of the time, with the caches emptied
# 0.87 and 0.89; 20 rows 0.7, 32 0.8, 64 0.9, 128 0.95, 160 0.96, 256 0.98 and 1.02. ``by_line_rows``: tiles
# of 2 to 4 rows take 1.0 to 1.3 times as long as lines, 5 to 14 0.65 to 1.0 (caches emptied 0.7 to 1.3).
# ``rows_ahead``, on one thread and two, rows of 35 to 40 MB: sums of 17 floats take 0.73 and 0.79 of the
# time, of 34 0.69 and 0.73, of 150 0.84 and 0.87, of 300 0.89 and 0.84, of 500 1.13 and 1.02 (the largest
# 0.71 and 0.74, of 34 0.72 and 0.8, of 1000 0.86); 4 KiB take longer, 16 as long.
# ``ahead_lines``: 8, 16 and 32 with the caches emptied 0.94, 0.91 and 0.90 of the time of none.
# ``ahead_terms``: 2048³ on one thread 0.93 to 0.98 of the time, on two 0.93, 512 × 512 × 4096 1.0 and 0.95,
# of ten others none more than 1.01; 16, 24 and 32 alike
# ``block_bytes``, of 93 drawn products of 64 to 1024 rows and 600 to 3000 terms against blocks of 256
# columns: on one thread 0.98 of the time with a constant right operand and 0.99 in the call (209 × 1823 ×
# 281 0.94, 87 × 2689 × 2817 1.07), on two 1.00 and 0.99 (0.86 to 1.12). A ``panel_load`` of 2 takes 1.02
# times as long. ``transform``, ``transformed``, ``requested``: of 170 and 194 drawn 3×3 convolutions, on one
# thread and two, what is chosen takes 1.05 and 1.03 times as long as the best of direct sums and minimal
# filtering (by the generic row 1.16 and 1.13); of 81 whose weight comes from the third cache 1.03 (1.19), of
# 44 from memory 1.03 (1.08). ``few_rows``: 14 drawn attentions of 770 to 1024 keys in blocks whose scores fit
# the first cache take 0.97 to 0.995 of the time of blocks of up to 16 rows on one thread and two, 12 heads of
# 1024 keys, 64 wide, 0.99; blocks of fewer than 12 rows lose where queries are few (20 of 1024 keys 1.14, 48
# of 1000 1.16). ``head_vectors``: 12 heads of 64, 1024 tokens 0.98 of the time, 512 0.993, 256 0.989, 11 of
# 304 × 1775 0.97, of 9 others 0.99 to 1.007; heads of 128 1.0 to 1.14. ``near_bytes``, ``equal``: 2048 ×
# 2048 × 2048 by a constant 0.966 of the time, on two threads 0.961, 4000 × 1800 × 1000 0.973, 384 × 1024 ×
# 4096 0.99, twenty drawn ones 0.97 to 1.01. ``by_tap``: of 113 drawn convolutions of 1 to 32 outputs on two
# threads the 30 that are taken take 0.09 to 0.9 of the time, one 1.2; the costs of direct sums of few outputs
# are low. ``mixed_rows``: see ``recipes.mixed_lines``
_ZEN5 = replace(
    ROOFLINE,
    start=6300,
    thread=54000,
    product=10.0,
    asked_bytes=1 << 39,
    rows_ahead=8 << 10,
    in_place_rows=160,
    in_place_cache=3,
    by_line_rows=4,
    ahead_lines=16,
    ahead_terms=24,
    mixed_rows=28,
    block_bytes=512 << 10,
    transform=4,
    transformed=8.0,
    requested=1.0,
    hidden_lines=8 << 20,
    few_rows=12,
    head_vectors=4,
    near_bytes=256 << 10,
    equal=1.0005,
    by_tap=0.6,
)
# measured on Emerald Rapids, in a virtual machine of two cores: 117, 50 and 9 bytes a cycle come from
# behind the first, second and third cache; ``start`` and ``product`` are what ``calibrate`` found three
# times. Blocks of 384 to 768 KiB of the second cache's two MiB are the fastest for k from 1024 to 4096: 3
# to 12 % faster than 256 columns on one thread and on two. ``panel_load``: beside what comes from the
# second cache one load begins in a cycle, not two, so that tiles of three and four vectors, which take
# fewer, win where 13 × 2 looks as good: of 30 products and convolutions of 1 × 1 the median takes 0.92 of
# the time, 2048³ 0.76, 49×512×4608 1.05. Tiles of other convolutions keep to ``load``, or the wrong recipe
# wins (3 × 3 at stride 2: twice the time). ``hidden_pages`` (Granite Rapids): of 40 images, those of at
# most a MiB take 0.8 to 1.0 of the time in tiles of pixels × outputs that they take over rows, as if they
# were near; larger ones 0.9 to 1.5
_SAPPHIRE_RAPIDS = replace(
    ROOFLINE,
    panel_load=2.0,
    l1_rate=128,
    l2_rate=48,
    l3_rate=9,
    start=5000,
    product=16.0,
    block_bytes=512 << 10,
    hidden_pages=1 << 20,
)

_ROWS: tuple[tuple[str, Cost], ...] = (
    ("znver3", _ZEN3),
    ("znver4", _ZEN4),
    ("znver5", _ZEN5),
    ("haswell core-avx2", _HASWELL),
    ("broadwell skylake", _SKYLAKE),
    (
        "skylake-avx512 skx cascadelake cooperlake icelake-server icelake-client tigerlake rocketlake",
        _SKYLAKE512,
    ),
    ("sapphirerapids emeraldrapids graniterapids", _SAPPHIRE_RAPIDS),
)

KNOWN: dict[str, Cost] = {cpu: table for cpus, table in _ROWS for cpu in cpus.split()}
