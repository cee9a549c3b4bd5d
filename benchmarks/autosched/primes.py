"""Operators of prime sizes, which no tile divides: what sizes that divide nothing are worth (see ``arms``).
Knows ``ops``."""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import ops, te

from .programs import Inputs

PRIMES: dict[str, Callable[[Inputs], te.Tensor]] = {
    "prime product": lambda p: ops.matmul(p(257, 263), p(263, 251)),
    "prime conv": lambda p: ops.conv2d(p(1, 61, 29, 29), p(67, 61, 3, 3), padding=1),
    "prime softmax": lambda p: ops.softmax(p(509, 503), -1),
}
