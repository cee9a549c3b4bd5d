"""Bags of embeddings, values at places that are data, medians, and pools and margins with their gradients: engines
compute them as torch does."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402

functional = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")


def compared(f, *args, left=(), **tolerances):
    """Both ways, and what stays in torch."""
    learns = [x for x in args if x.requires_grad]
    found = []
    for g in (torch.compile(f, backend="tensorlang"), f):
        made = g(*args)
        more = torch.autograd.grad((made.float() * torch.arange(made.numel()).view(made.shape)).sum(), learns)
        found.append((made, *more))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, **tolerances)
    stays = {name for g in tlt.graphs() for name, why in g.left.values() if why}
    assert stays == set(left)


def places():
    torch.manual_seed(0)
    x, values = (torch.randn(5, 7).requires_grad_() for _ in range(2))
    return x, torch.randint(0, 5, (4, 6)), values


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("how", ["sum", "mean", "amax", "amin"])
def test_reductions_at_places(how, whole):
    x, at, values = places()
    compared(lambda x, v: x.scatter_reduce(0, at, v[:4, :6] * 2, how, include_self=whole), x, values)


def test_products_and_whole_numbers_at_places():
    x, at, values = places()
    with torch.no_grad():
        for t in (torch.float32, torch.int32):
            args = (10 * x).to(t), at, (10 * values).to(t)
            for how, whole in itertools.product(("prod", "amax", "amin", "sum"), (True, False)):
                f = torch.compile(torch.scatter_reduce, backend="tensorlang")
                torch.testing.assert_close(
                    f(args[0], 0, *args[1:], how, include_self=whole),
                    torch.scatter_reduce(args[0], 0, *args[1:], how, include_self=whole),
                )
    assert all(g.taken == g.nodes for g in tlt.graphs())


def test_a_masked_scatter_takes_elements_in_turn():
    x, _, values = places()
    mask = torch.randn(7) > 0  # for each row
    compared(lambda x, v: (x * 2).masked_scatter(mask, v.sin()), x, values)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("length", [6, 7])
def test_medians(length, keepdim):
    x = torch.randn(3, length, requires_grad=True)
    compared(lambda x: (x * 2).median(1, keepdim=keepdim)[0], x)
    compared(lambda x: (x * 2).kthvalue(2, 0, keepdim)[0] + x.median(), x)


def test_the_median_of_what_has_no_order_is_nan():
    x = torch.randn(3, 5)
    x[1, 2] = float("nan")
    f = torch.compile(lambda x: x.median(1), backend="tensorlang")
    for a, b in zip(f(x), x.median(1), strict=True):
        torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("ends", [False, True])
def test_bags(mode, ends):
    torch.manual_seed(0)
    bags = torch.nn.EmbeddingBag(20, 8, mode=mode, include_last_offset=ends, padding_idx=3)
    indices = torch.tensor([4, 3, 7, 7, 1, 19, 3])
    offsets = torch.tensor([0, 2, 2, 6] + [7] * ends)  # one is empty, one has padding only
    f = torch.compile(bags, backend="tensorlang")
    with torch.no_grad():
        torch.testing.assert_close(f(indices, offsets), bags(indices, offsets))
        if mode == "sum":
            each = torch.randn(7)
            torch.testing.assert_close(f(indices, offsets, each), bags(indices, offsets, each))
    assert all(g.taken == g.nodes for g in tlt.graphs())


@pytest.mark.parametrize("mode, ends, weighted", [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 1), (0, 0, 1)])
@pytest.mark.parametrize("padding", [None, 3])
def test_bags_that_learn(mode, ends, weighted, padding):
    """Empty bags, first and in between, have no share in a gradient, nor has an index that only fills up."""
    table, each = torch.randn(20, 8).requires_grad_(), torch.randn(17).requires_grad_()
    indices, offsets = torch.randint(0, 20, (17,)), torch.tensor([0, 0, 4, 9, 9, 17][: 6 if ends else 5])
    how = {"mode": ("sum", "mean")[mode], "include_last_offset": bool(ends), "padding_idx": padding}

    def f(table, each):
        given = {"per_sample_weights": each} if weighted else {}
        return functional.embedding_bag(indices, table, offsets, **how, **given).sin()

    if weighted:
        compared(f, table, each)
    else:
        compared(lambda table: f(table, None), table)


def test_rows_of_bags_that_learn():
    rows, table = torch.randint(0, 20, (5, 3)), torch.randn(20, 8).requires_grad_()
    compared(lambda w: functional.embedding_bag(rows, w, mode="mean").sin(), table)


def test_maxima_of_bags_that_learn_are_torchs():
    """Which of a bag was the largest only torch's forward operator tells."""
    rows, table = torch.randint(0, 20, (5, 3)), torch.randn(20, 8).requires_grad_()
    left = ["aten._embedding_bag.default", "aten._embedding_bag_backward.default"]
    compared(lambda w: functional.embedding_bag(rows, w, mode="max").sin(), table, left=left)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: functional.adaptive_max_pool2d(x * 2, 1),
        lambda x: functional.adaptive_max_pool2d(x * 2, (3, 4)),
        lambda x: functional.avg_pool2d(x * 2, 3, 2, 1, divisor_override=5),
        lambda x: functional.avg_pool2d(x * 2, (2, 3), count_include_pad=False, divisor_override=2),
        lambda x: functional.pad(x, (2, 1, 0, 3), mode="replicate"),
        lambda x: functional.pad(x, (-1, 1, 2, -2), mode="replicate"),
        lambda x: functional.pad(x, (2, 1, 0, 3, 1, 1), mode="replicate"),
    ],
)
def test_pools_and_margins(f):
    compared(f, torch.randn(2, 3, 6, 8, requires_grad=True))


def test_windows_of_different_sizes_are_ours():
    x = torch.randn(1, 2, 7, 7)
    f = torch.compile(lambda x: functional.adaptive_max_pool2d(x, 3), backend="tensorlang")
    torch.testing.assert_close(f(x), functional.adaptive_max_pool2d(x, 3))
    assert not tlt.graphs()[-1].left


def test_what_is_torchs_says_why_without_its_code():
    x = torch.randn(1, 2, 7, 7)
    f = torch.compile(
        lambda x: functional.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3), backend="tensorlang"
    )
    torch.testing.assert_close(f(x), functional.avg_pool2d(x, 2, ceil_mode=True, divisor_override=3))
    ((_, why),) = tlt.graphs()[-1].left.values()
    assert why == "a divisor of its own and windows that are not whole"  # and no line of torch's code


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_of_sixteen_bits_is_as_near_as_eagers(training):
    """Computed in float32 and rounded once: against float64 no worse than torch's."""
    import copy

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Conv2d(8, 4, 3))
    net, x = net.bfloat16().train(training), torch.randn(4, 3, 12, 12).bfloat16()

    def results(net, x, how=None):
        net = copy.deepcopy(net)
        y = (torch.compile(net, backend=how) if how else net)(x)
        (y * torch.linspace(-1, 1, y.numel()).view(y.shape).to(y)).sum().backward()
        found = [y.detach(), *(p.grad for p in net.parameters()), *net.buffers()]
        return [t.double() for t in found]

    exact = results(copy.deepcopy(net).double(), x.double())
    ours, theirs = results(net, x, "tensorlang"), results(net, x)
    for a, b, c in zip(ours, theirs, exact, strict=True):
        scale = c.norm() + (
            1e-3 if training else 0
        )  # before the statistics of a batch a bias changes nothing
        assert (a - c).norm() <= 2 * (b - c).norm() + 0.02 * scale
    assert all(g.taken == g.nodes for g in tlt.graphs())
