"""Reports: each break is found at its line, with advice that removes it; kernels as operators break nothing."""

from __future__ import annotations

import inspect
import time

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import TensorLangError

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import region  # noqa: E402
from tensorlang.frontends.torch.advice import advice_for  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    tlt.reset()


def branches(x):
    if x.sum() > 0:  # BREAK
        return x * 2
    return x - 1


def branches_not(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)


def tells(x):
    y = x * 2
    print("twice")  # BREAK
    return y + 1


def tells_not(x):
    return x * 2 + 1


def asks(x):
    n = x.sum().item()  # BREAK
    return x * n


def asks_not(x):
    return x * x.sum()


def asks_int(x):
    n = int(x[0])  # BREAK
    return x * n


def asks_int_not(x):
    return x * x[0].trunc()


def lists(x):
    n = x.tolist()  # BREAK
    return x * n[0]


def lists_not(x):
    return x * x[0]


def selects(x):
    y = x[x > 0]  # BREAK
    return y.sum() * 2


def selects_not(x):
    return torch.where(x > 0, x, 0).sum() * 2


def places(x):
    at = torch.nonzero(x > 0)  # BREAK
    return at.shape[0] + x


def places_not(x):
    return (x > 0).sum() + x


def stops(x):
    y = x * 2
    torch._dynamo.graph_break()  # BREAK
    return y + 1


def waits(x):
    y = x + 1
    time.sleep(0)  # BREAK
    return y * 2


def loops(x):
    while x.max() < 8:  # BREAK
        x = x * 2
    return x


PROGRAMS = [
    (branches, branches_not, "torch.where"),
    (tells, tells_not, "print what the compiled function returns"),
    (asks, asks_not, "tensor of no dimensions"),
    (asks_int, asks_int_not, "tensor of no dimensions"),
    (lists, lists_not, "tensor of no dimensions"),
    (selects, selects_not, "mask"),
    (places, places_not, "mask"),
    (stops, tells_not, "leave torch._dynamo.graph_break"),
    (waits, tells_not, "before or after"),
    (loops, None, "torch.cond"),
]


def break_line(f):
    lines, first = inspect.getsourcelines(f)
    return first + next(i for i, line in enumerate(lines) if "# BREAK" in line)


@pytest.mark.parametrize(("program", "mended", "advice"), PROGRAMS, ids=lambda f: getattr(f, "__name__", ""))
def test_breaks_are_found_with_advice_that_removes_them(program, mended, advice):
    x = torch.tensor([1.0, 2.0, -3.0, 4.0])
    found = tlt.explain(program, x)
    assert (break_line(program), __file__) in [(b.line, b.file) for b in found.breaks]
    (mine, *_) = [b for b in found.breaks if b.line == break_line(program)]
    assert advice in mine.advice and mine.text in inspect.getsource(program)
    assert advice in str(found) and f"{mine.line}: {mine.text}" in str(found)
    if mended is not None:
        assert not tlt.explain(mended, x).breaks


def test_a_report_tells_what_is_where(tmp_path):
    def f(x):
        return torch.relu(torch.linalg.qr(x * 2).R) + 1

    found = tlt.explain(f, torch.eye(3))
    assert len(found.graphs) == 1 and not found.breaks and len(found.times) == 2
    assert found.left == {"aten.linalg_qr.default": (1, "the operator is not in the table")}
    assert "4 operators" in str(found) and "3 operators in 2 regions, 1 in torch" in str(found)
    found.save(tmp_path / "report.html")
    assert "linalg_qr" in (tmp_path / "report.html").read_text() and "<h3>" in found._repr_html_()


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


def test_threads_are_as_many_as_torchs():
    before = torch.get_num_threads()
    region._threads = 0  # nothing was told to kernels
    f = torch.compile(lambda x: x * 2 + 1, backend=tlt.backend)
    try:
        torch.set_num_threads(1)
        f(torch.ones(3))
        assert tl.num_threads() == 1
    finally:
        torch.set_num_threads(before)
        region._threads = 0
        tl.set_num_threads(None)
