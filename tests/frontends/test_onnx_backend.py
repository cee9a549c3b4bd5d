"""A tenth of onnx's own backend tests. ``make test-onnx`` runs all of them."""

from __future__ import annotations

import zlib

import pytest

pytest.importorskip("onnx")
from tests.frontends import rig

PARTS = 8  # a test runs many cases: onnx computes two thousand answers, for seconds, before it names one


@pytest.mark.parametrize("part", range(PARTS))
def test_onnx_backend(part: int) -> None:
    tenth = [n for n in rig.cases() if "/" not in n and zlib.crc32(n.encode()) % 10 == 0]
    outcomes = [rig.run(n) for n in tenth[part::PARTS]]
    assert len(outcomes) > 20
    passed = [o for o in outcomes if o.what == "passed"]
    wrong = [o for o in outcomes if o.what not in ("passed", "skipped", "missing")]
    assert not wrong and len(passed) > 0.8 * len(outcomes), outcomes


def test_no_test_is_left_out_without_a_reason() -> None:
    """Every reason in the table is that of a test, and no other is given."""
    cases = [c for c in rig.cases().values() if c.model is not None]
    assert len(cases) > 1800
    assert {rig.skipped(c.model) for c in cases} == {None, *rig.SKIPS}
