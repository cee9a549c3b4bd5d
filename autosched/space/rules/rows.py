"""Reductions without reuse: partial results in vector lanes, and parts of the reduction shared out among
threads. Ansor's rule of rfactor, once along memory and once across threads. Knows schedules."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import tensorlang as tl
from tensorlang.analysis import constant, reads_of, reducer_kind

from .placing import once_first, places
from .rule import Answer, Where, empty, inside_scan, iterations, untouched, ways
from .tiling import consumer, reuses

VECTORS = (1, 2, 4, 8)


class Rows:
    """A reduction that tiles do not help: each element by itself."""

    name = "rfactor"

    def applies(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Answer:
        """When tiling has nothing to say, or the reduction runs along memory as well."""
        if not untouched(stage) or not stage.op.reduce_axis or empty(stage):
            return Answer.SKIP
        if reuses(stage) and (consumer(s, stage) is not None or s.can("cache_write", stage.name)):
            return Answer.SKIP
        return Answer.APPLY

    def apply(self, s: tl.Schedule, stage: tl.Stage, where: Where) -> Iterable[tl.Schedule]:
        """Inside its readers where nothing is computed twice, at root by threads, at root with the reduction
        itself shared out, at root by one thread, inside its readers elsewhere."""
        shared, cores = where.threads(iterations(stage)), where.target.num_cores
        points = 1
        for a in stage.op.axis:
            points *= constant(a.extent) or 64
        once, twice = (
            ([], [])
            if stage.state.is_output or inside_scan(stage)
            else once_first(s, stage, places(s, stage))
        )
        threads: list[partial[None]] = []
        if True in shared and not inside_scan(stage):
            threads = [partial(_root, stage.name, "rows", where)] if points >= cores else []
            # with many elements the elements alone share out evenly, without partial results to add up
            if points < 8 * cores and reducer_kind(stage.op) != "custom":
                threads.append(partial(_root, stage.name, "parts", where))
        alone = [] if threads and False not in shared else [partial(_root, stage.name, "", where)]
        return ways(
            s,
            *[partial(_at, stage.name, place, where) for place in once],
            *threads,
            *alone,
            *[partial(_at, stage.name, place, where) for place in twice],
        )


def _at(name: str, place: tuple[str, str], where: Where, s: tl.Schedule) -> None:
    stage, at = s[name], s[place[0]]
    stage.compute_at(at, at.loop(place[1]))
    in_lanes(s, stage, where)


def _root(name: str, shared: str, where: Where, s: tl.Schedule) -> None:
    stage = s[name]
    if shared == "parts":
        outermost = stage.op.reduce_axis[0]
        n = constant(outermost.extent)
        parts = s.sample_tile(
            outermost,
            # several parts a thread even out what one thread is late by
            candidates=[where.target.num_cores * v for v in (1, 2, 4)],
            role="parallel",
            values=where.target.num_cores if n is None else min(n, where.target.num_cores),
            name=s.free_decision(f"parts_{name}"),
        )
        outer, _ = stage.split(outermost, nparts=parts)
        partial_ = s[s.rfactor(name, outer)]
        first, *_rest = partial_.op.axis
        in_lanes(s, partial_, where)
        partial_.parallel(first)
        return
    in_lanes(s, stage, where)
    if shared:
        data = [iv for iv in stage.leaf_iter_vars if iv.kind == "data"]
        stage.parallel(data[0])


def in_lanes(s: tl.Schedule, stage: tl.Stage, where: Where) -> None:
    """Partial results in the lanes of a few vectors, for a reduction whose innermost axis runs along memory;
    else its loops as they are."""
    op = stage.op
    last = op.reduce_axis[-1]
    n, lanes = constant(last.extent), where.lanes(stage)
    if (
        reducer_kind(op) in (None, "custom")
        or not reads_of(op).along(last)
        or (n is not None and n < 2 * lanes)
    ):
        return
    allowed = [lanes * v for v in VECTORS if n is None or lanes * v <= n]
    # several chains of additions: one alone waits for the latency of each before the next
    usual = allowed[min(2, len(allowed) - 1)]
    width = s.sample_tile(
        last, candidates=allowed, values=usual, role="vector", name=s.free_decision(f"lanes_{stage.name}")
    )
    _, inner = stage.split(last, width)
    axes = list(op.axis)
    part = s[s.rfactor(stage.name, inner)]
    part.reorder(*part.op.axis[1:], *part.op.reduce_axis, part.op.axis[0])
    part.vectorize(part.op.axis[0])
    if axes:
        part.compute_at(stage, axes[-1])
        part.set_scope("local")
    stage.vectorize(stage.op.reduce_axis[0])
