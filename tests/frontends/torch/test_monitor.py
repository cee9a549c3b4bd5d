"""The monitor counts what is compiled anew and says which size to mark; marked, nothing is."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch.monitor import remedy  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def f(x):
    return x * 2 + 1


def g(x, k):
    return x * k


def called(fn, inputs, mark=()):
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="eager")
    with tlt.monitor(2) as seen:
        for args in inputs:
            for axis in mark:
                torch._dynamo.mark_dynamic(args[0], axis)
            compiled(*args)
    return seen


def test_sizes_that_change_are_told_with_what_to_mark():
    inputs = [(torch.ones(n, m),) for n, m in ((3, 4), (5, 4), (5, 8), (6, 9))]
    seen = called(f, inputs)
    (found,) = seen
    assert seen.recompilations == 2 and found.name == "f"
    assert found.sizes == {("x", 0): [3, 5], ("x", 1): [4, 8]} and found.seconds > 0
    assert found.advice == [f"torch._dynamo.mark_dynamic(x, {i}) before the first call" for i in (0, 1)]
    assert "x.size(0) was 3, 5" in str(seen) and "test_monitor.py:" in str(seen)
    marked = called(f, [(torch.ones(*x.shape),) for (x,) in inputs], mark=(0, 1))
    assert marked.recompilations == 0 and str(marked) == "nothing was compiled anew"


def test_other_reasons_have_advice_of_their_own():
    x = torch.ones(3)
    seen = called(g, [(x, 1.5), (x, 2.5), (x.double(), 2.5), (torch.ones(3, 3).double(), 2.5)])
    (found,) = seen
    assert [a.split()[0] for a in found.advice] == ["give", "convert", "give"]
    seen = called(g, [(x, torch.tensor(k)) for k in (1.5, 2.5)])
    assert seen.recompilations == 0


def test_a_warning_tells_of_a_function_that_is_compiled_again_and_again(caplog):
    called(f, [(torch.ones([2] * n),) for n in range(1, 11)])
    assert "compiled again and again" in caplog.text and "tensors of one rank" in caplog.text
    assert "given up" in caplog.text


def test_what_came_before_is_not_counted():
    called(f, [(torch.ones(n),) for n in (3, 4)])
    seen = tlt.monitor()
    assert seen.recompilations == 0
    seen.stop(), seen.stop()
    torch.compile(g, backend="eager")(torch.ones(2), 1.5)
    torch.compile(g, backend="eager")(torch.ones(2), 2.5)
    assert not seen.functions


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("0/1: L['ids'].size()[1] == 128", "mark_dynamic(ids, 1)"),
        ("tensor 'x' stride mismatch at index 0. expected 4, actual 1", "contiguous"),
        ("GLOBAL_STATE changed: grad_mode", "no_grad"),
        ("len(xs) == 3", "torch.stack"),
        ("something else", "dynamic=True"),
    ],
)
def test_advice(reason, words):
    assert words in remedy(reason)
