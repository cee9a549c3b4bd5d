"""Steps by which a random graph grows: loops, whose bodies are graphs. Knows ``random_graphs.Draw``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensorlang import ops
from tensorlang.expr.walk import variables
from tensorlang.graph import Graph
from tensorlang.runtime import engine_loops

from .random_elements import kind, with_axes
from .random_graphs import Draw


def looped(r: Draw) -> None:
    """A state that is computed again and again, and a row of each time; perhaps another value beside it."""
    x = r.small(r.pick(lambda v: kind(v) in ("float32", "float64", "int32", "int64") and with_axes(v)))
    beside = r.small(r.alike(x))
    dims = list(dict.fromkeys(d for n in x.shape for d in variables(n)))
    body = Graph("body")
    _, go = body.input((), "int64", "i"), body.input((), "bool", "go")
    state, other = body.input(x.shape, kind(x), "state"), body.input(x.shape, kind(x), "other")
    body.input([*dims, 0], "uint8", "sizes")
    now = body.call(r.choice((ops.add, ops.subtract, ops.maximum)), state, other)
    now = body.call(ops.clip, now, min=-4, max=4)
    row = body.call(r.choice((ops.negative, ops.abs, ops.relu)), now)
    for v in (go, now, row):
        body.output(v)
    times = r.number(0, 4)
    made = r.g.host(
        engine_loops.looped,
        [r.g.constant(np.array(times)), None, x, beside],
        [(x.shape, kind(x)), ((times, *x.shape), kind(x))],
        "Loop",
        graphs=[body],
        sizes=dims,
        carried=1,
        empty=[(list(x.shape), kind(x))],
    )
    off: Any = max(r.off.get(x, 0.0), r.off.get(beside, 0.0)) * (times + 1)
    for v in made:
        r.new(v, off)
