"""Ready-made templates: plain functions ``template(s, tensors)`` with sampled tile sizes. Know tensorlang's
public schedule calls only."""

from __future__ import annotations

from tensorlang.entries import share

from .conv2d import conv2d
from .matmul import matmul, matmul_packed

__all__ = ["conv2d", "matmul", "matmul_packed"]

share(__name__)
