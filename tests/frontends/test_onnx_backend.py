"""A tenth of onnx's own backend tests. ``make test-onnx`` runs all of them."""

from __future__ import annotations

import zlib

import pytest

pytest.importorskip("onnx")
from tests.frontends import rig

TENTH = [n for n in rig.cases() if "/" not in n and zlib.crc32(n.encode()) % 10 == 0]


@pytest.mark.parametrize("name", TENTH)
def test_onnx_backend(name: str) -> None:
    outcome = rig.run(name)
    if outcome.what in ("skipped", "missing"):
        pytest.skip(rig.SKIPS.get(outcome.why, outcome.why))
    assert outcome.what == "passed", outcome


def test_no_test_is_left_out_without_a_reason() -> None:
    """Every reason in the table is that of a test, and no other is given."""
    cases = [c for c in rig.cases().values() if c.model is not None]
    assert len(cases) > 1800
    assert {rig.skipped(c.model) for c in cases} == {None, *rig.SKIPS}
