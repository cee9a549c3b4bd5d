"""Graphs that an earlier process has traced are not traced again, where their text says all; what changes later
is seen as if they had been."""

from __future__ import annotations

import functools
import threading

import pytest

from tensorlang.graph import engine_cache

torch = pytest.importorskip("torch")
from torch.utils._pytree import tree_leaves  # noqa: E402

import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import backend  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Conv2d(3, 4, 3)
        self.norm = torch.nn.BatchNorm2d(4)

    def forward(self, x):
        y = torch.relu(self.norm(self.inner(x)))
        return {"all": y, "mean": y.mean((2, 3)), "sum": y.sum()}


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def traces(monkeypatch):
    """How many graphs AOTAutograd traced, one entry for each."""
    seen = []
    traced = backend.aot_autograd
    monkeypatch.setattr(backend, "aot_autograd", lambda **kw: (seen.append(kw), traced(**kw))[1])
    return seen


@pytest.fixture
def again(tmp_path, traces):
    """Compiles a function as a new process would, calls it, compares with eager, and gives the compiled
    function; ``traces`` has the graphs of this time only."""

    def calls(fn, *args, **options):
        engine_cache.finish()
        torch._dynamo.reset()
        tlt.reset()
        traces.clear()
        options = {"cache": tmp_path, "workers": 1, **options}
        f = torch.compile(fn, backend="tensorlang", options=options)
        with torch.no_grad():
            same(f(*args), fn(*args))
        return f

    return calls


def same(found, wanted):
    torch.testing.assert_close(found, wanted)
    pairs = zip(tree_leaves(found), tree_leaves(wanted), strict=True)
    assert all(a.stride() == b.stride() for a, b in pairs if isinstance(b, torch.Tensor))


def test_the_second_time_nothing_is_traced(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    assert len(traces) == 1
    f = again(net, x)
    assert not traces
    (g,) = tlt.graphs()
    assert g.kind == "inference" and g.taken == g.nodes > 3 and not g.left
    (r,) = g.regions
    assert r.counts.calls == 1 and r.counts.compiled == 1 and "conv2d" in r.engine.explain()
    with torch.no_grad():
        y = torch.randn(2, 3, 8, 8)
        same(f(y), net(y))
        tlt.enable(False)
        try:
            same(f(y), net(y))
        finally:
            tlt.enable(True)
    assert r.counts.calls == 2


def test_memory_is_ordered_as_eagers(again, traces, net):
    for x in (
        torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        torch.randn(8, 8, 3, 2).permute(3, 2, 0, 1),
        torch.randn(3, 3, 8, 8)[1:],
    ):
        again(net, x)
        assert len(traces) == 1
        again(net, x)
        assert not traces
    again(net.bfloat16(), x.bfloat16())
    again(net, x.bfloat16())
    assert not traces


def test_parameters_that_change_are_seen(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    f = again(net, x)
    assert not traces
    with torch.no_grad():
        net.inner.weight.mul_(2)
        same(f(x), net(x))
        assert len(traces) == 1
        net.norm.bias.data = torch.ones(4)
        same(f(x), net(x))
        net.load_state_dict(Net().state_dict())
        same(f(x), net(x))
        for i in range(4):
            net.norm.running_mean.add_(i)
            same(f(x), net(x))
    assert len(traces) == 1
    (g,) = tlt.graphs()
    assert not g.reason and all(not r.counts.reason for r in g.regions)


def test_what_is_written_through_data_is_seen_when_said(again, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    f = again(net, x)
    net.inner.weight.data.mul_(2)
    tlt.invalidate(net)
    with torch.no_grad():
        same(f(x), net(x))


def test_what_is_written_between_the_graph_and_its_first_call_is_seen(again, traces, net, monkeypatch):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    made = backend.Graph._made

    def late(self):
        with torch.no_grad():
            net.inner.weight.mul_(2)
        return made(self)

    monkeypatch.setattr(backend.Graph, "_made", late)
    again(net, x)
    assert len(traces) == 1


def test_other_parameters_are_traced(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    again(Net().eval(), x)
    assert len(traces) == 1
    again(net, x)
    assert not traces


def test_what_decides_a_trace_is_looked_at(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    changes = {
        "size": lambda: again(net, torch.randn(1, 3, 8, 8)),
        "order": lambda: again(net, x.to(memory_format=torch.channels_last)),
        "level": lambda: again(net, x, level=1),
        "not frozen": lambda: again(net, x, freeze=False),
    }
    for what, change in changes.items():
        change()
        assert len(traces) == 1, what
    net.norm.eps = 0.5
    again(net, x)
    assert len(traces) == 1
    net.norm.eps = 1e-5
    with torch.autocast("cpu"):
        again(net, x)
    assert len(traces) == 1
    with torch.inference_mode():
        again(net, x)
    again(net, x)
    assert not traces


def test_without_constants(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x, freeze=False)
    f = again(net, x, freeze=False)
    assert not traces
    net.inner.weight.data.mul_(2)
    with torch.no_grad():
        same(f(x), net(x))
    assert not traces


def writes(x):
    x.add_(1)
    return x.clone() * 2


def names(x):
    return x[1:], x * 2


def views(x):
    y = x * 2
    return y, y.t()


def draws(x):
    return x + torch.rand(3)


def leaves(x):
    return torch.linalg.inv(x + 4 * torch.eye(3)) * 2


constant = torch.arange(3.0)


def holds(x):
    return x * torch.tensor([1.0, 2.0, 3.0]) + constant


@pytest.mark.parametrize("program", [names, views, leaves])
def test_programs_with_more_than_one_engine_are_traced(again, traces, program):
    x = torch.randn(3, 3)
    for _ in range(2):
        again(program, x)
        assert len(traces) == 1


def test_what_is_written_to_an_input_is_written_each_time(again, traces, tmp_path):
    def fresh(x):
        return writes(x.clone())

    x = torch.randn(3, 3)
    for _ in range(2):
        again(fresh, x)
    for _ in range(2):
        torch._dynamo.reset()
        f = torch.compile(writes, backend="tensorlang", options={"cache": tmp_path})
        mine, theirs = x.clone(), x.clone()
        with torch.no_grad():
            same(f(mine), writes(theirs))
        same(mine, theirs)
        engine_cache.finish()


def test_random_numbers_are_drawn_each_time(tmp_path):
    for _ in range(2):
        torch._dynamo.reset()
        f = torch.compile(draws, backend="tensorlang", options={"cache": tmp_path})
        with torch.no_grad():
            assert not torch.equal(f(torch.ones(3)), f(torch.ones(3)))
        engine_cache.finish()


def test_constants_of_the_program(again):
    x = torch.randn(3, 3)
    again(holds, x)
    again(holds, x)
    constant.add_(1)
    again(holds, x)


def test_numbers_of_the_program(again, traces):
    def scaled(x, by):
        return torch.relu(x * by) + 1

    x = torch.randn(3, 3)
    for by in (2.0, 3.0, 2, 2.0):
        again(functools.partial(scaled, by=by), x)
    again(functools.partial(scaled, by=2.0), x)
    assert not traces


def test_operators_of_somebody_are_traced(again, traces):
    @torch.library.custom_op("recalled::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    x = torch.randn(3)
    for _ in range(2):
        again(lambda x: torch.relu(twice(x)) + 1, x)
        assert len(traces) == 1


def test_gradients_and_open_sizes_are_traced(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    torch._dynamo.reset()
    traces.clear()
    torch.compile(net, backend="tensorlang")(x)["sum"].backward()
    assert len(traces) == 1
    torch._dynamo.mark_dynamic(x, 0)
    for _ in range(2):
        again(net, x)
        assert len(traces) == 1


def test_many_threads_call_a_graph_whose_parameters_changed(again, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    f = again(net, x)
    with torch.no_grad():
        net.inner.weight.mul_(2)
        wanted, found = net(x)["all"], []

    def call():
        with torch.no_grad():
            found.append(f(x)["all"])

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    for y in found:
        torch.testing.assert_close(y, wanted)


def test_what_stays_in_torch_of_a_graph_that_was_found(again, traces, net):
    x = torch.randn(2, 3, 8, 8)
    again(net, x)
    again(net, x)
    (r,) = tlt.graphs()[-1].regions
    note = r.source.note
    args = [None] * len(note.reads)
    named = {p.data_ptr(): p for p in (*net.parameters(), *net.buffers())}
    for i, (_, place, _) in zip(note.frozen, r._made.stamp, strict=True):
        args[i] = named[place]
    (free,) = [i for i, a in enumerate(args) if a is None]
    args[free] = x
    with torch.no_grad():
        made = r.source.plain(*args)
        torch.testing.assert_close([made[i] for i in note.makes], list(net(x).values()))


def test_what_asks_whether_parameters_learn_is_traced_as_before(again, traces):
    """Bags of words are another operator for a table that learns."""
    bag, words = torch.nn.EmbeddingBag(9, 4), torch.randint(0, 9, (3, 5))
    again(bag, words)
    again(bag, words)
    assert not traces
    (r,) = tlt.graphs()[-1].regions
    with torch.no_grad():
        assert r.source.traced.nodes == r.source.nodes


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_autograd_would_put_around_a_graph_is_left_out(dynamic, monkeypatch):
    """Where it has nothing to do, and nowhere else: it writes back what changed, names memory that results
    share with others, and holds gradients."""
    found = []
    functional = backend._functional

    def noted(*args):
        found.append(functional(*args))
        return found[-1]

    monkeypatch.setattr(backend, "_functional", noted)
    table = torch.randn(6, 4).requires_grad_()

    def bare(f, *args):
        torch._dynamo.reset()
        ours, theirs = ([x.clone() for x in args] for _ in range(2))
        same(torch.compile(f, backend="tensorlang", dynamic=dynamic)(*ours), f(*theirs))
        return isinstance(found[-1], backend.Graph)

    def written(x):
        x.add_(1)
        return x.sin()

    x = torch.randn(5, 6)
    assert bare(lambda x: (x.sin() @ x.t(), x.sum(0)), x)
    assert bare(lambda x, y: x.t() * y[0, 0], x, x.clone())
    with torch.no_grad():
        assert bare(lambda x: x @ table, x)
    assert not bare(lambda x: x @ table, x)
    assert not bare(written, x)
    assert not bare(lambda x: (x.sin(), x[1:]), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not bare(lambda x: (x @ x.t()).float(), x)
