"""What Python's own syntax asks of public objects in vain: one error of ours each, at the user's line, and what
objects can do goes on working."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import operator
import pickle
from collections import abc
from contextlib import AbstractContextManager
from typing import SupportsFloat, SupportsIndex, SupportsInt

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import te
from tensorlang.protocols import (
    Entries,
    FixedError,
    Listed,
    NoElementError,
    NoEntryError,
    Row,
    UnsupportedError,
    is_function,
    names_of,
)

from .test_two_hundred import check_shown, refused
from .two_hundred import scene

# public objects that are no numbers and have no elements, by how the scene's names make them
PLAIN = {
    "kernel": "f",
    "engine": "engine",
    "graph": "g",
    "stage": "s[D]",
    "loop IR": "tl.lower(s, [A, B, D])",
    "timing": "f.benchmark(a, a, seconds=0)",
    "view": "f.view()",
    "target": "tl.Target('llvm')",
    "dtype": "A.dtype",
    "operation": "D.op",
    "task": "task",
    "sizes": "autosched.ShapeProfile({'m': (1, 8, 16)})",
    "signature": "f.signature",
    "node": "g.nodes[0]",
    "tuned function": "autosched.autotune(dense)",
    "verdict": "s.can('fuse', D, i, j)",
    "buffer": "tl.tir.decl_buffer((8,), 'float32')",
}
SYNTAX = (
    "o[0]",
    "o[0] = 1",
    "len(o)",
    "[q for q in o]",
    "a1, b1 = o",
    "3 in o",
    "o + 1",
    "1 + o",
    "o @ a",
    "a * o",
    "o ** 2",
    "o < 3",
    "sorted([o, o])",
    "o.nothere",
)
# a graph, a task and what is given back say what is called
CALLED = ("kernel", "engine", "tuned function", "graph", "loop IR", "task", "sizes", "timing")


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    return scene(tmp_path_factory.mktemp("protocols"))


@pytest.mark.parametrize("thing", PLAIN)
def test_syntax_in_vain(thing, names):
    names = names | {"o": eval(PLAIN[thing], names)}
    for code in SYNTAX:
        error = refused(code, names)
        assert isinstance(error, (UnsupportedError, AttributeError)), code
        check_shown(error)


@pytest.mark.parametrize("thing", PLAIN)
def test_objects_pass_for_nothing_that_they_are_not(thing, names):
    o = eval(PLAIN[thing], names)
    assert callable(o) == (thing in CALLED)
    assert isinstance(o, AbstractContextManager) == (thing == "target")  # ``with tl.Target(…):``
    for kind in (abc.Iterable, abc.Iterator, SupportsInt, SupportsIndex, SupportsFloat):
        assert not isinstance(o, kind), kind
    assert o == o and o is not None and o != 3 and o != "x"
    assert operator.length_hint(o, 7) == 7  # who tries and falls back goes on
    assert thing == "verdict" or bool(o) is True


def test_elements_where_there_are_some(names):
    s = te.create_schedule(names["D"].op)
    s[names["D"]].vectorize(s[names["D"]].op.axis[1])
    assert s.trace[0].name == s.trace[-1].name == next(iter(s.trace)).name == "vectorize"
    assert s.trace[:1] == s.trace.steps and len(s.trace) == 1
    assert [stage.name for stage in s.stages[-1:]] == ["D"]
    for code in ("s.stages[9]", "s.trace[9]", "log[0]", "log[-1]"):
        error = refused(code, names)
        assert isinstance(error, NoElementError) and isinstance(error, IndexError)
    for code in ("s.stages['C']", "s.trace['split']", "log['best']"):
        assert isinstance(refused(code, names), UnsupportedError), code


def test_copies_and_pickles(names):
    s, g = names["s"], names["g"]
    assert copy.deepcopy(s).tree() == s.tree() and copy.copy(s) is not s
    for never_changes in ("engine", "A", "k", "n"):
        assert copy.deepcopy(names[never_changes]) is names[never_changes]
    for changes in (g, names["task"], names["log"], names["x"], names["y"].node):
        assert copy.copy(changes) is not changes and copy.deepcopy(changes) is not changes
    other = copy.deepcopy(g)
    other.input((3,), "float32", "z")
    assert [v.name for v in g.inputs] == ["x"] and len(other.inputs) == 2
    trace = te.create_schedule(names["D"].op).trace
    assert pickle.loads(pickle.dumps(trace)) == trace == copy.copy(trace)
    target = tl.Target("llvm")
    assert pickle.loads(pickle.dumps(target)) == target
    assert repr(pickle.loads(pickle.dumps(te.const(3)))) == "3"
    for thing in ("s", "engine", "g", "A", "n", "D.op", "k", "s[D]"):
        check_shown(refused(f"import pickle; pickle.dumps({thing})", names))


def test_a_class_of_users_may_be_abstract_too():
    class Mine(autosched.RecordLog, abc.Sized):
        pass

    log = Mine(None)
    log.note = "mine"
    assert log.note == "mine" and len(log) == 0


@pytest.mark.parametrize(
    "code",
    [
        "tl.tir.Var(3)",
        "te.Var('')",
        "te.IterVar()",
        "te.IterVar(3)",
        "te.ComputeOp()",
        "A(i=3)",
        "tl.nd.array(a).copyto()",
        "tl.nd.array(a).copyfrom(3, 4)",
        "tl.nd.array(a).numpy(3)",
        "tl.testing.assert_allclose(a)",
        "tl.testing.assert_allclose(a, 'x')",
        "tl.testing.assert_allclose(A, a)",
        "tl.testing.assert_allclose(a, a, rtol='x')",
    ],
)
def test_arguments_of_what_is_made_by_its_class(code, names):
    check_shown(refused(code, names))


def test_variables_in_the_way_of_tvm():
    n = tl.tir.Var("n", "int32")
    A = te.placeholder((n,), name="A")
    f = tl.compile([A, te.compute((n,), lambda i: A[i] + 1.0, name="B")])
    assert (f(np.zeros(3, "float32")) == 1).all()


def test_arrays_that_differ():
    with pytest.raises(AssertionError, match="Mismatched"):
        tl.testing.assert_allclose(np.zeros(3), np.ones(3))
    with pytest.raises(AssertionError, match="shapes"):
        tl.testing.assert_allclose(np.zeros(3), np.zeros(4))
    tl.testing.assert_allclose(np.zeros(3), [0, 0, 0])


def test_assignments_that_a_user_writes_are_refused_and_tools_go_on(names, monkeypatch):
    task, engine, g = names["task"], names["engine"], copy.copy(names["g"])
    for code in (
        "task.trials = 3",
        "engine.threads = 4",
        "del g.nodes",
        "s[D].op.name += 'x'",
        "A.shape = ()",
    ):
        error = refused(code, names)
        assert isinstance(error, FixedError) and isinstance(error, AttributeError)
        check_shown(error)
    assert not hasattr(task, "trials") and not hasattr(engine, "threads")
    monkeypatch.setattr(engine, "run", lambda inputs: "patched")
    assert engine.run({}) == "patched"
    monkeypatch.undo()
    assert sorted(engine.run({"x": names["a"]})) == ["y"]
    setattr(g, "note", "mine")  # noqa: B010
    assert copy.copy(g).note == "mine"

    class Mine(tl.Graph):
        def __init__(self):
            super().__init__("mine")
            self.note = "of a class of users"

    mine = Mine()
    mine.note = "changed"
    assert mine.note == "changed"


def test_lists_of_public_objects_are_lists(names):
    s, g, trace = names["s"], names["g"], names["s"].trace
    for items in (g.nodes, g.inputs, g.outputs, g.dims, names["task"].tensors):
        assert isinstance(items, list) and items == [*items] and items[:1] == [*items][:1]
        assert isinstance(items[0], object) and items[-1] is [*items][-1]
    for items in (s.outputs, s[names["D"]].leaf_iter_vars, names["D"].op.input_tensors, trace.steps):
        assert isinstance(items, tuple) and items == tuple(items) and hash(items) == hash(tuple(items))
    for items in (Listed("g.nodes", [1, 2]), Row("s.outputs", [1, 2]), Entries("s.decisions", {"a": 1})):
        for same in (pickle.loads(pickle.dumps(items)), copy.copy(items), copy.deepcopy(items)):
            assert same == items and type(same) is type(items) and same.of == items.of
        assert type(items)(items) == items  # as code over any list, tuple or mapping makes them
    assert Entries("s.decisions", {"a": 1}).get("b") is None
    with pytest.raises(NoEntryError, match=r"s.decisions\['b'\]"):
        Entries("s.decisions", {"a": 1})["b"]
    other = copy.copy(g)
    other.nodes.append(other.nodes[0])
    assert len(other.nodes) == len(g.nodes) + 1


def test_names_looked_up_in_classes(names):
    for code in (
        "tl.Trace.load('x')",
        "tl.Engine.from_onnx('x')",
        "tl.Target.list_kinds()",
        "tl.Graph.load('x')",
    ):
        check_shown(refused(code, names))
    assert not hasattr(tl.Trace, "load") and not hasattr(names["s"].trace, "load")
    assert "load" not in names_of(tl.Trace) and "steps" in names_of(tl.Trace)


def test_modules_that_are_not_there(names):
    for code in (
        "import tensorlang.relay",
        "from tensorlang.contrib import x",
        "import autosched.auto_scheduler",
    ):
        error = refused(code, names)
        assert isinstance(error, ModuleNotFoundError)
    assert importlib.util.find_spec("tensorlang.relay") is None
    with pytest.raises(ModuleNotFoundError, match="No module named"):
        importlib.import_module("tensorlang.relay")


def test_a_target_around_builds(names):
    A, D = names["A"], names["D"]
    here = tl.Target.current()
    with tl.Target("llvm -mcpu=haswell") as outer:
        assert tl.Target.current() is outer
        with pytest.raises(ZeroDivisionError), tl.Target("llvm -mcpu=znver3"):
            assert tl.Target.current().mcpu == "znver3"
            raise ZeroDivisionError
        assert tl.Target.current() is outer
        made = tl.build(te.create_schedule(D.op), [A, names["B"], D], load=False)
        assert "haswell" in str(made.target)
        assert autosched.SearchTask.of([A, names["B"], D]).target is outer
    assert tl.Target.current() == here


def test_an_interpretation_by_names_is_kept_as_a_page(names, tmp_path):
    A, B, D, a = (names[n] for n in ("A", "B", "D", "a"))
    s = te.create_schedule(D.op)
    runs = [tl.interpret(s, [A, B, D], arrays) for arrays in ([a, a], {"A": a, "B": a}, {A: a, B: a})]
    assert all((run.arrays["D"] == 16).all() for run in runs)
    runs[0].save(tmp_path / "run.html")
    assert "<svg" in (tmp_path / "run.html").read_text(encoding="utf-8")
    for code in ("{'A': a, 'Q': a}", "{'B': a}"):
        check_shown(refused(f"tl.interpret(s, [A, B, D], {code})", names))


def test_a_verdict_says_what_to_try(names):
    text = str(names["s"].can("compute_at", names["D"], names["s"][names["C"]], names["C"].op.axis[0]))
    assert (
        text.startswith("not legal\n  because")
        and str(names["s"].can("fuse", names["D"], "i", "j")) == "legal"
    )


def test_a_method_of_one_object_may_be_replaced():
    log, seen = autosched.RecordLog(None), []
    log.append = seen.append  # type: ignore[method-assign, assignment]
    log.append("a record")
    assert seen == ["a record"]
    with pytest.raises(tl.TensorLangError, match="takes no assignment"):
        log.append = 3  # type: ignore[method-assign, assignment]


# attributes that only code of ours reads
INNER = {
    "ComputeOp": {"needs", "reads", "spatial"},
    "PlaceholderOp": {"needs", "spatial", "body"},
    "Graph": {"assumed", "declared", "renames", "taken"},
    "Node": {"graphs", "memo", "reads", "results", "was"},
    "Value": {"sizes"},
    "Engine": {"codes", "later", "steps"},
    "Module": {"features"},
    "Signature": {"checks", "needs", "work"},
    "Schedule": {"pending"},
    "SearchTask": {"names", "rules", "without"},
    "RecordLog": {"bad", "records", "unwritten"},
}


WITH_ANSWERS = [
    "",
    "A",
    "D",
    "A.op",
    "D.op",
    "f",
    "f.signature",
    "s",
    "s[D]",
    "s.trace",
    "g",
    "x",
    "g.nodes[0]",
    "engine",
    "task",
    "log",
    "tl.Target('llvm')",
    "f.benchmark(a, a, seconds=0)",
    "f.profile(a, a, seconds=0)",
    "autosched.ShapeProfile({'m': (1, 8, 16)})",
    "f.explain()",
    "tl.interpret(s, [A, B, D], [a, a])",
    "",
][1:-1]


@pytest.mark.parametrize("code", WITH_ANSWERS)
def test_answers_that_have_elements_say_what_there_is(code, names):
    """An index or a name beyond them is an error of ours at the user's line."""
    o = eval(code, names)
    for name in (n for n in dir(o) if not n.startswith("_")):
        try:
            answer = getattr(o, name)
        except tl.TensorLangError:
            continue  # a name that is gone says so
        if name not in INNER.get(type(o).__name__, ()):
            assert type(answer) not in (tuple, list, dict), f"{code}.{name}"
            if isinstance(answer, (tuple, list, dict)):
                check_shown(refused("o[10 ** 9]", {**names, "o": answer}))


def test_lists_take_what_they_list(names):
    g = copy.copy(names["g"])
    g.nodes[0] = g.nodes[0]
    g.nodes.extend(names["g"].nodes)
    g.inputs.insert(0, names["x"])
    assert len(g.nodes) == 2 and len(g.inputs) == 2
    for name in ("append", "insert", "extend"):
        with pytest.raises(UnsupportedError, match="lists Nodes"):
            getattr(g.nodes, name)(*((0, 3) if name == "insert" else ([3],)))
    assert len(g.nodes) == 2


def test_an_object_whose_calls_are_refused_is_no_function(names):
    assert not is_function(names["s"]) and is_function(len) and is_function(names["f"])
    check_shown(refused("te.compute((8, 8), s)", names))


def test_a_name_of_before_warns():
    with pytest.warns(DeprecationWarning, match="allocate"):
        assert autosched.search.allot is autosched.search.allocate


def test_what_lists_members_meets_no_error_of_ours() -> None:
    a = te.placeholder((8,), name="a")
    s = tl.create_schedule(te.compute((8,), lambda i: a[i] + 1.0, name="b").op)
    for o in (a, s, s.trace, tl.lower(s, [a])):
        assert not hasattr(o, "__enter__")
        assert inspect.getmembers(o)
        with pytest.raises(tl.TensorLangError, match="used without a with"), o:
            pass
