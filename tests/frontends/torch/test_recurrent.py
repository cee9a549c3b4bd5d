"""Recurrent layers stay whole, and give what torch gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import tensorlang as tl

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    "how", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}], ids=str
)
def test_layers(kind, how):
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = getattr(torch.nn, kind)(6, 8, **how)

        def forward(self, x):
            return self.layers(x)

    model, x = Layers().eval(), torch.randn(5, 3, 6)
    graph = tl.load_torch(torch.export.export(model, (x,)))
    assert len(graph.nodes) <= 14
    ours = graph.compile()(x.numpy())
    with torch.no_grad():
        y, state = model(x)
    theirs = [y, *(state if kind == "LSTM" else [state])]
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("outside", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("first", [False, True])
def test_layers_under_autocast_are_of_the_types_that_torch_gives_them(kind, outside, first):
    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.layers = torch.nn.Linear(6, 6), getattr(torch.nn, kind)(6, 8)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16, enabled=True):
                return self.layers(self.first(x) if first else x)

    model, x = Layers().eval(), torch.randn(5, 3, 6)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=outside):
        ours, theirs = torch.compile(model, backend="tensorlang")(x)[0], model(x)[0]
    assert ours.dtype == theirs.dtype
    torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=1e-2)


@pytest.mark.usefixtures("fresh")
def test_states_of_another_type_are_refused_as_torch_refuses_them():
    model, x = torch.nn.RNN(6, 8).eval(), torch.randn(5, 3, 6)
    with torch.no_grad(), pytest.raises(RuntimeError):
        torch.compile(model, backend="tensorlang")(x, torch.zeros(1, 3, 8).half())


class Tagger(torch.nn.Module):
    def __init__(self, kind, **how):
        super().__init__()
        torch.manual_seed(0)
        self.words, self.layers = (
            torch.nn.Embedding(10, 6),
            getattr(torch.nn, kind)(6, 8, batch_first=True, **how),
        )

    def forward(self, x):
        return self.layers(self.words(x))


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("LSTM", {}),
        ("LSTM", {"num_layers": 2, "bidirectional": True}),
        ("GRU", {}),
        ("RNN", {}),
        ("RNN", {"nonlinearity": "relu"}),
    ],
    ids=str,
)
def test_a_compiled_layer_is_part_of_one_engine(kind, how):
    model = Tagger(kind, **how).eval()
    f = torch.compile(model, backend="tensorlang", dynamic=True, fullgraph=True)
    with torch.no_grad():
        # torch's own tracing of the others fixes the length, and makes a graph for each
        for length in (7, 4, 12) if kind == "LSTM" else (7, 7, 7):
            x = torch.randint(0, 10, (2, length))
            torch.testing.assert_close(f(x), model(x))
    (graph,) = tlt.graphs()
    assert graph.taken == graph.nodes and not graph.left and sum(c.calls for c in graph.counts) == 3


@pytest.mark.usefixtures("fresh")
def test_a_layer_that_learns_runs_in_torch():
    model, x = Tagger("LSTM"), torch.randint(0, 10, (2, 7))
    f = torch.compile(model, backend="tensorlang")
    with torch.no_grad():
        f(x)  # what was traced without gradients does not serve
    for m in (f, model):
        model.zero_grad()
        m(x)[0].sum().backward()
        found = [p.grad.clone() for p in model.parameters()]
        if m is f:
            ours = found
    for a, b in zip(ours, found, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_batch_of_none_is_torchs(kind):
    model = Tagger(kind, bidirectional=True)
    f, x = torch.compile(model, backend="tensorlang"), torch.zeros(0, 7, dtype=torch.int64)
    with torch.no_grad():
        for a, b in zip(f(x), model(x), strict=True):
            torch.testing.assert_close(a, b)
    reasons = [reason for g in tlt.graphs() for _, reason in g.left.values()]
    assert reasons == ["a sequence of no elements"]


class Apart(torch.nn.Module):
    """Learns with the layer outside of the graphs, as the report advises."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    @torch.compiler.disable
    def recurs(self, x):
        return self.inner.layers(x)

    def forward(self, x):
        return torch.tanh(self.recurs(self.inner.words(x))[0])


@pytest.mark.usefixtures("fresh")
def test_a_layer_that_learns_stands_between_two_graphs_where_the_advice_is_followed():
    inner, x = Tagger("LSTM"), torch.randint(0, 10, (2, 7))
    told = tlt.explain(inner, x)
    (found,) = told.breaks
    assert not told.graphs and "@torch.compiler.disable" in found.advice
    model = Apart(inner)
    f = torch.compile(model, backend="tensorlang")
    found, wanted = ([y, *torch.autograd.grad(y.sin().sum(), model.parameters())] for y in (f(x), model(x)))
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)
    forward = [g for g in tlt.graphs() if g.kind == "forward"]
    assert len(forward) == 2 and all(g.taken == g.nodes for g in forward)


@pytest.mark.usefixtures("fresh")
def test_other_backends_and_threads_get_what_they_get_without_us():
    from torch._dynamo.exc import Unsupported

    layer, x = torch.nn.LSTM(6, 8), torch.randn(5, 3, 6)
    with torch.no_grad(), pytest.raises(Unsupported, match="LSTM"):
        torch.compile(layer, backend="aot_eager", fullgraph=True)(x)
    with pytest.raises(Unsupported, match="LSTM"):
        torch.compile(layer, backend="tensorlang", fullgraph=True)(x)
    assert not torch._dynamo.config.allow_rnn

    def elsewhere():
        with torch.no_grad():
            return torch.compile(layer, backend="tensorlang", fullgraph=True)(x)[0]

    with ThreadPoolExecutor(1) as threads, torch.no_grad():
        torch.testing.assert_close(threads.submit(elsewhere).result(), layer(x)[0])
