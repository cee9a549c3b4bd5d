"""Graphs of training read weights as they lie, and copy none of them."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
import tensorlang.torch as tlt  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def test_steps_of_a_perceptron_copy_no_weight():
    net = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.Linear(24, 5, bias=False))
    x = torch.randn(7, 12)
    wanted = torch.autograd.grad(net(x).square().sum(), list(net.parameters()))
    made = torch.compile(net, backend="tensorlang")(x)
    found = torch.autograd.grad(made.square().sum(), list(net.parameters()))
    torch.testing.assert_close(found, wanted)
    graphs = tlt.graphs()
    assert [g.kind for g in graphs] == ["forward", "backward"] and all(g.taken == g.nodes for g in graphs)
    copied = [
        sum(
            bool(re.search(r": t( → t)* gives", line))
            for r in g.regions
            for line in r.engine.explain().split("\n")
        )
        for g in graphs
    ]
    assert copied[0] == 0 and copied[1] <= 2  # what comes back from each layer, for its weight's gradient


@pytest.mark.parametrize("bias", [(5,), (1,), (7, 5), (7, 1), ()])
def test_what_is_added_to_a_product_with_a_transposed_matrix(bias):
    def f(b, x, w):
        return torch.addmm(b, x, w.t()), torch.addmm(b, x, w.t(), beta=2, alpha=3), x @ w.t()

    args = torch.randn(bias), torch.randn(7, 3), torch.randn(5, 3)
    torch.testing.assert_close(torch.compile(f, backend="tensorlang")(*args), f(*args))


def test_what_is_transposed_twice():
    def f(x):
        return x.t().t(), (x * 2).t().t(), x.t().t().t() + 1

    x = torch.randn(3, 4)
    found, wanted = torch.compile(f, backend="tensorlang")(x), f(x)
    torch.testing.assert_close(found, wanted)
    assert [y.stride() for y in found] == [y.stride() for y in wanted]
    assert found[0].data_ptr() == x.data_ptr()
