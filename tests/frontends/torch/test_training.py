"""Gradients: forward and backward graphs are both ours, and steps of training are eager's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
import tensorlang.torch as tlt  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))

    def forward(self, x, y):
        return F.cross_entropy(self.net(x), y)


class Residual(nn.Module):
    """A strided convolution, a norm by the batch, groups, and a pool that remembers its places."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.last = nn.Linear(8, 4)

    def forward(self, x, y):
        h = F.relu(self.norm(self.first(x)))
        h = F.max_pool2d(h + self.second(h), 2)
        return F.cross_entropy(self.last(h.mean((2, 3))), y)


class Encoder(nn.Module):
    """A layer of BERT with its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, x, y):
        h = self.embedding(x)
        q, k, v = (t.unflatten(-1, (2, 8)).transpose(1, 2) for t in self.qkv(h).chunk(3, -1))
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2)
        h = self.norm(h + self.out(seen))
        return F.cross_entropy(self.down(F.gelu(self.up(h))).mean(1), y)


def inputs(model):
    torch.manual_seed(3)
    y = torch.randint(0, 4, (5,))
    if model is Encoder:
        return torch.randint(0, 20, (5, 7)), y
    return torch.randn(
        5, 6 if model is Perceptron else 3, *([12, 12] if model is Residual else []), dtype=torch.float64
    ), y


@pytest.mark.parametrize("model", [Perceptron, Residual, Encoder])
def test_steps_of_training_are_those_of_eager(model):
    torch._dynamo.reset()
    tlt.reset()
    torch.manual_seed(0)
    ours, theirs = model().double(), model().double()
    ours.load_state_dict(theirs.state_dict())
    x, y = inputs(model)
    for _ in range(10):
        for parameters, f in (
            (ours.parameters(), torch.compile(ours, backend=tlt.backend)),
            (theirs.parameters(), theirs),
        ):
            parameters = list(parameters)
            for p, grad in zip(parameters, torch.autograd.grad(f(x, y), parameters), strict=True):
                p.data.sub_(0.1 * grad)
    for (name, a), b in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10, msg=name)
    kinds = [g.kind for g in tlt.graphs()]
    assert kinds == ["forward", "backward"]
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]


def test_gradients_go_to_inputs_too():
    def f(x, w):
        return (F.conv_transpose2d(x, w, stride=2, padding=1).tanh() * 3).sum()

    x = torch.randn(2, 3, 5, 5, requires_grad=True)
    w = torch.randn(3, 4, 3, 3, requires_grad=True)
    ours = torch.autograd.grad(torch.compile(f, backend=tlt.backend)(x, w), (x, w))
    torch.testing.assert_close(ours, torch.autograd.grad(f(x, w), (x, w)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "weight", "how"),
    [
        ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1}),
        ((2, 4, 9, 8), (6, 4, 3, 2), {"padding": (2, 0), "dilation": (2, 1)}),
        ((2, 4, 9, 8), (6, 4, 1, 3), {"padding": (1, 2)}),  # wider than the window
        ((2, 4, 9, 8), (6, 2, 3, 3), {"padding": 1, "groups": 2}),
        ((2, 4, 9, 8), (6, 4, 3, 3), {"padding": 1, "stride": (1, 2)}),
        ((2, 4, 12), (6, 4, 5), {"padding": 2}),
        ((1, 3, 5, 6, 4), (2, 3, 3, 2, 1), {"padding": (1, 1, 0)}),
    ],
)
def test_gradients_of_convolutions(shape, weight, how):
    conv = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[len(shape)]

    def f(x, w, b):
        return conv(x, w, b, **how).sin().sum()

    args = [torch.randn(n, dtype=torch.float64, requires_grad=True) for n in (shape, weight, weight[:1])]
    ours = torch.autograd.grad(torch.compile(f, backend=tlt.backend)(*args), args)
    for a, b in zip(ours, torch.autograd.grad(f(*args), args), strict=True):
        torch.testing.assert_close(a, b)
    assert all(g.taken == g.nodes and not g.reason for g in tlt.graphs()), [g.left for g in tlt.graphs()]


def test_gradients_by_fewer_multiplications():
    x, w = torch.randn(2, 64, 28, 28, requires_grad=True), torch.randn(64, 64, 3, 3, requires_grad=True)

    def f(x, w):
        return F.conv2d(x, w, padding=1).pow(2).sum()

    ours = torch.autograd.grad(torch.compile(f, backend=tlt.backend)(x, w), (x, w))
    for a, b in zip(ours, torch.autograd.grad(f(x, w), (x, w)), strict=True):
        assert (a - b).abs().max() <= 1e-4 * b.abs().max()


def test_dropout_draws_in_torch_and_is_nothing_in_eval():
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5))
    f = torch.compile(model, backend=tlt.backend)
    x = torch.randn(8, 4)
    torch.manual_seed(0)
    zeros = (f(x) == 0).float().mean()
    assert 0.3 < zeros < 0.7
    model.eval()
    with torch.no_grad():
        torch.testing.assert_close(f(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize(
    ("make", "shape"), [(nn.BatchNorm1d, (6, 5)), (nn.BatchNorm1d, (4, 5, 3)), (nn.BatchNorm2d, (2, 5, 4, 3))]
)
@pytest.mark.parametrize("affine", [True, False])
def test_the_way_back_through_a_batch_norm_is_whole(make, shape, train, affine):
    norm = make(5, affine=affine).double().train(train)
    norm.running_mean.copy_(torch.arange(5) / 4)
    x, slope = torch.randn(2, *shape, dtype=torch.float64)
    found = []
    for f in (norm, torch.compile(norm, backend="tensorlang")):
        at = x.clone().requires_grad_()
        (f(at) * slope).sum().backward()
        found.append([at.grad, *(p.grad.clone() for p in norm.parameters())])
        norm.zero_grad()
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-12)
    (back,) = [g for g in tlt.graphs() if g.kind == "backward"]
    assert back.taken == back.nodes and not back.left


def test_the_way_back_through_attention_of_16_bits_is_as_near_as_torchs():
    """To gradients in float64; and all of it is in engines."""
    own = [torch.randn(2, 2, n, 8) * 3 for n in (3, 6, 6, 3)]

    def gradients(kind, compile_):
        f = lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        *given, up = (x.bfloat16().to(kind).requires_grad_() for x in own)
        (torch.compile(f, backend=tlt.backend) if compile_ else f)(*given).backward(up.detach())
        return [x.grad.double() for x in given]

    exact = gradients(torch.float64, False)
    theirs, ours = gradients(torch.bfloat16, False), gradients(torch.bfloat16, True)
    for a, b, c in zip(exact, theirs, ours, strict=True):
        assert (c - a).abs().mean() <= 1.5 * (b - a).abs().mean()
    assert not any(g.left for g in tlt.graphs())


def _loss(x):
    return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None] @ x.t()).square().sum()


def _layers(x):
    return torch.nn.functional.layer_norm(torch.nn.functional.linear(x, x, x[0]), (4,), x[0])


TRANSFORMS = {
    "grad": lambda: torch.func.grad(_loss),
    "grad_and_value": lambda: torch.func.grad_and_value(_loss),
    "vmap": lambda: torch.func.vmap(lambda v: torch.nn.functional.linear(v, torch.ones(4, 4)) + v @ v),
    "jacrev": lambda: torch.func.jacrev(_layers),
    "jacfwd": lambda: torch.func.jacfwd(lambda x: torch.tanh(x @ x)),
    "jvp": lambda: lambda x: torch.func.jvp(lambda y: torch.tanh(y @ y), (x,), (x,)),
    "hessian": lambda: torch.func.hessian(lambda x: torch.tanh(x @ x).sum()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("enabled", [True, False])
def test_derivatives_within_a_graph(name, enabled):
    """Operators that are left whole for graphs without gradients have none of torch's: zeros came of them."""
    x = torch.randn(4, 4)
    with torch.set_grad_enabled(enabled):
        f = TRANSFORMS[name]()
        torch.testing.assert_close(torch.compile(f, backend="tensorlang")(x), f(x))


def test_gradients_switched_on_within_a_function():
    w = torch.randn(4, 4, requires_grad=True)

    def f(x):
        with torch.enable_grad():
            return torch.nn.functional.linear(x, w).sum()

    with torch.no_grad():
        made = torch.compile(f, backend="tensorlang")(torch.ones(2, 4))
    made.backward()
    assert w.grad.unique().tolist() == [2.0]


@pytest.mark.parametrize(
    "how",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "ceil_mode": True},
        {"kernel_size": 2, "stride": 3},
        {"kernel_size": 2, "divisor_override": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("images", [(2, 3, 8, 7), (3, 5, 6, 5), (1, 2, 5, 4, 6)])
def test_gradients_of_average_pools(images, how):
    if len(images) == 5:
        how = {k: v[0] if isinstance(v, tuple) else v for k, v in how.items()}

    def f(x):
        return (F.avg_pool3d if x.ndim == 5 else F.avg_pool2d)(x, **how).square()

    x = torch.randn(images, dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad(torch.compile(f, backend=tlt.backend)(x).sum(), x)
    torch.testing.assert_close(ours, *torch.autograd.grad(f(x).sum(), x))
    (back,) = [g for g in tlt.graphs() if g.kind == "backward"]
    assert back.taken == back.nodes and not back.left


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("mask", [None, "causal", "seen", "added", "by key"])
def test_the_way_back_through_attention_with_masks(kind, mask):
    """Weights have a row for each key on the way back, and so has the mask."""
    q, k, v = (torch.randn(2, 3, n, 8, dtype=kind, requires_grad=True) for n in (5, 9, 9))
    masks = {
        "seen": (torch.rand(5, 9) > 0.3).index_fill(1, torch.tensor([0]), True),
        "added": torch.randn(2, 1, 5, 9, dtype=kind),
        "by key": torch.randn(2, 1, 1, 9, dtype=kind),
    }

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, masks.get(mask), is_causal=mask == "causal")

    wanted = f(q, k, v)
    grad = torch.randn_like(wanted)
    found = torch.compile(f, backend="tensorlang")(q, k, v)
    near = {"rtol": 1e-9, "atol": 1e-9} if kind == torch.float64 else {"rtol": 2e-2, "atol": 2e-2}
    torch.testing.assert_close(found, wanted, **near)
    pairs = zip(*(torch.autograd.grad(y, (q, k, v), grad) for y in (found, wanted)), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a, b, **near)
    assert all(g.taken == g.nodes for g in tlt.graphs())


@pytest.mark.parametrize("rows", [16, 1100])
def test_attention_of_few_and_of_many_scores(rows):
    """Few are kept for their sums and weights, many made for each; both are right."""
    q, k, v = (torch.randn(1, 1, rows, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def f(q, k, v):
        return F.scaled_dot_product_attention(q, k, v).square().sum()

    wanted = torch.autograd.grad(f(q, k, v), (q, k, v))
    found = torch.autograd.grad(torch.compile(f, backend="tensorlang")(q, k, v), (q, k, v))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    (region,) = tlt.graphs()[0].regions
    values = [v.shape for v in region.engine.program.values]
    kept = [shape for shape in values if len(shape) == 4 and shape[2] == shape[3]]
    assert len(kept) == (rows == 16)


def gradients_of(run, model, x):
    model.zero_grad()
    y = run(x)
    y.sin().sum().backward()
    return [y.detach(), *(p.grad.clone() for p in model.parameters())]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_convolutions_in_groups_learn_from_images_of_open_sizes(groups):
    torch.manual_seed(0)
    model = nn.Conv2d(8, 16, 3, padding=1, groups=groups)
    f = torch.compile(model, backend="tensorlang", dynamic=True)
    for n, size in ((2, 12), (3, 10), (2, 5)):
        x = torch.randn(n, 8, size, size + 2)
        torch.testing.assert_close(
            gradients_of(f, model, x), gradients_of(model, model, x), rtol=1e-4, atol=1e-4
        )
    assert all(g.taken == g.nodes and not g.left for g in tlt.graphs())


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [lambda: nn.Conv1d(4, 6, 3), lambda: nn.ConvTranspose1d(4, 6, 4, 2)])
def test_weights_as_directions_and_scales_learn(make, kind):
    torch.manual_seed(0)
    with pytest.warns(FutureWarning):  # the form whose gradient torch has an operator of its own for
        model = nn.utils.weight_norm(make()).to(kind)
    f, x = torch.compile(model, backend="tensorlang"), torch.randn(2, 4, 9, dtype=kind)
    torch.testing.assert_close(gradients_of(f, model, x), gradients_of(model, model, x), rtol=1e-4, atol=1e-5)
    assert all(g.taken == g.nodes and not g.left for g in tlt.graphs())


def test_places_written_in_new_tensors_learn():
    def f(x, w):
        made = torch.zeros(x.shape[0], 10)
        made[:, 1:7] = F.silu(x @ w)
        made[:, ::3] += 1
        return torch.cumsum(made, 1).softmax(-1)

    x, w = torch.randn(3, 8), torch.randn(8, 6, requires_grad=True)
    found, wanted = (
        torch.autograd.grad(g(x, w).sin().sum(), w) for g in (torch.compile(f, backend="tensorlang"), f)
    )
    torch.testing.assert_close(found, wanted)
    assert all(g.taken == g.nodes and not g.left for g in tlt.graphs())


@pytest.mark.parametrize("f", [F.relu, lambda x: F.threshold(x, 0.5, 3.0)], ids=["relu", "threshold"])
def test_gradients_of_what_is_no_number_go_on(f):
    x = torch.tensor([float("nan"), -1.0, 0.0, 0.5, 2.0, float("inf"), -float("inf")])
    theirs, ours = x.clone().requires_grad_(), x.clone().requires_grad_()
    f(theirs).sum().backward()
    torch.compile(f, backend="tensorlang")(ours).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=0, atol=0)
