"""ONNX's attention at open sizes, beside onnx's reference in numpy."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
from .beside import agree, floats, ran

NEAR = {"rtol": 1e-4, "atol": 1e-5}


@pytest.mark.parametrize("mask", [None, "bool", "float"])
def test_queries_keys_and_values_of_four_dimensions(mask):
    q, k, v = floats(2, 4, 3, 8), floats(2, 2, 5, 8, seed=1), floats(2, 2, 5, 6, seed=2)
    m = None if mask is None else floats(3, 5, seed=3) > 0 if mask == "bool" else floats(3, 5, seed=3)
    agree("Attention", [q, k, v, m], closed=[0, 1, 2], **NEAR)


def test_a_cache_a_cap_and_a_window():
    q, k, v = floats(2, 3, 16), floats(2, 3, 8, seed=1), floats(2, 3, 8, seed=2)
    past = [floats(2, 1, 4, 8, seed=3), floats(2, 1, 4, 8, seed=4)]
    agree(
        "Attention",
        [q, k, v, None, *past],
        4,
        closed=[0, 1, 2, 4, 5],
        opset=25,
        is_causal=1,
        q_num_heads=2,
        kv_num_heads=1,
        softcap=2.0,
        left_window_size=3,
        qk_matmul_output_mode=3,
        **NEAR,
    )


def test_nobody_is_seen():
    """A query that sees no key gives zeros."""
    q = floats(1, 1, 2, 4)
    mask = np.array([[True, False], [False, False]])
    _, (y,), *_ = ran("Attention", [q, q, q, mask], closed=[0, 1, 2], softcap=1.0)
    np.testing.assert_array_equal(y[0, 0], [q[0, 0, 0], np.zeros(4)])


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embedding(interleaved):
    x, angles = floats(2, 3, 2 * 8), floats(7, 3, seed=1)
    positions = np.array([[0, 3, 2], [6, 5, 1]])
    agree(
        "RotaryEmbedding",
        [x, np.cos(angles), np.sin(angles), positions],
        closed=[0],
        interleaved=interleaved,
        num_heads=2,
        rotary_embedding_dim=6,
        **NEAR,
    )


@pytest.mark.parametrize("mode", ["linear", "circular"])
def test_a_cache_is_written(mode):
    begin = np.array([1, 2 if mode == "linear" else 4])
    agree("TensorScatter", [floats(2, 2, 5, 3), floats(2, 2, 3, 3, seed=1), begin], opset=24, mode=mode)
