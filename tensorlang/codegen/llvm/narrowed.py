"""What keeps LLVM from writing more than it should: integers that were made narrower, stored under a mask.

LLVM 22 and earlier ones join a vector's truncation with the masked store of its result (X86, AVX-512), and
then make a store of one element of a mask that is known to hold in one lane: of an element as wide as before
the truncation, which overwrites what lies behind it. Masks become known where LLVM writes loops out. An empty
piece of assembly between the two keeps them apart, and takes no instruction. Knows no statements.
"""

from __future__ import annotations

from . import shuffles, types
from .emitter import Emitter

_BITS = {"i8": 8, "i16": 16, "i32": 32}
_LEAST, _MOST = 128, 512  # bits of a register


def kept_apart(em: Emitter, operand: str, element: str, lanes: int) -> str:
    """The same vector of integers, of which LLVM does not see how it was made."""
    bits = _BITS.get(element)
    if bits is None or em.target.arch != "x86_64" or "avx512f" not in em.target.instruction_sets:
        return operand
    width = min(_MOST // bits, max(_LEAST // bits, 1 << (lanes - 1).bit_length()))
    count = -(-lanes // width)
    whole = shuffles.resized(em, operand, lanes, count * width, element)
    parts = []
    for at in range(0, count * width, width):
        vector = types.lanes_of(element, width)
        part = shuffles.part(em, whole, count * width, at, width, element)
        parts.append(em.ins(f'call {vector} asm "", "=v,0"({vector} {part})'))
    return shuffles.resized(em, shuffles.joined(em, parts, width, element), count * width, lanes, element)
