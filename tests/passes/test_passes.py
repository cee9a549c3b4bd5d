"""Each pass on kernels that show what it does: its text before and after in ``kernels.txt``, and the same
numbers from the interpreter.

The kernels come from schedules; a pass sees what the passes before it in the list leave.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import __main__ as command
from tensorlang import ops, te
from tensorlang.loopir.interpret import interpret
from tensorlang.loopir.stmt import For, If, Seq, Store, preorder
from tensorlang.loopir.verify import verify
from tensorlang.lowering.lower import lower_state
from tensorlang.passes import pipeline
from tensorlang.passes.base import Pass, PassPipeline
from tensorlang.passes.pipeline import CHECKED, PIPELINE
from tensorlang.passes.split_lanes import pieces
from tests import golden
from tests.fuzz.harness import arrays, run

TEXTS = Path(__file__).parent / "kernels.txt"


def guarded_tile():
    """Guards on plain loops: simplify and tighten."""
    A = te.placeholder((30,), name="A")
    C = te.compute((30,), lambda i: A[i] * 2, "C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].split(inner, factor=8)
    return s, [A, C], C


def vector_tail():
    """A vector loop with a tail: partition, vectorize."""
    A = te.placeholder((30,), name="A")
    C = te.compute((30,), lambda i: A[i] * 2, "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].vectorize(inner)
    return s, [A, C], C


def peeled_tail():
    """The tail of a vector loop by itself: peel."""
    A = te.placeholder((30,), name="A")
    C = te.compute((30,), lambda i: A[i] * 2, "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor=8, tail="peel")
    s[C].vectorize(inner)
    return s, [A, C], C


def odd_vector():
    """Six lanes: split lanes."""
    A = te.placeholder((4, 6), name="A")
    C = te.compute((4, 6), lambda i, j: A[i, j] * 2, "C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[1])
    return s, [A, C], C


def unrolled_tail():
    """An unrolled loop with a tail: partition, unroll."""
    A = te.placeholder((10,), name="A")
    C = te.compute((10,), lambda i: A[i] * 2, "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], factor=4)
    s[C].unroll(inner)
    return s, [A, C], C


def vector_sum():
    """A vectorized reduction: vectorize makes it a reduction of lanes."""
    A = te.placeholder((5, 20), name="A")
    k = te.reduce_axis((0, 20), "k")
    C = te.compute((5,), lambda i: te.sum(A[i, k], axis=k), "C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(k, factor=8)
    s[C].vectorize(inner)
    return s, [A, C], C


def padded():
    """A stage with a condition in its body, computed in tiles of its reader."""
    A = te.placeholder((13,), name="A")
    P = te.compute((15,), lambda i: te.if_then_else((i >= 1) & (i < 14), A[i - 1], 0.0), "P")
    k = te.reduce_axis((0, 3), "k")
    C = te.compute((13,), lambda i: te.sum(P[i + k], axis=k), "C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[P].compute_at(s[C], outer)
    return s, [A, C], C


def symbolic_tile():
    """A register tile over a size that is not known."""
    n = te.var("n")
    A, B = te.placeholder((n, 8), name="A"), te.placeholder((8, 12), name="B")
    k = te.reduce_axis((0, 8), "k")
    C = te.compute((n, 12), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")
    s = te.create_schedule(C.op)
    L = s.cache_write(C, "local")
    _, jo, ii, ji = s[C].tile(*s[C].op.axis, 2, 8)
    s[L].compute_at(s[C], jo)
    s[L].reorder(k, *s[L].op.axis)
    s[L].unroll(s[L].op.axis[0])
    s[L].vectorize(s[L].op.axis[1])
    s[C].unroll(ii)
    s[C].vectorize(ji)
    return s, [A, B, C], C


KERNELS = [
    guarded_tile,
    vector_tail,
    peeled_tail,
    odd_vector,
    unrolled_tail,
    vector_sum,
    padded,
    symbolic_tile,
]
SIZES = {"symbolic_tile": [{"n": n} for n in (0, 1, 2, 5)]}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda f: f.__name__)
def test_text_after_each_pass(kernel, pytestconfig):
    """The kernel as lowered and after every pass that changed it."""
    s, args, _ = kernel()
    func = lower_state(s.concrete().state, args, kernel.__name__)
    parts = [f"-- lowered\n{func}"]
    text = str(func)
    for p in PIPELINE.passes:
        func = PassPipeline((p,)).run(func)
        if str(func) != text:
            text = str(func)
            parts.append(f"-- {p}\n{text}")
    golden.same(pytestconfig, TEXTS, kernel.__name__, "\n".join(parts))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda f: f.__name__)
def test_every_pass_keeps_the_numbers(kernel):
    s, args, out = kernel()
    sizes = SIZES.get(kernel.__name__, [{}])
    ranges = {t.name: (-4, 5) for t in args if t is not out}
    run(args, [out], ranges, s, sizes, each_pass=True)


@pytest.mark.parametrize("p", PIPELINE.passes, ids=lambda p: p.name.replace(" ", "_"))
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda f: f.__name__)
def test_each_pass_alone_keeps_the_numbers(kernel, p):
    """On lowered kernels directly, whatever stands before it in the list; and once more changes nothing that
    matters."""
    s, args, out = kernel()
    before = lower_state(s.concrete().state, args, "k")
    after = p.run(before)
    verify(after)
    again = p.run(after)
    assert again.body is after.body or not p.settles
    verify(again)
    for one in SIZES.get(kernel.__name__, [{}]):
        results = []
        for func in (before, after, again):
            values, _ = arrays(args, {t.name: (-4, 5) for t in args if t is not out}, one)
            interpret(func, *values)
            results.append(values[-1])
        assert np.array_equal(results[0], results[1])
        assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("p", PIPELINE.passes, ids=lambda p: p.name.replace(" ", "_"))
def test_a_pass_with_nothing_to_do_gives_back_the_same_body(p):
    A = te.placeholder((7,), name="A")
    C = te.compute((7,), lambda i: A[i] * 2, "C")
    func = tl.lower(te.create_schedule(C.op), [A, C], simple=True)
    assert p.run(func).body is func.body


def test_a_pass_that_settles_is_left_out_until_something_changes():
    A = te.placeholder((7,), name="A")
    C = te.compute((7,), lambda i: A[i] * 2, "C")
    func = tl.lower(te.create_schedule(C.op), [A, C], simple=True)
    ran = []

    def counted(f):
        ran.append(f)
        return f

    settled = Pass("settled", counted, settles=True)
    change = Pass("change", lambda f: f.with_body(Seq((f.body, f.body))))
    PassPipeline((settled, Pass("nothing", lambda f: f), settled, change, settled)).run(func)
    assert len(ran) == 2
    PassPipeline((Pass("open", counted), Pass("open again", counted))).run(func)
    assert len(ran) == 4


def test_passes_produce_only_the_loop_kinds_they_say():
    for kernel in KERNELS:
        s, args, _ = kernel()
        func = lower_state(s.concrete().state, args, "k")
        for p in PIPELINE.passes:
            kinds = {st.kind for st in preorder(func.body) if isinstance(st, For)}
            assert kinds <= set(p.accepts), f"{p} was given {kinds}"
            func = p.run(func)
            kinds = {st.kind for st in preorder(func.body) if isinstance(st, For)}
            assert kinds <= set(p.produces), f"{p} left {kinds}"


def test_the_main_body_of_a_tile_has_no_guard_and_no_mask():
    """Partition keeps guards of the last tiles out of all others: where every test holds no masked store
    remains."""
    s, args, _ = symbolic_tile()
    func = tl.lower(s, args)
    inside = list(preorder(func.body))
    while tests := [st for st in inside if isinstance(st, If)]:
        inside = list(preorder(tests[0].then))
    stores = [st for st in inside if isinstance(st, Store)]
    assert stores
    assert all(st.mask is None for st in stores)


def test_register_tiles_stay_in_registers_in_the_tail_too():
    """A masked access to the accumulators would pin them to the stack: no stack slot remains, masks stand at
    arguments only."""
    s, args, _ = symbolic_tile()
    text = tl.build(s, args, name="k").get_source("ll")
    assert "alloca" not in text


@pytest.mark.parametrize("lanes", range(2, 200))
def test_pieces_are_powers_of_two_that_cover_all_lanes_once(lanes):
    got = pieces(lanes)
    assert [lane for at, n in got for lane in range(at, at + n)] == list(range(lanes))
    assert all(n & (n - 1) == 0 and n <= 64 for _, n in got)


def test_every_file_of_passes_is_in_the_list_and_says_what_it_does(capsys):
    sources = {p.stem: p.read_text() for p in Path(pipeline.__file__).parent.glob("*.py")}
    files = {name for name, text in sources.items() if f"def {name}(" in text} - {
        "instrument"
    }  # for profiles
    listed = {p.run.__module__.rpartition(".")[2] for p in CHECKED.passes}
    assert files == listed, f"{files ^ listed}: a pass is a file in passes/ and a line in passes/pipeline.py"
    silent = [p.name for p in CHECKED.passes if not p.does]
    assert not silent, f"{silent}: the third argument of Pass in passes/pipeline.py says what the pass does"
    assert command.main(["passes"]) == 0
    out = capsys.readouterr().out
    assert [line.split("  ")[0] for line in out.splitlines()[1 : len(CHECKED.passes) + 1]] == [
        p.name for p in CHECKED.passes
    ]


def test_loops_are_not_partitioned_by_sums_of_data_that_wrap():
    """``a < a + 4`` is false for the largest number, in the clean copy of a loop too."""
    n = te.dim("n", 0, 64, multiple_of=4)
    a, b = te.placeholder((n, 33), "int32", "a"), te.placeholder((33, 33), "int32", "b")
    c = ops.matmul(a, b)
    d = te.compute((n, 33), lambda i, j: te.if_then_else(a[i, j] < a[i, j] + 4, a[i, j], c[i, j]))
    x, y = np.full((12, 33), 2**31 - 1, "int32"), np.ones((33, 33), "int32")
    assert np.array_equal(tl.compile([a, b, d])(x, y), np.einsum("ik,kj->ij", x, y))


@pytest.mark.parametrize("holds", [lambda a, k: a + k < 100, lambda a, k: k + 5 < a, lambda a, k: a - 2 < k])
def test_loops_do_not_end_by_sums_of_data_that_wrap(holds):
    """``a + k < 100`` holds for the least number, whose distance from 100 no int32 holds."""
    n = te.var("n")
    a, x = te.placeholder((6,), "int32", "a"), te.placeholder((n,), "int32", "x")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((6,), lambda i: te.sum(x[k], axis=k, where=holds(a[i], k)))
    numbers = np.array([-(2**31), 2**31 - 1, 2**31 - 5, 90, 100, -3], "int32")
    values = np.arange(16, dtype="int32")
    held = holds(numbers[:, None], np.arange(16, dtype="int32"))
    assert np.array_equal(tl.build(te.create_schedule(c.op), [a, x, c])(numbers, values), held @ values)
