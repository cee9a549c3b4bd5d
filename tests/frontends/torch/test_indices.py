"""Elements that indices name among whole dimensions: written, added to, and hidden by masks."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tensorlang as tl  # noqa: E402
import tensorlang.torch as tlt  # noqa: E402
from tensorlang import te  # noqa: E402
from tensorlang.frontends.torch.shape import roll  # noqa: E402
from tensorlang.loopir.interpret import interpret  # noqa: E402
from tensorlang.recipes import default_schedule  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")
AT = torch.tensor([0, 3, -1])
put = torch.ops.aten.index_put

WRITES = {
    "middle": lambda x, y: put(x, [None, AT], y[:, :3]),
    "last": lambda x, y: put(x, [None, None, AT], y[:, :, :3]),
    "two together": lambda x, y: put(x, [None, AT, AT[:, None]], y[0, 0, 0]),
    "two apart": lambda x, y: put(x, [AT, None, AT], y[0, :, 0]),
    "added": lambda x, y: put(x, [None, AT * 0 + 2], y[:, :3], True),
    "added before": lambda x, y: put(x, [AT, None, AT.flip(0)], y[:3, :, 0], True),
    "a mask first": lambda x, y: put(x, [x[:, 0, 0] > 0], y[0, 0, 0]),
    "a mask between": lambda x, y: put(x, [None, x[0, :, 0] > 0], y[0, 0, 0]),
    "a mask of two": lambda x, y: put(x, [None, x[0] > 0], y[0, 0, 0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_elements_among_whole_dimensions_are_written_as_torch_does(name):
    f, x, y = WRITES[name], torch.randn(4, 5, 6), torch.randn(4, 5, 6)
    compiled = torch.compile(f, backend="tensorlang")
    torch.testing.assert_close(compiled(x, y), f(x, y))
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]


@pytest.mark.parametrize("layer", ["upsample", "fold", "unfold"])
def test_the_way_back_through_places_of_an_image(layer):
    """Which torch writes as sums at indices of the last two dimensions."""
    f, shape = {
        "upsample": (torch.nn.Upsample(scale_factor=2, mode="bilinear"), (1, 2, 3, 4)),
        "fold": (torch.nn.Fold((6, 6), 2, stride=2), (1, 12, 9)),
        "unfold": (torch.nn.Unfold(3), (1, 2, 6, 6)),
    }[layer]
    x = torch.randn(shape, requires_grad=True)
    slope = torch.randn_like(f(x))
    (ours,) = torch.autograd.grad(torch.compile(f, backend="tensorlang")(x), x, slope)
    torch.testing.assert_close(ours, *torch.autograd.grad(f(x), x, slope))
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_are_read_between_their_elements(mode, padding):
    def f(x, grid):
        return torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners=padding == "border") * 2

    compiled = torch.compile(f, backend="tensorlang")
    for n in (1, 3):
        x, grid = torch.randn(2, n, 5, 6), torch.rand(2, 4, 3, 2) * 2.6 - 1.3
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, grid), f(x, grid), rtol=1e-5, atol=1e-5)
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]


@pytest.mark.parametrize("shape", [(3, 50, 5), (4, 7, 40), (20, 60), (5, 6, 1), (33,)])
@pytest.mark.parametrize("shift", [0, 1, -3, 7, 500])
def test_a_turned_axis_is_two_parts_that_are_joined(shape, shift):
    """However few elements lie behind the axis; of several axes the last one."""

    def f(x):
        turned = [torch.roll(x, shift, d) for d in range(x.ndim)]
        return *turned, torch.roll(x, (shift, 2) if x.ndim > 1 else shift, (0, 1) if x.ndim > 1 else 0)

    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    for ours, theirs in zip(torch.compile(f, backend="tensorlang")(x), f(x), strict=True):
        assert torch.equal(ours, theirs)
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]


@pytest.mark.parametrize("shape", [(3, 50, 5), (4, 7, 40), (20, 60), (5, 6, 1), (2, 3, 4, 9), (33,)])
@pytest.mark.parametrize("shift", [0, 1, -3, 7, 40, 500])
def test_all_elements_are_turned_row_by_row(shape, shift):
    """As one row they were gathered, for each of which places of the others were divided out."""
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    want = torch.roll(x, shift)
    placed = te.placeholder(shape, name="x")
    out = roll(placed, [shift])
    assert np.array_equal(tl.compile([placed, out])(x.numpy()), want)
    got = np.zeros(shape, "float32")
    interpret(tl.lower(default_schedule(out), [placed, out]), x.numpy(), got)
    assert np.array_equal(got, want)


def test_all_elements_are_turned_by_the_backend():
    x = torch.arange(3.0 * 40 * 50).reshape(3, 40, 50)
    assert torch.equal(
        torch.compile(lambda x: torch.roll(x, 777) + 1, backend="tensorlang")(x), torch.roll(x, 777) + 1
    )
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]
