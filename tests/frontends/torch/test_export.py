"""Programs of torch.export as engines: the answers of eager, for sizes that are open too, and files that need no
torch."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import TensorLangError

torch = pytest.importorskip("torch")
F = torch.nn.functional


class Block(torch.nn.Module):
    """Attention, norms, a convolution and a resize beside each other; the last result is made in place."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.batch = torch.nn.BatchNorm2d(3)
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x, image):
        y = self.norm(F.gelu(self.linear(x)))
        q = y.view(y.shape[0], -1, 2, 8).transpose(1, 2)
        seen = F.scaled_dot_product_attention(q, q, q)
        bigger = F.interpolate(image, scale_factor=2, mode="bilinear")
        return seen, self.conv(self.batch(image)), bigger, y.add_(1)


@pytest.fixture(scope="module")
def exported():
    batch, length = torch.export.Dim("batch", max=64), torch.export.Dim("length")
    shapes = {"x": {0: batch, 1: length}, "image": {0: batch}}
    args = torch.randn(2, 5, 8), torch.randn(2, 3, 8, 8)
    return torch.export.export(Block().eval(), args, dynamic_shapes=shapes)


def close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        b = b.detach().numpy()
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_an_exported_program_is_an_engine_for_every_size(exported):
    graph = tl.load_torch(exported)
    assert [str(v.dtype) for v in graph.inputs] == ["float32", "float32"]
    assert len(graph.dims) == 2
    engine = graph.compile()
    for n, length in ((2, 5), (3, 7), (1, 1)):
        x, image = torch.randn(n, length, 8), torch.randn(n, 3, 8, 8)
        with torch.no_grad():
            close(engine(x.numpy(), image.numpy()), Block().eval()(x, image))


def test_what_torch_keeps_whole_stays_whole(exported):
    names = [n.op for n in tl.load_torch(exported).nodes]
    whole = {"linear", "gelu", "layer_norm", "scaled_dot_product_attention", "upsample_bilinear2d"}
    assert whole <= set(names) and len(names) == 10


def test_a_saved_engine_runs_where_torch_is_not(exported, tmp_path):
    engine = tl.load_torch(exported).compile()
    x, image = torch.randn(2, 3, 8), torch.randn(2, 3, 8, 8)
    engine.save(tmp_path / "block.engine")
    np.savez(tmp_path / "arrays.npz", x=x.numpy(), image=image.numpy(), y=engine(x.numpy(), image.numpy())[1])
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import numpy as np, tensorlang as tl\n"
        f"a = np.load({str(tmp_path / 'arrays.npz')!r})\n"
        f"y = tl.Engine.load({str(tmp_path / 'block.engine')!r})(a['x'], a['image'])[1]\n"
        "assert (y == a['y']).all()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tensors_are_taken_as_they_are(exported):
    engine = tl.load_torch(exported).compile()
    x, image = torch.randn(2, 3, 8), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        theirs = Block().eval()(x, image)
    ours = engine(x, image, out_like=x)
    assert all(isinstance(y, torch.Tensor) for y in ours)
    close([y.numpy() for y in ours], theirs)


def test_what_is_no_program_is_refused():
    with pytest.raises(TensorLangError, match=r"torch\.export\.export"):
        tl.load_torch(torch.nn.Linear(2, 2))


def test_operators_that_are_not_known_are_told_at_once():
    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.qr(x).Q, torch.linalg.eigvalsh(x)

    program = torch.export.export(Odd(), (torch.randn(3, 3),))
    with pytest.raises(TensorLangError, match=r"2 operators are not supported") as error:
        tl.load_torch(program)
    assert "linalg_qr" in str(error.value) and "backend='tensorlang'" in str(error.value)


def test_branches_and_programs_that_torch_cannot_trace_again_are_refused():
    """A branch is a graph among the tensors that a program holds; the message names what reads it."""

    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))

    with pytest.raises(TensorLangError, match="cond cannot be imported"):
        tl.load_torch(torch.export.export(Chosen(), (torch.randn(3, 3),)))

    class Slope(torch.nn.Module):
        def forward(self, x):
            return torch.func.grad(lambda y: (y**2).sum())(x)

    with pytest.raises(TensorLangError, match="torch cannot take the program apart"):
        tl.load_torch(torch.export.export(Slope(), (torch.randn(3),)))


class _Composite(torch.nn.Module):
    """Operators that torch keeps whole when it exports, and has no code of their own for."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv2d(2, 3, 3, padding=1))
        self.bag = torch.nn.EmbeddingBag(20, 5, mode="mean")

    def forward(self, x, turn, words):
        grid = torch.nn.functional.affine_grid(turn, (x.shape[0], 3, 4, 4), align_corners=False)
        seen = torch.nn.functional.grid_sample(self.conv(x), grid, align_corners=False)
        words = self.bag(words.to(torch.int64))
        return seen, torch.cdist(words, words)


@pytest.mark.parametrize("batch", [1, 4])
def test_what_torch_says_by_other_operators_is_taken_apart(batch):
    """And a size that was exported as dynamic, without a word about its least, may be 1."""

    def given(n):
        return torch.randn(n, 2, 4, 4), torch.randn(n, 2, 3), torch.randint(0, 20, (n, 6))

    module = _Composite().eval()
    program = torch.export.export(module, given(3), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},) * 3)
    engine = tl.load_torch(program).compile()
    x = given(batch)
    with torch.no_grad():
        for y, wanted in zip(engine(*[a.numpy() for a in x]), module(*x), strict=True):
            np.testing.assert_allclose(y, wanted.numpy(), atol=1e-5)


def test_a_module_that_changes_its_buffers_is_refused():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    program = torch.export.export(Counter(), (torch.randn(3),))
    with pytest.raises(TensorLangError, match="changes count"):
        tl.load_torch(program)


@pytest.mark.parametrize("right", [False, True])
def test_places_among_boundaries(right):
    """As T5 and Chronos put numbers in buckets; what is no number lies behind all boundaries."""

    class Places(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("at", torch.linspace(-1, 1, 9))

        def forward(self, x, rows, whole):
            inside = torch.searchsorted(rows, x, right=right)
            whole = torch.bucketize(whole, torch.arange(-2, 3), right=right)
            return torch.bucketize(x, self.at, right=right, out_int32=True), inside, whole

    x = torch.randn(3, 7).mul(4).round().div(4)
    x[0, 0], x[1, 1], x[2, 2] = float("nan"), float("inf"), -float("inf")
    args = x, torch.randn(3, 5).mul(4).round().div(4).sort(-1).values, torch.randint(-3, 3, (4,))
    engine = tl.load_torch(torch.export.export(Places(), args)).compile()
    for got, expected in zip(engine(*args), Places()(*args), strict=True):
        assert str(got.dtype) == str(expected.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(np.asarray(got), expected.numpy())


class _Counts(torch.nn.Module):
    def forward(self, x):
        sums = torch.logcumsumexp(x, 0), torch.logcumsumexp(x * 1000, -1)
        low = torch.logcumsumexp(torch.where(x > 0, x, -float("inf")), 1)
        return (
            *sums,
            low,
            torch.histc(x, 10, -1.5, 1.5),
            torch.histc(x, 7),
            torch.histc(torch.ones(3) * x[0, 0], 5),
        )


def test_logarithms_of_running_sums_and_counts_in_equal_parts():
    """Among them infinite and huge numbers, parts with their ends, and a range of one number."""
    x = torch.randn(5, 9)
    x[1, 1], x[2, 2], x[3, 3] = 1.5, -1.5, 3.0
    program = torch.export.export(_Counts(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    engine = tl.load_torch(program).compile()
    for a in (x, x[:2], torch.randn(8, 9)):
        for got, expected in zip(engine(a.numpy()), _Counts()(a), strict=True):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-6)


class _Cached(torch.nn.Module):
    def forward(self, x, k, v):
        k, v = torch.cat([k, x], 2), torch.cat([v, x * 2], 2)
        return torch.nn.functional.scaled_dot_product_attention(x, k, v), k, v


def test_sizes_that_an_operator_needs_equal_are_one():
    """Torch gives cached keys and values a length each, for nothing that it traced told that they are one."""
    auto = torch.export.Dim.AUTO
    x, cache = torch.randn(1, 2, 1, 8), torch.randn(1, 2, 6, 8)
    program = torch.export.export(_Cached(), (x, cache, cache * 2), dynamic_shapes=({}, {2: auto}, {2: auto}))
    engine = tl.load_torch(program).compile()
    for n in (6, 1, 9):
        given = x, torch.randn(1, 2, n, 8), torch.randn(1, 2, n, 8)
        for got, expected in zip(engine(*[t.numpy() for t in given]), _Cached()(*given), strict=True):
            np.testing.assert_allclose(got, expected.numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(tl.CallError):
        engine(x.numpy(), cache.numpy(), cache.numpy()[:, :, :3])


def test_a_program_that_was_saved_has_sizes_that_are_multiples(tmp_path):
    """Of a height that is 8 times a number: torch fails to trace such a program anew when it was loaded."""

    class Halves(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.avg_pool2d(torch.nn.functional.pad(x, (1, 1)), 2)

    x = torch.arange(2.0 * 16 * 10).reshape(1, 2, 16, 10)
    eight = {2: 8 * torch.export.Dim("h8", min=1, max=40)}
    path = tmp_path / "halves.pt2"
    torch.export.save(torch.export.export(Halves(), (x,), dynamic_shapes=(eight,)), path)
    engine = tl.load_torch(torch.export.load(path)).compile()
    for height in (8, 16, 80):
        x = torch.rand(1, 2, height, 10)
        np.testing.assert_allclose(engine(x.numpy()), Halves()(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("front", [(), (3, 5), (7,)], ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_bilinear_layers(front, bias):
    module = torch.nn.Bilinear(4, 5, 6, bias).eval()
    a, b = torch.randn(*front, 4), torch.randn(*front, 5)
    engine = tl.load_torch(torch.export.export(module, (a, b))).compile()
    got = engine(a.numpy(), b.numpy())
    np.testing.assert_allclose(got, module(a, b).detach().numpy(), rtol=1e-5, atol=1e-6)


class _Options(torch.nn.Module):
    """Arguments that are no tensors, among them and between them, and results that are none."""

    def forward(self, x, mask=None, scale=2.0, *, again=None, how="sum"):
        y = x * scale if mask is None else x * mask
        return {"y": y if how == "sum" else -y, "none": None, "list": [again["z"] + 1, 3], "rows": x.shape[0]}


@pytest.mark.parametrize("dynamic", [False, True])
def test_arguments_and_results_that_are_no_tensors(dynamic):
    x, again = torch.randn(3, 4), {"z": torch.ones(2), "w": None}
    rows = {0: torch.export.Dim("rows")}
    shapes = {"x": rows, "mask": None, "scale": None, "again": {"z": None, "w": None}, "how": None}
    exported = torch.export.export(
        _Options(), (x, None, 3.0), {"again": again, "how": "-"}, dynamic_shapes=shapes if dynamic else None
    )
    graph = tl.load_torch(exported)
    assert [v.name for v in graph.inputs] == ["x", "again_z"]
    made = graph.compile()(x.numpy(), again["z"].numpy())
    want = [-3 * x.numpy(), np.full(2, 2, "float32"), *([np.int64(3)] if dynamic else [])]
    for a, b in zip(made, want, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all()


@pytest.mark.parametrize("f", [torch.any, torch.all])
@pytest.mark.parametrize("kind", [torch.uint8, torch.int64, torch.float32, torch.bool])
def test_bytes_tell_whether_any_is_true_in_a_byte(f, kind):
    class Told(torch.nn.Module):
        def forward(self, x):
            return f(x), f(x, 1), f(x, 0, True)

    x = torch.tensor([[0, 2, 0], [0, 0, 0]]).to(kind)
    made = tl.load_torch(torch.export.export(Told(), (x,))).compile()(x.numpy())
    for got, want in zip(made, Told()(x), strict=True):
        assert got.dtype == want.numpy().dtype and np.array_equal(got, want.numpy())


class _Circular(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Conv1d(3, 4, 3, padding=2, padding_mode="circular")
        self.image = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")

    def forward(self, x, image):
        return self.line(x), self.image(image), F.pad(x, (3, 0), "circular")


def test_margins_from_the_other_end():
    length, width = torch.export.Dim("length", min=4), torch.export.Dim("width", min=4)
    args = torch.randn(2, 3, 9), torch.randn(2, 3, 5, 8)
    exported = torch.export.export(_Circular(), args, dynamic_shapes=({2: length}, {3: width}))
    engine = tl.load_torch(exported).compile()
    for n, w in ((9, 8), (4, 33)):
        x, image = torch.randn(2, 3, n), torch.randn(2, 3, 5, w)
        with torch.no_grad():
            close(engine(x.numpy(), image.numpy()), _Circular()(x, image))


class _AsWritten(torch.nn.Module):
    """Operators that torch says by others when it traces a program."""

    def forward(self, x, b):
        neighbours = torch.diff(x, prepend=x[:, :1] - 1), torch.diff(x, 2, 0), torch.diff(b, append=b[:, :1])
        parts = x.unflatten(1, (2, -1)), x.unflatten(-1, (-1, 3))
        types = x.to(torch.float64), x.to("cpu", torch.int32), x.to(b), x.double().type_as(x)
        fixed = torch.tensor([1.5, 2.0]) * x[:, :2]
        dropped = F.dropout(x, 0.5, False), F.alpha_dropout(x, 0.5, False)
        return *neighbours, *parts, *types, *dropped, fixed, b & True, b.__or__(b), torch.max(x, -x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_programs_that_write_to_nothing_are_not_traced_again(dynamic, monkeypatch):
    shapes = ({0: torch.export.Dim("rows", min=4)},) * 2 if dynamic else None
    args = torch.randn(5, 12), torch.rand(5, 12) > 0.5
    exported = torch.export.export(_AsWritten(), args, dynamic_shapes=shapes)
    before = str(exported.graph)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    engine = tl.load_torch(exported).compile()
    assert str(exported.graph) == before
    for rows in (5, 9) if dynamic else (5,):
        x, b = torch.randn(rows, 12), torch.rand(rows, 12) > 0.5
        for ours, theirs in zip(engine(x.numpy(), b.numpy()), _AsWritten()(x, b), strict=True):
            a = theirs.numpy()
            assert ours.dtype == a.dtype and ours.shape == a.shape and np.array_equal(ours, a)


def test_statistics_that_a_batch_norm_would_change_are_still_refused():
    """The operator writes to its buffers, which its schema does not say."""
    norm = torch.nn.BatchNorm1d(4).train()
    with pytest.raises(TensorLangError, match="the module changes"):
        tl.load_torch(torch.export.export(norm, (torch.randn(3, 4),)))


class _Asserting(torch.nn.Module):
    def forward(self, x):
        torch._assert_async(x.sum() > -1e9)
        torch._check(x.abs().max().item() < 1e9)
        return x + 1


def test_what_only_tests_values_is_left_out():
    """The operators that make what is tested need not be known."""
    exported = torch.export.export(_Asserting(), (torch.randn(3, 4),))
    assert any("item" in str(n.target) or "scalar" in str(n.target) for n in exported.graph.nodes)
    engine = tl.load_torch(exported).compile()
    x = torch.randn(3, 4)
    close([engine(x.numpy())], [x + 1])


@pytest.mark.parametrize(
    ("asked", "makes"), [((0,), "_sorted_values"), ((1,), "_sorted_places"), ((0, 1), "sorted_with_places")]
)
@pytest.mark.parametrize("shape", [(7, 9), ()])
def test_of_a_sort_only_what_is_read_is_made(asked, makes, shape):
    """torch keeps results that nobody reads in its program, which made them: both took twice as long as the
    elements alone."""

    class Sort(torch.nn.Module):
        def forward(self, x):
            made = torch.sort(x, dim=-1, descending=True, stable=True)
            return tuple(made[i] for i in asked)

    x = torch.randint(0, 4, shape).float()
    graph = tl.load_torch(torch.export.export(Sort(), (x,)))
    if shape:
        assert len(graph.nodes) == 1 and len(graph.nodes[0].outputs) == len(asked)
        assert graph.nodes[0].fn.__name__ == makes
    ours = graph.compile()(x.numpy())
    ours = ours if isinstance(ours, tuple | list) else [ours]
    for a, b in zip(ours, Sort()(x), strict=True):
        np.testing.assert_array_equal(a, b.numpy())


class _Applied(torch.nn.Module):
    """A function as a module."""

    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


OF_SIZES = {
    "inverse": lambda x: x * (1 / x.shape[1]),
    "root": lambda x: x / math.sqrt(x.shape[-1]),
    "power": lambda x: x * x.shape[1] ** -0.5 + x.shape[0] * 0.3,
    "double": lambda x: x.double() * (x.shape[0] / x.shape[1]),
    "whole": lambda x: (x * 9).long() * (1 / x.shape[1]),
    "filled": lambda x: torch.full((x.shape[0],), 1 / x.shape[1]),
    "alpha": lambda x: torch.add(x, x, alpha=1 / x.shape[0]) + torch.add(x, x, alpha=x.shape[0]),
    "clamped": lambda x: x.clamp(max=x.shape[1] / 80.0),
    "where": lambda x: torch.where(x > 1 / x.shape[1], x, 1 / x.shape[0]),
    "half of them": lambda x: x[:, : int(x.shape[1] * 0.5)],
    "three tenths": lambda x: x[:, : int(x.shape[1] * 0.3)] + math.ceil(x.shape[1] * 0.3),
    "rounded": lambda x: x[:, : round(x.shape[1] / 4)] + round(x.shape[1] / 3),
}


@pytest.mark.parametrize("f", [pytest.param(f, id=name) for name, f in OF_SIZES.items()])
def test_floats_that_are_made_of_open_sizes(f):
    auto = torch.export.Dim.AUTO
    program = torch.export.export(
        _Applied(f), (torch.rand(6, 9),), dynamic_shapes={"x": {0: auto, 1: auto}}, strict=True
    )
    engine = tl.load_torch(program).compile()
    for shape in ((6, 9), (3, 4), (9, 50), (2, 30), (5, 6)):
        x = torch.rand(shape)
        want, got = f(x).numpy(), engine(x.numpy())
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_what_is_refused_as_it_stands_is_said_by_others(tmp_path):
    """Steps of an LSTM whose states are projected, of a length that is known; where torch has no other words
    either, the message names the operator once, why, and what runs it."""

    class Projected(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.LSTM(6, 8, 2, proj_size=3, bidirectional=True)

        def forward(self, x):
            return self.layers(x.tanh())

    model, x = Projected().eval(), torch.randn(4, 2, 6)
    engine = tl.load_torch(torch.export.export(model, (x,))).compile()
    with torch.no_grad():
        y, states = model(x)
    close(engine(x), (y, *states))

    class Chosen(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x * 2, (x,))

    with pytest.raises(TensorLangError, match=r"\n *try +torch.compile\(module, backend=") as e:
        tl.load_torch(torch.export.export(Chosen(), (torch.randn(3, 3),)))
    assert str(e.value).count("because") == 1


def _in_blocks(x):
    """Lengths padded to whole blocks, each of which starts with what the one before ended with."""
    y = F.pad(x, (0, 0, 0, (16 - x.shape[1] % 16) % 16))
    y = y.reshape(y.shape[0], y.shape[1] // 16, -1, y.shape[2]).cumsum(2)
    ends = torch.cat([torch.zeros_like(y[:, :1, -1]), y[:, :, -1]], 1)[:, :-1]
    return (y + ends[:, :, None]).reshape(x.shape[0], -1, x.shape[2])[:, : x.shape[1]]


def _relative(x):
    """Weights of distances, padded or cut to the length, become weights of places."""
    n = x.shape[1]
    pad, start = max(n - 5, 0), max(5 - n, 0)
    w = F.pad(torch.arange(9.0)[None], (pad, pad))[:, start : start + 2 * n - 1]
    y = F.pad(x.sum(-1)[..., None] * w, (0, 1)).reshape(-1, 2 * n * n)
    return F.pad(y, (0, n - 1)).view(-1, n + 1, 2 * n - 1)[:, :n, n - 1 :]


def _landmarks(x):
    """Means of sixteenths of a length that torch knows to be a multiple of 16."""
    b, n, c = x.shape
    return (
        x.view(b, 16, n // 16, -1).mean(2)
        @ x.view(b, n, 2, -1)[:, :, 0].transpose(1, 2).repeat(1, c // 4, 1)[:, :8]
    )


def _padded_by_nothing(x):
    """As where a sample's length is a multiple of the blocks': the program is one of such lengths alone."""
    more = (16 - x.shape[1] % 16) % 16
    y = F.pad(x, (0, 0, 0, more)).reshape(x.shape[0], -1, 16, x.shape[2]).cumsum(2)
    y = y.reshape(x.shape[0], -1, x.shape[2])
    return y[:, :-more] if more > 0 else y.reshape(x.shape[0], x.shape[1], -1)


@pytest.mark.parametrize(
    ("f", "lengths"),
    [
        (_in_blocks, (40, 64, 3, 16, 1)),
        (_relative, (7, 3, 5, 12)),
        (_landmarks, (48, 96, 32)),
        (_padded_by_nothing, (64, 16, 48)),
    ],
)
def test_lengths_in_blocks_and_cut_to_a_window_stay_open(f, lengths):
    class Module(torch.nn.Module):
        def forward(self, x):
            return f(x)

    auto = torch.export.Dim.AUTO
    program = torch.export.export(
        Module(), (torch.randn(2, lengths[0], 8),), dynamic_shapes=({0: auto, 1: auto},)
    )
    graph = tl.load_torch(program)
    assert len(graph.dims) == 2
    engine = graph.compile()
    for n in lengths:
        x = torch.randn(3, n, 8)
        close([engine(x.numpy())], [f(x)])
