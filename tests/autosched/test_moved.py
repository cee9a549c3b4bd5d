"""How much rounding may explain: what begins with indices and constants as well as inputs, and jumps."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from autosched.measure.differing import differing
from autosched.measure.moved import BEYOND, SLACK, rounding
from autosched.measure.runner import Workbench
from tensorlang import ops, te
from tensorlang.analysis import nudged

FLOAT = lambda i: te.cast("float32", i)
EPS = float(np.finfo(np.float32).eps)


def slack_of(out: te.Tensor, *inputs: tuple[te.Tensor, np.ndarray]) -> np.ndarray:
    (found,) = rounding([out], dict(inputs))
    return np.asarray(found)


def test_angles_of_indices_are_off_by_what_they_are_rounded() -> None:
    x = te.placeholder((600, 40), name="x")
    out = te.compute((600, 40), lambda t, d: x[t, d] * te.cos(FLOAT(t) * te.exp(FLOAT(d) * -0.2)), name="o")
    slack = slack_of(out, (x, np.ones((600, 40), np.float32)))
    assert slack.shape == () and BEYOND * EPS < slack < 0.05
    exact = np.cos(np.arange(600)[:, None] * np.exp(np.arange(40) * -0.2))
    (right,) = te.reference.evaluate([out], {x: np.ones((600, 40), np.float32)})
    assert np.abs(right - exact).max() < slack


def test_a_kernel_with_angles_of_indices_is_right_and_a_wrong_one_is_not() -> None:
    """Fused multiply-adds round angles otherwise than the reference does: a search found that nothing
    worked."""
    x = te.placeholder((2000, 64), name="x")
    angle = lambda t, d: FLOAT(t) * te.exp(FLOAT(d // 2) * -0.28782)
    out = te.compute((2000, 64), lambda t, d: x[t, d] + te.sin(angle(t, d)), name="o")
    bench = Workbench([x, out], None)
    tl.compile([x, out])(*bench.arguments)
    assert differing(bench.arrays[out], bench.right[0], bench.sizes[0]).any() and not bench.wrong()
    bench.arrays[out][1999, 3] += 0.2
    assert "1 of 128000" in bench.wrong()


def test_what_rounding_does_not_touch_has_no_slack() -> None:
    x = te.placeholder((20, 30), name="x")
    ones = np.ones((20, 30), np.float32)
    assert slack_of(ops.relu(x) * 3.0, (x, ones)) == 0.0
    counts = te.compute((20,), lambda i: i * 3 + 1, name="n")
    assert slack_of(counts) == 0.0


def test_only_elements_that_jump_are_let_off() -> None:
    """A step at 1: one element stands on it."""
    x = te.placeholder((50,), name="x")
    steps = te.compute((50,), lambda i: te.select(x[i] * 0.1 >= 0.7, 5.0, 0.0), name="o")
    slack = slack_of(steps, (x, np.arange(50, dtype=np.float32) % 14))
    jumps = np.flatnonzero(slack > 1)
    assert 0 < len(jumps) <= 4 and set(jumps % 14) == {7}
    whole = te.compute((50,), lambda i: te.cast("int32", te.floor(x[i] * 0.1 + 0.3)), name="o")
    slack = slack_of(whole, (x, np.arange(50, dtype=np.float32) % 14))
    assert set(np.flatnonzero(slack) % 14) <= {7} and slack.max() <= 1


def test_noise_is_let_off_as_a_whole() -> None:
    x = te.placeholder((90, 90), name="x")
    value = lambda i, j: te.sin(FLOAT(i) * 12.9898 + FLOAT(j) * 78.233) * 43758.547
    noise = te.compute((90, 90), lambda i, j: x[i, j] + value(i, j) - te.floor(value(i, j)), name="o")
    slack = slack_of(noise, (x, np.zeros((90, 90), np.float32)))
    assert slack.min() >= 1.0


def test_an_index_that_leaves_its_tensor_leaves_the_formula_as_it_is() -> None:
    x = te.placeholder((11,), name="x")
    at = lambda i: te.cast("int32", te.ceil(FLOAT(i) * 0.1))
    out = te.compute((101,), lambda i: x[at(i)], name="o")
    assert slack_of(out, (x, np.arange(11, dtype=np.float32))) == 0.0


@pytest.mark.parametrize("by", [-2, 2])
def test_constants_of_few_bits_stay(by: int) -> None:
    """An exponent that is moved would make powers of negative numbers NaN."""
    x = te.placeholder((4,), name="x")
    out = te.compute((4,), lambda i: te.power(x[i], 2.0) * 0.1, name="o")
    (moved,) = nudged([out], by)
    a = np.array([-3, -1, 2, 5], np.float32)
    (got,), (right,) = te.reference.evaluate([moved], {x: a}), te.reference.evaluate([out], {x: a})
    off = got / right - 1
    assert np.all(np.sign(off) == np.sign(by)) and np.abs(off).max() < 4 * EPS
    assert SLACK > 1
