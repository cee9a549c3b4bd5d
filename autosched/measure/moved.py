"""How much rounding may explain of what an answer is off: by how much the reference moves when floats that it
begins with do in their last bits. Knows tensorlang's public names and arrays; nothing of candidates.

It begins with its inputs, with the constants of its formulas and with indices that are cast to floats: the
angle of a rotation is the product of the two latter, and off by thousands of ulp of its cosine.

Where the result jumps (a nearest neighbour, a step), it moves by all of the jump, and a bound of this size
for all elements would let everything pass. So what moves that far is let off alone, integers by as much as
they move, unless much of the answer does, as noise that is made of a sine's last digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import nudged

# ulp; candidates of a block of 57 stages were 9 times as far off as inputs that are moved so far make it
NUDGE, SLACK = 2, 32.0
BEYOND = 64  # ulp: what is no further off needs nobody's leave
JUMP = 2.0**-10  # of the largest element
CHAOS = 0.1  # of the elements


def rounding(outputs: Sequence[te.Tensor], inputs: Mapping[te.Tensor, Any]) -> list[Any]:
    """How far each output may be off: ``SLACK`` times as far as two evaluations of the reference are apart
    that begin with floats some ulp beside, for every stage rounds again. One number for all elements, or an
    array where some of them jump; zero where the two are as near as the usual bound."""
    rng = np.random.default_rng(21)
    sides = [{t: _beside(rng, a) for t, a in inputs.items()} for _ in range(2)]
    try:
        made = [
            te.reference.evaluate(nudged(outputs, by), side)
            for by, side in zip((-NUDGE, NUDGE), sides, strict=True)
        ]
    except tl.TensorLangError:  # an index that is computed from floats has left its tensor
        made = [te.reference.evaluate(outputs, side) for side in sides]
    return [_slack(*both) for both in zip(*made, strict=True)]


def _slack(one: Any, other: Any) -> Any:
    with np.errstate(invalid="ignore"):
        off = np.abs(one.astype(np.float64) - other.astype(np.float64))
    off[~np.isfinite(off)] = 0.0
    if one.dtype.kind in "biu":  # nothing but jumps
        return off if off.any() else np.array(0.0)
    size = float(np.max(np.abs(one), initial=1.0, where=np.isfinite(one)))
    if float(off.max(initial=0.0)) <= BEYOND * float(np.finfo(np.float32).eps) * size:
        return np.array(0.0)
    jumps = off > JUMP * size
    rest = SLACK * float(np.max(off, initial=0.0, where=~jumps))
    if jumps.mean() > CHAOS:  # which of them jump is chance
        rest = max(rest, 2 * float(off.max()))
    return np.maximum(np.where(jumps, SLACK * off, 0.0), rest) if jumps.any() else np.array(rest)


def _beside(rng: np.random.Generator, a: Any) -> Any:
    """An array a few ulp beside; types of fewer bits than float32, whose products are exact, as they are."""
    if a.dtype.kind != "f" or a.dtype.itemsize < 4:
        return a
    signs = rng.choice(np.array([-1.0, 1.0]), a.shape)
    return (a * (1 + NUDGE * np.finfo(a.dtype).eps * signs)).astype(a.dtype)
