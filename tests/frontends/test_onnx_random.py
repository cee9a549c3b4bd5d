"""Random models with If, Loop and Scan in one another give what onnxruntime gives. ``python -m
tests.frontends.random_models`` runs many."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from . import random_models


def test_random_models():
    assert random_models.main(["--seed", "128", "--count", "10"]) == 0


@pytest.mark.fuzz
def test_many_random_models():
    assert random_models.main(["--seed", "10000", "--count", "500"]) == 0
