"""What the shipped cost model learns from: tasks unlike those it is judged by (see ``cases``), each measured
a few dozen times.

``measure`` tunes them all with a large share of random candidates and leaves records. Knows autosched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from autosched import SearchTask, tune
from autosched.measure import Measurer, Stages
from tensorlang import ops, te

from .sprinkled import Sprinkled

SEED = 7
RANDOM = 0.3  # of the candidates: the model has to know what is slow as well


def _matmul(m: int, n: int, k: int, turned: bool = False) -> list[te.Tensor]:
    a, b = te.placeholder((m, k), name="A"), te.placeholder((n, k) if turned else (k, n), name="B")
    return [a, b, ops.matmul(a, b, transpose_b=turned)]


def _batch(b: int, m: int, n: int, k: int, turned: bool = False) -> list[te.Tensor]:
    x, y = te.placeholder((b, m, k), name="A"), te.placeholder((b, n, k) if turned else (b, k, n), name="B")
    return [x, y, ops.batch_matmul(x, y, transpose_b=turned)]


def _conv(c: int, size: int, f: int, kernel: int, stride: int = 1, groups: int = 1) -> list[te.Tensor]:
    x, w, b = (
        te.placeholder((1, c, size, size), name="x"),
        te.placeholder((f, c // groups, kernel, kernel), name="w"),
        te.placeholder((f,), name="b"),
    )
    return [x, w, b, ops.relu(ops.conv2d(x, w, b, stride=stride, padding=(kernel - 1) // 2, groups=groups))]


def _rows(op: Callable[..., te.Tensor], *shape: int) -> list[te.Tensor]:
    x = te.placeholder(shape, name="x")
    return [x, op(x)]


def _conv1d(c: int, size: int, f: int, kernel: int, dilation: int = 1) -> list[te.Tensor]:
    x, w = te.placeholder((1, c, size), name="x"), te.placeholder((f, c, kernel), name="w")
    return [x, w, ops.conv1d(x, w, padding=dilation * (kernel - 1) // 2, dilation=dilation)]


def _conv3d(c: int, depth: int, size: int, f: int, kernel: int) -> list[te.Tensor]:
    x = te.placeholder((1, c, depth, size, size), name="x")
    w = te.placeholder((f, c, kernel, kernel, kernel), name="w")
    return [x, w, ops.conv3d(x, w, padding=kernel // 2)]


def _dilated(c: int, size: int, f: int, dilation: int) -> list[te.Tensor]:
    x, w = te.placeholder((1, c, size, size), name="x"), te.placeholder((f, c, 3, 3), name="w")
    return [x, w, ops.conv2d(x, w, padding=dilation, dilation=dilation)]


def _transposed(c: int, size: int, f: int, kernel: int) -> list[te.Tensor]:
    x, w = te.placeholder((1, c, size, size), name="x"), te.placeholder((c, f, kernel, kernel), name="w")
    return [x, w, ops.conv_transpose2d(x, w, stride=2, padding=(kernel - 1) // 2)]


def _dense(m: int, k: int, n: int, activation: Callable[..., te.Tensor]) -> list[te.Tensor]:
    x, w, b = (
        te.placeholder((m, k), name="x"),
        te.placeholder((n, k), name="w"),
        te.placeholder((n,), name="b"),
    )
    return [x, w, b, ops.dense(x, w, b, activation=activation)]


def _attention(heads: int, tokens: int, width: int) -> list[te.Tensor]:
    q, k, v = (te.placeholder((1, heads, tokens, width), name=n) for n in "qkv")
    return [q, k, v, ops.scaled_dot_product_attention(q, k, v)]


def _blocks(m: int, k: int, hidden: int) -> list[te.Tensor]:
    x, v, w = (te.placeholder(s, name=n) for n, s in (("x", (m, k)), ("v", (k, hidden)), ("w", (hidden, k))))
    return [x, v, w, ops.matmul(ops.relu(ops.matmul(x, v)), w)]


def _norm(m: int, n: int) -> list[te.Tensor]:
    x, w, b = te.placeholder((m, n), name="x"), te.placeholder((n,), name="w"), te.placeholder((n,), name="b")
    return [x, w, b, ops.layer_norm(x, weight=w, bias=b)]


def _of(op: Callable[..., te.Tensor], *shapes: tuple[int, ...]) -> list[te.Tensor]:
    """An operator of several float32 arrays."""
    given = [te.placeholder(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    return [*given, op(*given)]


def _separable(x: te.Tensor, depth: te.Tensor, point: te.Tensor) -> te.Tensor:
    y = ops.relu6(ops.depthwise_conv2d(x, depth, padding=1))
    return ops.relu6(ops.conv2d(y, point))


def _swiglu(x: te.Tensor, gate: te.Tensor, up: te.Tensor) -> te.Tensor:
    return ops.silu(ops.matmul(x, gate)) * ops.matmul(x, up)


def _residual_norm(x: te.Tensor, y: te.Tensor, w: te.Tensor) -> te.Tensor:
    return ops.rms_norm(ops.add(x, y), weight=w)


def _distances(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    k = te.reduce_axis((0, x.shape[1]), "k")
    off = lambda i, j: x[i, k] - y[j, k]
    return te.compute(
        (x.shape[0], y.shape[0]), lambda i, j: te.sum(off(i, j) * off(i, j), axis=k), name="distances"
    )


def _cosine(x: te.Tensor, y: te.Tensor) -> te.Tensor:
    length = lambda a: ops.sqrt(ops.sum(ops.square(a), 1))
    return ops.sum(ops.multiply(x, y), 1) / (length(x) * length(y))


def _stencil(x: te.Tensor) -> te.Tensor:
    h, w = (int(str(e)) - 2 for e in x.shape)
    wide = te.compute((h + 2, w), lambda i, j: x[i, j] + 2.0 * x[i, j + 1] + x[i, j + 2], name="wide")
    return te.compute((h, w), lambda i, j: wide[i, j] + 2.0 * wide[i + 1, j] + wide[i + 2, j], name="blur")


def _channels_last(c: int, size: int, f: int, kernel: int) -> list[te.Tensor]:
    return _of(
        lambda x, w: ops.relu(ops.conv2d(x, w, padding=kernel // 2, layout="NHWC")),
        (1, size, size, c),
        (kernel, kernel, c, f),
    )


def _integers(m: int, n: int, k: int) -> list[te.Tensor]:
    x, y = te.placeholder((m, k), "uint8", name="x"), te.placeholder((k, n), "int8", name="y")
    return [x, y, ops.matmul_integer(x, y)]


TASKS: dict[str, Callable[[], Sequence[te.Tensor]]] = {
    "matmul 256 256 256": lambda: _matmul(256, 256, 256),
    "matmul 128 768 768": lambda: _matmul(128, 768, 768),
    "matmul 384 1024 512": lambda: _matmul(384, 1024, 512),
    "matmul 31 1000 2048": lambda: _matmul(31, 1000, 2048),
    "matmul 1024 1024 64": lambda: _matmul(1024, 1024, 64),
    "matmul 200 200 200": lambda: _matmul(200, 200, 200),
    "matmul_nt 196 512 512": lambda: _matmul(196, 512, 512, True),
    "batch_matmul_nt 8 64 64 64": lambda: _batch(8, 64, 64, 64, True),
    "batch_matmul_nt 6 196 196 96": lambda: _batch(6, 196, 196, 96, True),
    "batch_matmul 12 128 64 128": lambda: _batch(12, 128, 64, 128),
    "conv 128 28 128 3": lambda: _conv(128, 28, 128, 3),
    "conv 512 7 512 3": lambda: _conv(512, 7, 512, 3),
    "conv 64 56 128 3 s2": lambda: _conv(64, 56, 128, 3, 2),
    "conv 24 40 48 3": lambda: _conv(24, 40, 48, 3),
    "conv 64 56 256 1": lambda: _conv(64, 56, 256, 1),
    "conv 256 14 1024 1": lambda: _conv(256, 14, 1024, 1),
    "conv 1024 14 256 1": lambda: _conv(1024, 14, 256, 1),
    "conv 3 112 32 7 s2": lambda: _conv(3, 112, 32, 7, 2),
    "depthwise 128 56": lambda: _conv(128, 56, 128, 3, 1, 128),
    "depthwise 512 14": lambda: _conv(512, 14, 512, 3, 1, 512),
    "depthwise 64 112 s2": lambda: _conv(64, 112, 64, 3, 2, 64),
    "softmax 1024 1000": lambda: _rows(lambda x: ops.softmax(x, -1), 1024, 1000),
    "softmax 96 768": lambda: _rows(lambda x: ops.softmax(x, -1), 96, 768),
    "layer_norm 512 768": lambda: _norm(512, 768),
    "layer_norm 4096 256": lambda: _norm(4096, 256),
    "sum_last 2048 1024": lambda: _rows(lambda x: ops.sum(x, 1), 2048, 1024),
    "sum_first 1024 1024": lambda: _rows(lambda x: ops.sum(x, 0), 1024, 1024),
    "gelu 512 1024": lambda: _rows(ops.gelu, 512, 1024),
    "matmul 96 96 96": lambda: _matmul(96, 96, 96),
    "matmul 127 251 509": lambda: _matmul(127, 251, 509),
    "matmul 4 1024 1024": lambda: _matmul(4, 1024, 1024),
    "matmul 768 64 768": lambda: _matmul(768, 64, 768),
    "matmul 16 3000 128": lambda: _matmul(16, 3000, 128),
    "matmul_nt 77 640 320": lambda: _matmul(77, 640, 320, True),
    "matmul_nt 384 384 1536": lambda: _matmul(384, 384, 1536, True),
    "batch_matmul 4 197 197 64": lambda: _batch(4, 197, 64, 197),
    "batch_matmul_nt 16 50 50 32": lambda: _batch(16, 50, 50, 32, True),
    "dense relu 48 384 768": lambda: _dense(48, 384, 768, ops.relu),
    "dense gelu 128 512 512": lambda: _dense(128, 512, 512, ops.gelu),
    "two products 96 192 384": lambda: _blocks(96, 192, 384),
    "attention 6 100 32": lambda: _attention(6, 100, 32),
    "attention 2 256 80": lambda: _attention(2, 256, 80),
    "conv 17 37 23 5": lambda: _conv(17, 37, 23, 5),
    "conv 96 20 160 3": lambda: _conv(96, 20, 160, 3),
    "conv 32 48 32 3": lambda: _conv(32, 48, 32, 3),
    "conv 48 27 96 3 s2": lambda: _conv(48, 27, 96, 3, 2),
    "conv 40 30 240 1": lambda: _conv(40, 30, 240, 1),
    "conv 3 64 48 4 s4": lambda: _conv(3, 64, 48, 4, 4),
    "grouped 96 24 96 g4": lambda: _conv(96, 24, 96, 3, 1, 4),
    "grouped 128 14 128 g32": lambda: _conv(128, 14, 128, 3, 1, 32),
    "depthwise 144 28 5": lambda: _conv(144, 28, 144, 5, 1, 144),
    "depthwise 32 75": lambda: _conv(32, 75, 32, 3, 1, 32),
    "conv1d 80 400 192 3": lambda: _conv1d(80, 400, 192, 3),
    "conv1d 32 1000 64 7": lambda: _conv1d(32, 1000, 64, 7),
    "conv1d 48 300 48 3 d4": lambda: _conv1d(48, 300, 48, 3, 4),
    "conv3d 8 10 20 24 3": lambda: _conv3d(8, 10, 20, 24, 3),
    "dilated 48 33 48": lambda: _dilated(48, 33, 48, 2),
    "transposed 96 12 48 4": lambda: _transposed(96, 12, 48, 4),
    "transposed 32 20 32 3": lambda: _transposed(32, 20, 32, 3),
    "softmax 333 77": lambda: _rows(lambda x: ops.softmax(x, -1), 333, 77),
    "log_softmax 64 5000": lambda: _rows(lambda x: ops.log_softmax(x, -1), 64, 5000),
    "layer_norm 99 1024": lambda: _norm(99, 1024),
    "mean_middle 32 500 96": lambda: _rows(lambda x: ops.mean(x, 1), 32, 500, 96),
    "max_last 600 700": lambda: _rows(lambda x: ops.max(x, 1), 600, 700),
    "max_pool 48 60": lambda: _rows(lambda x: ops.max_pool2d(x, 3, stride=2, padding=1), 1, 48, 60, 60),
    "avg_pool 96 30": lambda: _rows(lambda x: ops.avg_pool2d(x, 2, stride=2), 1, 96, 30, 30),
    "separable 48 28 96": lambda: _of(_separable, (1, 48, 28, 28), (48, 1, 3, 3), (96, 48, 1, 1)),
    "conv 64 14 64 3": lambda: _conv(64, 14, 64, 3),
    "conv 256 20 256 3 s2": lambda: _conv(256, 20, 256, 3, 2),
    "conv nhwc 32 28 64 3": lambda: _channels_last(32, 28, 64, 3),
    "conv nhwc 96 14 192 1": lambda: _channels_last(96, 14, 192, 1),
    "conv batch 4 32 16": lambda: _of(
        lambda x, w: ops.conv2d(x, w, padding=1), (4, 32, 16, 16), (48, 32, 3, 3)
    ),
    "conv norm 24 36 32": lambda: _of(
        lambda x, w, *p: ops.relu(ops.batch_norm(ops.conv2d(x, w, padding=1), *p)),
        (1, 24, 36, 36),
        (32, 24, 3, 3),
        *[(32,)] * 4,
    ),
    "matmul_tn 300 200 400": lambda: _of(
        lambda x, y: ops.matmul(x, y, transpose_a=True), (400, 300), (400, 200)
    ),
    "gram 150 600": lambda: _of(lambda x: ops.matmul(x, x, transpose_b=True), (150, 600)),
    "matmul 1 2000 1500": lambda: _matmul(1, 2000, 1500),
    "vector matrix turned 1 1200 3000": lambda: _matmul(1, 1200, 3000, True),
    "batch_matmul 40 20 30 25": lambda: _batch(40, 20, 25, 30),
    "matmul bytes 128 256 512": lambda: _integers(128, 256, 512),
    "swiglu 40 256 384": lambda: _of(_swiglu, (40, 256), (256, 384), (256, 384)),
    "dense softmax 100 128 300": lambda: _of(
        lambda x, w: ops.softmax(ops.dense(x, w), -1), (100, 128), (300, 128)
    ),
    "dense norm 90 256 320": lambda: _of(
        lambda x, w, g: ops.rms_norm(ops.dense(x, w), weight=g), (90, 256), (320, 256), (320,)
    ),
    "einsum 24 30 40 20": lambda: _of(lambda x, y: ops.einsum("abk,kc->bac", x, y), (24, 30, 40), (40, 20)),
    "three products 60 80": lambda: _of(
        lambda x, y, z: ops.matmul(ops.matmul(x, y), z), (60, 80), (80, 160), (160, 70)
    ),
    "residual norm 300 640": lambda: _of(_residual_norm, (300, 640), (300, 640), (640,)),
    "group_norm 64 24": lambda: _of(
        lambda x, w, b: ops.group_norm(x, 8, w, b), (2, 64, 24, 24), (64,), (64,)
    ),
    "instance_norm 48 40": lambda: _of(
        lambda x, w, b: ops.instance_norm(x, w, b), (1, 48, 40, 40), (48,), (48,)
    ),
    "logsumexp 500 900": lambda: _of(lambda x: ops.logsumexp(x, 1), (500, 900)),
    "softmax middle 20 60 90": lambda: _of(lambda x: ops.softmax(x, 1), (20, 60, 90)),
    "variance 800 300": lambda: _of(lambda x: ops.var(x, 1), (800, 300)),
    "cosine 700 384": lambda: _of(_cosine, (700, 384), (700, 384)),
    "distances 120 140 64": lambda: _of(_distances, (120, 64), (140, 64)),
    "blur 700 900": lambda: _of(_stencil, (702, 902)),
    "mean image 256 14": lambda: _of(lambda x: ops.mean(x, (2, 3)), (4, 256, 14, 14)),
    "sum all 900 1100": lambda: _of(lambda x: ops.sum(x), (900, 1100)),
    "transpose 700 900": lambda: _of(lambda x: ops.relu(ops.transpose(x, (1, 0))), (700, 900)),
    "swap axes 16 60 12 64": lambda: _of(lambda x: ops.transpose(x, (0, 2, 1, 3)), (16, 60, 12, 64)),
    "tanh add 400 1500": lambda: _of(lambda x, y: ops.tanh(ops.add(x, y)), (400, 1500), (1500,)),
    "resize 32 40": lambda: _of(lambda x: ops.resize(x, (80, 80), "bilinear"), (1, 32, 40, 40)),
    "concat 30 500": lambda: _of(lambda x, y: ops.concat([x, y], 1), (300, 200), (300, 333)),
    "attention grouped 8 2 150 48": lambda: _of(
        lambda q, k, v: ops.attention(q, k, v)[0], (1, 8, 150, 48), (1, 2, 150, 48), (1, 2, 150, 48)
    ),
    "transposed batch 4 80 40": lambda: _of(
        lambda x, y: ops.transpose(ops.batch_matmul(x, y), (1, 0, 2)), (4, 80, 64), (4, 64, 40)
    ),
}


def task_of(name: str, target: str | None = None) -> SearchTask:
    """A task of the list, for this machine or for what it can run as well."""
    return SearchTask.of(TASKS[name](), target, name=name)


def measure(records: Path, trials: int, names: Iterable[str] = TASKS, target: str | None = None) -> None:
    """Measure ``trials`` candidates of each task; what the file holds already is not measured again.
    ``target``: a lesser one than this machine, so that a model learns of other registers."""
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        for name in names:
            how = Sprinkled(RANDOM)
            print(
                tune(
                    task_of(name, target),
                    trials=trials,
                    seed=SEED,
                    strategy=how,
                    measurer=measurer,
                    records=records,
                    progress=False,
                ),
                flush=True,
            )
