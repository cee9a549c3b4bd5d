"""Nodes, visitors, dtypes, names, text: the ground floor."""

from __future__ import annotations

import copy
import gc
import pickle
import threading

import numpy as np
import pytest

from tensorlang.core import text
from tensorlang.core.dtype import BOOL, FLOAT32, INT32, KNOWN, dtype
from tensorlang.core.names import NameSupply, free_name, identifier
from tensorlang.core.node import Node, intern, intern_as, interned_count
from tensorlang.core.visit import TypeTable
from tensorlang.errors import DeclareError, ScheduleError, TensorLangError


class Pair(Node):
    __slots__ = ("a", "b")
    _fields = ("a", "b")

    def __init__(self, a, b):
        self.a = a
        self.b = b


class Twin(Pair):
    __slots__ = ()


def test_same_class_and_fields_are_one_node():
    p = intern(Pair, 1, "x")
    assert intern(Pair, 1, "x") is p
    assert intern(Pair, 2, "x") is not p
    assert intern(Twin, 1, "x") is not p
    assert intern_as((Pair, "other key"), lambda: Pair(1, "x")) is not p
    assert copy.copy(p) is p and copy.deepcopy([p])[0] is p
    assert pickle.loads(pickle.dumps(p)) is p


def test_the_table_forgets_dead_nodes():
    gc.collect()
    before = interned_count()
    nodes = [intern(Pair, n, n) for n in range(1000, 1100)]
    assert interned_count() == before + 100
    del nodes
    assert interned_count() == before


def test_threads_agree_on_one_node():
    start = threading.Barrier(8)
    seen: list[list[Pair]] = [[] for _ in range(8)]

    def work(mine):
        start.wait()
        mine.extend(intern(Pair, "t", n) for n in range(2000))

    threads = [threading.Thread(target=work, args=(s,)) for s in seen]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for nodes in zip(*seen, strict=True):
        assert all(n is nodes[0] for n in nodes)


def test_dispatch_finds_the_nearest_base():
    table = TypeTable("demo")
    table.on(Pair)(lambda n: "pair")
    assert table(Twin(1, 2))(None) == "pair"
    table.on(Twin)(lambda n: "twin")
    assert table(Twin(1, 2))(None) == "twin" and table(Pair(1, 2))(None) == "pair"
    derived = TypeTable("derived", table)
    derived.on(Pair)(lambda n: "new")
    assert (
        derived(Pair(1, 2))(None) == "new"
        and table(Pair(1, 2))(None) == "pair"
        and derived(Twin(1, 2))(None) == "twin"
    )
    assert table.find(int) is None
    with pytest.raises(TypeError, match="demo: no rule for int"):
        table(3)


@pytest.mark.parametrize("name", KNOWN)
def test_dtypes_are_known_by_name(name):
    t = dtype(name)
    assert t is dtype(name) and str(t) == name and t == name and repr(t) == f"dtype({name!r})"
    assert pickle.loads(pickle.dumps(t)) is t
    if name != "bfloat16":
        assert dtype(t.to_numpy()) is t and t.to_numpy().itemsize == t.bytes
    v = t.with_lanes(8)
    assert dtype(f"{name}x8") is v and v.element is t and v.lanes == 8 and v.bytes == t.bytes


def test_dtypes_from_numpy_and_python():
    assert dtype(np.float32) is FLOAT32 and dtype(np.dtype("int32")) is INT32 and dtype(bool) is BOOL


@pytest.mark.parametrize("name", ["float31", "int", "floatx4", "float32x0", "double", "", "x4", 3, object()])
def test_what_is_no_dtype(name):
    with pytest.raises(DeclareError, match="dtype"):
        dtype(name)


def test_integers_wrap_into_their_type():
    assert [dtype("int8").wrap(v) for v in (127, 128, -129, 256)] == [127, -128, 127, 0]
    assert [dtype("uint8").wrap(v) for v in (255, 256, -1)] == [255, 0, 255]
    assert dtype("int8").limits() == (-128, 127) and BOOL.limits() == (0, 1)


def test_names_are_handed_out_once():
    names = NameSupply(("for",))
    a, b = object(), object()
    assert [names.fresh(n) for n in ("i", "i", "for", "i_1", "i")] == ["i", "i_1", "for_1", "i_1_1", "i_2"]
    assert names.of(a, "k") == "k" and names.of(b, "k") == "k_1" and names.of(a, "other") == "k"
    assert identifier("C.local") == "C_local" and identifier("1x") == "_1x" and identifier("") == "_"


def test_trees_and_columns():
    tree = text.TreeNode(
        "root", children=[text.TreeNode("a", "note", [text.TreeNode("b")]), text.TreeNode("longer", "n2")]
    )
    assert text.draw_tree(tree) == "root\n├─ a        note\n│  └─ b\n└─ longer   n2"
    assert (
        text.columns([["a", "1"], ["bb", "22"]], header=["x", "y"], right=(1,))
        == "x    y\n--  --\na    1\nbb  22"
    )
    assert text.columns([]) == ""
    assert [text.bytes_text(n) for n in (0, 12, 1536, 4096, 65536, 10**6, 1023 << 10, 3 << 29, 3 << 30)] == [
        "0 B",
        "12 B",
        "1.5 KiB",
        "4 KiB",
        "64 KiB",
        "977 KiB",
        "1023 KiB",
        "1.5 GiB",
        "3 GiB",
    ]


def test_errors_show_what_because_and_try_and_render_late():
    calls = []

    def because():
        calls.append(1)
        return "first line\nsecond line"

    error = ScheduleError("split(i, factor=0): refused", because=because, try_="a positive factor")
    assert not calls
    assert str(error).splitlines()[:4] == [
        "split(i, factor=0): refused",
        "  because   first line",
        "            second line",
        "  try       a positive factor",
    ]
    assert "at        test_core.py:" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ScheduleError and isinstance(again, TensorLangError) and str(again) == str(error)


def test_a_free_name():
    assert (
        free_name("i", ()) == "i" and free_name("i", {"i"}) == "i_1" and free_name("i", ["i", "i_1"]) == "i_2"
    )
    assert free_name("i", {"i"}, 7) == "i_7"
    names = NameSupply(("k",), separator=".")
    assert [names.fresh("k"), names.fresh("k"), names.fresh("k.1")] == ["k.1", "k.2", "k.1.1"]
    assert names.claim("own") and not names.claim("own") and names.fresh("own") == "own.1"
