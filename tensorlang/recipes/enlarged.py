"""Images in another size, a dimension after the other: rows that were resized are held, those of one plane at
a time, for each is read by several rows of the result. Written into those, every row of the result would
gather its elements again. Uses public primitives only.

Measured (Zen 4, one thread): 256 channels of 32 × 32 to 64 × 64, linear, take 0.31 of the time, of open
sizes 0.38; of 16 × 16 to 128 × 128 0.25. With rows written out (``written_out``) 0.64 and 0.52, 64
channels of 56 × 56 to 100 × 90 0.63.
"""

from __future__ import annotations

import math

from ..analysis import SIDE, own_index, reads_of, stands_for, step, typical
from ..ops import tags
from ..schedule import Schedule, Stage
from ..target import Target
from ..te import ComputeOp, IterVar, TensorRead
from .common import share_out, size, work
from .lanes import in_vectors

AGAIN = 2  # reads of an element, from which on it is held
# the same of one that is as it was read. Measured (Zen 4, nearest): twice to 3.3 times as many rows take 1.3
# to 1.7 times as long with rows held, eight times as many 0.48
AGAIN_AS_IS = 4


def keeps(s: Schedule, stage: Stage) -> bool:
    """Whether ``stage`` is rows in another size, whose elements are gathered, and read again and again."""
    if stage.op.tag != tags.RESIZE or not _gathers(stage.op):
        return False
    readers = s.state.readers(stage.name)
    return len(readers) == 1 and _across(readers[0].compute, stage) is not None


def held_in(s: Schedule, stage: Stage) -> Stage | None:
    """The rows that an elementwise stage reads, which were not written into it."""
    for t in dict.fromkeys(stage.op.input_tensors):
        producer = s.state.of(t)
        if isinstance(producer.op, ComputeOp) and producer.attach is None and not producer.is_output:
            held = s[producer.name]
            if keeps(s, held):
                return held
    return None


def apply(s: Schedule, out: Stage, held: Stage, target: Target) -> bool:
    """Compute the rows of a plane within ``out``, and its elements behind. Whether it was done: not where
    planes are too few for the threads, or large."""
    across = _across(out.op, held)
    assert across is not None
    at = out.op.axis.index(across)
    front, iterations = list(out.op.axis[:at]), work(out)
    plane = math.prod(typical(n, SIDE) for n in held.op.outputs[0].shape[at:])
    planes = math.prod(size(a) or 1 for a in front)
    if planes < 2 * target.num_cores or plane * held.op.body[0].dtype.bytes > target.l2_bytes // 2:
        return False
    in_vectors(out, target)
    vectors = in_vectors(held, target)
    if size(held.op.axis[-1]) is None or size(held.op.axis[at]) is None:
        # the places that lanes read, which take divisions, are the same for all rows
        held.reorder(vectors, *held.op.axis[at:-1])
    place = front[-1] if len(front) == 1 else out.fuse(*front)
    held.compute_at(out, place)
    share_out(out, [place], iterations, target)
    return True


def _gathers(op: ComputeOp) -> bool:
    """Whether neighbours along memory are read where they lie apart, or none knows how: not as vectors that
    repeat."""
    if op.reduce_axis or len(op.axis) < 2:
        return False
    last = op.axis[-1]
    moved = [at[-1] for _, at in reads_of(op).plain if len(at) == len(op.axis)]
    repeats = all(stands_for(i, last) is not None for i in moved)
    return bool(moved) and not repeats and all(step(i, last) != 1 for i in moved)


def _across(op: ComputeOp, held: Stage) -> IterVar | None:
    """The axis along which ``op`` reads ``held`` elsewhere than at its own place, where it reads each element
    often enough."""
    reads = reads_of(op).of(held.op)
    if op.reduce_axis or not reads or any(len(at) != len(op.axis) for at in reads):
        return None
    apart = {
        d for at in reads for d, (i, a) in enumerate(zip(at, op.axis, strict=True)) if not own_index(i, a)
    }
    if len(apart) != 1:
        return None
    (d,) = apart
    if d in (0, len(op.axis) - 1):
        return None
    have, want = size(held.op.axis[d]), size(op.axis[d])
    # open sizes mostly are of layers that make an image larger
    enough = AGAIN_AS_IS if isinstance(held.op.body[0], TensorRead) else AGAIN
    often = have is None or want is None or len(set(reads)) * want >= enough * have
    return op.axis[d] if often else None
