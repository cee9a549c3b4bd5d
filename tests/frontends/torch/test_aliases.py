"""Results that name places of others lie, and share memory, as eager's do."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def shares(results):
    places = [t.untyped_storage().data_ptr() for t in results]
    return [[a == b for a in places] for b in places]


def with_its_views(x):
    y = x * 2
    return y, y.view(-1), y[1:], y.t()


def with_gaps(x):
    return (x * 2)[:, ::2], x.sum(0, keepdim=True).expand(4, 6)


def parts(x):
    return (x * 2).chunk(3, 1)


def once_more(x):
    y = x.exp()
    return y, y, y.detach()


def of_what_goes_on(x):
    y = (x * 2).t()
    return y, y[1:].relu() + 1


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("f", [with_its_views, with_gaps, parts, once_more, of_what_goes_on])
def test_views_of_results_are_eagers(f, dynamic):
    x = torch.randn(4, 6)
    made, wanted = torch.compile(f, backend=tlt.backend, dynamic=dynamic)(x), f(x)
    for a, b in zip(made, wanted, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()
    assert shares(made) == shares(wanted)
    assert sum(g.taken for g in tlt.graphs()) >= 1 and all(len(g.regions) == 1 for g in tlt.graphs())


def test_what_is_written_to_a_result_is_seen_in_its_view():
    y, flat, *_ = torch.compile(with_its_views, backend=tlt.backend)(torch.ones(4, 6))
    y.zero_()
    assert not flat.any()


def test_a_permutation_alone_stays_in_the_engine():
    f = torch.compile(lambda x: (x * 2).t(), backend=tlt.backend)
    assert f(torch.ones(4, 6)).stride() == (1, 6)
    assert all(g.taken == g.nodes == 2 for g in tlt.graphs())


def test_gradients_of_what_has_views():
    x = torch.randn(4, 6, requires_grad=True)
    made, wanted = (f(x) for f in (torch.compile(with_its_views, backend=tlt.backend), with_its_views))
    (ours,), (theirs,) = (
        torch.autograd.grad(y[0].sum() + (y[1] * 3).sum() + y[2].exp().sum(), x) for y in (made, wanted)
    )
    torch.testing.assert_close(ours, theirs)
