"""What the shipped cost model learns from: tasks unlike those it is judged by (see ``cases``), each measured
a few dozen times.

``measure`` tunes them all with a large share of random candidates and leaves records. Knows autosched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from autosched import SearchTask, tune
from autosched.measure import Measurer, Stages
from autosched.search import Evolutionary
from tensorlang import ops, te

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


def _norm(m: int, n: int) -> list[te.Tensor]:
    x, w, b = te.placeholder((m, n), name="x"), te.placeholder((n,), name="w"), te.placeholder((n,), name="b")
    return [x, w, b, ops.layer_norm(x, weight=w, bias=b)]


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
}


def task_of(name: str, target: str | None = None) -> SearchTask:
    """A task of the list, for this machine or for what it can run as well."""
    return SearchTask.of(TASKS[name](), target, name=name)


def measure(records: Path, trials: int, names: Iterable[str] = TASKS, target: str | None = None) -> None:
    """Measure ``trials`` candidates of each task; what the file holds already is not measured again.
    ``target``: a lesser one than this machine, so that a model learns of other registers."""
    with Measurer(Stages(run="benchmarks.autosched.urgent:run")) as measurer:
        for name in names:
            how = Evolutionary(epsilon=RANDOM)
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
