"""Regions from the disk: nothing is compiled a second time, and whatever decides an engine is looked at."""

from __future__ import annotations

import os

import pytest

from tensorlang import te
from tensorlang.graph import engine_cache, model

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import region, source, table  # noqa: E402
from tensorlang.frontends.torch.importer import Importer  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 5)
        self.norm = torch.nn.LayerNorm(5)

    def forward(self, x):
        return self.norm(torch.relu(self.inner(x))).sum(-1)


@pytest.fixture
def net():
    return Net().eval()


@pytest.fixture
def compiles(monkeypatch, tmp_path):
    """Calls a function compiled anew, with a cache in ``tmp_path``, and tells how many engines were compiled
    and how many regions read for that; compares the results with eager's."""
    counted = {"engines": 0, "read": 0}
    made, load = model.compiled, Importer.load

    def compiled(*args):
        counted["engines"] += 1
        return made(*args)

    def read(*args):
        counted["read"] += 1
        return load(*args)

    monkeypatch.setattr(model, "compiled", compiled)
    monkeypatch.setattr(Importer, "load", read)

    def calls(fn, *args, **options):
        torch._dynamo.reset()
        counted.update(engines=0, read=0)
        with torch.no_grad():
            f = torch.compile(fn, backend="tensorlang", options={"cache": tmp_path, "workers": 1, **options})
            torch.testing.assert_close(f(*args), fn(*args))
        engine_cache.finish()
        return counted["engines"], counted["read"]

    return calls


def test_the_second_time_nothing_is_read_or_compiled(compiles, net):
    x = torch.randn(3, 6)
    assert compiles(net, x) == (1, 1)
    assert compiles(net, x) == (0, 0)
    (r,) = tlt.graphs()[-1].regions
    assert "linear" in r.engine.explain()
    assert compiles(net, x, cache=False) == (1, 1)


def test_what_decides_an_engine_is_a_miss(compiles, net, monkeypatch):
    x = torch.randn(3, 6)
    compiles(net, x)
    assert compiles(net, torch.randn(4, 6)) == (1, 1)
    assert compiles(net, x, level=1) == (1, 1)
    assert compiles(net, x, freeze=False) == (1, 1)
    with torch.no_grad():
        net.inner.bias[2] += 1
    assert compiles(net, x) == (1, 1)
    assert compiles(net, x) == (0, 0)
    net.norm.eps = 0.1
    assert compiles(net, x) == (1, 1)
    assert compiles(net.double(), x.double()) == (1, 1)
    net.float()
    assert compiles(net, x) == (0, 0)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert compiles(net, x) == (1, 1)
    finally:
        torch.set_num_threads(before)
    assert compiles(net, x) == (0, 0)
    monkeypatch.setenv("TENSORLANG_DEBUG", "0")
    assert compiles(net, x) == (1, 1)
    monkeypatch.delenv("TENSORLANG_DEBUG")
    monkeypatch.setattr(engine_cache, "environment", lambda target: "another processor or version")
    assert compiles(net, x) == (1, 1)


def test_what_is_torn_or_of_others_is_a_miss(compiles, net, tmp_path):
    x = torch.randn(3, 6)
    compiles(net, x)
    (engine,) = tmp_path.glob("engines/*.engine")
    whole = engine.read_bytes()
    for change in (
        lambda: engine.write_bytes(whole[:-1]),
        lambda: engine.write_bytes(b""),
        lambda: engine.unlink(),
        lambda: os.chmod(engine, 0o666),
    ):
        change()
        assert compiles(net, x) == (1, 1)
        assert compiles(net, x) == (0, 0)
    for notes in tmp_path.glob("engines/*.notes"):
        notes.write_bytes(notes.read_bytes()[:-1])
    assert compiles(net, x) == (1, 1)
    assert compiles(net, x) == (0, 0)


def test_parameters_are_watched_as_if_the_engine_were_new(compiles, net, tmp_path):
    x = torch.randn(3, 6)
    compiles(net, x)
    torch._dynamo.reset()
    f = torch.compile(net, backend="tensorlang", options={"cache": tmp_path})
    with torch.no_grad():
        torch.testing.assert_close(f(x), net(x))
        net.inner.weight.mul_(2)
        torch.testing.assert_close(f(x), net(x))
        net.norm.bias.data = torch.ones(5)
        torch.testing.assert_close(f(x), net(x))


def test_parameters_that_change_while_they_are_packed_are_not_kept(compiles, net, monkeypatch):
    x = torch.randn(3, 6)
    forms = source._forms

    def meanwhile(g):
        with torch.no_grad():
            net.inner.weight.mul_(1)
        return forms(g)

    monkeypatch.setattr(source, "_forms", meanwhile)
    compiles(net, x)
    monkeypatch.setattr(source, "_forms", forms)
    assert compiles(net, x) == (1, 1)
    assert compiles(net, x) == (0, 0)


def test_open_sizes(compiles):
    def f(x):
        return (x * x.shape[0]).cumsum(0) + 1

    x = torch.randn(5, 3)
    torch._dynamo.mark_dynamic(x, 0)
    assert compiles(f, x) == (1, 1)
    assert compiles(f, x) == (0, 0)
    (r,) = tlt.graphs()[-1].regions
    assert r.engine(torch.randn(9, 3).numpy()).shape == (9, 3)
    assert compiles(f, x, profile={"x": [(2, 8), None]}) == (1, 1)
    assert compiles(f, x, profile={"x": [(2, 8), None]}) == (0, 0)


def test_what_was_refused_stays_in_torch(compiles):
    def f(x):
        y = torch.linalg.inv(x + 4 * torch.eye(3))
        return (y * 2).relu() + 1

    x = torch.randn(3, 3)
    first = compiles(f, x)
    assert first[0] == 2
    assert compiles(f, x) == (0, 0)
    assert "inv" in str(tlt.graphs()[-1].left)


def test_gradients_of_kept_engines(tmp_path, net):
    net.train()
    x = torch.randn(3, 6)
    for _ in range(2):
        torch._dynamo.reset()
        f = torch.compile(net, backend="tensorlang", options={"cache": tmp_path})
        wanted = torch.autograd.grad(net(x).square().sum(), tuple(net.parameters()))
        got = torch.autograd.grad(f(x).square().sum(), tuple(net.parameters()))
        torch.testing.assert_close(got, wanted)
        engine_cache.finish()
    assert len(list(tmp_path.glob("engines/*.engine"))) == 2


def test_operators_of_somebody_else_have_no_name(compiles, monkeypatch):
    def twice(input):
        return te.compute(input.shape, lambda *i: input(*i) * 2.0, name="twice")

    def f(x):
        return torch.relu(x)

    x = -torch.ones(4)
    compiles(f, x)
    entry = table.OPERATORS["aten.relu.default"]
    monkeypatch.setitem(table.OPERATORS, "aten.relu.default", entry.__class__(entry.name, twice))
    torch._dynamo.reset()
    with torch.no_grad():
        assert torch.compile(f, backend="tensorlang")(x).tolist() == [-2.0] * 4
    monkeypatch.undo()


def test_old_engines_make_room(tmp_path, monkeypatch, compiles, net):
    monkeypatch.setattr(engine_cache, "MOST_BYTES", 1)
    compiles(net, torch.randn(3, 6))
    assert not list(tmp_path.glob("engines/*.engine"))
    monkeypatch.setattr(engine_cache, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(engine_cache, "LARGEST", 1)
    compiles(net, torch.randn(3, 6))
    assert not list(tmp_path.glob("engines/*.engine"))
