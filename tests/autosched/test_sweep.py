"""The sweep: every operator after every heavy one. Sketches are derived, replayed and right; the default run
takes each operator after one heavy one and each heavy one several times, ``-m fuzz`` takes all pairs, builds
every one and tunes it with two trials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.measure import Measurer
from autosched.space import variants_of
from autosched.space.rules import Where
from autosched.space.sketch import derive
from tensorlang import ops, te

from .chains import Oracle, Tensors

X86 = tl.Target.parse("llvm -mcpu=haswell -num-cores=2")


class Inputs:
    """Placeholders in the order they are asked for."""

    def __init__(self) -> None:
        self.made: Tensors = []

    def __call__(self, *shape: int, dtype: str = "float32") -> te.Tensor:
        self.made.append(te.placeholder(shape, dtype, name=f"in{len(self.made)}"))
        return self.made[-1]


Heavy = Callable[[Inputs], te.Tensor]
HEAVY: dict[str, Heavy] = {
    "dense": lambda p: ops.dense(p(12, 40), p(24, 40), p(24)),
    "matmul": lambda p: ops.matmul(p(12, 40), p(40, 24)),
    "batch_matmul": lambda p: ops.batch_matmul(p(2, 10, 36), p(2, 12, 36), transpose_b=True),
    "attention": lambda p: ops.scaled_dot_product_attention(
        p(1, 2, 10, 16), p(1, 2, 12, 16), p(1, 2, 12, 16)
    ),
    "conv2d": lambda p: ops.conv2d(p(1, 4, 8, 8), p(8, 4, 3, 3), padding=1),
    "conv2d, batch of two": lambda p: ops.conv2d(p(2, 4, 8, 8), p(8, 4, 3, 3), p(8), stride=2, padding=1),
    "winograd": lambda p: ops.conv2d_winograd(p(1, 4, 8, 8), p(8, 4, 3, 3), padding=1),
    "depthwise": lambda p: ops.depthwise_conv2d(p(1, 8, 8, 8), p(8, 1, 3, 3), padding=1),
    "conv_transpose": lambda p: ops.conv_transpose2d(p(1, 4, 4, 4), p(4, 8, 2, 2), stride=2),
    "grouped": lambda p: ops.conv2d(p(1, 8, 8, 8), p(8, 4, 3, 3), padding=1, groups=2),
    "conv1d": lambda p: ops.conv1d(p(1, 4, 20), p(8, 4, 3), padding=1),
}

Follower = Callable[[te.Tensor, Inputs], te.Tensor]


def shape(t: te.Tensor) -> list[int]:
    return [int(str(e)) for e in t.shape]


def images(f: Follower) -> Follower:
    """Of convolutions over images only."""
    f.images = True  # type: ignore[attr-defined]
    return f


FOLLOWERS: dict[str, Follower] = {
    "relu": lambda t, p: ops.relu(t),
    "gelu": lambda t, p: ops.gelu(t),
    "scale and shift": lambda t, p: ops.add(ops.multiply(t, p(shape(t)[-1])), p(shape(t)[-1])),
    "residual": lambda t, p: ops.add(t, p(*shape(t))),
    "residual, relu": lambda t, p: ops.relu(ops.add(p(*shape(t)), t)),
    "broadcast bias": lambda t, p: ops.add(t, p(*[1 if d != 1 else n for d, n in enumerate(shape(t))])),
    "with itself": lambda t, p: ops.multiply(t, ops.sigmoid(t)),
    "with its reverse": lambda t, p: ops.add(t, ops.flip(t, axis=-1)),
    "cast": lambda t, p: ops.cast(t, "int32"),
    "clip": lambda t, p: ops.clip(t, -3.0, 3.0),
    "where": lambda t, p: ops.where(ops.greater(t, 0.0), t, p(*shape(t))),
    "softmax": lambda t, p: ops.softmax(t),
    "log_softmax, axis 1": lambda t, p: ops.log_softmax(t, axis=1),
    "logsumexp": lambda t, p: ops.logsumexp(t, axis=-1),
    "layer_norm": lambda t, p: ops.layer_norm(t, shape(t)[-1], p(shape(t)[-1])),
    "rms_norm": lambda t, p: ops.rms_norm(t, shape(t)[-1]),
    "batch_norm": lambda t, p: ops.batch_norm(t, p(shape(t)[1]), ops.abs(p(shape(t)[1]))),
    "group_norm": images(lambda t, p: ops.group_norm(t, 2)),
    "instance_norm": images(lambda t, p: ops.instance_norm(t)),
    "sum": lambda t, p: ops.sum(t, axis=-1),
    "sum of the first axis": lambda t, p: ops.sum(t, axis=0),
    "sum of all": lambda t, p: ops.sum(t),
    "max": lambda t, p: ops.max(t, axis=1),
    "mean": lambda t, p: ops.mean(t, axis=-1, keepdims=True),
    "var": lambda t, p: ops.var(t, axis=-1),
    "norm": lambda t, p: ops.norm(t, axis=-1),
    "argmax": lambda t, p: ops.argmax(t, axis=-1),
    "cumsum": lambda t, p: ops.cumsum(t, axis=1),
    "max_pool": images(lambda t, p: ops.max_pool2d(t, 2, 2)),
    "max_pool, overlapping": images(lambda t, p: ops.max_pool2d(t, 3, 1, padding=1)),
    "avg_pool": images(lambda t, p: ops.avg_pool2d(t, 2, 2)),
    "global pool": images(lambda t, p: ops.global_avg_pool2d(t)),
    "global max": images(lambda t, p: ops.global_max_pool2d(t)),
    "depthwise": images(lambda t, p: ops.depthwise_conv2d(t, p(8, 1, 3, 3), padding=1)),
    "conv": images(lambda t, p: ops.conv2d(t, p(6, 8, 3, 3), padding=1)),
    "pointwise": images(lambda t, p: ops.relu(ops.conv2d(t, p(16, 8, 1, 1)))),
    "resize": images(lambda t, p: ops.resize(t, (12, 12), mode="bilinear")),
    "dense": lambda t, p: ops.dense(t, p(18, shape(t)[-1])),
    "product": lambda t, p: ops.matmul(t, p(*shape(t)[:-2], shape(t)[-1], 18)),
    "product from the left": lambda t, p: ops.matmul(p(*shape(t)[:-2], 14, shape(t)[-2]), t),
    "product with itself": lambda t, p: ops.matmul(t, t, transpose_b=True),
    "concat of two": lambda t, p: ops.concatenate([t, p(*shape(t))], axis=1),
    "half": lambda t, p: ops.split(t, 2, axis=1)[1],
    "gated": lambda t, p: ops.multiply(*ops.split(t, 2, axis=1)),
    "transpose": lambda t, p: ops.transpose(t),
    "flatten": lambda t, p: ops.flatten(t),
    "tile": lambda t, p: ops.tile(t, (2,) + (1,) * (len(shape(t)) - 1)),
    "pad": lambda t, p: ops.pad(t, [(1, 1)] * len(shape(t))),
    "pad, reflected": lambda t, p: ops.pad(t, [(0, 0)] * (len(shape(t)) - 1) + [(1, 1)], mode="reflect"),
    "slice": lambda t, p: ops.strided_slice(
        t, [0] * len(shape(t)), shape(t), [1] * (len(shape(t)) - 1) + [2]
    ),
    "take": lambda t, p: ops.take(t, p(5, dtype="int32"), axis=1),
}
# A step between neighbouring numbers: rounding decides, unless small integers come out whole. Tiles of four
# divide by 24, tiles of two by 4.
STEPS = {"cast", "where", "argmax"}
WHOLE: dict[str, Heavy] = {
    "winograd": lambda p: ops.conv2d_winograd(p(1, 4, 8, 8), p(8, 4, 3, 3), padding=1, tile=2)
}


def fits(heavy: str, follower: str) -> bool:
    """Whether the result of one is what the other takes."""
    return not getattr(FOLLOWERS[follower], "images", False) or heavy not in (
        "dense",
        "matmul",
        "batch_matmul",
        "attention",
        "conv1d",
    )


PAIRS = [(h, f) for h in HEAVY for f in FOLLOWERS if fits(h, f)]
# each operator after one heavy one: the i-th after the i-th, in turns
SOME = [
    next((h, f) for k in range(len(HEAVY)) for h in [list(HEAVY)[(i + k) % len(HEAVY)]] if fits(h, f))
    for i, f in enumerate(FOLLOWERS)
]


def computation(heavy: str, follower: str) -> Tensors:
    p = Inputs()
    first = WHOLE.get(heavy, HEAVY[heavy]) if follower in STEPS else HEAVY[heavy]
    result = FOLLOWERS[follower](first(p), p)
    return [*p.made, result]


@pytest.mark.parametrize("heavy, follower", SOME, ids=[f"{h}+{f}" for h, f in SOME])
def test_an_operator_after_a_heavy_one_is_searched(heavy: str, follower: str) -> None:
    """Sketches end, and the first and the last of a few can be lowered: the verifier has proved every access
    in bounds."""
    tensors = computation(heavy, follower)
    task = SearchTask.of(tensors, X86)
    found = derive(task.schedule(), Where(X86), most=4)
    assert found
    for x in {id(x): x for x in (found[0], found[-1])}.values():
        tl.lower(x.schedule.concrete(), tensors)


def test_every_heavy_operator_is_followed() -> None:
    assert {h for h, _ in SOME} == set(HEAVY) and {f for _, f in SOME} == set(FOLLOWERS)


@pytest.mark.fuzz
@pytest.mark.parametrize("heavy", HEAVY)
def test_every_operator_after_every_heavy_one(heavy: str) -> None:
    """All pairs: three candidates of the whole space are right, and a tune of two trials finds something."""
    problems = []
    with Measurer() as measurer:
        for follower in [f for h, f in PAIRS if h == heavy]:
            problems += _problems(heavy, follower, measurer)
    assert not problems, "\n".join(problems)


def _problems(heavy: str, follower: str, measurer: Measurer) -> list[str]:
    problems = []
    try:
        tensors = computation(heavy, follower)
        oracle = Oracle(tensors, exact=False)
        task = SearchTask.of(tensors, name=f"{heavy}, {follower}")
        variants = variants_of(task)
        rng = np.random.default_rng(len(follower))
        for v in (variants[0], variants[len(variants) // 2], variants[-1]):
            for row in v.sample_valid(rng, 1):
                if oracle.differs(v.schedule(row)) > 1e-4 * max(1.0, float(np.abs(oracle.right[0]).max())):
                    problems.append(f"{heavy} + {follower}: wrong with {v.why} {v.decisions(row)}")
        result = tune(task, trials=2, model="random", measurer=measurer, progress=False)
        if result.best is None or result.failures:
            problems.append(f"{heavy} + {follower}: {result}")
    except Exception as e:
        problems.append(f"{heavy} + {follower}: {type(e).__name__}: {e}")
    return problems
