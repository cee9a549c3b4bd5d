"""Results that name places of others lie, and share memory, as eager's do."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import aliases  # noqa: E402

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


@pytest.mark.each_value
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


OF_AN_INPUT = {
    "expand": lambda x: x.expand(2, *x.shape),
    "split": lambda x: x.split([1, x.shape[1] - 1], 1)[1],
    "unflatten": lambda x: x.unflatten(1, (2, -1)),
    "slice": lambda x: x[1:, ::2],
    "t": lambda x: x.t(),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", OF_AN_INPUT)
def test_views_of_an_input_lie_in_its_memory_at_every_size(name, dynamic):
    """AOTAutograd makes them again by the strides and the offset of what the graph makes."""
    f, memory = OF_AN_INPUT[name], torch.arange(100.0)
    g = torch.compile(lambda x: (f(x), x * 2), backend=tlt.backend, dynamic=dynamic)
    for x in (memory[10:34].view(4, 6), memory[3:43].view(5, 8), memory[9:21].view(3, 4)):
        (a, twice), b = g(x), f(x)
        torch.testing.assert_close((a, twice), (b, x * 2), rtol=0, atol=0)
        assert a.stride() == b.stride() and a.data_ptr() == b.data_ptr()


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


@pytest.mark.parametrize("dynamic", [None, True])
def test_what_is_kept_for_the_way_back_is_no_copy(dynamic):
    """Of an input, of what the region makes, and of a result that the program sees as well."""

    def f(x, w, v):
        y = (x.view(-1, 64) @ w).view(8, 64, 4, 16)
        z = (y.transpose(1, 2) * 2).exp()
        return (z @ v).transpose(1, 2).sin(), z

    args = [torch.randn(n).mul(0.1).requires_grad_() for n in ((8, 64, 64), (64, 64), (16, 16))]
    compiled = torch.compile(f, backend=tlt.backend, dynamic=dynamic)
    found = []
    for g in (compiled, f):
        made = g(*args)
        found.append([*made, *torch.autograd.grad(made[0].sum() + made[1].square().sum(), args)])
    for a, b in zip(*found, strict=True):
        # a gradient of ``v`` is a sum of 2048 products, one after the other here; those of ``w`` are of 512,
        # and small where these cancel: it is their scale that counts
        torch.testing.assert_close(a, b, rtol=4e-6, atol=5e-7 * float(b.detach().abs().max()))
        assert a.stride() == b.stride()
    forward = next(g for g in tlt.graphs() if g.kind == "forward")
    (region,) = forward.regions
    (made,) = region.source.graph.output_node().args
    assert not [n for n in made if aliases._is_name(n) and n.meta["val"].numel() >= aliases.LEAST]


def test_small_views_that_are_kept_are_the_engines():
    x = torch.randn(4, 6, requires_grad=True)
    y = torch.compile(lambda x: (x.view(-1) * 3).sin(), backend=tlt.backend)(x)
    y.sum().backward()
    assert all(g.taken == g.nodes for g in tlt.graphs())


def test_a_result_that_is_kept_may_not_be_written_to():
    """As in eager: what is kept has its memory, and its count of writes."""
    x = torch.randn(256, 256, requires_grad=True)
    for f in (torch.compile(lambda x: x.exp(), backend=tlt.backend), torch.exp):
        y = f(x)
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace"):
            y.sum().backward()
