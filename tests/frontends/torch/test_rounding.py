"""16-bit floats are rounded at the places where torch rounds them, so results are the same to the bit."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.usefixtures("fresh")


@pytest.mark.parametrize("size", [(64, 7), (64,)])
@pytest.mark.parametrize("name", ["scatter_add", "index_add", "index_put"])
def test_numbers_that_meet_at_one_place(name, size):
    x, at = torch.randn(size, dtype=torch.bfloat16), torch.randint(0, 5, size[:1])

    def f(x, at):
        zeros = torch.zeros(5, *size[1:], dtype=x.dtype)
        if name == "scatter_add":
            return zeros.scatter_add(0, at.view(-1, *[1] * (x.ndim - 1)).expand_as(x), x)
        return (
            zeros.index_add(0, at, x) if name == "index_add" else zeros.index_put((at,), x, accumulate=True)
        )

    assert torch.equal(torch.compile(f, backend="tensorlang")(x, at), f(x, at))


@pytest.mark.parametrize(
    ("mode", "size", "to"),
    [
        ("linear", (2, 3, 4), 6),
        ("linear", (1, 3, 40), 7),
        ("bilinear", (2, 3, 4, 5), (6, 3)),
        ("bicubic", (2, 3, 4, 5), (6, 3)),
    ],
)
@pytest.mark.parametrize("align", [True, False])
def test_weights_of_images(mode, size, to, align):
    def f(x):
        return F.interpolate(x, to, mode=mode, align_corners=align)

    x = torch.randn(size, dtype=torch.bfloat16)
    found, wanted = torch.compile(f, backend="tensorlang")(x), f(x)
    torch.testing.assert_close(found, wanted, rtol=2**-7, atol=1e-5)


@pytest.mark.parametrize("to", [(3, 2, 4), (5, 7, 4), (1, 1, 1)])
def test_windows_of_three_dimensions(to):
    def f(x):
        return F.adaptive_avg_pool3d(x, to)

    x = torch.randn(2, 3, 8, 8, 6, dtype=torch.bfloat16)
    assert torch.equal(torch.compile(f, backend="tensorlang")(x), f(x))


@pytest.mark.parametrize("transposed", [False, True])
def test_gradients_of_weights_are_summed_in_float32(transposed):
    conv = F.conv_transpose1d if transposed else F.conv1d
    x, w = (torch.randn(s, dtype=torch.bfloat16, requires_grad=True) for s in ((3, 4, 40), (4, 4, 3)))

    def gradient(f):
        return torch.autograd.grad(f(x, w).float().square().sum(), w)[0]

    found = gradient(torch.compile(lambda x, w: conv(x, w, stride=2), backend="tensorlang"))
    wanted = gradient(lambda x, w: conv(x, w, stride=2))
    torch.testing.assert_close(found, wanted, rtol=2**-7, atol=1e-3)


def test_gradients_of_attention():
    ops = torch.ops.aten
    q, k, v, grad = (torch.randn(2, 2, n, 8, dtype=torch.bfloat16) for n in (16, 12, 12, 16))
    out, sums = ops._scaled_dot_product_flash_attention_for_cpu(q, k, v)

    def f(*tensors):
        return ops._scaled_dot_product_flash_attention_for_cpu_backward(*tensors, 0.0, False)

    given = (grad, q, k, v, out, sums)
    for a, b in zip(torch.compile(f, backend="tensorlang")(*given), f(*given), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.int64, torch.int32])
@pytest.mark.parametrize(
    ("start", "end", "count"), [(4.3, -2.7, 13), (0, 50, 7), (-3, 4.3, 50), (1.0, 2.9, 1)]
)
def test_points_of_a_range(kind, start, end, count):
    def f(x):
        return torch.linspace(start, end, count, dtype=kind) + x

    x = torch.zeros(count, dtype=kind)
    assert torch.equal(torch.compile(f, backend="tensorlang")(x), f(x))


@pytest.mark.parametrize("kind", [torch.int32, torch.float32, None])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_of_a_dtype(name, kind):
    import tensorlang.torch

    def f(x):
        return getattr(torch, name)(x, 0, dtype=kind)

    x = torch.randint(1, 4, (7, 3))
    found = torch.compile(f, backend="tensorlang")(x)
    assert found.dtype == f(x).dtype and torch.equal(found, f(x))
    assert tensorlang.torch.graphs()[-1].taken == 1


@pytest.mark.parametrize("padding", [(2, 1), (2, 3)])
def test_a_transposed_convolution_of_large_output_padding(padding):
    """Torch leaves oneDNN for it, and rounds what each column of the product adds."""
    import tensorlang.torch

    def f(x, w):
        return torch.nn.functional.conv_transpose2d(x, w, None, (3, 2), (1, 2), padding, 1, (4, 4))

    x, w = torch.randn(2, 3, 4, 4, dtype=torch.bfloat16), torch.randn(3, 2, 4, 5, dtype=torch.bfloat16)
    torch.testing.assert_close(torch.compile(f, backend="tensorlang")(x, w), f(x, w))
    assert tensorlang.torch.graphs()[-1].taken == (padding == (2, 1))
    found = torch.compile(f, backend="tensorlang")(x.float(), w.float())
    torch.testing.assert_close(found, f(x.float(), w.float()), rtol=1e-4, atol=1e-4)
    assert tensorlang.torch.graphs()[-1].taken == 1


@pytest.mark.parametrize("t", ["float16", "bfloat16"])
@pytest.mark.parametrize("training", [False, True])
def test_rms_norm_without_an_epsilon_takes_that_of_float32(t, training):
    """Its default was once the machine epsilon of the 16-bit type."""
    x = torch.full((2, 16), 2.0**-12, dtype=getattr(torch, t), requires_grad=training)

    def f(x):
        return F.rms_norm(x, (16,))

    assert torch.equal(torch.compile(f, backend="tensorlang")(x), f(x))


@pytest.mark.parametrize("size, stride, padding, ceil", [(3, 1, 1, True), ((2, 3), (1, 2), 0, False)])
@pytest.mark.parametrize("divisor, margins", [(2, True), (None, True), (None, False)])
def test_shares_of_windows_are_added_in_torchs_order(size, stride, padding, ceil, divisor, margins):
    def f(x):
        return F.avg_pool2d(x, size, stride, padding, ceil, margins, divisor)

    x = torch.randn(2, 3, 9, 8, dtype=torch.bfloat16, requires_grad=True)
    made = f(x)
    grad = torch.randn_like(made)
    (wanted,) = torch.autograd.grad(made, x, grad)
    (found,) = torch.autograd.grad(torch.compile(f, backend="tensorlang")(x), x, grad)
    assert torch.equal(found, wanted)
