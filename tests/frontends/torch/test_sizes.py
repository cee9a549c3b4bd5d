"""Sizes that are arithmetic: ranges with steps, images enlarged by a number, and what engines cannot say."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
import tensorlang.torch as tlt  # noqa: E402
from tensorlang import te  # noqa: E402
from tensorlang.errors import DeclareError  # noqa: E402
from tensorlang.frontends.torch import backend  # noqa: E402
from tensorlang.frontends.torch.symbols import Sizes  # noqa: E402
from tensorlang.frontends.torch.table import OPERATORS  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def same(f, *calls):
    compiled = torch.compile(f, backend="tensorlang", dynamic=True)
    with torch.no_grad():
        for args in calls:
            args = args if isinstance(args, tuple) else (args,)
            torch.testing.assert_close(compiled(*args), f(*args))


def left():
    assert not any(g.reason or any(c.reason or c.left for c in g.counts) for g in tlt.graphs())
    return {operator for g in tlt.graphs() for operator, _ in g.left.values()}


@pytest.mark.parametrize("step", [-1.0, -3, 2, 0.5, -1.25])
@pytest.mark.parametrize("kind", [None, torch.int64])
def test_a_range_by_an_open_size_has_as_many_steps_as_torchs(step, kind):
    """Whose number is a quotient, rounded up, also where it goes back."""

    by = step if kind is None or int(step) else 1

    def f(x, by=by):
        n = x.shape[0]
        ends = (-n, n + 1) if by > 0 else (n + 1, -n)
        positions = torch.arange(*ends, by, dtype=kind)
        return positions[:, None] * x[0]

    same(f, *(torch.randn(n, 3) for n in (4, 7, 5)))
    assert not left()


@pytest.mark.parametrize("scale", [2, 1.5, 0.5])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_an_image_enlarged_by_a_number_has_an_open_size(scale, mode):
    def f(x):
        return F.interpolate(x, scale_factor=scale, mode=mode, recompute_scale_factor=True) * 2

    same(f, *(torch.randn(2, 3, n, n + 1) for n in (6, 9, 4)))
    assert not left()


def test_a_size_that_cannot_be_said_is_learnt_from_what_torch_made():
    """Cutting began again for ever: what comes from outside cannot be left to torch."""

    def f(x):
        return F.interpolate(x, scale_factor=0.3).softmax(-1) * 2 + 1

    same(f, *(torch.randn(2, 3, n, n + 1) for n in (16, 19)))
    assert left() == {"aten.upsample_nearest2d.vec"}


def test_what_reads_a_number_that_cannot_be_said_runs_in_torch(monkeypatch):
    """The number itself cannot be left to torch: cutting began again for ever."""

    def refused(self, s):
        raise DeclareError(f"the number {s}")

    monkeypatch.setattr(Sizes, "symbol", refused)
    same(lambda x, n: (x + n).relu() * 2, (torch.randn(4, 3), 3), (torch.randn(5, 3), 4))
    assert left() == {"aten.add.Tensor"}


def test_an_open_size_that_is_another_than_torchs_is_refused(monkeypatch):
    """By a mistake in an operator, which would give wrong answers."""
    row = OPERATORS["aten.exp.default"]

    def longer(x):
        return te.compute([x.shape[0] + 2, *x.shape[1:]], lambda *i: te.exp(x(0, *i[1:])), name="longer")

    monkeypatch.setitem(OPERATORS, "aten.exp.default", dataclasses.replace(row, fn=longer))
    same(lambda x: (x + 1).exp() * 2, torch.randn(4, 3), torch.randn(5, 3))
    assert left() == {"aten.exp.default"}


NUMBERS = {
    "a factor": lambda x, n: x * n + n,
    "turned": lambda x, n: torch.roll(x, n, 0) * 2,
    "a power": lambda x, n: x.abs() ** n,
    "filled": lambda x, n: torch.full((2,), n) + x[0, 0],
    "chosen": lambda x, n: torch.where(x > n, x, n),
    "a diagonal": lambda x, n: x.tril(n) * 2,
    "a divisor": lambda x, n: torch.arange(-5, 5) % n + torch.arange(-5, 5) // n,
    "from a place": lambda x, n: x[n:] * 2,
    "to a place": lambda x, n: x[:n] * 2,
    "a row": lambda x, n: x[n] * 2 + n,
    "written from a place": lambda x, n: torch.slice_scatter(x, x[n:] + 1, 0, n),
    "a written row": lambda x, n: torch.select_scatter(x, x[0] + 1, 0, n),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("numbers", [(2, -3, 3), (-3, -2, 2)])
def test_a_whole_number_that_changes_may_be_negative(name, numbers):
    """Engines learn numbers from sizes, and none is negative."""
    x = torch.randn(4, 3)
    same(NUMBERS[name], *((x, n) for n in numbers))
    assert not left()


def test_a_number_that_no_size_can_be_is_left_to_torch():
    f = torch.compile(lambda x, n: x * n, backend="tensorlang", dynamic=True)
    x = torch.randn(4)
    for n in (5, 2**40, -(2**50), -3):
        torch.testing.assert_close(f(x, n), x * n)
    assert sum(c.left for g in tlt.graphs() for c in g.counts) == 2


def test_a_size_that_is_data_is_made_by_torch_and_read_by_engines():
    """Where dynamo does not break the graph for it, all of which stayed in torch."""

    def f(x):
        positive = x[x > 0]
        return positive * 2 + 1, x.nonzero().sum(), torch.zeros(positive.shape[0] + 1) + x[0, 0]

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(f, backend="tensorlang", fullgraph=True)
        for _ in range(3):
            x = torch.randn(4, 5)
            torch.testing.assert_close(compiled(x), f(x))
    assert left() - {"aten._assert_scalar.default"} == {"aten.index.Tensor", "aten.nonzero.default"}


def test_operators_that_are_refused_are_found_together(monkeypatch):
    """A graph was cut and read anew for each of them."""
    cuts = []
    real = backend.cut
    monkeypatch.setattr(backend, "cut", lambda gm, refused: (cuts.append(len(refused)), real(gm, refused))[1])

    def f(x):
        return sum(x[:, k:].split(x.shape[1] // 2, 1)[0].sum() for k in range(6))

    same(f, torch.randn(3, 8))
    assert "aten.split.Tensor" in left() and len(cuts) <= 3, cuts


def test_a_margin_to_a_whole_number_of_parts_is_an_open_size():
    """As models have it that compute a length part by part."""

    def f(x):
        more = (8 - x.shape[1] % 8) % 8
        return F.pad(x, (0, 0, 0, more), value=2.0) * 3

    same(f, *(torch.randn(2, n, 3) for n in (11, 16, 5)))
    assert not left()


def test_sizes_that_torch_has_found_equal_are_one():
    """Half an image, enlarged twice, is as high as the image where that is even: torch's guards say so, and a
    call with another height is traced anew, or fails as eager does."""
    net = torch.nn.ModuleDict(
        {
            "first": torch.nn.Conv2d(3, 4, 3, padding=1),
            "down": torch.nn.Conv2d(4, 4, 3, 2, 1),
            "last": torch.nn.Conv2d(8, 2, 1),
        }
    )

    def f(x):
        h = net["first"](x).relu()
        m = F.interpolate(net["down"](h), scale_factor=2.0)
        return net["last"](torch.cat((m, h), 1)) + m[:, :1] * h[:, 1:2]

    with torch.no_grad():
        compiled = torch.compile(f, backend="tensorlang", dynamic=True)
        for shape in ((2, 3, 16, 16), (1, 3, 20, 12), (3, 3, 32, 8), (2, 3, 18, 16)):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), f(x))
        with pytest.raises(RuntimeError):
            compiled(torch.randn(2, 3, 17, 16))
    assert not left()
