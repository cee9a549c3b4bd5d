"""The key of a task ignores names: what was measured under one naming is found and made under another, and
different programs have different keys."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched.records import Record, RecordLog
from autosched.search import Exhaustive
from autosched.space import variants_of
from autosched.tuning.adopted import Adopted
from autosched.tuning.session import Session, canonical_trace
from tensorlang import te

from . import chains

A = ("X", "W", "bias", "i", "j", "r", "product", "out")
B = ("q", "a", "zz", "y", "x", "k", "acc", "Acc")  # other names in another order
TARGET = "llvm -num-cores=1"


def dense(
    names=A, m=24, n=40, k=16, *, dtype="float32", factor=1.0, least=0.0, tag="", swapped=False, offset=0
):
    x, w, b, i, j, r, p, o = names
    X, W = te.placeholder((m, k + offset), dtype, name=x), te.placeholder((k, n), dtype, name=w)
    bias = te.placeholder((n,), dtype, name=b)
    red = te.reduce_axis((0, k), name=r)
    first = eval(
        f"lambda {i}, {j}: te.sum(X[{i}, red + offset] * W[red, {j}], axis=red)",
        {"te": te, "X": X, "W": W, "red": red, "offset": offset},
    )
    product = te.compute((m, n), first, name=p)
    last = eval(
        f"lambda {i}, {j}: te.max(product[{i}, {j}] * factor + bias[{j}], least)",
        {
            "te": te,
            "product": product,
            "bias": bias,
            "factor": te.const(factor, dtype),
            "least": te.const(least, dtype),
        },
    )
    out = te.compute((m, n), last, name=o, tag=tag)
    return [W, X, bias, out] if swapped else [X, W, bias, out]


def record_of(task, trace, times=(1e-6,) * 5):
    return Record(
        task.workload_key,
        str(task.target),
        canonical_trace(trace),
        "ok",
        times,
        name=task.name,
        names=task.names,
    )


def tasks():
    return [autosched.SearchTask.of(dense(names), TARGET) for names in (A, B)]


def in_words(text, one, other):
    """A program with names exchanged for those of another."""
    told = dict(zip(one, other, strict=True))
    return re.sub(r"[A-Za-z]+", lambda m: told.get(m.group(), m.group()), text)


def test_other_names_have_the_same_key():
    one, two = tasks()
    assert one.workload_key == two.workload_key and one.exact_key != two.exact_key
    assert len(one.names) == len(two.names) and set(one.names) == set(A) and set(two.names) == set(B)
    assert dict(zip(one.names, two.names, strict=True)) == dict(zip(A, B, strict=True))


def test_sums_of_indices_stand_in_the_order_of_names_and_the_key_does_not():
    def window(a, b):
        X, r = te.placeholder((12,), name="X"), te.reduce_axis((0, 3), name=b)
        return [
            X,
            te.compute(
                (10,), eval(f"lambda {a}: te.sum(X[{a} + r], axis=r)", {"te": te, "X": X, "r": r}), name="Y"
            ),
        ]

    assert te.serialize.form_of(window("a", "b")) == te.serialize.form_of(window("b", "a"))


def test_every_sketch_is_made_under_other_names(tmp_path):
    one, two = tasks()
    log = RecordLog(tmp_path / "r.jsonl")
    x, w, b = (
        np.arange(np.prod(s)).reshape(s).astype("float32") % 7 - 3 for s in ((24, 16), (16, 40), (40,))
    )
    for n, v in enumerate(variants_of(one)):
        r = record_of(one, v.trace_of(v.present()[0]))
        log.append(r)
        mine, theirs = (t.apply_best([r]) for t in (one, two))
        assert len(theirs[0].trace) == len(mine[0].trace)
        texts = [str(tl.lower(*made, name="f")) for made in (mine, theirs)]
        sizes = [sorted(map(len, map(str.split, t.splitlines()))) for t in texts]
        assert sizes[0] == sizes[1]
        if n < 2:
            assert (tl.build(*theirs, target=two.target)(x, w, b) == np.maximum(x @ w + b, 0)).all()
    session = Session(
        two, RecordLog(tmp_path / "r.jsonl"), Exhaustive(), autosched.cost_model.RandomModel(0), 0, 5.0
    )
    assert session.tried == len(log) and [len(s.rows) for s in session.seen] == [1] * len(session.variants)
    assert session.first in session.known  # and is not measured again


@pytest.mark.parametrize("name", ["mlp", "attention", "conv residual", "winograd"])
def test_chains_have_their_key_and_their_sketches_under_any_names(name):
    tensors = chains.MADE[name][0]()
    form, names = te.serialize.form_and_names(tensors)
    others = tuple(f"n{x}" for x in random.Random(name).sample(range(100, 1000), len(names)))
    back = te.serialize.renamed(tensors, others)
    assert te.serialize.form_and_names(back) == (form, others)
    one, two = autosched.SearchTask.of(tensors, TARGET), autosched.SearchTask.of(back, TARGET)
    traces = [v.trace for v in variants_of(two)]
    told = Adopted(two, traces).own([record_of(one, v.trace) for v in variants_of(one)[:3]])
    assert told and all(r.trace().steps in [t.steps for t in traces] for r in told)


def test_a_trace_by_hand_gives_equal_loops_up_to_names():
    names = ("X", "W", "bias", "i", "j", "r", "product", "Y")
    other = ("P", "M", "c", "ii", "jj", "rr", "q", "Z")  # in the order in which the first stand
    one, two = (autosched.SearchTask.of(dense(n), TARGET) for n in (names, other))
    s = one.schedule()
    out = s["Y"]
    io, _ = out.split("i", s.sample_tile(out.loop("i"), values=4, name="rows"))
    s["product"].compute_at(out, io)
    copy = s.cache_read(one.tensors[1], "local", ["product"])
    s[copy].compute_at(s["product"], "r")
    r = record_of(one, s.trace)
    texts = [str(tl.lower(*t.apply_best([r]), name="f")) for t in (one, two)]
    assert in_words(texts[0], names, other) == texts[1] and texts[0] != texts[1]


def test_a_record_under_the_key_of_before_is_of_the_task_it_was_made_of():
    one, two = tasks()
    v = variants_of(one)[0]
    old = replace(record_of(one, v.trace_of(v.present()[0])), task=one.exact_key, names=())
    assert str(one.apply_best([old])[0].tree()) == str(
        one.apply_best([record_of(one, old.trace())])[0].tree()
    )
    with pytest.raises(tl.TensorLangError, match="1 record of other tasks"):
        two.apply_best([old])


@pytest.mark.parametrize("names", [("a",), ("",) * 8, ("i",) * 8, tuple("abcdefgh")])
def test_names_that_are_not_those_of_the_trace_are_refused_with_the_reason(names):
    one, two = tasks()
    s = one.schedule()
    s["out"].split("i", 4)
    with pytest.raises(tl.TensorLangError, match="1 record cannot be replayed"):
        two.apply_best([replace(record_of(one, s.trace), names=names)])


def test_names_are_written_and_read():
    one, _ = tasks()
    r = record_of(one, one.schedule().trace)
    assert Record.from_json(r.to_json()) == r
    assert "names" not in replace(r, names=()).to_json()
    with pytest.raises(tl.TensorLangError, match="names"):
        Record.from_json(replace(r, names=(1, 2)).to_json())  # type: ignore[arg-type]


def test_different_programs_have_different_keys():
    rng = random.Random(0)
    choices = {
        "m": (8, 9, 24),
        "n": (8, 9, 40),
        "k": (8, 9, 16),
        "dtype": ("float32", "float64"),
        "factor": (1.0, 2.0),
        "least": (0.0, 1.0),
        "tag": ("", "dense"),
        "swapped": (False, True),
        "offset": (0, 1),
    }
    keys: dict[str, dict] = {}
    for _ in range(120):
        chosen = {k: rng.choice(v) for k, v in choices.items()}
        names = rng.sample([*"abcdefghopqrstuvwxyz"], 8)
        key = te.serialize.form_of(dense(names, **chosen))
        assert keys.setdefault(key, chosen) == chosen
    assert len(keys) == len({tuple(c.items()) for c in keys.values()}) > 90


def test_facts_of_dims_are_in_the_key_and_their_names_are_not():
    def doubled(dim):
        X = te.placeholder((dim, dim), name="X")
        return te.serialize.form_of([X, te.compute((dim, dim), lambda i, j: X[j, i] * 2.0)])

    dims = [te.dim("n", 1, 64), te.dim("n", 1, 65), te.dim("n", 1, 64, multiple_of=2), te.var("n")]
    assert len({doubled(d) for d in dims}) == 4 and doubled(te.dim("other", 1, 64)) == doubled(dims[0])
    a, b = te.dim("a", 1, 64), te.dim("b", 1, 64)
    X, Y = te.placeholder((a, b), name="X"), te.placeholder((a, a), name="X")
    forms = {te.serialize.form_of([t, te.compute(t.shape, lambda i, j, t=t: t[i, j] * 2.0)]) for t in (X, Y)}
    assert len(forms) == 2


def test_the_key_is_the_same_in_another_process():
    program = (
        "from tensorlang import te; X = te.placeholder((8, 4), name='Q'); k = te.reduce_axis((0, 4), name='z');"
        "print(te.serialize.form_of([X, te.compute((8,), lambda a: te.sum(X[a, k], axis=k), name='P')]))"
    )
    got = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()
    X, k = te.placeholder((8, 4)), te.reduce_axis((0, 4))
    assert got == te.serialize.form_of([X, te.compute((8,), lambda i: te.sum(X[i, k], axis=k))])


def test_records_of_other_tasks_are_left_alone():
    one, two = tasks()
    other = replace(record_of(one, one.schedule().trace), task="0" * 16)
    assert Adopted(two).take([other]) == [other] and Adopted(two).own([other]) == []
