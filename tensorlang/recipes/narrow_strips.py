"""Bytes that are made of the sums of a convolution, channels first, where what reads them reads another image
too, as in a quantised network behind a layer whose input is added to its output: they are the strip of
finished pixels that is transposed, and the rest is computed along the pixels. There the other image lies side
by side; before, each of its elements would lie a plane from the next.

Measured (Zen 4, uint8, one thread): 64 to 64 channels of 56 × 56, 3×3, and an image, take 0.94 of the time,
16 to 96 of 112 × 112, 1×1, 0.55. Uses public primitives only.
"""

from __future__ import annotations

from collections.abc import Callable

from ..analysis import own_place, reads_of
from ..schedule import Schedule, Stage
from ..te import ComputeOp, Tensor
from .inlining import reduction_to_fuse

CHAIN = 12  # stages between, at most


def strip_of(s: Schedule, out: Stage, known: Callable[[Stage], bool]) -> Stage | None:
    """The bytes that ``out`` reads beside another image, if they are made of sums of which ``known`` says
    that they are finished in strips."""
    for t in out.op.input_tensors:
        stage = s[s.state.of(t).name]
        if _bytes_of_sums(s, stage, known) and _beside_another(out.op, t):
            return stage
    return None


def ends(s: Schedule, stage: Stage, known: Callable[[Stage], bool]) -> bool:
    """Whether ``stage`` is such bytes, and would be that no more if written into what reads it."""
    if not _bytes_of_sums(s, stage, known):
        return False
    at = stage
    for _ in range(CHAIN):
        readers = s.state.readers(at.name)
        if len(readers) != 1 or readers[0].compute.reduce_axis:
            return False
        read, at = at.op, s[readers[0].name]
        op = at.op
        if not isinstance(op, ComputeOp) or not isinstance(read, ComputeOp):
            return False
        if any(not own_place(op, i) for i in reads_of(op).of(read)):
            return False
        if _beside_another(op, read.outputs[0]):
            return True
    return False


def _bytes_of_sums(s: Schedule, stage: Stage, known: Callable[[Stage], bool]) -> bool:
    op = stage.op
    if (
        not isinstance(op, ComputeOp)
        or stage.state.is_output
        or stage.state.attach is not None
        or stage.state.relations
    ):
        return False
    if op.outputs[0].dtype.bytes > 1 or len(s.state.readers(stage.name)) != 1:
        return False
    inside = reduction_to_fuse(s, stage)
    return inside is not None and known(inside)


def _beside_another(op: ComputeOp, t: Tensor) -> bool:
    """Whether each element is made of one of ``t`` at its place and of one of another tensor of that
    shape."""
    plain = reads_of(op).plain
    if any(read is t and not own_place(op, at) for read, at in plain):
        return False
    return any(
        read is not t and len(at) == len(op.axis) and own_place(op, at) and _as_large(read, t)
        for read, at in plain
    )


def _as_large(a: Tensor, b: Tensor) -> bool:
    return all(m is n for m, n in zip(a.shape, b.shape, strict=True))
