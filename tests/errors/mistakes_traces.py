"""Mistakes of decisions and traces. Each function makes one; its last statement is refused with a
ScheduleError and changes nothing."""

from __future__ import annotations

import tensorlang as tl
from tensorlang import te

from .mistakes_schedule import _chain, _matmul
from .scene import Scene


def tile_sizes_outside_their_range(t: Scene):
    s, C = _matmul()
    t.watch(s).sample_tile(C.op.axis[0], 2, max_factor=16, values=(4, 32))


def too_few_tile_sizes(t: Scene):
    s, C = _matmul()
    t.watch(s).sample_tile(C.op.axis[0], 2, values=4)


def no_tile_sizes(t: Scene):
    s, C = _matmul()
    t.watch(s).sample_tile(C.op.axis[0], 0)


def tile_of_candidates_that_are_none(t: Scene):
    s, C = _matmul()
    t.watch(s).sample_tile(C.op.axis[0], candidates=[0, 4, 8])


def decision_named_twice(t: Scene):
    s, C = _matmul()
    s.sample_tile(C.op.axis[0], name="tile")
    t.watch(s).sample_tile(C.op.axis[1], name="tile")


def knob_of_another_schedule(t: Scene):
    s, C = _matmul()
    other, D = _matmul()
    f = other.sample_tile(D.op.axis[0])
    t.watch(s)[C].split(C.op.axis[0], f)


def choice_that_is_no_candidate(t: Scene):
    s, _ = _matmul()
    t.watch(s).sample_categorical([16, 32, 64], value=8)


def choice_of_nothing(t: Scene):
    s, _ = _matmul()
    t.watch(s).sample_categorical([])


def location_that_does_not_exist(t: Scene):
    s, _, P, S, C = _chain()
    t.watch(s).sample_location(S, value=9)


def unknown_primitive(t: Scene):
    s, C = _matmul()
    t.watch(s).step("vectorise", stage="C", loop="i")


def step_without_its_arguments(t: Scene):
    s, C = _matmul()
    t.watch(s).step("split", stage="C", factor=8)


def step_with_an_unknown_argument(t: Scene):
    s, C = _matmul()
    t.watch(s).step("split", stage="C", loop="i", by=8)


def trace_of_another_computation(t: Scene):
    s, C = _matmul()
    s[C].split(C.op.axis[0], 8)
    D = te.compute((4, 4), lambda i, j: 0, name="D")
    other = te.create_schedule(D.op)
    s.trace.apply(t.watch(other))


def trace_with_a_step_that_fails(t: Scene):
    s, C = _matmul()
    s[C].split(C.op.axis[0], 8)
    other, D = _matmul()
    other[D].split(D.op.axis[0], 4)
    s.trace.apply(t.watch(other))


def trace_that_is_no_json(t: Scene):
    tl.Trace.from_json("split(C, i, 8)")


def trace_of_another_version(t: Scene):
    tl.Trace.from_json('{"version": 99, "steps": [], "decisions": {}}')


def trace_with_an_unknown_primitive(t: Scene):
    tl.Trace.from_json('{"version": 1, "steps": [["spilt", {}]], "decisions": {}}')


def trace_with_a_wrong_type(t: Scene):
    tl.Trace.from_json(
        '{"version": 1, "steps": [["split", {"stage": "C", "loop": "i", "factor": "8"}]], "decisions": {}}'
    )
