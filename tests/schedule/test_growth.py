"""A schedule of many stages costs each stage what it costs in a schedule of few: counted in questions asked,
never in seconds."""

from __future__ import annotations

import pytest

from tensorlang import te
from tensorlang.schedule.bounds import Bounds, bounds_of
from tensorlang.schedule.legality import places
from tensorlang.schedule.relations import Split


def chain(n: int, rows: int = 8) -> list[te.Tensor]:
    tensors = [te.placeholder((rows, 16), name="x")]
    for i in range(n):
        tensors.append(te.compute((rows, 16), lambda r, c, t=tensors[-1]: t[r, c] + 1.0, name=f"t{i}"))
    return tensors


def counted(monkeypatch, owner, name):
    """How often a function is called from now on, as a list that grows."""
    calls = []
    plain = getattr(owner, name)

    def counting(*args, **kwargs):
        calls.append(1)
        return plain(*args, **kwargs)

    monkeypatch.setattr(owner, name, counting)
    return calls


def in_one_row(n: int) -> te.Schedule:
    """Every stage computed in the rows of the last, cut and vectorised there, readers first."""
    tensors = chain(n)
    s = te.create_schedule(tensors[-1].op)
    for t in reversed(tensors[1:-1]):
        s[t].compute_at(s[tensors[-1]], tensors[-1].op.axis[0])
        _, inner = s[t].split(s[t].op.axis[1], factor=4)
        s[t].vectorize(inner)
    return s


def apart(n: int) -> te.Schedule:
    """Every stage at root, cut and vectorised."""
    tensors = chain(n)
    s = te.create_schedule(tensors[-1].op)
    for t in tensors[1:]:
        _, inner = s[t].split(t.op.axis[1], factor=4)
        s[t].vectorize(inner)
    return s


@pytest.mark.parametrize("make", [in_one_row, apart])
def test_regions_are_found_a_constant_number_of_times_a_stage(monkeypatch, make):
    calls = counted(monkeypatch, Bounds, "_infer")
    make(10)
    few = len(calls)
    calls.clear()
    make(40)
    assert len(calls) <= 4.5 * few


@pytest.mark.parametrize("make", [in_one_row, apart])
def test_places_are_judged_a_constant_number_of_times_a_primitive(monkeypatch, make):
    calls = counted(monkeypatch, places, "place_verdict")
    make(10)
    few = len(calls)
    calls.clear()
    make(40)
    assert len(calls) <= 4.5 * few


@pytest.mark.parametrize("make", [in_one_row, apart])
def test_regions_taken_over_are_those_found_anew(make):
    s = make(6)
    taken = bounds_of(s.state).stages
    anew = Bounds(s.state).stages
    assert taken.keys() == anew.keys()
    for name, b in anew.items():
        assert all(
            x is y for x, y in zip((*taken[name].low, *taken[name].extent), (*b.low, *b.extent), strict=True)
        )
        assert taken[name].loops == b.loops and taken[name].value == b.value


def test_readers_follow_each_primitive():
    tensors = chain(4)
    s = te.create_schedule(tensors[-1].op)
    s.state.readers("t0")
    s[tensors[2]].compute_inline()
    cached = s.cache_write(tensors[4], "local")
    s[cached].compute_at(s[tensors[4]], tensors[4].op.axis[0])
    s[tensors[3]].compute_at(s[tensors[4]], tensors[4].op.axis[0])
    again = type(s.state)(s.state.stages)
    for st in s.state.stages:
        assert [r.name for r in s.state.readers(st.name)] == [r.name for r in again.readers(st.name)]
        assert [r.name for r in s.state.attached(st.name)] == [r.name for r in again.attached(st.name)]
    assert [r.name for r in s.state.readers("t2")] == [s.state.of(cached).name]


def test_stages_that_wait_are_judged_when_something_of_theirs_moves(monkeypatch):
    def producers_first(n: int) -> te.Schedule:
        tensors = chain(n)
        s = te.create_schedule(tensors[-1].op)
        for t in tensors[1:-1]:  # all wait until the last call places them all
            s[t].compute_at(s[tensors[-1]], tensors[-1].op.axis[0])
        return s

    calls = counted(monkeypatch, places, "place_verdict")
    assert not producers_first(10).pending
    few = len(calls)
    calls.clear()
    assert not producers_first(40).pending
    assert len(calls) <= 5 * few


def test_names_of_loops_stay_short():
    tensors = chain(1)
    s = te.create_schedule(tensors[-1].op)
    loop = tensors[-1].op.axis[0]
    for _ in range(60):
        loop = s[tensors[-1]].fuse(*s[tensors[-1]].split(loop, factor=4))
    names = [iv.name for iv in s[tensors[-1]].all_iter_vars]
    assert len(set(names)) == len(names) and max(map(len, names)) <= 2 * 256
    again = s.fresh().replay(s.trace)
    assert [iv.name for iv in again[tensors[-1]].all_iter_vars] == names


def test_names_of_loops_are_looked_up_once(monkeypatch):
    """Hundreds of splits and fusions of one loop do not look through all the loops before them each time, and
    what a stage knows of its names is what it would find by looking, also in schedules that part."""
    s = te.create_schedule(chain(1)[-1].op)
    stage = s["t0"]
    loop = stage.op.axis[0]
    looked = counted(monkeypatch, type(stage.state), "all_loops")
    for _ in range(40):
        loop = stage.fuse(*stage.split(loop, factor=2))
    assert len(looked) <= 2
    other = s.copy()
    other["t0"].split(other["t0"].op.axis[1], factor=4)
    stage.split(loop, factor=4)
    s.cache_write("t0", "local")
    for st in (*s.stages, *other.stages):
        assert st.state.used() == {iv.name for iv in st.state.all_loops()}


def test_extents_are_found_once_a_relation(monkeypatch):
    """A loop that is cut and annotated a hundred times over does not derive all the loops before each time; a
    schedule that parts from another has its own."""
    s = te.create_schedule(chain(1)[-1].op)
    stage = s["t0"]
    outer, column = stage.op.axis
    found = counted(monkeypatch, Split, "extents")
    for _ in range(40):
        outer, inner = stage.split(outer, factor=1)
        stage.unroll(inner)
    assert len(found) <= 40
    other = s.copy()
    _, wide = stage.split(column, factor=8)
    _, narrow = other["t0"].split(column, factor=2)
    stage.vectorize(wide)
    other["t0"].vectorize(narrow)
    for state in (s.state, other.state):
        kept, anew = bounds_of(state)["t0"].loops, Bounds(state)["t0"].loops
        assert kept.keys() == anew.keys() and all(kept[iv] is anew[iv] for iv in anew)
    assert (str(bounds_of(s.state).extent("t0", wide)), str(bounds_of(other.state).extent("t0", narrow))) == (
        "8",
        "2",
    )
