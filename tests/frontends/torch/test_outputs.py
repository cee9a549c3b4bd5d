"""Memory of large results: written again once nobody holds them, never before."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import outputs  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")
SIZE = outputs.LEAST // 4


def two_sums(x):
    return x + 1, (x * 2).reshape(2, -1).t(), x[:3] + 1  # large, of another order in memory, small


def places(made):
    return [t.data_ptr() for t in made[:2]]


def test_what_is_held_is_not_written_and_what_is_free_is():
    f = torch.compile(two_sums, backend="tensorlang")
    first = f(torch.zeros(SIZE))
    kept, view = first[0], first[1][5:]  # a view holds the memory as well as any
    (before,), taken = [places(first)], set(places(first))
    second = f(torch.ones(SIZE))
    assert not taken & set(places(second))
    assert kept.unique().tolist() == [1] and view.unique().tolist() == [0]
    del first, kept, view, second
    third = f(torch.full((SIZE,), 2.0))
    assert places(third) == before
    for ours, theirs in zip(third, two_sums(torch.full((SIZE,), 2.0)), strict=True):
        assert torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def test_what_was_written_last_is_written_next():
    """It may still be in a cache: two that take turns cost a training step of BERT's layer a twentieth."""
    f = torch.compile(lambda x: x + 1, backend="tensorlang")
    two = [f(torch.zeros(SIZE)) for _ in range(2)]
    taken = {y.data_ptr() for y in two}
    del two
    again = [f(torch.zeros(SIZE)).data_ptr() for _ in range(3)]
    assert len(set(again)) == 1 and set(again) < taken


def test_an_array_over_a_result_holds_it():
    f = torch.compile(lambda x: x + 1, backend="tensorlang")
    array = f(torch.zeros(SIZE)).numpy()
    f(torch.ones(SIZE)), f(torch.ones(SIZE))
    assert (array == 1).all()


def test_sixteen_bit_results_and_gradients():
    f = torch.compile(lambda x: (x * x).sin(), backend="tensorlang")
    x = torch.randn(2 * SIZE, dtype=torch.bfloat16)
    with torch.no_grad():
        made = [f(x + i) for i in range(6)]
    assert all(torch.equal(y, f(x + i)) for i, y in enumerate(made))
    xs = [torch.randn(SIZE).requires_grad_() for _ in range(3)]
    made = [f(x) for x in xs]  # each keeps what its way back reads
    for x, y in zip(xs, made, strict=True):
        y.sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach() * (x.detach() ** 2).cos())


def test_threads_get_memory_of_their_own():
    f = torch.compile(lambda x: x + 1, backend="tensorlang")
    f(torch.zeros(SIZE))
    wrong = []

    def work(n):
        for i in range(40):
            made = [f(torch.full((SIZE,), float(100 * n + i + k))) for k in range(2)]
            wrong.extend(k for k, y in enumerate(made) if not (y == 100 * n + i + k + 1).all())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [t.start() for t in threads], [t.join() for t in threads]
    assert not wrong


def test_little_is_kept():
    f = torch.compile(lambda x: x + 1, backend="tensorlang")
    made = [f(torch.zeros(SIZE)) for _ in range(10)]
    (region,) = tlt.graphs()[-1].regions
    assert len({y.data_ptr() for y in made}) == 10
    assert region.outputs.nbytes == outputs.IN_FLIGHT * outputs.LEAST
    outputs.forget()
    assert region.outputs.nbytes == 0 and made[0][0] == 1


def test_memory_that_is_full_begins_anew(monkeypatch):
    monkeypatch.setattr(outputs, "MOST", 2 * outputs.LEAST)
    outputs.forget()
    f = torch.compile(lambda x: x + 1, backend="tensorlang")
    made = [f(torch.full((SIZE,), float(i))) for i in range(8)]
    assert all((y == i + 1).all() for i, y in enumerate(made))
    (region,) = tlt.graphs()[-1].regions
    assert region.outputs.nbytes <= 2 * outputs.LEAST
