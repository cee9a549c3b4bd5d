"""Each primitive on one small computation: the schedule tree before and after, and the same numbers.

The trees are in ``trees.txt``; a person has read them.
"""

from __future__ import annotations

import inspect
import itertools
from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.schedule.trace import Trace
from tests import golden
from tests.fuzz.harness import run

TREES = Path(__file__).parent / "trees.txt"


def matmul():
    A, B = te.placeholder((30, 20), name="A"), te.placeholder((20, 24), name="B")
    k = te.reduce_axis((0, 20), "k")
    C = te.compute((30, 24), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    D = te.compute((30, 24), lambda i, j: te.max(C[i, j], 0), "D")
    return [A, B, D], D, C


def split_factor(s, D, C):
    s[D].split(s[D].op.axis[0], factor=7)


def split_nparts(s, D, C):
    s[D].split(s[D].op.axis[0], nparts=4)


def split_beyond(s, D, C):
    s[D].split(s[D].op.axis[0], factor=100)


def split_again(s, D, C):
    _, inner = s[D].split(s[D].op.axis[0], factor=10)
    s[D].split(inner, factor=4)


def tile(s, D, C):
    s[D].tile(*s[D].op.axis, 8, 5)


def fuse(s, D, C):
    s[D].fuse(*s[D].op.axis)


def fuse_then_split(s, D, C):
    s[D].split(s[D].fuse(*s[D].op.axis), factor=32)


def reorder(s, D, C):
    s[C].reorder(s[C].op.reduce_axis[0], s[C].op.axis[1], s[C].op.axis[0])


def vectorize(s, D, C):
    _, inner = s[D].split(s[D].op.axis[1], factor=16)
    s[D].vectorize(inner)


def unroll(s, D, C):
    s[C].unroll(s[C].op.reduce_axis[0])


def unroll_and_jam(s, D, C):
    s[C].vectorize(s[C].split(s[C].op.axis[1], factor=8)[1])
    s[C].reorder(s[C].op.axis[0], "j.outer", s[C].op.reduce_axis[0], "j.inner")
    s[C].unroll_and_jam(s[C].op.axis[0], 4)


def parallel(s, D, C):
    s[D].parallel(s[D].op.axis[0])


def compute_at(s, D, C):
    s[C].compute_at(s[D], s[D].op.axis[0])


def compute_at_a_tile(s, D, C):
    _, jo, _, _ = s[D].tile(*s[D].op.axis, 8, 5)
    s[C].compute_at(s[D], jo)


def compute_root(s, D, C):
    compute_at(s, D, C)
    s[C].compute_root()


def compute_inline(s, D, C):
    E = s.cache_write(D, "local")
    s[E].compute_inline()


def cache_read(s, D, C):
    s[s.cache_read(s.tensor("B"), "local", [C])].compute_at(s[C], s[C].op.axis[1])


def cache_write(s, D, C):
    s[s.cache_write(D, "local")].compute_at(s[D], s[D].op.axis[0])


def sample_tile(s, D, C):
    knob = s.sample_tile(s[D].op.axis[0], max_factor=16, values=6)
    s[D].split(s[D].op.axis[0], factor=knob)


def rfactor(s, D, C):
    _, inner = s[C].split(s[C].op.reduce_axis[0], factor=5)
    s.rfactor(C, inner)


def store_at(s, D, C):
    s[C].compute_at(s[D], s[D].op.axis[1])
    s[C].store_at(s[D], s[D].op.axis[0])


# every function of a schedule and the two tensors
CHANGES = [
    f
    for f in list(globals().values())
    if inspect.isfunction(f) and [*inspect.signature(f).parameters] == ["s", "D", "C"]
]


def changed(change):
    args, D, C = matmul()
    s = te.create_schedule(D.op)
    if change is not None:
        change(s, D, C)
    return args, D, C, s


def test_before(pytestconfig):
    golden.same(pytestconfig, TREES, "before", str(changed(None)[3].tree()))


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_tree_after(change, pytestconfig):
    golden.same(pytestconfig, TREES, change.__name__, str(changed(change)[3].tree()))


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_same_numbers(change):
    args, D, _, s = changed(change)
    assert run(args, [D], {"A": (-4, 5), "B": (-4, 5)}, s, [{}]) == (2, 1)


@pytest.mark.parametrize("change", CHANGES, ids=lambda f: f.__name__)
def test_trace_replays_from_json_and_python(change):
    args, D, _, s = changed(change)
    want = str(tl.lower(s, args, simple=True))
    again = Trace.from_json(s.trace.to_json())
    assert again == s.trace
    fresh = again.apply(te.create_schedule(D.op))
    assert str(fresh.tree()) == str(s.tree())
    assert str(tl.lower(fresh, args, simple=True)) == want
    scope: dict = {}
    exec(s.trace.to_python(), scope)
    assert str(tl.lower(scope["apply"](te.create_schedule(D.op)), args, simple=True)) == want


def test_python_text_is_what_a_person_writes():
    args, D, C, s = changed(None)
    i, j = s[D].op.axis
    io, jo, ii, ji = s[D].tile(i, j, s.sample_tile(i, max_factor=16, values=6, name="rows"), 8)
    s[C].transform_layout(lambda i, j: [j, i])
    s[C].compute_at(s[D], jo)
    s[C].vectorize(s[C].op.axis[1])
    text = s.trace.to_python()
    assert "io, ii = s[D].split(i, factor=rows)" in text and "s[D].reorder(io, jo, ii, ji)" in text
    assert "s[C].transform_layout(lambda i0, i1: [i1, i0])" in text and "s[C].compute_at(s[D], jo)" in text
    assert "s.step" not in text and "rows = s.sample_tile(i, max_factor=16, values=6, name='rows')" in text
    want = str(tl.lower(s, args, simple=True))
    for numbers in (False, True):
        scope: dict = {}
        exec(s.trace.to_python(numbers=numbers), scope)
        again = scope["apply"](te.create_schedule(D.op))
        assert str(tl.lower(again, args, simple=True)) == want
        assert (again.trace == s.trace) is (not numbers)
        assert bool(again.decisions) is (not numbers)


def test_python_text_looks_up_what_two_caches_are_called():
    """The copy of one output of an operation with two is called `top.v0.local`, so that `top.local` is the
    cache of its results."""
    a = te.placeholder((6, 8), "float32", "a")
    high = te.comm_reducer(
        lambda x, y: (te.max(x[0], y[0]), te.max(x[1], y[1])),
        lambda t, u: (te.min_value(t), te.min_value(u)),
        name="high",
    )
    k = te.reduce_axis((0, 8), "k")
    top = te.compute((6,), lambda i: high((a[i, k], -a[i, k]), axis=k), "top")
    out = te.compute((6,), lambda i: top[0][i] + top[1][i], "out")
    s = te.create_schedule(out.op)
    copy = s.cache_read(top[0], "local", [out])
    cache = s.cache_write(list(top), "local")
    s[copy].unroll(s[copy].op.axis[0])
    s[cache[0]].compute_at(s[top[0]], s[top[0]].op.axis[0])
    want = str(tl.lower(s, [a, out], simple=True))
    scope: dict = {}
    exec(s.trace.to_python(), scope)
    assert str(tl.lower(scope["apply"](te.create_schedule(out.op)), [a, out], simple=True)) == want


def test_a_copy_is_free_and_independent():
    args, D, C, s = changed(tile)
    other = s.copy()
    assert other.state is s.state
    before = str(s.tree())
    other[D].parallel(other[D].leaf_iter_vars[0])
    assert str(s.tree()) == before
    assert len(other.trace) == len(s.trace) + 1


def test_a_tile_is_all_or_nothing():
    args, D, C, s = changed(None)
    i, j = s[D].op.axis
    with pytest.raises(tl.ScheduleError):
        s[D].tile(i, j, 4, 0)
    assert len(s.trace) == 0
    assert str(s.tree()) == golden.sections(TREES)["before"]


def test_decisions_of_a_trace_can_be_changed():
    args, D, _, s = changed(sample_tile)
    other = s.trace.with_decisions({"tile_i": (11,)}).apply(te.create_schedule(D.op))
    assert "0..11" in str(other.tree())
    assert "0..6" in str(s.tree())
    assert s.decisions == {"tile_i": (6,)}


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda s, D, C: s[D].split("i", factor=0), "how often the inner loop runs"),
        (lambda s, D, C: s[D].split("i"), "neither factor nor nparts"),
        (lambda s, D, C: s[D].split("i", factor=2, nparts=2), "both say where"),
        (lambda s, D, C: s[D].split("x", factor=2), "has no loop `x`"),
        (
            lambda s, D, C: (s[D].split("i", factor=2), s[D].split("i", factor=2)),
            "was split into i.outer, i.inner",
        ),
        (lambda s, D, C: s[D].unroll_and_jam("i", 0), "how often the inner loop runs"),
        (lambda s, D, C: (s[D].vectorize("i"), s[D].unroll_and_jam("i", 4)), "is vectorized already"),
        (lambda s, D, C: s[C].fuse("i", "k"), "not neighbours"),
        (lambda s, D, C: s[C].fuse("j", "k"), "data loop and a reduction loop"),
        (lambda s, D, C: s[D].reorder("i", "i"), "named twice"),
        (lambda s, D, C: s[C].parallel("k"), "race"),
        (lambda s, D, C: (s[D].vectorize("j"), s[D].vectorize("i")), "one vector loop"),
        (lambda s, D, C: s[D].compute_inline(), "is an output"),
        (lambda s, D, C: s[C].compute_inline(), "is a reduction"),
        (lambda s, D, C: s[D].compute_at(s[C], "i"), "is an output"),
        (lambda s, D, C: s[C].compute_at(s[C], "i"), "inside itself"),
        (
            lambda s, D, C: (s[D].vectorize("j"), s[C].compute_at(s[D], "j"), s[C].store_at(s[D], "i")),
            "lanes would share",
        ),
        (
            lambda s, D, C: (s[C].compute_at(s[D], "j"), s.cache_write(D, "local")),
            "is computed inside its loops",
        ),
        (lambda s, D, C: s.cache_read(C, "local", [C]), "does not read"),
        (lambda s, D, C: s.cache_read(C, "shared", [D]), "not known"),
        (lambda s, D, C: s["A"].compute_root(), "is an argument"),
    ],
)
def test_refusals_say_why(call, reason):
    args, D, C, s = changed(None)
    with pytest.raises(tl.ScheduleError) as caught:
        call(s, D, C)
    assert reason in str(caught.value)


def test_a_loop_of_unknown_extent_is_not_vectorized():
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    C = te.compute((n,), lambda i: A[i] * 2, "C")
    s = te.create_schedule(C.op)
    with pytest.raises(tl.ScheduleError, match="known only at run time"):
        s[C].vectorize(s[C].op.axis[0])


def test_pixels_merged_into_one_dimension_are_tiled_across_rows():
    """What a convolution wants: six neighbouring pixels in registers, wherever their row ends."""
    c, h, w, o = 3, 7, 5, 8
    X, W = te.placeholder((c, h + 2, w + 2), name="X"), te.placeholder((o, c, 3, 3), name="W")
    rc, ry, rx = (te.reduce_axis((0, n), name=m) for n, m in ((c, "rc"), (3, "ry"), (3, "rx")))
    C = te.compute(
        (o, h, w),
        lambda q, y, x: te.sum(X[rc, y + ry, x + rx] * W[q, rc, ry, rx], axis=[rc, ry, rx]),
        name="C",
    )
    O = te.compute((o, h, w), lambda q, y, x: te.max(C[q, y, x], 0.0), name="O")
    s = te.create_schedule(O.op)
    s[C].transform_layout(lambda q, y, x: (q // 4, y * w + x, q % 4))
    assert [a.name for a in s[C].op.axis] == ["q.outer", "y.x.fused", "q.inner"]
    outer, inner = s[O].split(s[O].fuse(*s[O].op.axis[1:]), 6)
    s[O].reorder(outer, s[O].op.axis[0], inner)
    s[C].compute_at(s[O], outer)
    func = tl.lower(s, [X, W, O])
    assert "C: float32[2, 6, 4]" in str(func)  # the tile, not the rows it touches
    assert run([X, W, O], [O], {"X": (-4, 5), "W": (-4, 5)}, s, [{}]) == (2, 1)
    again = Trace.from_json(s.trace.to_json()).apply(te.create_schedule(O.op))
    assert str(tl.lower(again, [X, W, O])) == str(func)


def test_pixels_of_rows_of_any_width_merged_into_one_dimension():
    """The same where the width is a dim, and the image has its channels innermost."""
    c, o = 3, 8
    h, w = te.dim("h", 1, 9), te.dim("w", 1, 9)
    X, W = te.placeholder((c, h + 2, w + 2), name="X"), te.placeholder((o, c, 3, 3), name="W")
    rc, ry, rx = (te.reduce_axis((0, n), name=m) for n, m in ((c, "rc"), (3, "ry"), (3, "rx")))
    C = te.compute(
        (o, h, w),
        lambda q, y, x: te.sum(X[rc, y + ry, x + rx] * W[q, rc, ry, rx], axis=[rc, ry, rx]),
        name="C",
    )
    O = te.compute((o, h, w), lambda q, y, x: te.max(C[q, y, x], 0.0), name="O")
    s = te.create_schedule(O.op)
    s[C].transform_layout(lambda q, y, x: (y * w + x, q))
    assert [a.name for a in s[C].op.axis] == ["y.x.fused", "q"]
    s[C].split(s[C].op.axis[0], 5)
    kernel = tl.build(s, [X, W, O])
    again = Trace.from_json(s.trace.to_json()).apply(te.create_schedule(O.op))
    assert str(tl.lower(again, [X, W, O])) == str(tl.lower(s, [X, W, O]))
    rng = np.random.default_rng(0)
    for height, width in itertools.product((1, 2, 5, 9), repeat=2):
        x, k = (
            rng.integers(-4, 5, shape).astype("float32")
            for shape in ((c, height + 2, width + 2), (o, c, 3, 3))
        )
        want = sum(
            np.einsum("chw,oc->ohw", x[:, i : i + height, j : j + width], k[:, :, i, j])
            for i in range(3)
            for j in range(3)
        )
        got = np.empty_like(want)
        kernel(x, k, got)
        assert (got == np.maximum(want, 0)).all(), (height, width)


def test_the_width_that_rows_are_counted_by_is_theirs():
    h, w = te.dim("h", 1, 9), te.dim("w", 1, 9)
    A = te.placeholder((h, w), name="A")
    C = te.compute((h, w), lambda i, j: A[i, j] * 2.0, name="C")
    O = te.compute((h, w), lambda i, j: C[i, j] + 1.0, name="O")
    for index_map in (
        lambda i, j: [i * h + j],
        lambda i, j: [j * w + i],
        lambda i, j: [i * w * 2 + j],
        lambda i, j: [i * w * w + j],
        lambda i, j: [i * w + j // 4, j % 4],
    ):
        s = te.create_schedule(O.op)
        with pytest.raises(tl.ScheduleError, match="transform_layout"):
            s[C].transform_layout(index_map)
        assert len(s.trace) == 0


@pytest.mark.parametrize(
    "index_map",
    [
        lambda i, j: [i * 23 + j],  # a weight that is not the size below it
        lambda i, j: [i * 24 + j + 1],
        lambda i, j: [i * 24 - j],
        lambda i, j: [j * 30 + j],
        lambda i, j: [i * j],
    ],
)
def test_what_is_no_number_in_a_mixed_base_is_no_layout(index_map):
    _, _, C, s = changed(None)
    with pytest.raises(tl.ScheduleError, match="transform_layout"):
        s[C].transform_layout(index_map)
    assert len(s.trace) == 0
