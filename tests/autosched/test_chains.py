"""Reductions that feed reductions: sketches end, there are enough of them, what feeds a reduction may be
computed in its tiles, and all is right."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask
from autosched.space import Variant
from autosched.space.rules import RULES, Where, rule
from autosched.space.sketch import MAX_SKETCHES, Sketch, derive
from tensorlang import ops, te
from tensorlang.analysis import analyse

from .chains import MADE, NAMES, Tensors, made, p

X86 = tl.Target.parse("llvm -mcpu=haswell -num-cores=2")
QUICK = (
    "two products",
    "softmax of product",
    "conv residual",
    "lstm cell",
)  # one of them built in the default run


def sketches(tensors: Tensors, target: tl.Target = X86) -> list[Sketch]:
    task = SearchTask.of(tensors, target)
    return derive(task.schedule(), Where(task.target))


@pytest.mark.parametrize("name", NAMES)
def test_sketches_of_chains_end(name: str) -> None:
    """Every sketch can be lowered with the numbers it was written with, and no reduction that tiles help is
    left without them."""
    tensors = MADE[name][0]()
    found = sketches(tensors)
    assert 1 <= len(found) <= MAX_SKETCHES
    assert len({x.schedule.trace.to_json() for x in found}) == len(found)
    for x in found[:: max(1, len(found) // 2)]:
        tl.lower(x.schedule.concrete(), tensors)
        assert not [st.name for st in x.schedule.stages if st.name.endswith(".local.local")]


@pytest.mark.parametrize("name", QUICK)
def test_some_sketches_of_chains_are_right(name: str) -> None:
    tensors, oracle = made(name)
    found = sketches(tensors, tl.Target.host())
    for x in (found[0], found[-1]):
        assert oracle.differs(x.schedule.concrete()) == 0, x.rules


def test_every_sketch_of_two_products_is_right() -> None:
    """Every form of each product, and the first inside the tiles of the second."""
    tensors, oracle = made("two products")
    for x in sketches(tensors, tl.Target.host()):
        assert oracle.differs(x.schedule.concrete()) == 0, x.schedule.trace


@pytest.mark.fuzz
@pytest.mark.parametrize("name", NAMES)
def test_every_rule_on_reductions_in_a_row_all_sketches_replayed(name: str) -> None:
    tensors, oracle = made(name)
    rng = np.random.default_rng(len(name))
    target = tl.Target.host()
    for x in sketches(tensors, target):
        v = Variant(x.schedule, target)
        for row in (*v.present(), *v.sample_valid(rng, 2)):
            s = v.schedule(row)
            again = tl.Trace.from_json(s.trace.to_json()).apply(
                tl.create_schedule([t for t in tensors if not isinstance(t.op, te.PlaceholderOp)])
            )
            assert oracle.differs(again) == 0, (x.rules, v.decisions(row))


def product(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    return ops.matmul(a, b)


def test_two_products_have_as_many_sketches_as_in_ansor() -> None:
    """Nine at the least, both products in tiles of several forms, and the first one inside a block of rows of
    the second."""
    a, b, c = (p(256, 256, name=n) for n in "ABC")
    found = sketches([a, b, c, product(product(a, b), c)])
    texts = [str(x.schedule.trace) for x in found]
    assert len(found) >= 9
    assert all("vectorize(matmul.local" in t and "vectorize(matmul_1.local" in t for t in texts)
    assert {"compute_at(matmul, at=matmul_1" in t for t in texts} == {True, False}


def test_a_product_is_computed_inside_a_loop_only_if_none_of_it_is_computed_twice() -> None:
    """The blocks of columns of the second product all read the same rows of the first: it stands outside of
    them."""
    a, b, c = (p(256, 256, name=n) for n in "ABC")
    for x in sketches([a, b, c, product(product(a, b), c)]):
        s = x.schedule.concrete()
        assert float(str(analyse(s).flops)) <= 1.3 * 2 * 2 * 256**3


def test_scores_softmax_and_their_product_share_a_loop() -> None:
    """Whole attention without a recipe: scores, softmax and the product with the values block of rows by
    block of rows, in some sketch."""
    q, k, v = p(2, 64, 32, name="q"), p(2, 64, 32, name="k"), p(2, 64, 32, name="v")
    found = sketches([q, k, v, ops.batch_matmul(ops.softmax(ops.batch_matmul(q, k, transpose_b=True)), v)])
    hosts = [{st.name: getattr(st.state.attach, "stage", None) for st in x.schedule.stages} for x in found]
    parts = ("batch_matmul", "softmax.max", "softmax.sum", "softmax.exp")
    assert any(all(at.get(part) == "batch_matmul_1" for part in parts) for at in hosts), hosts


@pytest.mark.parametrize(
    "epilogue", [lambda t: ops.relu(t), lambda t: ops.relu(ops.multiply(ops.add(t, 1.0), 2.0))]
)
def test_the_last_stage_of_an_epilogue_takes_the_reduction(epilogue) -> None:
    """What follows a product element by element is one stage, in whose tiles it is computed, however cheap it
    would be to write it into the next product."""
    a, b, c = p(64, 64, name="A"), p(64, 64, name="B"), p(64, 64, name="C")
    for x in sketches([a, b, c, product(epilogue(product(a, b)), c)]):
        assert "matmul.local" not in [st.name for st in x.schedule.stages]
        (host,) = {st.state.attach.stage for st in x.schedule.stages if st.name == "matmul"}
        assert host == "relu"


def test_batch_of_one_is_an_own_place() -> None:
    """A residual of batch 1 reads the convolution at 0 in place of the batch axis; it is its consumer all the
    same."""
    for name in ("conv residual", "conv broadcast bias"):
        for x in sketches(MADE[name][0]()):
            assert not any(rule.startswith("cache write") for rule in x.rules)


def test_time_grows_with_the_stages_not_with_the_product_of_their_ways() -> None:
    """Each further stage takes as many schedules as there are sketches, whatever it could be made into."""
    schedules = []

    @rule(applies=lambda s, stage, where: schedules.append(stage.name) is not None)
    def counting(s: tl.Schedule, stage: tl.Stage, where: Where) -> list[tl.Schedule]:
        return []

    asked = []
    for n in (2, 4):
        t = p(64, 64, name="X")
        for i in range(n):
            t = product(t, p(64, 64, name=f"W{i}"))
        schedules.clear()
        derive(tl.create_schedule(t), Where(X86), [counting, *RULES])
        asked.append(len(schedules) / n)
    assert asked[1] <= 2 * asked[0]


def test_a_loop_fused_of_nothing_is_analysed() -> None:
    """``fuse()`` of no loops is a loop of one iteration."""
    a = p(8, name="A")
    b = te.compute((8,), lambda i: a[i] + 1.0, name="B")
    s = tl.create_schedule(b)
    s[b].fuse()
    assert float(str(analyse(s).flops)) == 8
