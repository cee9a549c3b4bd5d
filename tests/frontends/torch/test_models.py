"""What models do with the backend: caches that are written in place, autocast, 16-bit floats, open heights."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import region  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def all_taken():
    graphs = tlt.graphs()
    return graphs and all(g.taken == g.nodes and not g.reason for g in graphs)


class Decoder(torch.nn.Module):
    """One layer of attention over a cache of a fixed length, as transformers' static cache is written."""

    def __init__(self, width=8, heads=2, length=12):
        super().__init__()
        self.heads = heads
        self.embed = torch.nn.Embedding(20, width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.head = torch.nn.Linear(width, 20)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, heads, length, width // heads))

    def forward(self, ids, at):
        x = self.qkv(self.embed(ids))
        q, k, v = x.view(1, ids.shape[1], 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        mask = torch.arange(self.keys.shape[2]) <= at[:, None]
        x = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return self.head(x.transpose(1, 2).flatten(2))


def generated(model, step, tokens):
    model.keys.zero_(), model.values.zero_()
    ids, at = torch.tensor([[3, 1, 4]]), torch.arange(3)
    found = []
    for _ in range(tokens):
        ids = step(ids, at)[:, -1:].argmax(-1)
        at = at[-1:] + 1
        found.append(int(ids))
    return found, model.keys.clone()


def test_a_static_cache_is_written_in_place():
    model = Decoder().eval()
    with torch.no_grad():
        wanted, cache = generated(model, model, 6)
        found, written = generated(model, torch.compile(model, backend="tensorlang"), 6)
    assert found == wanted and torch.allclose(written, cache, atol=1e-6) and all_taken()
    assert [r.counts.calls for g in tlt.graphs() for r in g.regions] == [1, 5]  # a prompt, and tokens


def test_a_cache_that_grows_is_compiled_for_open_lengths():
    def step(q, keys, values, k, v):
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        return F.scaled_dot_product_attention(q, keys, values), keys, values

    g = torch.compile(step, backend="tensorlang", dynamic=True)
    ours = theirs = (None, torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))
    for _ in range(4):
        q, k, v = torch.randn(3, 1, 2, 1, 4).unbind()
        ours, theirs = g(q, *ours[1:], k, v), step(q, *theirs[1:], k, v)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("gradients", [False, True])
def test_autocast(gradients):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
    model.append(torch.nn.Linear(16, 2))
    f, x = torch.compile(model, backend="tensorlang"), torch.randn(4, 8)
    found = []
    for fn in (model, f):
        model.zero_grad()
        with torch.set_grad_enabled(gradients), torch.autocast("cpu", dtype=torch.bfloat16):
            y = fn(x)
        assert y.dtype is torch.bfloat16
        if gradients:
            y.float().pow(2).sum().backward()
        found.append([y, *(p.grad for p in model.parameters() if gradients)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=3e-2, atol=3e-2 * float(b.abs().max()))
    assert all_taken()


def test_a_pyramid_of_open_height_is_one_region():
    class Pyramid(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.down = torch.nn.ModuleList(torch.nn.Conv2d(3, 3, 3, 2, 1) for _ in range(3))

        def forward(self, x):
            levels = [x]
            for layer in self.down:
                levels.append(layer(levels[-1]))
            top = levels.pop()
            for level in reversed(levels[1:]):
                top = level + F.interpolate(top, size=level.shape[-2:], mode="nearest")
            return top.flatten(2).transpose(1, 2)

    model = Pyramid().eval()
    f = torch.compile(model, backend="tensorlang", dynamic=True)
    with torch.no_grad():
        for n, h in ((1, 21), (2, 16)):
            x = torch.randn(n, 3, h, h + 5)
            torch.testing.assert_close(f(x), model(x))
    assert all_taken() and sum(len(g.regions) for g in tlt.graphs()) == len(tlt.graphs())


@pytest.mark.parametrize("batch", [1, 2])
def test_convolutions_of_channels_last_are_computed_there(batch):
    """Without a copy at either end, and with the strides of eager, also of a batch of one."""
    nn = torch.nn
    one = [
        nn.Conv2d(8, 8, 3, padding=1, groups=8),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, 5, 1, stride=2),
    ]
    model = nn.Sequential(*one, nn.Hardswish()).eval().to(memory_format=torch.channels_last)
    x = torch.randn(batch, 8, 9, 7).to(memory_format=torch.channels_last)
    with torch.no_grad(), region.watched() as seen:
        wanted, found = model(x), torch.compile(model, backend="tensorlang")(x)
    torch.testing.assert_close(found, wanted)
    assert found.stride() == wanted.stride()
    ((made, _),) = seen.items()
    assert "permute" not in made.engine.explain()


def test_a_pooled_image_of_channels_last_stays_in_one_region():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Conv2d(8, 4, 1)
    )
    model = model.eval().to(memory_format=torch.channels_last)
    f = torch.compile(model, backend="tensorlang")
    with torch.no_grad():
        for n in (2, 3, 5):  # the second of another size is compiled for an open batch
            x = torch.randn(n, 3, 7, 6).to(memory_format=torch.channels_last)
            found, wanted = f(x), model(x)
            torch.testing.assert_close(found, wanted)
            assert found.is_contiguous(memory_format=torch.channels_last)
    assert all_taken() and sum(len(g.regions) for g in tlt.graphs()) == len(tlt.graphs())


@pytest.mark.parametrize(
    ("size", "stride", "offset"),
    [((3, 4), (4, 1), 0), ((4, 3), (1, 4), 0), ((2, 5), (3, 1), 2), ((2, 2, 3), (0, 5, 2), 1), ((), (), 7)],
)
def test_places_in_memory(size, stride, offset):
    def f(x):
        y = (x + 1).t() * 2  # lies column by column
        return torch.as_strided(y, size, stride, offset) + 1

    x = torch.randn(4, 3)
    torch.testing.assert_close(torch.compile(f, backend="tensorlang")(x), f(x))
    assert all_taken()


def test_places_in_the_memory_of_others_are_left_to_torch():
    def f(x):
        return torch.as_strided(x, (2, 2), (1, 2), 1) + torch.as_strided(x[1:], (2, 2), (1, 2), 3)

    base = torch.randn(20)
    compiled = torch.compile(f, backend="tensorlang")
    for x in (base[:12], base[5:17]):  # the second begins elsewhere
        torch.testing.assert_close(compiled(x), f(x))


def test_a_copy_takes_shape_and_type_of_what_it_is_written_to():
    def f(x, y):
        z = torch.zeros(3, 4, dtype=torch.int32)
        z.copy_(y)
        x = x + 0
        x[1:3] = y[:2]
        return x, z

    x, y = torch.randn(3, 4), torch.randn(4) * 5
    for a, b in zip(
        torch.compile(f, backend="tensorlang")(x, y[:4].expand(3, 4)), f(x, y[:4].expand(3, 4)), strict=True
    ):
        assert torch.equal(a, b) and a.dtype == b.dtype
    assert all_taken()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mask", ["none", "keys", "pairs", "both", "added"])
def test_layers_that_torch_replaces_in_eval_are_regions(mask, norm_first):
    """``torch.nn.TransformerEncoderLayer`` is one operator there, which used to stay in torch."""
    layer = torch.nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, norm_first=norm_first, activation="gelu" if norm_first else "relu"
    ).eval()
    later = torch.ones(5, 5, dtype=torch.bool).triu(1)
    padded = torch.zeros(3, 5, dtype=torch.bool)
    padded[1:, 3:] = True
    how = {
        "none": {},
        "keys": {"src_key_padding_mask": padded},
        "pairs": {"src_mask": later},
        "both": {"src_mask": later, "src_key_padding_mask": padded},
        "added": {"src_mask": torch.nn.Transformer.generate_square_subsequent_mask(5)},
    }[mask]
    x = torch.randn(3, 5, 8)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(layer, backend="tensorlang")(x, **how), layer(x, **how))
    assert all_taken()
