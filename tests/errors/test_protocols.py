"""What Python's own syntax asks of public objects in vain: one error of ours each, at the user's line, and what
objects can do goes on working."""

from __future__ import annotations

import copy
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
from tensorlang.protocols import NoElementError, UnsupportedError

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
CALLED = ("kernel", "engine", "tuned function", "graph", "loop IR")  # a graph says what is called


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
    for kind in (
        abc.Iterable,
        abc.Iterator,
        AbstractContextManager,
        SupportsInt,
        SupportsIndex,
        SupportsFloat,
    ):
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
