"""Definitions put together of others: the body is what writing one into the other gives, node for node."""

from __future__ import annotations

import random

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import few_operations, operations
from tensorlang.expr import walk
from tensorlang.expr.walk import rewrite, substitute
from tensorlang.te.inlined import inlined
from tensorlang.te.tensor import ComputeOp, TensorRead, reads_in


def written(reader: ComputeOp, producer: ComputeOp, key) -> ComputeOp:
    """The producer's body in its reader, at once."""

    def out(e):
        if type(e) is TensorRead and e.tensor.op is key:
            names = dict(zip([a.var for a in producer.axis], e.indices, strict=True))
            return substitute(producer.body[e.tensor.value_index], names)
        return None

    return reader.redefined(tuple(rewrite(e, out) for e in reader.body))


LINKS = {
    "twice": lambda t, i, j: t[i, j] * t[i, j] + t[i, j],
    "called": lambda t, i, j: te.exp(t[i, j]) - 1.0,
    "extreme": lambda t, i, j: te.max(te.min(t[i, j], 3.0), t[i, j]),
    "turned": lambda t, i, j: t[j, i] / 2.0,
    "last bit": lambda t, i, j: -t[i, j] * 1.0,
    "moved": lambda t, i, j: t[te.max(i - 1, 0), j] + 1.0,
    "same place twice": lambda t, i, j: t[i, i] + 1.0,
    "both": lambda t, i, j: t[i, j] + t[j, i],
    "chosen": lambda t, i, j: te.if_then_else(i < j, t[i, j], 0.0),
    "compared": lambda t, i, j: te.select(t[i, j] > 0.0, t[i, j], 1.0),
    "place": lambda t, i, j: t[i, j] + i.astype("float32"),
    "nothing of it": lambda t, i, j: t[i, j].astype("int32").astype("float32"),
}


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_of_links_is_what_writing_them_out_gives(seed):
    rng = random.Random(seed)
    x = te.placeholder((6, 6), name="x")
    tensors = [x]
    for n in range(8):
        link = LINKS[rng.choice(list(LINKS))] if n else lambda t, i, j: t[i, j + 0] + x[j, i]
        tensors.append(te.compute((6, 6), lambda i, j, t=tensors[-1], f=link: f(t, i, j), name=f"t{n}"))
    apart = whole = tensors[1].op
    for t in tensors[2:]:
        key = apart.outputs[0].op
        apart, whole = inlined(t.op, apart, key), written(t.op, whole, key)
        assert apart.reads == reads_in(whole.body)
        assert few_operations(apart, 10) == (operations(whole.body) <= 10)
    assert apart.body[0] is whole.body[0] and apart.composed is None


@pytest.mark.parametrize("name", ["twice", "called", "extreme", "turned", "last bit"])
def test_links_are_kept_apart_until_somebody_looks(name):
    x = te.placeholder((6, 6), name="x")
    p = te.compute((6, 6), lambda i, j: x[i, j] + 1.0, name="p")
    t = te.compute((6, 6), lambda i, j: LINKS[name](p, i, j), name="t")
    found = inlined(t.op, p.op, p.op)
    assert found.composed is not None and found.outputs == t.op.outputs
    assert found.body[0] is written(t.op, p.op, p.op).body[0] and found.composed is None


def test_numbers_without_places_are_links():
    x = te.placeholder((), name="x")
    p = te.compute((), lambda: x() * 2.0, name="p")
    q = te.compute((), lambda: p() + 1.0, name="q")
    assert inlined(q.op, p.op, p.op).body[0] is (x() * 2.0 + 1.0)


def test_what_may_read_less_than_its_parts_is_written_out_at_once():
    x = te.placeholder((6,), "int32", name="x")
    p = te.compute((6,), lambda i: x[i] + 1, name="p")
    q = te.compute((6,), lambda i: te.max(p[i], x[i] + 1), name="q")
    r = te.compute((6,), lambda i: q[i] - x[i], name="r")
    once = inlined(q.op, p.op, p.op)
    assert once.composed is None
    assert inlined(r.op, once, q.op).reads == ()  # x[i] + 1 - x[i]


def test_an_operation_has_no_other_names():
    p = te.compute((6,), lambda i: i + 1, name="p")
    with pytest.raises(AttributeError, match="ComputeOp has no 'bodies'"):
        p.op.bodies


def test_each_stage_of_a_chain_is_renamed_once(monkeypatch):
    """Of twice as many stages twice as many expressions are made, by hand and by default."""
    made = []
    plain = walk.substitute

    def nodes(n: int) -> int:
        t = te.placeholder((8, 8), name="x")
        out = []
        for i in range(n):
            t = te.compute((8, 8), lambda r, c, t=t: t[r, c] * 0.5 + 1.0, name=f"t{i}")
            out.append(t)
        made.clear()
        s = te.create_schedule(t.op)
        for one in out[:-1]:
            s[one].compute_inline()
        s[t].op.body
        return len(made)

    def counting(e, values, done=None):
        made.extend(walk.preorder(e))
        return plain(e, values, done)

    monkeypatch.setattr("tensorlang.te.inlined.substitute", counting)
    few = nodes(20)
    assert nodes(80) <= 4.5 * few


def test_deep_chains_of_links_meet_no_limit():
    t = te.placeholder((4,), name="x")
    tensors = [t]
    for i in range(3000):
        tensors.append(te.compute((4,), lambda p, t=tensors[-1]: t[p] + 1.0, name=f"t{i}"))
    op = tensors[1].op
    for t in tensors[2:]:
        op = inlined(t.op, op, op.outputs[0].op)
    assert operations(op.body) == 3000


def test_a_chain_inlined_computes_what_its_stages_do():
    x = te.placeholder((5, 7), name="x")
    p = te.compute((5, 7), lambda i, j: x[i, j] * 2.0, name="p")
    q = te.compute((7, 5), lambda i, j: p[j, i] + 1.0, name="q")
    r = te.compute((5, 7), lambda i, j: q[j, i] * q[j, i], name="r")
    s = te.create_schedule(r.op)
    s[p].compute_inline()
    s[q].compute_inline()
    assert "r[i, j] = (x[i, j] * 2.0 + 1.0) * (x[i, j] * 2.0 + 1.0)" in str(tl.lower(s, [x, r], simple=True))
