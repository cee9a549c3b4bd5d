"""Equations, triangles and determinants of matrices in programs of torch.export: the answers of torch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from tensorlang.frontends.torch import backend  # noqa: E402
from tests.frontends.torch.test_special import of_torch  # noqa: E402

linalg = torch.linalg


def matrices(*shape, kind=torch.float32):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=kind)


def close(f, *args):
    of_torch(f, *args, rtol=1e-3 if args[0].dtype == torch.float32 else 1e-10, atol=1e-4)


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_equations(batch, kind):
    a, b = matrices(*batch, 5, 5, kind=kind), matrices(*batch, 5, 2, kind=kind)
    close(linalg.solve, a, b)
    close(lambda a, b: linalg.solve(a, b.mT, left=False), a, b)
    close(lambda a, b: linalg.solve(a, b[..., 0]), a, b)
    close(lambda a: linalg.solve(a, torch.ones(5, 1, dtype=a.dtype)), a)
    close(lambda a: (linalg.slogdet(a), torch.logdet(a @ a.mT)), a)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_triangles(batch, upper):
    a, b = matrices(*batch, 5, 5), matrices(*batch, 5, 2)
    close(lambda a: linalg.cholesky(a @ a.mT + torch.eye(5), upper=upper), a)
    close(lambda a: torch.cholesky_inverse(torch.eye(5) * 3 + a.tril(-1), upper=False), a)
    triangle = (a.triu() if upper else a.tril()) + 3 * torch.eye(5)
    close(lambda a, b: torch.cholesky_solve(b, a, upper=upper), triangle, b)
    close(lambda a, b: linalg.solve_triangular(a, b, upper=upper), triangle, b)
    close(lambda a, b: linalg.solve_triangular(a, b.mT, upper=upper, left=False), triangle, b)
    close(lambda a, b: linalg.solve_triangular(a, b, upper=upper, unitriangular=True), a / 4, b)
    close(lambda a, b: torch.triangular_solve(b, a, upper=upper, transpose=True).solution, triangle, b)


def test_a_matrix_without_determinant():
    of_torch(linalg.slogdet, torch.zeros(2, 3, 3))


def test_a_gaussian_process():
    def predicted(x, y, at):
        kernel = lambda a, b: torch.exp(-0.5 * torch.cdist(a, b) ** 2)
        lower = linalg.cholesky(kernel(x, x) + 0.1 * torch.eye(x.shape[0]))
        weights = torch.cholesky_solve(y[:, None], lower)
        v = linalg.solve_triangular(lower, kernel(x, at), upper=False)
        return kernel(at, x) @ weights, 1 - (v * v).sum(0), 2 * lower.diagonal().log().sum()

    close(predicted, matrices(20, 2), matrices(20), matrices(6, 2))


def test_an_operator_that_raises_is_called_directly_and_in_its_turn(monkeypatch):
    """As torch's is for a matrix without an inverse."""
    seen = []

    def noted(token, operator, *args, **named):
        seen.append(str(operator))
        return in_order(token, operator, *args, **named)

    in_order = backend._in_order
    monkeypatch.setattr(backend, "_in_order", noted)

    def f(x):
        y = torch.linalg.inv(x.tanh() + 3 * torch.eye(4))
        return y.relu() + torch.linalg.cholesky(x @ x.t() + torch.eye(4)), y.sum()

    compiled = torch.compile(f, backend="tensorlang")
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(4, 4)
            torch.testing.assert_close(compiled(x), f(x))
        assert seen[:2] == seen[2:] == ["aten._linalg_check_errors.default"] * 2
        for g in (f, compiled):
            with pytest.raises(torch.linalg.LinAlgError):
                g(torch.full((4, 4), float("nan")))
