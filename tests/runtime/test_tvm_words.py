"""What TVM's users say to a built kernel and to the builder: times by ``time_evaluator``, kernels of lowered
functions, hosts."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.runtime.timing import evaluate

N = 40


def doubled():
    A = te.placeholder((N,), name="A")
    C = te.compute((N,), lambda i: A[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], 16)
    s[C].vectorize(inner)
    return s, A, C


@pytest.fixture(scope="module")
def kernel():
    s, A, C = doubled()
    return tl.build(s, [A, C], "llvm", target_host="llvm", name="doubled")


def test_time_evaluator_takes_the_samples_it_is_asked_for(kernel):
    a, c = np.ones(N, "float32"), np.zeros(N, "float32")
    timing = kernel.time_evaluator(kernel.entry_name, None, number=3, repeat=4)(a, c)
    assert len(timing.results) == timing.runs == 4 and timing.repeat == 3
    assert (
        timing.min == min(timing.results)
        and timing.max == max(timing.results)
        and timing.mean == np.mean(timing.results)
    )
    assert (c == 2).all()


def test_the_other_words_of_time_evaluator(kernel):
    timing = kernel.time_evaluator(
        kernel.entry_name,
        number=1,
        repeat=2,
        min_repeat_ms=1,
        limit_zero_time_iterations=9,
        cooldown_interval_ms=1,
        repeats_to_cooldown=1,
        cache_flush_bytes=4096,
    )(np.ones(N, "float32"))
    assert timing.repeat > 1  # one run takes no millisecond


def test_samples_that_are_too_short_are_taken_again(monkeypatch):
    now, runs = [0.0], []

    def run(n):
        runs.append(n)
        now[0] += n * 0.25

    monkeypatch.setattr("tensorlang.runtime.timing.time.perf_counter", lambda: now[0])
    timing = evaluate(run, 1, 3, min_seconds=1.0)
    assert timing.results == (0.25, 0.25, 0.25) and timing.repeat == 5 and runs == [1, 1, 5, 5, 5]


@pytest.mark.parametrize(
    "wrong", [{"number": 0}, {"repeat": 0}, {"repeat": 1.5}, {"min_repeat_ms": -1}, {"number": "3"}], ids=str
)
def test_counts_that_mean_nothing(kernel, wrong):
    with pytest.raises(tl.TensorLangError, match=next(iter(wrong))):
        kernel.time_evaluator(kernel.entry_name, None, **wrong)


@pytest.mark.parametrize("options", [{}, {"simple": True}, {"bounds_check": True}], ids=str)
def test_a_lowered_function_is_built(options):
    s, A, C = doubled()
    m = tl.lower(s, [A, C], name="mine", **options)
    f = tl.build(m, target="llvm")
    a = np.arange(N, dtype="float32")
    assert f.name == "mine" and np.array_equal(f(a), a * 2)


def test_a_simple_function_is_built_with_checks():
    A, k = te.placeholder((N,), name="A"), te.var("k")
    C = te.compute((N,), lambda i: A[i + k], name="C")
    f = tl.build(tl.lower(te.create_schedule(C.op), [A, k, C], simple=True), bounds_check=True)
    with pytest.raises(tl.CallError, match="out of range"):
        f(np.ones(N, "float32"), 1)


def test_what_was_settled_when_a_function_was_lowered():
    s, A, C = doubled()
    m = tl.lower(s, [A, C])
    for given in (
        {"args": [A, C]},
        {"name": "other"},
        {"bounds_check": True},
        {"binds": {A: te.decl_buffer(A.shape, A.dtype)}},
    ):
        with pytest.raises(tl.LowerError, match=f"`{next(iter(given))}` was settled"):
            tl.build(m, **given)
    with pytest.raises(tl.LowerError, match="the arguments are missing"):
        tl.build(s)


def test_a_host_is_a_target():
    s, A, C = doubled()
    with pytest.raises(tl.TargetError):
        tl.build(s, [A, C], target_host="abacus")
