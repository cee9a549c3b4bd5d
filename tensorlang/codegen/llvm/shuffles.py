"""Vectors put together and taken apart. Knows no statements."""

from __future__ import annotations

from . import types
from .emitter import Emitter


def joined(em: Emitter, parts: list[str], lanes: int, element: str) -> str:
    """Vectors one behind the other."""
    while len(parts) > 1:
        order = types.vector_literal("i32", list(range(2 * lanes)))
        parts = [
            em.ins(
                f"shufflevector <{lanes} x {element}> {a}, <{lanes} x {element}> {b}, <{2 * lanes} x i32> "
                f"{order}"
            )
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        lanes *= 2
    return parts[0]


def part(em: Emitter, whole: str, lanes: int, at: int, width: int, element: str) -> str:
    """``width`` lanes of a vector, from lane ``at`` on."""
    if width == lanes:
        return whole
    order = types.vector_literal("i32", list(range(at, at + width)))
    return em.ins(
        f"shufflevector <{lanes} x {element}> {whole}, <{lanes} x {element}> poison, <{width} x i32> {order}"
    )


def resized(em: Emitter, x: str, lanes: int, wanted: int, element: str) -> str:
    """The first lanes of a vector, or more than it has, of which the last are anything."""
    if lanes == wanted:
        return x
    order = ", ".join(f"i32 {k}" if k < lanes else "i32 poison" for k in range(wanted))
    vector = f"<{lanes} x {element}>"
    return em.ins(f"shufflevector {vector} {x}, {vector} poison, <{wanted} x i32> <{order}>")
