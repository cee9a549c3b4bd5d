"""Reports of what became of a function; kernels as operators break nothing."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import TensorLangError

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import backend  # noqa: E402
from tensorlang.frontends.torch.advice import advice_for  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def tells(x):
    y = x * 2
    print("twice")  # BREAK
    return y + 1


def test_a_report_shows_breaks_with_advice():
    found = tlt.explain(tells, torch.ones(3))
    (mine,) = found.breaks
    assert mine.text == 'print("twice")  # BREAK' and mine.file == __file__
    assert f"{mine.line}: {mine.text}" in str(found) and mine.advice in str(found)
    assert len(found.graphs) == 2 and "breaks" in found._repr_html_()


def test_breaks_come_in_the_order_of_the_program():
    def f(x):
        if x.sum() > 100:
            return x
        y = x * 2
        print("twice")
        return y * y.sum().item()

    found = tlt.explain(f, torch.ones(3)).breaks
    assert len(found) == 3 and [b.line for b in found] == sorted(b.line for b in found)


def test_where_dynamo_itself_fails_is_a_break(monkeypatch):
    """And an exception of the function comes as it is."""

    def fails(x):
        raise ValueError("no") if x.shape[0] == 2 else AssertionError("of dynamo")

    monkeypatch.setattr(torch._dynamo, "explain", lambda f: lambda x: fails(x))
    found = tlt.explain(lambda x: x * 2, torch.ones(3))
    assert "dynamo fails: AssertionError: of dynamo" in str(found) and not found.graphs
    with pytest.raises(ValueError, match="mine"):
        tlt.explain(raises_value_error, torch.ones(2))


def raises_value_error(x):
    if isinstance(x, torch.Tensor):
        raise ValueError("mine")
    return x


def test_a_report_has_its_graphs_where_as_many_are_kept_as_may_be(monkeypatch):
    monkeypatch.setattr(backend, "MOST", 1)
    for n in range(3):
        (graph,) = tlt.explain(lambda x, n=n: x * n + 1, torch.ones(3)).graphs
        assert graph.taken == graph.nodes > 0 and tlt.graphs() == [graph]


def test_a_report_tells_what_is_where(tmp_path):
    def f(x):
        return torch.relu(torch.linalg.qr(x * 2).R) + 1

    found = tlt.explain(f, torch.eye(3))
    assert len(found.graphs) == 1 and not found.breaks and len(found.times) == 2
    assert found.left == {"aten.linalg_qr.default": (1, "the operator is not in the table")}
    assert "4 operators" in str(found) and "3 operators in 2 regions, 1 in torch" in str(found)
    found.save(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "linalg_qr" in text and "<h3>" in found._repr_html_() and text.startswith("<!DOCTYPE html>")
    assert "http" not in text  # nothing is loaded from anywhere


def test_advice_for_what_nobody_knows_is_torchs_own():
    assert advice_for("Strange\n  Hint: do it otherwise", "odd()") == "do it otherwise"


def test_a_kernel_is_an_operator_that_dynamo_traces():
    n = te.var("n")
    x = te.placeholder((n, 4), name="x")
    double = tlt.op(tl.compile([x, te.compute((n, 4), lambda i, j: x[i, j] * 2, name="y")]), "ours::double")

    def f(x):
        return double(x.t()) + 1

    g = torch.compile(f, backend=tlt.backend, fullgraph=True, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(4, rows)
        torch.testing.assert_close(g(x), x.t().contiguous() * 2 + 1)
    with pytest.raises(TensorLangError, match="torch refuses the name 'double'"):
        tlt.op(tl.compile([x_ := te.placeholder((2,), name="x"), x_ + x_]), "double")
    with pytest.raises(TensorLangError, match="a kernel is needed"):
        tlt.op(len, "ours::len")


def test_an_operator_keeps_its_kernel_unless_it_is_replaced():
    x = te.placeholder((3,), name="x")
    double, triple = (tl.compile([x, te.compute((3,), lambda i: x[i] * k, name="y")]) for k in (2, 3))
    first = tlt.op(double, "ours::times")
    for name in ("ours::times", "aten::add"):
        with pytest.raises(TensorLangError, match=f"torch has an operator '{name}'"):
            tlt.op(triple, name)
    ones = torch.ones(3)
    torch.testing.assert_close(first(ones), 2 * ones)
    again = tlt.op(triple, "ours::times", replace=True)
    torch.testing.assert_close(again(ones), 3 * ones)
    torch.testing.assert_close(torch.compile(again, backend=tlt.backend, fullgraph=True)(ones), 3 * ones)


def test_a_function_that_dynamo_skips_is_said_to_run_as_it_is():
    """A break within ``try`` leaves no graph at all."""

    def tries(x):
        try:
            return x * int(x.sum())
        except ValueError:
            return x

    text = str(tlt.explain(tries, torch.ones(3)))
    assert (
        "no graph: Python runs the function as it is" in text and "1 break" in text and "1 breaks" not in text
    )
