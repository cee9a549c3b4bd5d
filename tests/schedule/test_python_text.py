"""Each primitive writes its own Python: the text runs and makes the same schedule, also of a primitive that
says nothing about its text."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.schedule import primitives
from tensorlang.schedule.legality.verdict import YES
from tensorlang.schedule.primitives import BY_NAME, TABLE
from tensorlang.schedule.primitives.base import Primitive, check_loop
from tensorlang.schedule.primitives.fields import Knob, LoopName, Number, StageName, field_types
from tensorlang.schedule.primitives.split import Split
from tensorlang.schedule.trace import Trace
from tests import golden
from tests.fuzz.check import declared, round_trip, schedule_of
from tests.fuzz.draw import drawn
from tests.fuzz.graphs import random_graph
from tests.fuzz.schedules import Sampler
from tests.integration.test_stored_traces import CASES, STORED

TEXTS = Path(__file__).parent / "python_text.txt"


@dataclass(frozen=True, slots=True)
class Halved(Primitive):
    """A primitive of a user who wrote `check`, `apply` and `call` and no more: a split by a factor that may
    be sampled."""

    stage: StageName
    loop: LoopName
    by: Number
    name = "halved"

    def check(self, state):
        verdict = check_loop(state, self.stage, self.loop)
        return Split(self.stage, self.loop, self.by).check(state) if verdict else verdict

    def apply(self, state):
        return Split(self.stage, self.loop, self.by).apply(state)

    @staticmethod
    def call(stage, loop, by):
        return stage.do(Halved(stage.name, stage.loop_name("halved", loop), stage.number("halved", by)))


@dataclass(frozen=True, slots=True)
class Renamed(Halved):
    """The same, called with other words than its fields."""

    name = "renamed"

    @staticmethod
    def call(stage, axis, factor):
        return stage.do(
            Renamed(stage.name, stage.loop_name("renamed", axis), stage.number("renamed", factor))
        )


@pytest.fixture(params=[Halved, Renamed], ids=lambda kind: kind.name)
def new(request, monkeypatch):
    """A primitive that is new in the table."""
    kind = request.param
    monkeypatch.setitem(BY_NAME, kind.name, kind)
    monkeypatch.setattr(tl.Stage, kind.name, kind.call, raising=False)
    return kind


def product():
    A, B = te.placeholder((12, 20), name="A"), te.placeholder((20, 8), name="B")
    k = te.reduce_axis((0, 20), "k")
    return [A, B, te.compute((12, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), "C")]


def test_a_new_primitive_with_a_sampled_factor_prints_text_that_runs(new):
    args = product()
    s = te.create_schedule(args[-1])
    i, j = s[args[-1]].op.axis
    outer, inner = getattr(s["C"], new.name)(i, s.sample_tile(i, max_factor=8, values=3, name="ti"))
    s["C"].reorder(outer, j, inner)
    s["C"].vectorize(inner)
    want = str(tl.lower(s, args))
    for numbers in (False, True):
        text = s.trace.to_python(numbers=numbers)
        scope = {}
        exec(text, scope)
        again = scope["apply"](te.create_schedule(args[-1]))
        assert str(tl.lower(again, args)) == want
        assert "Knob(" not in text and (again.trace == s.trace) is (not numbers)
    assert "halved(i, ti)" in s.trace.to_python() or new is Renamed


def test_fuzzers_draw_a_new_primitive_without_being_told(new):
    made = knobs = 0
    for seed in range(30):
        rng = random.Random(seed)
        args, outputs, _ = declared(random_graph(rng))
        s = schedule_of(outputs)
        sampler = Sampler(s, rng)
        assert new.name in sampler.choices()[0]
        for _ in range(4):
            made += sampler.step(new.name)
        knobs += any(type(getattr(p, "by", None)) is Knob for p in s.trace.steps)
        round_trip(outputs, args, s)
    assert made > 60 and knobs > 5


def test_every_file_of_a_primitive_is_in_the_table():
    files = {p.stem for p in Path(primitives.__file__).parent.glob("*.py") if "(Primitive)" in p.read_text()}
    listed = {kind.__module__.rpartition(".")[2] for kind in TABLE}
    assert files == listed, (
        f"{files ^ listed}: a primitive is a file in schedule/primitives/ and a line in its __init__.py"
    )


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_the_fields_of_every_primitive_say_what_they_are(kind):
    """A field of text has a meaning (see ``fields.py``), or fuzzers and texts cannot know a loop from a
    word."""
    vague = [f.name for f in field_types(kind) if str in (f.element, *f.allowed) and not f.meaning.of]
    assert not vague, (
        f"{kind.__name__}: say what {', '.join(vague)} is: LoopName, StageName, Annotated[str, Meaning(…)]"
    )


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_the_text_of_every_primitive_drawn_at_random_runs(kind):
    """Drawn by its fields alone; how many are legal depends on the primitive."""
    for seed in range(12):
        rng = random.Random(seed)
        args, outputs, _ = declared(random_graph(rng))
        s = schedule_of(outputs)
        for _ in range(3):
            try:
                drawn(s, kind, rng)
            except tl.ScheduleError as e:
                assert str(e)
        scope = {}
        exec(s.trace.to_python(), scope)
        assert str(scope["apply"](schedule_of(outputs)).tree()) == str(s.tree())


@pytest.mark.parametrize("name", CASES)
def test_the_text_of_a_stored_trace_stays_as_it_is(name, pytestconfig):
    stored = Trace.from_json((STORED / f"{name}.json").read_text())
    golden.same(pytestconfig, TEXTS, name, stored.to_python() + "\n" + stored.to_python(numbers=True))


def test_a_trace_whose_decisions_are_too_few_still_has_a_text():
    args = product()
    s = te.create_schedule(args[-1])
    i, _ = s["C"].op.axis
    s["C"].split(i, s.sample_tile(i, name="ti"))
    assert "s.knob('ti.0')" in Trace(s.trace.steps, {"ti": ()}).to_python(numbers=True)


@pytest.mark.parametrize("factor", [2**70, {"no": 1}, [[[[1]]]]])
def test_a_step_with_data_that_no_trace_holds_is_refused(factor):
    args = product()
    s = te.create_schedule(args[-1])
    with pytest.raises(tl.ScheduleError, match="of a wrong type"):
        s.step("split", stage="C", loop="i", factor=factor)
    assert not s.trace.steps
