"""Junk in the place of any argument of any primitive: accepted or refused with a ScheduleError that shows no
object's address, and a refusal changes nothing."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tensorlang import te
from tensorlang.errors import DeclareError, ScheduleError
from tensorlang.schedule.primitives import BY_NAME

JUNK = {
    "none": None,
    "zero": 0,
    "negative": -1,
    "huge": 10**30,
    "float": 1.5,
    "nan": float("nan"),
    "text": "x",
    "name of a loop": "i",
    "bytes": b"x",
    "empty list": [],
    "dict": {},
    "object": object(),
    "symbol": te.var("v"),
    "tensor": te.placeholder((3,), name="Q"),
    "true": True,
    "function": len,
    "pair": (1, 2),
    "slice": slice(1, 2),
    "array": np.arange(3),
}


def scene():
    A = te.placeholder((64, 16), name="A")
    P = te.compute((64, 16), lambda i, j: A[i, j] + 1.0, name="P")
    C = te.compute((64, 16), lambda i, j: P[i, j] * 2.0, name="C")
    return te.create_schedule(C.op), P, C


@pytest.mark.parametrize("name", BY_NAME)
def test_junk(name):
    kind = BY_NAME[name]
    parameters = list(inspect.signature(kind.call).parameters.values())[1:]
    for place in range(len(parameters)):
        for junk in JUNK.values():
            s, P, C = scene()
            i, j = C.op.axis
            good = {
                "parent": i if name == "split" else s[C],
                "loop": i,
                "axis": i,
                "loops": i,
                "factor": 4,
                "nparts": None,
                "tensor": C,
                "scope": "local",
                "readers": [P],
                "pragma_type": "unroll_explicit",
                "index_map": lambda i, j: [j, i],
                "candidates": [1, 2],
            }
            args, named = [], {}
            for k, p in enumerate(parameters):
                value = junk if k == place else good.get(p.name, p.default if p.default is not p.empty else 1)
                if p.kind is p.KEYWORD_ONLY:
                    named[p.name] = value
                else:
                    args.append(value)
            before = s.state, s.trace
            try:
                getattr(s[C] if kind.of == "stage" else s, name)(*args, **named)
            except DeclareError:
                assert parameters[place].name == "index_map"  # what the user's own function raised
            except ScheduleError as e:
                assert " at 0x" not in str(e) and "<class" not in str(e), str(e)
                assert (s.state, s.trace) == before
