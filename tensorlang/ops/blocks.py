"""Blocks of an image moved between space and channels: space_to_depth, depth_to_space. Knows the checks of
arguments."""

from __future__ import annotations

from typing import Any

from ..errors import DeclareError
from ..expr import make
from ..expr.nodes import Expr, const_int
from ..te import Tensor
from . import inputs
from .shape import moved

__all__ = ["depth_to_space", "space_to_depth"]


def _block(op: str, x: Any, size: Any, mode: str) -> tuple[Tensor, int]:
    x, b = inputs.tensor(op, x), inputs.integer(op, "block_size", size)
    if x.ndim != 4:
        raise DeclareError(
            f"ops.{op}: {inputs.named(x)} has {x.ndim} dimension(s), 4 are needed",
            because="x is [N, C, H, W]",
        )
    if b < 1:
        raise DeclareError(f"ops.{op}: block_size={b}, 1 is the least")
    if mode not in ("DCR", "CRD"):
        raise DeclareError(f"ops.{op}: mode={mode!r}", legal="'DCR', 'CRD' (torch's pixel_shuffle)")
    return x, b


def _in_blocks(op: str, x: Tensor, d: int, parts: int, what: str) -> None:
    if not inputs.divides(parts, x.shape[d]):
        raise DeclareError(
            f"ops.{op}: dimension {d} of {inputs.named(x)} is not a multiple of {parts}",
            because=what,
            try_=None
            if const_int(x.shape[d]) is not None
            else f"te.dim('n', multiple_of={parts}) for that size",
        )


def depth_to_space(x: Tensor, block_size: int, mode: str = "DCR") -> Tensor:
    """[N, C, H, W] to [N, C / b², H b, W b]: each pixel's channels laid out as a block of b × b pixels.

    ``mode="DCR"`` takes channel ``(by b + bx) C' + c`` for the place (by, bx) of a block, ``"CRD"`` channel
    ``(c b + by) b + bx``, as torch's pixel_shuffle. Raises DeclareError unless b² is sure to divide C.
    """
    x, b = _block("depth_to_space", x, block_size, mode)
    _in_blocks("depth_to_space", x, 1, b * b, "a block takes block_size² channels")
    batch, channels, height, width = x.shape
    each = make.floordiv(channels, b * b)

    def place(n: Expr, c: Expr, i: Expr, j: Expr) -> list[Expr]:
        by, bx = make.floormod(i, b), make.floormod(j, b)
        # which of place and channel is the outer one is all that ONNX's two modes differ in
        channel = (by * b + bx) * each + c if mode == "DCR" else (c * b + by) * b + bx
        return [n, channel, make.floordiv(i, b), make.floordiv(j, b)]

    return moved("depth_to_space", x, [batch, each, height * b, width * b], place)


def space_to_depth(x: Tensor, block_size: int, mode: str = "DCR") -> Tensor:
    """[N, C, H, W] to [N, C b², H / b, W / b]: each block of b × b pixels laid out as channels, place first
    (``(by b + bx) C + c``), or with ``mode="CRD"`` channel first: the way back from ``depth_to_space``.

    Raises DeclareError unless b is sure to divide H and W.
    """
    x, b = _block("space_to_depth", x, block_size, mode)
    for d in (2, 3):
        _in_blocks("space_to_depth", x, d, b, "the image is cut into whole blocks")
    batch, channels, height, width = x.shape

    def place(n: Expr, c: Expr, i: Expr, j: Expr) -> list[Expr]:
        at, own = make.floordiv(c, channels), make.floormod(c, channels)
        if mode == "CRD":
            at, own = make.floormod(c, b * b), make.floordiv(c, b * b)
        return [n, own, i * b + make.floordiv(at, b), j * b + make.floormod(at, b)]

    shape = [batch, channels * (b * b), make.floordiv(height, b), make.floordiv(width, b)]
    return moved("space_to_depth", x, shape, place)
