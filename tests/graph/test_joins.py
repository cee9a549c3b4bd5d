"""Joins that no kernel computes: their parts are written where they lie, wherever that is possible; and
everything else is copied."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.graph.graph import needed
from tensorlang.graph.regions.joins import joins_of, parts_of
from tests.runtime.test_engine_export import _functions
from tests.runtime.test_engine_file import check_headers

RNG = np.random.default_rng(3)


def conv(g: tl.Graph, x: object, outputs: int, size: int = 1) -> object:
    channels = int(x.shape[1].value)
    w = RNG.integers(-1, 2, (outputs, channels, size, size)).astype("float32")
    return g.call(ops.relu, g.call(ops.conv2d, x, g.constant(w), padding=size // 2))


def dense_block(channels: tuple[int, ...] = (16, 32, 16), side: int = 6, batch: int = 1) -> tl.Graph:
    """Layers that each read all results before them."""
    g = tl.Graph("block")
    x = g.input((batch, 16, side, side), "float32", "x")
    all_ = conv(g, x, 16)
    for n in channels:
        h = g.call(ops.multiply, all_, g.constant(np.float32(0.5)))
        all_ = g.call(lambda a, b: ops.concatenate([a, b], 1), all_, conv(g, h, n, 3))
    g.output(conv(g, all_, 24), "y")
    return g


def in_place(engine: tl.Engine) -> int:
    return sum(line.startswith("in place") for line in str(engine.explain()).splitlines())


def agrees(g: tl.Graph, engine: tl.Engine, *arrays: np.ndarray) -> None:
    """What a level without joins in place gives, twice: values of a call before do not show."""
    other = g.compile(level=0)
    assert in_place(other) == 0
    for k in (1, 2):
        found, wanted = engine(*[a * k for a in arrays]), other(*[a * k for a in arrays])
        for a, b in zip(*((m if isinstance(m, tuple) else (m,)) for m in (found, wanted)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * float(np.abs(b).max()))


def images(*shape: int) -> np.ndarray:
    return RNG.integers(-2, 3, shape).astype("float32")


def test_each_layer_of_a_dense_block_is_written_where_the_last_join_ends(tmp_path):
    g = dense_block()
    engine = g.compile()
    assert in_place(engine) == 3
    x = images(1, 16, 6, 6)
    agrees(g, engine, x)
    (run,) = engine.steps
    _, shapes = run.sized(())
    offsets, _ = run.placed(run.inner, shapes)
    at, sizes = dict(zip(run.inner, offsets, strict=True)), run.bytes(shapes)
    for whole, parts in engine.program.joined.items():
        begin = at[whole]
        for part in parts:
            assert at[part] == begin
            begin += sizes[part]
    engine.save(tmp_path / "block.engine")
    loaded = tl.Engine.load(tmp_path / "block.engine")
    assert loaded.program.joined == engine.program.joined
    np.testing.assert_array_equal(loaded(x), engine(x))
    assert _functions(engine)("arena") == run.placed(run.inner, shapes)[1]


@pytest.mark.parametrize(
    ("channels", "side", "batch", "count"),
    [
        ((16,), 6, 1, 1),
        ((16, 3), 6, 1, 1),  # three channels are no whole number of cache lines
        ((16,), 5, 2, 0),  # the parts of two images lie apart
        ((8,), 1, 1, 0),
        ((16,), 1, 1, 1),
    ],
)
def test_only_parts_that_lie_whole_one_behind_the_other(channels, side, batch, count):
    g = dense_block(channels, side, batch)
    engine = g.compile()
    assert in_place(engine) == count
    agrees(g, engine, images(batch, 16, side, side))


def test_parts_that_have_another_place_are_copied():
    """An input, a constant, an output, a part of two joins, and twice the same part."""
    g = tl.Graph("parts")
    x = g.input((1, 16, 4, 4), "float32", "x")
    a, b, c = conv(g, x, 16), conv(g, x, 32), conv(g, x, 16)
    fixed = g.constant(images(1, 16, 4, 4))
    join = lambda *values: g.call(lambda *t: ops.concatenate(list(t), 1), *values)
    joins = [join(a, b), join(b, c), join(x, c), join(c, fixed), join(c, c), join(c, c, b)]
    for i, v in enumerate([*(conv(g, v, 8) for v in joins), a]):
        g.output(v, f"y{i}")
    engine = g.compile()
    assert in_place(engine) == 1
    agrees(g, engine, images(1, 16, 4, 4))


def test_sizes_that_are_open_and_functions_between_kernels_leave_joins_to_kernels():
    g = tl.Graph("open")
    x = g.input((1, 16, "height", 4), "float32", "x")
    g.output(conv(g, g.call(lambda a, b: ops.concatenate([a, b], 1), conv(g, x, 16), conv(g, x, 16)), 8), "y")
    engine = g.compile()
    assert in_place(engine) == 0
    agrees(g, engine, images(1, 16, 5, 4))


def test_parts_are_known_by_what_is_computed():
    g = tl.Graph("pieces")
    x, y = (g.input((16, 4), "float32", n) for n in "xy")

    def pieces(f, *values):
        return [v.name for v in parts_of(g.call(f, *(values or (x, y))).node)]

    assert pieces(lambda a, b: ops.concatenate([a, b])) == ["x", "y"]
    assert pieces(lambda a, b: ops.concatenate([a, b, a])) == ["x", "y", "x"]
    split = te.compute
    for f in (
        lambda a, b: split((32, 4), lambda i, j: te.if_then_else(i < 16, a[15 - i, j], b[i - 16, j])),
        lambda a, b: split((31, 4), lambda i, j: te.if_then_else(i < 15, a[i, j], b[i - 15, j])),
        lambda a, b: split((32, 4), lambda i, j: te.if_then_else(i < 16, a[i, j] + 1.0, b[i - 16, j])),
        lambda a, b: split((32, 4), lambda i, j: te.if_then_else(j < 2, a[i // 2, j], b[i // 2, j])),
        lambda a, b: ops.concatenate([a, b], 1),
    ):
        assert pieces(f) == []
    assert pieces(
        lambda a, b: split((32, 4), lambda i, j: te.if_then_else(i < 16, b[i, j], a[i - 16, j]))
    ) == ["y", "x"]


def test_joins_are_chosen_in_order_of_the_graph():
    g = dense_block()
    found = joins_of(g, needed(g.nodes, g.outputs))
    wholes = [n.outputs[0] for n in found]
    for i, parts in enumerate(found.values()):
        assert all(p not in wholes[i:] for p in parts)


def test_files_with_other_joins_are_refused(tmp_path):
    engine = dense_block((16, 16), 4).compile()
    path = tmp_path / "block.engine"
    engine.save(path)
    check_headers((engine, path), tmp_path, 80)
    joined = dict(engine.program.joined)
    (first, parts), (second, more) = joined.items()
    for wrong in (
        {first: parts[::-1][:1], second: more},
        {second: more, first: parts},
        {first: parts, second: (*more[:1], parts[0])},
        {first: (first, parts[1]), second: more},
        {first: parts, second: more, engine.program.outputs[0]: parts},
        {parts[0]: parts, second: more},
    ):
        engine.program.joined = wrong
        engine.save(path)
        with pytest.raises(tl.TensorLangError, match="cannot load"):
            tl.Engine.load(path)
