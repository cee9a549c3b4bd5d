"""Locals on the stack: each of their pages is written once before a mask reads there."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te

from .test_assembly import AVX2, AVX512


def _softmax(target: object = None) -> tl.Module:
    x = te.placeholder((te.var("m"), te.dim("n", 1, 4096)), name="x")
    return tl.compile([x, ops.softmax(x, axis=-1)], target=target)


@pytest.mark.parametrize("target", [AVX512, AVX2])
def test_pages_of_a_large_frame_are_written_once(target: str) -> None:
    """Vectors whose masked lanes lie in a page that nobody has used bring none, and took 1000 cycles each."""
    lines = [line.strip() for line in _softmax(target).get_source("asm").splitlines()]
    frames = [n for n, line in enumerate(lines) if line == "subq\t$4096, %rsp"]
    assert frames and all(lines[n + 1] == "movq\t$0, (%rsp)" for n in frames)


def test_rows_on_the_stack_of_a_new_thread_at_any_depth() -> None:
    f, a = _softmax(), np.random.default_rng(0).standard_normal((20, 150)).astype("float32")
    want = np.exp(a - a.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    wrong = []

    def deep(n: int) -> None:
        if n:
            functools.reduce(lambda *_: deep(n - 1), [0, 0])
        elif not np.allclose(f(a), want, atol=1e-6):
            wrong.append(n)

    for n in range(12):
        thread = threading.Thread(target=deep, args=(n,))
        thread.start()
        thread.join()
    assert not wrong
