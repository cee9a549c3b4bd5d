"""``te.schedule``, sizes written as quotients, annotations said twice, and what is said of threads of a
GPU."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tests.te.oracles import agree


def stages():
    A, b = te.placeholder((8, 6), name="A"), te.placeholder((6,), name="b")
    same = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, name="same")
    row = te.compute((8, 6), lambda i, j: same[i, j] * b[j], name="row")
    turned = te.compute((6, 8), lambda i, j: row[j, i] - 2.0, name="turned")
    k = te.reduce_axis((0, 6), "k")
    total = te.compute((8,), lambda i: te.sum(turned[k, i], axis=k), name="total")
    out = te.compute((8,), lambda i: total[i] * 2.0, name="out")
    return A, b, out


@pytest.mark.parametrize(
    ("inline", "gone"),
    [
        (te.schedule.AutoInlineElemWise, {"same"}),
        (te.schedule.AutoInlineBroadcast, {"same", "row"}),
        (te.schedule.AutoInlineInjective, {"same", "row", "turned"}),
    ],
    ids=["elemwise", "broadcast", "injective"],
)
def test_what_is_inlined(inline, gone):
    A, b, out = stages()
    s = te.create_schedule(out.op)
    inline(s)
    assert {st.name for st in s.stages if st.state.attach == "inlined"} == gone
    rng = np.random.default_rng(1)
    agree(
        out,
        {A: rng.integers(-4, 5, (8, 6)).astype("float32"), b: rng.integers(-4, 5, 6).astype("float32")},
        lanes=(0,),
        schedule=inline,
    )


def test_stages_that_were_scheduled_are_left_alone():
    _, _, out = stages()
    s = te.create_schedule(out.op)
    s["same"].reorder(*reversed(s["same"].op.axis))
    s["row"].split(s["row"].op.axis[0], 4)
    te.schedule.AutoInlineInjective(s)
    assert {st.name for st in s.stages if st.state.attach == "inlined"} == {"turned"}


def test_outputs_and_what_an_extern_reads_are_left_alone():
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    E = te.extern(
        (8,), [C], lambda ins, outs: te.call_packed("f", ins[0], outs[0]), name="E", dtype="float32"
    )
    s = te.create_schedule([B.op, E.op])
    te.schedule.AutoInlineInjective(s)
    assert not any(st.state.attach == "inlined" for st in s.stages)


def test_bounds_of_loops_and_axes():
    A = te.placeholder((20,), name="A")
    P = te.compute((20,), lambda i: A[i] + 1.0, name="P")
    C = te.compute((18,), lambda i: P[i] + P[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], 6)
    s[P].compute_at(s[C], outer)
    bounds = te.schedule.InferBound(s)
    assert [bounds[x].extent.value for x in (C.op.axis[0], outer, inner, P.op.axis[0])] == [18, 3, 6, 8]
    assert str(bounds[P.op.axis[0]].min) == "i.outer*6"


def test_exact_quotients_are_sizes():
    n, bn = 64, 16
    A = te.placeholder((n / bn, np.float64(n / 4)), name="A")
    k = te.reduce_axis((0, n / 4), "k")
    C = te.compute((n / bn,), lambda i: te.sum(A[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    assert [loop.name for loop in s[C].split(k, factor=bn / 2)] == ["k.outer", "k.inner"]
    assert tl.build(s, [A, C])(np.ones((4, 16), "float32")).tolist() == [16] * 4


@pytest.mark.parametrize(
    "use",
    [
        lambda x: te.placeholder((x,), name="A"),
        lambda x: te.compute((x,), lambda i: i),
        lambda x: te.reduce_axis((0, x)),
    ],
    ids=["placeholder", "compute", "reduce_axis"],
)
@pytest.mark.parametrize("size", [100 / 16, float("inf"), float("nan"), np.float32(0.5)], ids=str)
def test_other_quotients_are_not(use, size):
    with pytest.raises(tl.DeclareError, match=r"is not a size|bounds are integers"):
        use(size)


@pytest.mark.parametrize("kind", ["vectorize", "unroll", "parallel"])
def test_an_annotation_may_be_said_twice(kind):
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    for _ in range(2):
        getattr(s[C], kind)(C.op.axis[0])
    other = "unroll" if kind != "unroll" else "parallel"
    assert not s.can(other, C, C.op.axis[0])
    again = te.create_schedule(C.op).replay(s.trace)
    assert str(tl.lower(again, [A, C])) == str(tl.lower(s, [A, C]))


def test_threads_of_a_gpu_are_refused_with_what_there_is_instead():
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(AttributeError, match=r"s\[T\].parallel"):
        s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(tl.ScheduleError, match="no threads of a GPU"):
        s[C].bind(C.op.axis[0], "threadIdx.x")
