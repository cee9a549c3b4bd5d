"""Signatures: what travels in saved files."""

from __future__ import annotations

from tensorlang.interface import signature
from tensorlang.interface.signature import Dim, Param, Signature


def test_signatures_travel_as_json():
    s = Signature(
        "f",
        (
            Param("A", "buffer", "float32", ("m", ("*", 2, "n"), 3)),
            Param("C", "buffer", "float32", ("m",), True),
            Param("alpha", "scalar", "float32"),
        ),
        (Dim("m", 1, 8), Dim("n", multiple_of=4)),
    )
    assert Signature.from_json(s.to_json()) == s
    size = ("max", ("//", ("+", "n", 7), 8), ("%", "n", 3))
    assert signature.evaluate(size, {"n": 10}) == 2
    assert signature.show(size) == "max(((n + 7) // 8), (n % 3))"
