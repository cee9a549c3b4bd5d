"""Programs of torch.export that write to what they are given: the answers of eager, without torch's second trace
where memory is plain."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import TensorLangError

torch = pytest.importorskip("torch")
from tensorlang.frontends.torch.functional import functional  # noqa: E402

from .functions import Of, beside  # noqa: E402

F = torch.nn.functional


def exported(f, *args, dynamic=False):
    shapes = (tuple({0: torch.export.Dim("rows", min=4)} for _ in args),) if dynamic else None
    return torch.export.export(Of(f), args, dynamic_shapes=shapes)


def same(program, f, *args):
    ours = tl.load_torch(program).compile(workers=1)(*[a.numpy() for a in args])
    for a, b in beside(ours, f(*[a.clone() for a in args])):
        np.testing.assert_array_equal(a, b)


def set_at(y, at, value):
    y[at] = value
    return y


def chain(x):
    """Views of views, written one after the other, and read by older names."""
    y = x * 2
    flat, turned = y.view(-1), y.t()
    column = turned[1]
    column += 1
    left, right = y.split([2, 3], 1)
    left.mul_(right[:, :2])
    turned.unsqueeze(0)[:, 2:, 1:3].relu_()
    part = y.view(2, 2, 5).permute(2, 0, 1)[1:4:2]
    part.sub_(3)
    return flat + 1, y, column, left, right, turned, part


def copies(x):
    """What is a copy does not change."""
    y = x + 1
    copied, turned, again = y.clone(), y.t().contiguous(), y.t().reshape(-1)
    y.add_(5)
    copied.mul_(2)
    return y, copied, turned, again


def handed_on(x):
    """A dropout that drops nothing is the tensor itself."""
    y = x * 2
    z = F.dropout(y, 0.5, False)
    z += x
    return y, z, y + z


def constants(x):
    a = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    a.add_(x[0])
    return a, torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]) + x


PLAIN = {
    "chain": chain,
    "copies": copies,
    "handed on": handed_on,
    "constants": constants,
    "itself": lambda x: (x * 2).add_(x).mul_(x),
    "by itself": lambda x: (lambda y: (y.add_(y), y[:, 1:2].mul_(y[:, :1]), y))(x * 2),
    "activations": lambda x: F.relu(
        F.relu6(F.hardtanh(x + 1, -2, 2, inplace=True), inplace=True), inplace=True
    ),
    "a row": lambda x: set_at(x * 1, 1, 0.0),
    "a column": lambda x: set_at(x * 1, (slice(None), 1), x[:, 2]),
    "every other": lambda x: set_at(x * 1, (slice(None, None, 2), slice(1, -1)), 3),
    "a mask": lambda x: set_at(x * 1, x > 0, 0.5),
    "elements of a mask": lambda x: set_at(x * 1, x > 0, x[x > 0] * 2),
    "places": lambda x: set_at(x * 1, (torch.tensor([0, 1]), torch.tensor([2, 2])), 7.0),
    "filled": lambda x: (
        (x * 1).masked_fill_(x > 0, -1.0) + torch.empty_like(x).fill_(2) + torch.ones(5).zero_()
    ),
    "clamped": lambda x: torch.zeros_like(x).copy_(x[:1]).clamp_(-0.5, 0.5),
    "whole numbers": lambda x: (x * 4).to(torch.int32).add_(3).bitwise_and_(6),
    "scattered": lambda x: (
        torch.zeros_like(x).scatter_(1, x.argsort(1), x).index_add_(0, torch.tensor([1]), x[:1])
    ),
    "chunks": lambda x: (lambda y: (y.chunk(2, 1)[1].neg_(), y.chunk(2)[0].abs_(), y))(x * 2),
    "diagonals": lambda x: (lambda y: (y.diagonal(1).add_(3), y.diagonal(-1, 1, 0).neg_(), y))(x * 2),
    "squeezed": lambda x: (lambda y: (y.flatten(1).squeeze(-1)[:, 1].neg_(), y))(x[..., None] * 2),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_what_writes_to_plain_memory_is_not_traced_again(name, dynamic, monkeypatch):
    f = PLAIN[name]
    if dynamic and name in ("chain", "chunks", "every other", "diagonals"):
        pytest.skip("of an open size there are no such views")
    program = exported(f, torch.randn(4, 5).mul(4).round(), dynamic=dynamic)
    before = str(program.graph)
    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", None)
    for rows in (4, 6) if dynamic else (4,):
        same(program, f, torch.randn(rows, 5).mul(4).round())
    assert str(program.graph) == before


def fourth(x):
    y = (x * 2).movedim(0, 1)
    y.add_(1)
    return y


def two_names(x):
    y = x * 2
    torch.unbind(y)[1].add_(1)
    return y


def other_type(x):
    return (x * 2).add_(x.double())


@pytest.mark.parametrize("f", [fourth, two_names, other_type])
def test_what_is_not_plain_torch_traces(f):
    program = exported(f, torch.randn(4, 5).round())
    same(program, f, torch.randn(4, 5).round())


def test_a_program_that_was_saved_has_lost_which_values_share_memory():
    """Each fake tensor is read with a memory of its own."""
    file = io.BytesIO()
    torch.export.save(exported(chain, torch.randn(4, 5)), file)
    file.seek(0)
    program = torch.export.load(file)
    assert functional(program.graph) is None
    same(program, chain, torch.randn(4, 5).round())


@pytest.mark.parametrize(
    "f", [lambda x: x.add_(1) * 2, lambda x: x[1:].mul_(2) + x[:-1], lambda x: x.t().relu_()]
)
def test_an_input_that_is_written_to_is_refused(f):
    program = exported(f, torch.randn(4, 5))
    assert functional(program.graph) is None
    with pytest.raises(TensorLangError, match="the module changes"):
        tl.load_torch(program)


VIEWS = [
    lambda r, x: x[r.randrange(x.shape[0]) :],
    lambda r, x: x[:, : r.randrange(1, x.shape[1] + 1)],
    lambda r, x: x[::2],
    lambda r, x: x[r.randrange(x.shape[0])][None],
    lambda r, x: x.t(),
    lambda r, x: x.reshape(-1, 1),
    lambda r, x: x.flatten()[None],
    lambda r, x: x.transpose(0, 1).unsqueeze(1).squeeze(1),
    lambda r, x: x.split(max(1, x.shape[0] // 2))[0],
    lambda r, x: x.chunk(2, 1)[-1],
    lambda r, x: x.detach(),
    lambda r, x: x.contiguous(),
    lambda r, x: F.dropout(x, 0.3, False),
    lambda r, x: x.permute(1, 0),
    lambda r, x: x.clone(),
    lambda r, x: x + 1,
]
WRITES = [
    lambda r, x, y: x.add_(r.randrange(3)),
    lambda r, x, y: x.mul_(2),
    lambda r, x, y: x.relu_(),
    lambda r, x, y: x.neg_(),
    lambda r, x, y: x.add_(y.sum()),
    lambda r, x, y: x.copy_(y.flatten()[:1].clone()),
    lambda r, x, y: set_at(x, 0, y.flatten()[0].clone()),
    lambda r, x, y: set_at(x, (slice(None), -1), 3.0),
    lambda r, x, y: set_at(x, x > 2, 1.0),
    lambda r, x, y: x.clamp_(max=9),
]


def drawn(seed):
    """A program of views and writes, and of all names that there are in the end."""

    def f(x):
        r = random.Random(seed)
        names = [x * 2, x - 1]
        for _ in range(9):
            if r.random() < 0.5:
                names.append(r.choice(VIEWS)(r, r.choice(names)))
            else:
                made = r.choice(WRITES)(r, r.choice(names), r.choice(names))
                names += [made] if r.random() < 0.3 else []
        return tuple(t.clone() for t in names)

    return f


@pytest.mark.parametrize("seed", range(12))
def test_programs_of_views_and_writes_drawn_by_seed(seed):
    f, x = drawn(seed), torch.randint(-3, 4, (4, 5)).float()
    program = exported(f, x)
    assert functional(program.graph) is not None
    same(program, f, x)
