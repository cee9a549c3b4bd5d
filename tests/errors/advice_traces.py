"""How a person follows the advice given to mistakes_traces: one entry for each ``try``."""

from __future__ import annotations

import json
from typing import Any

import tensorlang as tl

from .mistakes_schedule import _matmul

NAMES: dict[str, Any] = {"C": _matmul()[1]}


def _knob(a):
    a.says("s.sample_tile(loop) first")
    a.s[a.C].split(a.C.op.axis[0], a.s.sample_tile(a.C.op.axis[0]))


def _loaded(text):
    def follow(a):
        s, C = _matmul()
        s[C].split(C.op.axis[0], 8)
        a.says(text)
        assert str(tl.Trace.from_json(s.trace.to_json())) == str(s.trace)

    return follow


def _named(a):
    step = [a("'split'"), {"stage": "C", "loop": "i", "factor": 8}]
    tl.Trace.from_json(json.dumps({"version": 1, "steps": [step], "decisions": {}}))


FOLLOW = {
    "knob_of_another_schedule": _knob,
    "unknown_primitive": lambda a: a.s.step(a("'vectorize'"), stage="C", loop="i"),
    "trace_that_is_no_json": _loaded("text made by trace.to_json()"),
    "trace_of_another_version": _loaded("record the trace again"),
    "trace_with_an_unknown_primitive": _named,
}
