"""Numbers that a tensor's type does not hold: torch refuses them when it runs, and so must what is compiled;
windows and slopes that are drawn; the largest of windows where there is nothing, or no number."""

from __future__ import annotations

import pytest

import tensorlang as tl

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tests.frontends.torch.functions import Of  # noqa: E402
from tests.frontends.torch.test_special import of_torch  # noqa: E402

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh")

INTO = {
    "masked_fill": lambda z, v: z.masked_fill(torch.tensor([True, False, True]), v),
    "fill": torch.fill,
    "full": lambda z, v: torch.full((3,), v, dtype=z.dtype),
    "full_like": torch.full_like,
    "new_full": lambda z, v: z.new_full((2,), v),
    "index_fill": lambda z, v: z.index_fill(0, torch.tensor([0]), v),
    "scatter": lambda z, v: z.scatter(0, torch.tensor([0]), v),
    "pad": lambda z, v: F.pad(z, (1, 0), value=v),
    "where": lambda z, v: torch.where(torch.tensor([True, False, True]), z, v),
    "threshold": lambda z, v: F.threshold(z, 0, v),
    "clamp": lambda z, v: z.clamp(v),
    "pow": lambda z, v: z**v,
}
NUMBERS = [
    (torch.uint8, 300),
    (torch.uint8, -1),
    (torch.uint8, -300),
    (torch.uint8, 2.7),
    (torch.int8, 128),
    (torch.int8, -129),
    (torch.float16, -1e9),
    (torch.float16, 65519),
    (torch.float16, float("-inf")),
    (torch.float32, 3.5e38),
]


def answer(f, *args):
    try:
        return f(*args)
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
        return type(error)


@pytest.mark.each_value
@pytest.mark.parametrize(("kind", "number"), NUMBERS)
def test_a_number_beyond_the_type_is_refused_as_eager_does(kind, number):
    """300 came round to 44 among bytes, and -1e9 was -inf in float16."""
    z = torch.ones(3, dtype=kind)
    for name, into in INTO.items():
        torch._dynamo.reset()
        wanted = answer(into, z, number)
        found = answer(torch.compile(lambda t, f=into: f(t, number), backend="tensorlang"), z)
        if isinstance(wanted, torch.Tensor):
            torch.testing.assert_close(found, wanted, msg=f"{name}, {number} in {kind}", equal_nan=True)
        else:
            assert isinstance(found, type), f"{name}: {number} in {kind} is {found}"


def test_a_program_with_such_a_number_says_which():
    f = Of(lambda z: z.masked_fill(z > 0, 300))
    with pytest.raises(tl.TensorLangError) as error:
        tl.load_torch(torch.export.export(f, (torch.ones(3, dtype=torch.uint8),)))
    assert "300 in a tensor of uint8" in str(error.value)


def numbers(*shape):
    torch.manual_seed(0)
    x = torch.randn(*shape)
    x[0, 0, 3:6, 3:6] = float("nan")
    x[1] = -float("inf")
    return x


@pytest.mark.parametrize("size", [2, (2, 3), (3, 1)])
@pytest.mark.parametrize("out", [(4, 3), (1, 5)])
def test_windows_that_begin_by_chance(size, out):
    def f(a, s):
        return F.fractional_max_pool2d(a, size, output_size=out, return_indices=True, _random_samples=s)

    of_torch(f, numbers(2, 3, 10, 11), torch.rand(2, 3, 2))
    of_torch(f, numbers(2, 3, 10, 11).double(), torch.rand(2, 3, 2).double())
    of_torch(f, numbers(2, 3, 10, 11)[0], torch.rand(1, 3, 2))


def test_windows_of_volumes_that_begin_by_chance():
    def f(a, s):
        return F.fractional_max_pool3d(a, 2, output_size=(3, 4, 2), return_indices=True, _random_samples=s)

    of_torch(f, torch.randn(2, 2, 6, 7, 8), torch.rand(2, 2, 3))


def test_the_largest_of_windows_where_all_is_the_least_or_no_number():
    """The largest of nothing but -inf was the least finite number; of several NaN torch names the last."""
    x = numbers(2, 3, 10, 11)
    of_torch(lambda a: F.adaptive_max_pool2d(a, (4, 3), return_indices=True), x)
    of_torch(lambda a: F.adaptive_max_pool1d(a, 4, return_indices=True), x[:, :, 3])
    of_torch(lambda a: F.max_pool2d(a, 3, 2, 1, return_indices=True), x)
    of_torch(lambda a: F.max_pool2d(a, (2, 3), return_indices=True, ceil_mode=True), x)


def test_a_slope_that_is_drawn_in_training_alone():
    x = torch.tensor([-2.0, 3.0, -0.0, float("nan"), float("-inf")])
    of_torch(lambda a: F.rrelu(a, 0.1, 0.5), x)
    with pytest.raises(tl.TensorLangError, match="not supported"):
        tl.load_torch(torch.export.export(Of(lambda a: F.rrelu(a, 0.1, 0.5, training=True)), (x,)))
    f = torch.compile(lambda a: F.rrelu(a, 0.1, 0.5), backend="tensorlang")
    ours, theirs = x[:3].clone().requires_grad_(), x[:3].clone().requires_grad_()
    f(ours).sum().backward()
    F.rrelu(theirs, 0.1, 0.5).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_images_of_bytes_are_made_larger_by_torch():
    """It weighs them in whole numbers: other bytes than floats give."""
    x = torch.randint(0, 255, (1, 2, 9, 11), dtype=torch.uint8)
    f = lambda a: F.interpolate(a, size=(13, 4), mode="bilinear")
    assert torch.equal(torch.compile(f, backend="tensorlang")(x), f(x))
    (graph,) = tlt.graphs()
    assert graph.taken == 0


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16, torch.int32])
def test_products_of_whole_numbers_are_of_their_type(kind):
    """Sums of products of bytes came in 32 bits, which torch lets come round."""
    torch.manual_seed(0)
    low = 0 if kind is torch.uint8 else -100
    a, b = (torch.randint(low, 100, size).to(kind) for size in ((5, 7), (7, 3)))

    def f(a, b):
        made = a @ b, torch.bmm(a[None], b[None]), F.linear(a, b.t()), torch.mv(a, b[:, 0])
        return *made, torch.addmm(a[:, :3], a, b, beta=2, alpha=3), torch.einsum("ij,jk,ij->k", a, b, a)

    of_torch(f, a, b)


def test_scalars_have_an_axis():
    of_torch(
        lambda a: (
            a.flip(0),
            a.flip(-1),
            a.var(0, correction=0),
            a.std(-1, correction=0, keepdim=True),
            torch.var_mean(a, 0, correction=0),
        ),
        torch.tensor(0.7),
    )


def test_the_other_part_of_what_is_conjugated():
    of_torch(lambda a: torch.complex(a, -a).conj().imag + 1, torch.randn(3, 4))
