"""Which operators share a kernel, and that fused kernels give what kernels of single operators give."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops
from tensorlang.analysis import ROOFLINE
from tensorlang.graph import Graph
from tensorlang.graph.regions import price, regions
from tensorlang.target import Target

RNG = np.random.default_rng(0)


def whole(*shape):
    return RNG.integers(-2, 3, shape).astype("float32")


def names(g):
    return [" ".join(n.op for n in r.nodes) for r in regions(g)]


def hard_swish(g, x):
    """As exporters write it."""
    c = g.call(ops.clip, g.call(ops.add, x, g.constant(np.float32(3))), min=0.0, max=8.0)
    return g.call(ops.divide, g.call(ops.multiply, x, c), g.constant(np.float32(8)))


def convolution():
    g = Graph()
    x = g.input(("n", 4, "h", "w"), name="x")
    y = g.call(ops.conv2d, x, g.constant(whole(4, 4, 3, 3)), g.constant(whole(4)), padding=1)
    y = g.call(ops.multiply, y, g.constant(whole(4, 1, 1)))
    g.output(g.call(ops.add, hard_swish(g, y), x))
    return g, whole(2, 4, 5, 7), ["conv2d multiply add clip multiply divide add"]


def squeeze_and_excite():
    """A value that goes both ways ends its region; the small way is regions of its own."""
    g = Graph()
    x = g.input((1, 8, "h", "w"), name="x")
    y = g.call(ops.relu, g.call(ops.conv2d, x, g.constant(whole(8, 8, 1, 1))))
    pooled = g.call(ops.max, y, axis=(2, 3), keepdims=True)
    s = g.call(ops.relu, g.call(ops.conv2d, pooled, g.constant(whole(8, 8, 1, 1))))
    g.output(g.call(ops.multiply, y, s))
    return g, whole(1, 8, 4, 9), ["conv2d relu", "max", "conv2d relu", "multiply"]


def normalised_rows():
    """Reductions of rows with what stands between them, written as single operators."""
    g = Graph()
    x, y = g.input(("n", 32), name="x"), g.input(("n", 32), name="y")
    both = g.call(ops.add, x, y)
    d = g.call(ops.subtract, both, g.call(ops.max, both, axis=-1, keepdims=True))
    total = g.call(ops.sum, g.call(ops.multiply, d, d), axis=-1, keepdims=True)
    g.output(g.call(ops.multiply, d, g.call(ops.add, total, g.constant(np.float32(1)))))
    return g, (whole(5, 32), whole(5, 32)), ["add max subtract multiply sum add multiply"]


def two_products():
    """The second product is a region of its own; what both results make goes with it."""
    g = Graph()
    x = g.input(("n", 8), name="x")
    a = g.call(ops.matmul, x, g.constant(whole(8, 8)))
    b = g.call(ops.matmul, x, g.constant(whole(8, 8)))
    g.output(g.call(ops.relu, g.call(ops.add, a, b)))
    return g, whole(5, 8), ["matmul", "matmul add relu"]


def read_again():
    """A result that is also an output is not hidden in a region."""
    g = Graph()
    x = g.input(("n", 8), name="x")
    y = g.call(ops.relu, x)
    g.output(y)
    g.output(g.call(ops.add, y, x))
    return g, whole(3, 8), ["relu", "add"]


def small_before_large():
    """A few costly elements are not computed again for each of the many that read them."""
    g = Graph()
    x, s = g.input((64, 64), name="x"), g.input((64, 1), name="s")
    g.output(g.call(ops.multiply, x, g.call(ops.relu, g.call(ops.exp, g.call(ops.minimum, s, s)))))
    return g, (whole(64, 64), np.zeros((64, 1), "float32")), ["minimum exp relu", "multiply"]


CASES = [convolution, squeeze_and_excite, normalised_rows, two_products, read_again, small_before_large]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_regions_are_as_expected_and_compute_the_same(case):
    g, given, expected = case()
    assert names(g) == expected
    given = given if isinstance(given, tuple) else (given,)
    fused, apart = (g.compile(level=n) for n in (2, 0))
    assert len(fused.kernels) == len(expected) and len(apart.kernels) == len(g.nodes)
    for a, b in zip(np.atleast_1d(fused(*given)), np.atleast_1d(apart(*given)), strict=True):
        assert np.array_equal(a, b)


def test_regions_run_after_what_they_read():
    """A region stands behind all of its producers, wherever its first operator stood."""
    g = Graph()
    x = g.input(("n", 8), name="x")
    early = g.call(ops.exp, x)
    late = g.call(ops.matmul, x, g.constant(whole(8, 8)))
    late = g.call(ops.matmul, g.call(ops.relu, late), g.constant(whole(8, 8)))
    g.output(g.call(ops.add, early, late))
    made = set(g.inputs)
    for r in regions(g):
        inner = {v for n in r.nodes for v in n.outputs}
        assert all(v.data is not None or v in made or v in inner for n in r.nodes for v in n.reads)
        made |= set(r.outputs)
    a = whole(3, 8) / 8
    np.testing.assert_allclose(g.compile()(a), g.compile(level=0)(a), rtol=1e-6)
    assert isinstance(tl.Graph(), Graph)


def test_a_region_of_two_sizes_that_only_the_graph_knows_to_be_equal():
    """With a dim of its own for each size a region cannot add these; it is declared over the graph's dims."""
    g = Graph()
    n = tl.te.dim("n", 1, 64)
    m = tl.te.dim("m", 1, 64)
    x, y = g.input((n * 2, m), name="x"), g.input((n, 2, m), name="y")
    flat = g.call(ops.reshape, y, shape=[n * 2, m])
    g.output(g.call(ops.add, g.call(ops.relu, x), flat))
    a, b = whole(6, 5), whole(3, 2, 5)
    assert len(g.compile().kernels) == 1
    assert np.array_equal(g.compile()(a, b), np.maximum(a, 0) + b.reshape(6, 5))


def test_an_operator_of_places_only_is_read_through_by_each_reader():
    g = Graph()
    x = g.input(("n", 8), name="x")
    parts = g.call(ops.split, x, indices_or_sections=2, axis=1)
    turned = g.call(ops.transpose, x)
    g.output(g.call(ops.exp, parts[0]))
    g.output(g.call(ops.abs, parts[1]))
    g.output(g.call(ops.relu, turned))
    g.output(g.call(ops.negative, turned))
    assert names(g) == ["split exp", "split abs", "transpose relu", "transpose negative"]
    a = whole(3, 8)
    for found, wanted in zip(g.compile()(a), g.compile(level=0)(a), strict=True):
        assert np.array_equal(found, wanted)


@pytest.mark.parametrize(
    "apart, expected", [(True, ["reshape transpose", "reshape transpose matmul"]), (False, None)]
)
def test_a_product_stays_one_where_its_right_operand_is_seen_apart(apart, expected):
    """Heads that are a part of each row are copied for the right operand, and read where they lie for the left
    one; a change of order alone is no reason."""
    g, heads = Graph(), []
    for name in "qk":
        x = g.input((24, 32) if apart else (2, 12, 4, 8), name=name)
        x = g.call(ops.reshape, x, shape=[2, 12, 4, 8]) if apart else x
        heads.append(g.call(ops.transpose, x, axes=[0, 2, 1, 3]))
    g.output(g.call(ops.matmul, *heads, transpose_b=True))
    assert names(g) == (expected or ["transpose transpose matmul"])
    given = [whole(*g.inputs[i].shape) for i in range(2)]
    assert np.array_equal(g.compile()(*given), g.compile(level=0)(*given))


def test_an_engine_explains_its_regions():
    g, *_ = squeeze_and_excite()
    text = g.compile().explain()
    assert "kernel 0: conv2d → relu gives relu" in text
    assert "a reduction that reads elements again and again, and maps of each of its results" in text
    assert "relu comes from another: it is read by 2 regions" in text


def read_by_two(fn, *shape):
    g = Graph()
    h = g.call(fn, g.call(ops.multiply, g.input(shape, name="x"), g.constant(np.float32(3))))
    g.output(g.call(ops.add, h, g.constant(np.float32(1))))
    g.output(g.call(ops.abs, h))
    return g


ZEN = Target.parse("llvm -mcpu=znver3")


def test_a_map_is_computed_by_each_of_its_readers_where_a_pass_over_memory_takes_longer():
    apart, again = ["multiply {}", "add", "abs"], ["multiply {} add", "multiply {} abs"]
    for fn, shape, expected in (
        (ops.relu, (4096, 256), again),  # two reads of x, in place of one, and of one write and two reads
        (ops.tanh, (64, 256), apart),  # in the cache, where a pass costs less than the arithmetic
        (ops.relu, ("n", 256), apart),  # of typical size
        (ops.relu, (tl.te.dim("n", hint=4096), 256), again),  # as a profile says
    ):
        g = read_by_two(fn, *shape)
        found = [" ".join(n.op for n in r.nodes) for r in regions(g, target=ZEN)]
        assert found == [e.format(fn.__name__) for e in expected]
        a = whole(*(n if isinstance(n, int) else 3 for n in shape)) / 8
        for x, y in zip(g.compile()(a), g.compile(level=0)(a), strict=True):
            assert np.allclose(x, y, rtol=1e-6)


def test_the_table_of_costs_decides_what_is_computed_again():
    """The same table, the same regions; other costs, others."""
    g = read_by_two(ops.tanh, 64, 256)

    def found(**numbers):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(price, "cost_of", lambda target: replace(ROOFLINE, **numbers))
            return [len(r.nodes) for r in regions(g, target=ZEN)]

    assert found() == found() == [2, 1, 1]
    assert found(call=1) == [3, 3]
    assert found(l1_rate=1, l2_rate=1, l3_rate=1) == [3, 3]


def test_a_map_that_something_else_than_a_map_reads_too_is_written_once():
    g = Graph()
    h = g.call(ops.relu, g.input((4096, 256), name="x"))
    g.output(g.call(ops.add, h, g.constant(np.float32(1))))
    g.output(g.call(ops.sum, h, axis=0))
    assert [len(r.nodes) for r in regions(g, target=ZEN)] == [1, 1, 1]


def test_an_engine_tells_the_costs_that_were_compared():
    found = [w for r in regions(read_by_two(ops.relu, 4096, 256), target=ZEN) for w in r.why if "cycles" in w]
    told = (
        r"relu is computed by each of its 2 readers \(computed again: [\d,]+ cycles, written once: [\d,]+\)"
    )
    assert len(found) == 1 and re.fullmatch(told, found[0])
    why = regions(read_by_two(ops.tanh, 64, 256), target=ZEN)[1].why
    assert "it is read by 2 regions (computed again: " in " ".join(why)


def test_what_stays_the_same_in_inner_loops_is_priced_outside_of_them():
    """A row's scale is computed once a row, a column's for each element."""
    g = Graph()
    x = g.input((512, 512), name="x")
    row, column = g.input((512, 1), name="r"), g.input((1, 512), name="c")
    for s in (row, column):
        g.output(g.call(ops.multiply, x, g.call(ops.sqrt, g.call(ops.exp, s))))
    assert [" ".join(n.op for n in r.nodes) for r in regions(g, target=ZEN)] == [
        "exp sqrt multiply",
        "exp sqrt",
        "multiply",
    ]


@pytest.mark.parametrize("open_", [False, True])
@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize(("turned", "apart"), [(1, True), (2, False), (4, False)])
def test_a_transposition_stays_out_of_a_join_of_what_is_not(
    turned: int, apart: bool, reshaped: bool, open_: bool
) -> None:
    """Few of the pieces are transposed first; where most are, all are copied in tiles."""
    g = Graph()
    b, pixels = ("b", "p") if open_ else (1, 2 * 30)
    pieces, arrays = [], {}
    for i in range(4):
        shape = (1, 60, 64) if i < turned else (1, 64, 60)
        x = g.input((b, pixels, 64) if i < turned else (b, 64, pixels), name=f"x{i}")
        arrays[f"x{i}"] = whole(*shape)
        if i < turned:
            x = g.call(ops.transpose, x, axes=(0, 2, 1))
        if reshaped:
            x = g.call(lambda t: ops.reshape(t, (*t.shape, 1)), x)
        pieces.append(x)
    g.output(g.call(lambda *t: ops.concatenate(list(t), 1), *pieces, op="join"))
    found = names(g)
    assert any(n.startswith("transpose") and "join" not in n for n in found) == apart, found
    want = [a.transpose(0, 2, 1) if i < turned else a for i, a in enumerate(arrays.values())]
    (got,) = g.compile().run(arrays).values()
    np.testing.assert_array_equal(got.reshape(1, 256, 60), np.concatenate(want, 1))


@pytest.mark.parametrize(
    ("left", "right", "turned", "axes"),
    [
        ((9, 5), (9, 7), 0, (1, 0)),
        ((5, 9), (7, 9), 1, (1, 0)),
        ((3, 9, 5), (3, 9, 7), 0, (0, 2, 1)),
        ((9, 3, 5), (3, 9, 7), 0, (1, 2, 0)),
    ],
)
def test_products_read_their_operands_in_every_order(left, right, turned, axes):
    """A transposed copy of an operand would take as long as the product of a few columns does."""
    g = Graph()
    a, b = g.input(left, name="a"), g.input(right, name="b")
    both = [a, b]
    both[turned] = g.call(ops.transpose, both[turned], axes=axes)
    g.output(g.call(ops.matmul, *both))
    assert names(g) == ["transpose matmul"]
    x, y = whole(*left), whole(*right)
    want = [x, y]
    want[turned] = want[turned].transpose(axes)
    assert (g.compile(cache=False)(x, y) == want[0] @ want[1]).all()
