"""Where a stage may be computed besides root, of the places that are worth it. Knows schedules."""

from __future__ import annotations

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import Expr, Var, constant, reads_of

from .rule import untouched


def places(s: tl.Schedule, stage: tl.Stage) -> list[tuple[str, str]]:
    """At most two loops that enclose all readers: the one shared out among threads (else the outermost); and,
    when no reader is a reduction, which would ask for the same elements again and again, the innermost that
    holds no tile."""
    found = []
    for name, loop in s.legal_places(stage.name):
        reader = s[name]
        iv = reader.loop(loop)
        plain = iv.kind == "data" and reader.state.kind(iv) in ("serial", "parallel")
        if plain and not _in_lanes(s, name, loop):
            found.append((name, loop, reader.state.kind(iv)))
    if not found:
        return []
    shared = next((f for f in found if f[2] == "parallel"), found[0])
    again = bool(stage.op.reduce_axis) or any(r.compute.reduce_axis for r in s.state.readers(stage.name))
    inner = shared if again else [f for f in found if f[0] == shared[0]][-1]
    return [f[:2] for f in dict.fromkeys([shared, inner])]


def _in_lanes(s: tl.Schedule, name: str, loop: str) -> bool:
    """Whether a loop stands inside a vector loop, or is one."""
    at: tuple[str, str] | None = (name, loop)
    while at is not None:
        host = s[at[0]]
        around = list(host.leaf_iter_vars)[: 1 + [iv.name for iv in host.leaf_iter_vars].index(at[1])]
        if any(host.state.kind(iv) == "vectorized" for iv in around):
            return True
        outer = host.state.attach
        at = None if outer is None or isinstance(outer, str) else (outer.stage, outer.loop)
    return False


def once_first(
    s: tl.Schedule, stage: tl.Stage, found: list[tuple[str, str]]
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The places where nothing is computed twice, and the others."""
    twice = [place for place in found if repeats(s, stage, place)]
    return [place for place in found if place not in twice], twice


def decided(stage: tl.Stage) -> bool:
    """Whether no rule will change the loops of a stage any more."""
    return not untouched(stage)


def repeats(s: tl.Schedule, stage: tl.Stage, place: tuple[str, str]) -> bool:
    """Whether a stage computed at a place computes the same elements in several iterations: some loop around
    does not move what is read of it."""
    at: tuple[str, str] | None = place
    while at is not None:
        host = s[at[0]]
        axes = _axes_around(host, host.loop(at[1]))
        moving = _moving(s, stage, host)
        if any(constant(a.extent) != 1 and not any(a is m for m in moving) for a in axes):
            return True
        outer = host.state.attach
        at = None if outer is None or isinstance(outer, str) else (outer.stage, outer.loop)
    return False


def _axes_around(host: tl.Stage, loop: te.IterVar) -> list[te.IterVar]:
    """The axes that the loops of a stage up to one of them run over."""
    leaves = list(host.leaf_iter_vars)
    result = leaves[: next(p for p, iv in enumerate(leaves) if iv is loop) + 1]
    # from the leaves back to the axes: the relation made last is undone first
    for r in reversed(host.state.relations):
        if any(c is iv for c in r.children for iv in result):
            result = [iv for iv in result if not any(iv is c for c in r.children)] + list(r.parents)
    return result


def _moving(s: tl.Schedule, stage: tl.Stage, host: tl.Stage) -> list[te.IterVar]:
    """The axes of ``host`` on which it depends which elements of a stage are read in an iteration."""
    known: dict[str, list[list[te.IterVar]]] = {host.name: [[a] for a in host.op.axis]}

    def along(
        name: str,
    ) -> list[list[te.IterVar]]:  # for each axis of a stage, the axes of the host it follows
        if name not in known:
            here = s[name]
            known[name] = [[] for _ in here.op.axis]
            for reader in s.state.readers(name):
                by_var = dict(zip((a.var for a in reader.compute.axis), along(reader.name), strict=True))
                for t, indices in reads_of(reader.compute).plain:
                    if t in here.op.outputs:
                        for d, index in enumerate(indices):
                            known[name][d] += [a for v in _variables(index) for a in by_var.get(v, [])]
        return known[name]

    return [a for found in along(stage.name) for a in found]


def _variables(index: Expr) -> set[Var]:
    result = {index} if isinstance(index, Var) else set()
    for part in index.children():
        result |= _variables(part)
    return result
