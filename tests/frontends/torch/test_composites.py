"""Operators that torch says by others, in programs of torch.export: the answers of torch, and one trace."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from tests.frontends.torch.test_special import of_torch  # noqa: E402

F = torch.nn.functional


def x(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape)


CASES = {
    "meshgrid": (lambda a, b: torch.meshgrid(a, b, a[:2], indexing="ij"), x(4), x(3)),
    "meshgrid_xy": (lambda a, b: torch.meshgrid(a, b, a[:2], indexing="xy"), x(4), x(3)),
    "broadcast": (lambda a, b: torch.broadcast_tensors(a, b), x(4, 1), x(3)),
    "cdist": (
        lambda a, b: (torch.cdist(a, b), torch.cdist(a, b, 1), torch.cdist(a, b[0])),
        x(2, 5, 3),
        x(2, 4, 3),
    ),
    "pdist": (lambda a: (torch.pdist(a), torch.pdist(a, 1), torch.pdist(a[:1])), x(7, 3)),
    "diagonal": (
        lambda a: (torch.diag_embed(a), torch.diag_embed(a, 2, 0, 2), torch.diag_embed(a, -1)),
        x(2, 3),
    ),
    "fill": (
        lambda a: (a.index_fill(1, torch.tensor([0, -1]), 2.5), a.index_fill(0, torch.tensor(1), 3)),
        x(3, 4),
    ),
    "einsum": (
        lambda a, b, c: (
            torch.ops.aten.einsum("ij,jk,kl->il", (a, b, c), path=[1, 2, 0, 1]),
            torch.ops.aten.einsum("ij, jk, kl", (a, b, c), path=[0, 2, 0, 1]),
            torch.ops.aten.einsum("ij,jk,kl", (a, b, c)),
        ),
        x(3, 4),
        x(4, 5, seed=1),
        x(5, 2, seed=2),
    ),
    "unshuffle": (lambda a: F.pixel_unshuffle(a, 2), x(2, 3, 4, 6)),
    "cosine": (
        lambda a, b: F.cosine_similarity(a, b) + F.cosine_similarity(a, b[:1], 1),
        x(3, 4),
        x(3, 4, seed=1),
    ),
    "lengths": (lambda a, b: torch._weight_norm(a, b, 0), x(3, 4, 2), x(3, 1, 1)),
    "slogdet": (lambda a: torch.slogdet(a), x(2, 3, 3)),
    "window": (lambda a: (a * torch.hann_window(5), a + torch.hann_window(5, periodic=False)), x(5)),
}


@pytest.mark.parametrize("name", CASES)
def test_composites_are_said_at_once(name, monkeypatch):
    def never(*_):
        raise AssertionError("torch traces the program again")

    monkeypatch.setattr(torch.export.ExportedProgram, "run_decompositions", never)
    of_torch(*CASES[name], rtol=1e-5, atol=1e-5)


def test_einsums_stay_whole_under_dynamo():
    """Torch takes them apart into products of permuted copies."""
    import tensorlang.torch as tlt

    torch._dynamo.reset()
    tlt.reset()

    def f(a, b):
        return torch.einsum("bhid,bhjd->bhij", a, b) * 2

    a, b = x(2, 3, 5, 4), x(2, 3, 6, 4, seed=1)
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(f, backend="tensorlang")(a, b), f(a, b))
    (graph,) = tlt.graphs()
    assert graph.nodes == graph.taken == 2
    a.requires_grad_()
    torch.compile(f, backend="tensorlang")(a, b).sum().backward()
    torch.testing.assert_close(a.grad, (2 * b.sum(2, keepdim=True)).expand_as(a))
