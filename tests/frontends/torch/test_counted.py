"""Programs of torch.export whose sizes are data: masks, distinct elements, counts, numbers of an element."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import CallError, TensorLangError
from tensorlang.runtime import choices

torch = pytest.importorskip("torch")
from .functions import Of, beside  # noqa: E402

F = torch.nn.functional


def graph_of(f, *args, rows=None):
    dynamic = None
    if rows is not None:
        dim = torch.export.Dim("rows", min=2)
        dynamic = (tuple({0: dim} if a.shape[:1] == (rows,) else {} for a in args),)
    return tl.load_torch(torch.export.export(Of(f), args, dynamic_shapes=dynamic))


def same(engine, f, *args, exact=True):
    for a, b in beside(engine(*[a.numpy() for a in args]), f(*args)):
        if exact:
            np.testing.assert_array_equal(a, b)
        else:
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def written(x, at, values):
    y = x.clone()
    y[at] = values(y)
    return y


MASKS = {
    "nonzero": lambda x, n: torch.nonzero(x > 0) * 2,
    "as tuple": lambda x, n: torch.nonzero(x > 0, as_tuple=True),
    "of a number": lambda x, n: torch.nonzero(x[0, 0]),
    "of nothing": lambda x, n: torch.nonzero(x[0, 0] * 0),
    "where": lambda x, n: torch.where(x > 0)[1] + 1,
    "argwhere": lambda x, n: torch.argwhere(x > 0),
    "elements": lambda x, n: x[x > 0] * 2,
    "rows": lambda x, n: x[x[:, 0] > 0] @ torch.ones(5, 3),
    "columns": lambda x, n: x[:, x[0] > 0] + 1,
    "first two of three": lambda x, n: x[:, None][x[:, :1] > 0],
    "with places": lambda x, n: x[x[:, 0] > 0, 1],
    "of bytes": lambda x, n: x[(x > 0).to(torch.bool)],
    "select": lambda x, n: torch.masked_select(x, x[0] > 0).sum(),
    "count": lambda x, n: x[x > 0].shape[0] * x,
    "written": lambda x, n: written(x, x > 0, lambda y: y[x > 0] * 2),
    "rows written": lambda x, n: written(x, x[:, 0] > 0, lambda y: y[x[:, 0] > 0] * 2),
    "a row for each": lambda x, n: written(x, x[:, 0] > 0, lambda y: torch.arange(5.0)),
    "columns written": lambda x, n: written(x, (slice(None), x[0] > 0), lambda y: y[:, x[0] > 0] * 2),
    "one for each row": lambda x, n: written(x, (slice(None), x[0] > 0), lambda y: y[:, :1]),
    "slices repeated": lambda x, n: x.repeat_interleave(n, 0),
    "elements repeated": lambda x, n: x[:, 0].repeat_interleave(n),
    "repeated alike": lambda x, n: x.repeat_interleave(n[:1], 1),
    "places repeated": lambda x, n: torch.repeat_interleave(n),
}


@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize("name", MASKS)
def test_what_a_mask_or_numbers_choose(name, rows):
    """All, some and none of the elements."""
    f = MASKS[name]
    engine = graph_of(f, torch.randn(4, 5), torch.tensor([1, 0, 3, 2]), rows=rows).compile()
    for n in (4, 7) if rows else (4,):
        for x in (torch.randn(n, 5), torch.ones(n, 5), -torch.ones(n, 5)):
            same(engine, f, x, torch.randint(1, 4, (n,)), exact=name not in ("rows", "select"))


DISTINCT = {
    "elements": lambda n: torch.unique(n),
    "all that is told": lambda n: torch.unique(n, return_inverse=True, return_counts=True),
    "counts": lambda n: torch.unique(n.flatten(), return_counts=True),
    "wide numbers": lambda n: torch.unique((n - 2) * 4611686018427387904),
    "numbers": lambda n: torch.unique(n * 1000, return_inverse=True),
    "rows": lambda n: torch.unique(n, dim=0, return_inverse=True, return_counts=True),
    "columns": lambda n: torch.unique(n, dim=1),
    "runs": lambda n: torch.unique_consecutive(n, return_inverse=True, return_counts=True),
    "runs of rows": lambda n: torch.unique_consecutive(n, return_inverse=True, return_counts=True, dim=0),
    "no numbers": lambda n: torch.unique(torch.where(n > 1, float("nan"), n * 1.0)),
    "bins": lambda n: torch.bincount(n.flatten()),
    "bins at least": lambda n: torch.bincount(n.flatten(), minlength=2) * 2,
    "bins at most": lambda n: torch.bincount(n.flatten(), minlength=9),
    "bins of weights": lambda n: torch.bincount(n.flatten(), n.flatten() * 0.5, 4),
}


@pytest.mark.parametrize("rows", [None, 6])
@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_elements_and_counts(name, rows):
    f = DISTINCT[name]
    engine = graph_of(f, torch.randint(0, 4, (6, 2)), rows=rows).compile()
    for n in (6, 3) if rows else (6,):
        for most in (2, 6):
            same(engine, f, torch.randint(0, most, (n, 2)))


NUMBERS = {
    "a size": lambda x, n: torch.arange(n.max().item()),
    "rows": lambda x, n: torch.zeros(n.max().item(), 5) + x[0],
    "a factor": lambda x, n: x * n.min().item(),
    "a factor below 0": lambda x, n: x * (0 - n).min().item(),
    "of floats": lambda x, n: x * x.max().item(),
    "a bound": lambda x, n: x.clamp(max=x.mean().item()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_an_element_as_a_number(name):
    f = NUMBERS[name]
    engine = graph_of(f, torch.randn(4, 5), torch.tensor([1, 0, 3, 2])).compile()
    for n in (torch.tensor([2, 5, 1, 1]), torch.tensor([0, 0, 0, 0])):
        same(engine, f, torch.randn(4, 5), n, exact=name != "a bound")


def test_a_size_that_is_data_and_negative_is_told():
    engine = graph_of(NUMBERS["a size"], torch.randn(4, 5), torch.tensor([1, 0, 3, 2])).compile()
    with pytest.raises(CallError, match="a size is -1"):
        engine(np.zeros((4, 5), "float32"), np.full(4, -1))
    repeated = graph_of(MASKS["slices repeated"], torch.randn(4, 5), torch.tensor([1, 0, 3, 2])).compile()
    with pytest.raises(CallError, match="-1 repetitions"):
        repeated(np.zeros((4, 5), "float32"), np.full(4, -1))
    bins = graph_of(DISTINCT["bins"], torch.randint(0, 4, (6, 2))).compile()
    with pytest.raises(CallError, match="-1 is counted"):
        bins(np.full((6, 2), -1))


@pytest.mark.parametrize("name", ["elements", "runs", "all that is told", "bins of weights"])
def test_such_engines_are_saved(name, tmp_path):
    f, n = DISTINCT[name], torch.randint(0, 4, (6, 2))
    graph_of(f, n).compile().save(tmp_path / "it.engine")
    same(tl.Engine.load(tmp_path / "it.engine"), f, n)
    f, x, n = MASKS["slices repeated"], torch.randn(4, 5), torch.tensor([1, 0, 3, 2])
    graph_of(f, x, n).compile().save(tmp_path / "it.engine")
    same(tl.Engine.load(tmp_path / "it.engine"), f, x, n)


def test_graphs_of_torch_compile_leave_them_to_torch():
    """The size is asked for while the program runs, and an engine would have to be waited for."""
    f = MASKS["elements"]
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x: f(x * 2, None) + 1, backend="tensorlang")
        x = torch.randn(4, 5)
        torch.testing.assert_close(compiled(x), f(x * 2, None) + 1)


def double_draw(x):
    return torch.randn(4, 5) * 2 + x, torch.rand(3) - torch.rand(3), torch.randn_like(x)


DRAWN = {
    "several": double_draw,
    "whole numbers": lambda x: x + torch.randint(0, 5, (4, 5)) + torch.randint(9, (4, 5)),
    "like others": lambda x: x + torch.rand_like(x) + torch.randint_like(x, 3) + torch.randint_like(x, 1, 9),
    "an order": lambda x: x[torch.randperm(4)],
    "normal": lambda x: (torch.normal(1.0, 2.0, (4, 5)) + x, torch.normal(x, 2.0), torch.normal(x, x.abs())),
    "true or not": lambda x: (torch.bernoulli(torch.sigmoid(x)), torch.bernoulli(x, 0.25)),
    "classes": lambda x: torch.multinomial(x.softmax(-1), 2, replacement=True),
    "without replacement": lambda x: torch.multinomial(x.softmax(-1), 3),
    "rare": lambda x: torch.poisson(x.abs()),
    "left out": lambda x: F.dropout(x, 0.4, training=True),
    "channels left out": lambda x: F.dropout1d(x, 0.4, training=True),
    "others left out": lambda x: F.alpha_dropout(x, 0.4, training=True),
    "in place": lambda x: torch.empty_like(x).uniform_(-1, 1) + torch.empty_like(x).exponential_(2.0),
    "gumbel": lambda x: F.gumbel_softmax(x, hard=True),
}


@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers_are_those_of_torch(name):
    """By torch's seed, in the order of the program."""
    f, x = DRAWN[name], torch.randn(4, 5)
    engine = graph_of(f, x).compile()
    for seed in (1, 2):
        torch.manual_seed(seed)
        ours = engine(x.numpy())
        torch.manual_seed(seed)
        for a, b in beside(ours, f(x)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_random_numbers_of_an_open_size_in_every_call_anew():
    x = torch.zeros(4, 3, dtype=torch.bfloat16)
    engine = graph_of(lambda x: x + torch.randn(x.shape[0], 3, dtype=torch.bfloat16), x, rows=4).compile()
    torch.manual_seed(5)
    a, b = engine(torch.zeros(6, 3, dtype=torch.bfloat16)), engine(torch.zeros(6, 3, dtype=torch.bfloat16))
    torch.manual_seed(5)
    assert np.array_equal(a.astype("float32"), torch.randn(6, 3, dtype=torch.bfloat16).float())
    assert not np.array_equal(a, b)


def test_engines_that_draw_are_not_saved(tmp_path):
    engine = graph_of(DRAWN["left out"], torch.randn(4, 5)).compile()
    with pytest.raises(TensorLangError, match="functions of Python"):
        engine.save(tmp_path / "it.engine")


MORE = {
    "determinants": lambda x: (torch.linalg.det(x[:, :4]), torch.det(x[None, :, 1:])),
    "inverses": lambda x: (torch.linalg.inv(x[:, :4]), torch.inverse(x[None, :, 1:])),
    "signs": lambda x: (
        torch.hypot(x, x + 1),
        torch.copysign(x, x - 1),
        torch.signbit(-x.relu()),
        x.copysign(-1),
    ),
    "lower places": lambda x: (torch.tril_indices(4, 5, -1), torch.tril_indices(2, 3, -3, dtype=torch.int32)),
    "upper places": lambda x: x[*torch.triu_indices(4, 5, 1)],
    "put": lambda x: torch.ops.aten.put(x, torch.tensor([0, -1]), torch.tensor([1.0, 2.0])),
    "put and added": lambda x: torch.ops.aten.put(x, torch.tensor([[0, 1], [0, -3]]), torch.ones(2, 2), True),
    "fake quantised": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.03, 5, 0, 63),
    "channels of them": lambda x: torch.fake_quantize_per_channel_affine(
        x, torch.arange(1, 6) * 0.03, torch.arange(5, dtype=torch.int32), 1, -8, 7
    ),
    "strided": lambda x: torch.full_like(torch.empty_strided((4, 5), (1, 4)), 2.0) + x,
}


@pytest.mark.parametrize("name", MORE)
def test_other_operators(name):
    f, x = MORE[name], torch.randn(4, 5)
    engine = graph_of(f, x).compile()
    for a, b in beside(engine(x.numpy()), f(x)):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_products_of_bytes_are_summed_in_32_bits():
    a, b = (torch.randint(-128, 128, (32, 32), dtype=torch.int8) for _ in range(2))
    same(graph_of(torch._int_mm, a, b).compile(), torch._int_mm, a, b)


def test_counts_that_a_program_takes_for_the_number_of_its_rows():
    """As the degrees of a graph's nodes: what torch then knows of the size an engine does too, and a call that
    has another is refused."""

    class Mean(torch.nn.Module):
        def forward(self, x, at):
            total = torch.zeros_like(x).index_add(0, at, x[at])
            return total / torch.bincount(at, minlength=x.shape[0]).clamp(min=1)[:, None]

    x, at = torch.randn(8, 4), torch.randint(0, 8, (20,))
    engine = tl.load_torch(torch.export.export(Mean(), (x, at))).compile()
    np.testing.assert_allclose(engine(x.numpy(), at.numpy()), Mean()(x, at).numpy(), rtol=1e-6)
    at[0] = 8
    with pytest.raises(CallError, match="9 elements along dimension 0, 8 are needed"):
        engine(x.numpy(), at.numpy())


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int64", "uint64"])
@pytest.mark.parametrize("in_order", [True, False])
def test_numbers_of_a_small_range_are_counted_as_numpy_sorts_them(kind, in_order):
    ends = np.iinfo(kind)
    for low in (ends.min, ends.max - 9, 0):
        x = (np.random.default_rng(3).integers(0, 9, 40).astype(kind) + np.array(low, kind)).reshape(8, 5)
        found, first, inverse, counts = choices.unique(x, axis=None, in_order=in_order)
        want, at, which, often = np.unique(x, True, True, True)
        order = np.arange(len(at)) if in_order else np.argsort(at, kind="stable")
        assert found.dtype == x.dtype and np.array_equal(found, want[order])
        assert np.array_equal(first, at[order]) and np.array_equal(counts, often[order])
        assert np.array_equal(found[inverse], x.reshape(-1))
