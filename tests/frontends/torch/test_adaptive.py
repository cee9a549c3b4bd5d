"""A model that is compiled when that pays: the arithmetic by a clock of ours, then the real thing."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import adaptive, memory  # noqa: E402
from tensorlang.frontends.torch.adaptive import Adaptive, Costs  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Machine:
    """A clock that eager calls, compiled calls and compilations advance; times in milliseconds by batch."""

    def __init__(self, monkeypatch, eager=lambda n: 100, compiled=lambda n: 20, to_compile=500):
        self.now, self.compiled_for = 0.0, set()
        self.eager, self.fast, self.to_compile = eager, compiled, to_compile
        monkeypatch.setattr(adaptive, "GUESS", to_compile / 1e3)
        monkeypatch.setattr(adaptive, "FASTER", 5.0)
        monkeypatch.setattr(adaptive, "CALL", 0.0)
        monkeypatch.setattr(Adaptive, "_compiled", lambda model: self.set(model))

    def set(self, model):
        model._fn = self.compiled
        return model._fn

    def clock(self):
        return self.now

    def model(self, x):
        self.now += self.eager(len(x)) / 1e3
        return x + 1

    def compiled(self, x):
        if len(x) not in self.compiled_for:
            self.compiled_for.add(len(x))
            self.now += self.to_compile / 1e3
        self.now += self.fast(len(x)) / 1e3
        return x + 1

    def adaptive(self, **kwargs):
        return Adaptive(self.model, clock=self.clock, background=False, **kwargs)


def test_what_compiling_costs_in_calls():
    assert Costs(0.5, 0.1, 0.02).calls == 6.25
    assert str(Costs(0.5, 0.1, 0.02)) == "500 ms to compile ÷ (100 ms eager − 20 ms compiled) = 6.25 calls"
    assert Costs(0.5, 0.1, 0.1).calls == float("inf")


def test_calls_are_eager_until_compiling_pays(monkeypatch):
    m = Machine(monkeypatch)
    f, x = m.adaptive(), torch.ones(8)
    for n in range(1, 30):
        assert torch.equal(f(x), x + 1)
        assert bool(m.compiled_for) == (n >= 7)  # 6.25 calls
    (kind,) = f.kinds.values()
    assert kind.state == "compiled" and f.spent == pytest.approx(0.52)
    assert "eager 100 ms, compiled 20 ms" in str(f)
    assert m.now == pytest.approx(6 * 0.1 + 0.52 + 22 * 0.02)


def test_small_batches_stay_eager(monkeypatch):
    m = Machine(monkeypatch, lambda n: 0.02 * n, lambda n: 0.01 * n + 1, to_compile=5)
    f = m.adaptive()
    for _ in range(40):
        for n in (1, 1000):
            f(torch.ones(n))
    small, large = f.kinds.values()
    assert small.state != "compiled" and large.state == "compiled"
    monkeypatch.setattr(adaptive, "CALL", 20e-6)
    f = Machine(monkeypatch, lambda n: 0.02).adaptive()
    monkeypatch.setattr(adaptive, "CALL", 20e-6)  # guards take as long as the call
    for _ in range(2000):
        f(torch.ones(1))
    assert f.spent == 0 and "inf calls" in str(f)


def test_a_budget_is_kept(monkeypatch):
    m = Machine(monkeypatch)
    f = m.adaptive(budget=1.2)
    for _ in range(20):
        for n in (2, 3, 4, 5):
            f(torch.ones(n))
    assert f.spent <= 1.2 and m.compiled_for == {2, 3}
    assert "1.04 s of 1.2 s are spent" in str(f)


def test_memory_is_left_to_others(monkeypatch):
    m = Machine(monkeypatch)
    f, x = m.adaptive(memory=100 << 20), torch.ones(3)
    for _ in range(20):
        f(x)
    assert f.spent == 0 and "compiling needs about 256 MiB, and 100 MiB are free" in str(f)


def test_after_failures_all_is_eager(monkeypatch):
    m = Machine(monkeypatch)

    def fails(x):
        raise RuntimeError("no")

    monkeypatch.setattr(Adaptive, "_compiled", lambda model: fails)
    f = m.adaptive()
    for _ in range(10):
        for n in (2, 3, 4, 5):
            assert f(torch.ones(n)).sum() == 2 * n
    assert f.failures == 3 and "3 failures, the last RuntimeError: no" in str(f)


def test_a_compiled_call_that_fails_is_made_again(monkeypatch):
    m = Machine(monkeypatch)
    f, x = m.adaptive(), torch.ones(3)
    for _ in range(9):
        f(x)
    assert f._fn is not None
    f._fn = lambda x: 1 // 0
    assert torch.equal(f(x), x + 1) and f.failures == 1
    m.model = f.model = lambda x: x.nothing
    with pytest.raises(AttributeError):
        f(torch.ones(4))


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * self.calls


@pytest.fixture
def eager_to_compile(monkeypatch):
    monkeypatch.setattr(adaptive, "GUESS", 0.0)
    monkeypatch.setattr(adaptive, "CALL", 0.0)


def test_it_compiles_beside_the_program(eager_to_compile):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU()).eval()
    f, x = tlt.adaptive(model), torch.randn(3, 6)
    with torch.no_grad():
        for _ in range(12):
            torch.testing.assert_close(f(x), model(x))
            assert f.wait(100)
    (kind,) = f.kinds.values()
    assert kind.settled and f.spent > 0 and len(f.graphs) == 1 and not f.failures
    assert f.graphs[0].regions[0].counts.calls >= adaptive.TRIED
    assert f.training is False  # as of the model
    f.release()
    assert f.graphs == [] and torch.equal(f(x), model(x))


def test_what_changes_itself_is_called_once_for_each_call(eager_to_compile):
    model = Counting().eval()
    f, x = tlt.adaptive(model), torch.ones(2)
    with torch.no_grad():
        for n in range(1, 10):
            assert torch.equal(f(x), torch.full((2,), float(n)))
    assert model.calls == 9 and f._thread is None


def test_gradients_flow(eager_to_compile):
    model = torch.nn.Linear(4, 2)
    f, x = tlt.adaptive(model), torch.randn(3, 4)
    for _ in range(6):
        model.zero_grad()
        f(x).sum().backward()
    assert torch.allclose(model.weight.grad, x.sum(0).expand(2, 4)) and f.spent > 0


def test_free_memory(monkeypatch, tmp_path):
    assert memory.available() is None or memory.available() > 0
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    assert memory.available() == 2 << 20
    for name, text in (("max", "3000000"), ("current", "2500000"), ("stat", "file 9\ninactive_file 400\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert memory.available() == 500400
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "GROUP", tmp_path / "none")
    assert memory.available() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_does_not_wait_for_what_its_parent_compiles(monkeypatch):
    m = Machine(monkeypatch)
    f, x = m.adaptive(), torch.ones(3)
    f(x)
    (kind,) = f.kinds.values()
    kind.state, f._thread = "compiling", adaptive.threading.Thread()  # which is not alive, as after a fork
    f(x)
    assert kind.state == "watched"
