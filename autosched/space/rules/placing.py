"""Where a stage may be computed besides root, of the places that are worth it. Knows schedules."""

from __future__ import annotations

import tensorlang as tl


def places(s: tl.Schedule, stage: tl.Stage) -> list[tuple[str, str]]:
    """At most two loops that enclose all readers: the one shared out among threads (else the outermost); and, when no reader is a
    reduction, which would ask for the same elements again and again, the innermost that holds no tile."""
    found = []
    for name, loop in s.legal_places(stage.name):
        reader = s[name]
        iv = reader.loop(loop)
        if iv.kind == "data" and reader.state.kind(iv) in ("serial", "parallel"):
            found.append((name, loop, reader.state.kind(iv)))
    if not found:
        return []
    shared = next((f for f in found if f[2] == "parallel"), found[0])
    again = bool(stage.op.reduce_axis) or any(r.compute.reduce_axis for r in s.state.readers(stage.name))
    inner = shared if again else [f for f in found if f[0] == shared[0]][-1]
    return [f[:2] for f in dict.fromkeys([shared, inner])]
