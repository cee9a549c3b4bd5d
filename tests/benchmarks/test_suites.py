"""The suites of operators and image pipelines: every task is what it says, at small sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask
from autosched.space import variants_of
from benchmarks.autosched import images
from benchmarks.autosched.ansor_suite import TASKS
from benchmarks.autosched.suites import SUITES, declared
from tensorlang import te

ROWS, COLUMNS = 32, 48


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "ROWS", ROWS)
    monkeypatch.setattr(images, "COLUMNS", COLUMNS)


def _inputs(tensors: list[te.Tensor]) -> list[Any]:
    rng = np.random.default_rng(0)
    made = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    return [rng.random([int(str(e)) for e in t.shape], dtype=np.float32) for t in made]


@pytest.mark.parametrize("name", list(images.PIPELINES))
def test_pipelines_compute_what_their_text_says(small: None, name: str) -> None:
    tensors = declared(name)
    values = _inputs(tensors)
    right = te.reference.evaluate([tensors[-1]], dict(zip(tensors, values, strict=False)))[0]
    np.testing.assert_allclose(tl.compile(tensors)(*values), right, rtol=1e-4, atol=1e-5)


def _windows(x: Any, size: int) -> Any:
    return np.lib.stride_tricks.sliding_window_view(x, (size, size))


def _blurred(x: Any) -> Any:
    for _ in range(3):
        x = _windows(x, 3).mean(axis=(2, 3))
    return x


def _equalised(x: Any) -> Any:
    shade = (np.clip(x, 0, 1) * np.float32(63)).astype(int)
    return np.cumsum(np.bincount(shade.ravel(), minlength=64))[shade] / shade.size


def _sharpened(x: Any) -> Any:
    taps = np.array([0.03, 0.11, 0.22, 0.28, 0.22, 0.11, 0.03])
    return 2 * x - np.einsum("ijrs,r,s->ij", _windows(np.pad(x, 3, mode="edge"), 7), taps, taps)


def _corners(x: Any) -> Any:
    smooth, slope = np.array([1, 2, 1]), np.array([-1, 0, 1]) / 12
    three = _windows(x, 3)
    dx, dy = (np.einsum("ijrs,r,s->ij", three, *p) for p in ((smooth, slope), (slope, smooth)))
    xx, xy, yy = (_windows(p, 3).sum(axis=(2, 3)) for p in (dx * dx, dx * dy, dy * dy))
    return xx * yy - xy * xy - 0.04 * (xx + yy) ** 2


def _non_local(x: Any) -> Any:
    patches = _windows(x, 3)
    rows, columns = 64, 96
    centre = patches[2 : 2 + rows, 2 : 2 + columns]
    near = [(dy, dx) for dy in range(5) for dx in range(5)]
    weight = [
        np.exp(-4 * ((centre - patches[dy : dy + rows, dx : dx + columns]) ** 2).sum(axis=(2, 3)))
        for dy, dx in near
    ]
    pixel = [x[1 + dy : 1 + dy + rows, 1 + dx : 1 + dx + columns] for dy, dx in near]
    return sum(w * v for w, v in zip(weight, pixel, strict=True)) / sum(weight)


BY_HAND = {
    "blur chain": _blurred,
    "unsharp": _sharpened,
    "harris": _corners,
    "non-local means": _non_local,
    "histogram equalisation": _equalised,
}


@pytest.mark.parametrize("name", list(BY_HAND))
def test_pipelines_are_those_of_their_names(small: None, name: str) -> None:
    """Beside numpy as one would write it for the image as a whole."""
    tensors = declared(name)
    (image,) = _inputs(tensors)
    np.testing.assert_allclose(tl.compile(tensors)(image), BY_HAND[name](image), rtol=1e-3, atol=1e-5)


def test_the_suite_is_twenty_different_tasks_that_can_be_searched() -> None:
    assert len(TASKS) == 20 and len({n for suite in SUITES.values() for n in suite}) == sum(
        map(len, SUITES.values())
    )
    keys = {SearchTask.of(declared(name), name=name).workload_key for name in TASKS}
    assert len(keys) == 20
    assert all(
        len(variants_of(SearchTask.of(declared(name), name=name), 2)) > 1 for name in ("CAP", "NRM", "pool")
    )
