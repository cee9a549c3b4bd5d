"""onnx's own backend tests, run on engines of this package: which there are, which are left out and why, and
what became of each.

``make test-onnx`` runs all of them; ``python -m tests.frontends.rig PATTERN`` those whose names match. Every
family runs in a worker process, which may die: that is a result as well. Level 0 is compiled, an operator a
kernel, and equal kernels are compiled once in a process; ``--level 2`` takes the graph through all passes.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests
from onnx.backend.test.runner import Runner

import tensorlang as tl
from tensorlang.graph.kernels import Compiler
from tensorlang.graph.to_engine import compiled

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "real")
RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
MISSING = re.compile(r"operators? (is|are) not supported")
SHARED = Compiler()
LEVEL = "TENSORLANG_RIG_LEVEL"  # what worker processes compile


class Rep(BackendRep):
    """A compiled model."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.engine = compiled(tl.load_onnx(model), SHARED, int(os.environ.get(LEVEL, "0")))

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[Any, ...]:
        """The outputs for these inputs, by position. Of the second call: the first of an engine of several
        programs goes step by step."""
        self.engine(*inputs)
        found = self.engine(*inputs)
        return tuple(found) if isinstance(found, tuple) else (found,)


class Tensorlang(Backend):
    """This package as onnx's tests see a backend."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **_: Any) -> Rep:
        """Import and compile a model."""
        return Rep(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Processors only."""
        return device == "CPU"


@functools.cache
def cases() -> dict[str, TestCase]:
    """All tests by name, ``light/`` and the like before those of other kinds than ``node``."""
    found: dict[str, TestCase] = {}
    with warnings.catch_warnings(action="ignore"):  # onnx makes them as it computes what it wants
        for kind in KINDS:
            for c in load_model_tests(kind=kind):
                found[c.name if kind == "node" else f"{_kind(kind)}/{c.name}"] = c
    return found


def _kind(kind: str) -> str:
    return "light" if kind == "real" else kind


# -- what is left out

SKIPS = {
    "domain": "operators of the domains preview and training are out of scope",
    "trees": "TreeEnsemble of ai.onnx.ml 5, whose nodes may ask for members of a set, is out of scope",
    "strings": "strings are out of scope",
    "pictures": "encoded pictures need a library of their formats",
    "random": "random numbers of another generator cannot be compared",
}


def skipped(model: onnx.ModelProto) -> str | None:
    """Why a model is left out, a key of SKIPS; None when it runs."""
    nodes = list(_nodes(model.graph))
    if any(n.op_type == "TreeEnsemble" for n in nodes):
        return "trees"
    if any(n.domain not in ("", "ai.onnx", "ai.onnx.ml", "com.microsoft") for n in nodes):
        return "domain"
    if any(n.op_type in RANDOM for n in nodes):
        return "random"
    if any(n.op_type == "ImageDecoder" for n in nodes):
        return "pictures"
    return "strings" if TensorProto.STRING in _types(model) else None


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for n in graph.node:
        yield n
        for a in n.attribute:
            yield from _nodes(a.g)


def _types(model: onnx.ModelProto) -> set[int]:
    """The types of elements among inputs, outputs and constants."""
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    found = {t for v in values for t in _elements(v.type)}
    found.update(t.data_type for t in model.graph.initializer)
    for n in _nodes(model.graph):
        found.update(a.t.data_type for a in n.attribute if a.HasField("t"))
        found.update(int(a.i) for a in n.attribute if n.op_type == "Cast" and a.name == "to")
    return found


def _elements(t: onnx.TypeProto) -> Iterator[int]:
    which = t.WhichOneof("value")
    if which == "tensor_type":
        yield t.tensor_type.elem_type
    elif which in ("sequence_type", "optional_type"):
        yield from _elements(getattr(t, which).elem_type)


# -- one test


@dataclasses.dataclass
class Outcome:
    """``what`` is passed, skipped (``why`` a key of SKIPS), missing (operators), refused (another error of
    ours), wrong, or crash."""

    name: str
    what: str
    why: str = ""
    seconds: float = 0.0


def run(name: str) -> Outcome:
    """What becomes of a test."""
    case = cases()[name]
    start = time.perf_counter()
    try:
        why = check(case)
    except tl.TensorLangError as e:
        kind = "missing" if MISSING.search(e.what) else "refused"
        return Outcome(name, kind, f"{e.what}; {e.because}", time.perf_counter() - start)
    except AssertionError as e:
        return Outcome(name, "wrong", " ".join(str(e).split())[:300], time.perf_counter() - start)
    except Exception as e:
        return Outcome(name, "crash", f"{type(e).__name__}: {e}", time.perf_counter() - start)
    return Outcome(name, "skipped" if why else "passed", why or "", time.perf_counter() - start)


def check(case: TestCase) -> str | None:
    """Run a test; the reason when it is left out. Raises AssertionError for other numbers than wanted."""
    model = case.model if case.model is not None else onnx.load(_path(case))
    why = skipped(model)
    if why is None:
        rep = Tensorlang.prepare(model)
        for inputs, wanted in case.data_sets if case.data_sets is not None else _stored(case, model):
            found = rep.run([_array(x) for x in inputs])
            _compare([_array(x) for x in wanted], list(found), case)
    return why


def _compare(wanted: Any, found: Any, case: TestCase) -> None:
    """As onnx's runner compares, which does not know sequences of numbers without a dimension."""
    if isinstance(wanted, list | tuple):
        assert isinstance(found, list | tuple), f"{type(found).__name__} where a sequence is wanted"
        assert len(wanted) == len(found), f"{len(found)} where {len(wanted)} are wanted"
        for a, b in zip(wanted, found, strict=True):
            _compare(a, b, case)
    elif wanted is None:
        assert found is None
    else:
        atol = max(case.atol, _noise(np.asarray(wanted)))
        Runner.assert_similar_outputs([np.asarray(wanted)], [found], case.rtol, atol)


def _noise(a: np.ndarray) -> float:
    """What rounding leaves of a 0 that is a sum of numbers as large as those of the array."""
    if a.dtype.type not in (np.float16, np.float32, np.float64):
        return 0.0
    finite = np.abs(a[np.isfinite(a)])
    return float(np.finfo(a.dtype).eps * finite.max()) if finite.size else 0.0


def _array(x: Any) -> Any:
    return numpy_helper.to_array(x) if isinstance(x, TensorProto) else x


def _path(case: TestCase) -> Path:
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    return Path(onnx.__file__).parents[1] / case.url


def _stored(case: TestCase, model: onnx.ModelProto) -> Iterator[tuple[list[Any], list[Any]]]:
    """Inputs and outputs in files beside the model. The light models have outputs only, of dummy inputs."""
    if case.model_dir is None:
        constants = {t.name for t in model.graph.initializer}
        inputs = [Runner.generate_dummy_data(v, seed=0) for v in model.graph.input if v.name not in constants]
        stem = _path(case).with_suffix("")
        yield inputs, [_read(Path(f"{stem}_output_{i}.pb")) for i in range(len(model.graph.output))]
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set*")):
        yield _numbered(folder, "input", model.graph.input), _numbered(folder, "output", model.graph.output)


def _numbered(folder: Path, kind: str, values: Any) -> list[Any]:
    n = len(list(folder.glob(f"{kind}_*.pb")))
    return [_read(folder / f"{kind}_{i}.pb", values[i].type.WhichOneof("value")) for i in range(n)]


def _read(path: Path, which: str | None = "tensor_type") -> Any:
    data = path.read_bytes()
    if which == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if which == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(TensorProto.FromString(data))


# -- many tests


def family(name: str) -> str:
    """Tests of one operator stay in one process: they share kernels."""
    return "_".join(name.removesuffix("_expanded").split("_")[:2])


def all_outcomes(names: Iterable[str], jobs: int) -> list[Outcome]:
    """What becomes of these tests, ``jobs`` processes at a time."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for n in names:
        groups[family(n)].append(n)
    parts = [[n for g in list(groups.values())[k::jobs] for n in g] for k in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        return [o for part in pool.map(_part, parts) for o in part]


def _part(names: list[str]) -> list[Outcome]:
    """Run tests in a worker process, and in a new one when a test ends it."""
    found: list[Outcome] = []
    left = list(names)
    while left:
        with tempfile.NamedTemporaryFile("w+", suffix=".txt") as f:
            f.write("\n".join(left))
            f.flush()
            done = _worker(f.name)
        found += done
        left = left[len(done) :]
        if left:
            found.append(Outcome(left.pop(0), "crash", "the process ended"))
    return found


def _worker(path: str) -> list[Outcome]:
    command = [sys.executable, "-m", "tests.frontends.rig", "--worker", path]
    environment = os.environ | {"TENSORLANG_THREADS": "1", "OMP_NUM_THREADS": "1"}
    found = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                found.append(Outcome(**json.loads(line)))
                _say(found[-1])
    return found


def _say(o: Outcome) -> None:
    """Print what did not pass as soon as it is known."""
    if o.what not in ("passed", "skipped"):
        print(f"{o.what:<8} {o.name}: {' '.join(o.why.split())[:400]}", flush=True)


def _work(path: str) -> None:
    for name in Path(path).read_text().split():
        print(json.dumps(dataclasses.asdict(run(name))), flush=True)


def table(outcomes: Sequence[Outcome]) -> str:
    """Counts by kind of test."""
    kinds = collections.defaultdict(collections.Counter)
    for o in outcomes:
        kinds[o.name.split("/")[0] if "/" in o.name else "node"][o.what] += 1
    words = ("passed", "skipped", "missing", "refused", "wrong", "crash")
    lines = [f"{'tests':<18}{'all':>7}" + "".join(f"{w:>9}" for w in words)]
    lines += [
        f"{kind:<18}{sum(n.values()):>7}" + "".join(f"{n[w]:>9}" for w in words) for kind, n in kinds.items()
    ]
    reasons = collections.Counter(o.why for o in outcomes if o.what == "skipped")
    lines += [f"  {n} skipped: {SKIPS[why]}" for why, n in reasons.most_common()]
    return "\n".join(lines)


def main() -> int:
    """Run tests and print what became of them."""
    words = argparse.ArgumentParser("python -m tests.frontends.rig", description=__doc__)
    words.add_argument("pattern", nargs="?", default="", help="a regular expression of names")
    words.add_argument("-j", "--jobs", type=int, default=1, help="worker processes")
    words.add_argument("--level", type=int, choices=(0, 1, 2), default=0, help="of the compiled graph")
    words.add_argument("--slow", type=int, default=0, metavar="N", help="show the N slowest")
    words.add_argument("--worker", help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.worker:
        _work(given.worker)
        return 0
    os.environ[LEVEL] = str(given.level)
    outcomes = all_outcomes([n for n in cases() if re.search(given.pattern, n)], given.jobs)
    for o in sorted(outcomes, key=lambda o: -o.seconds)[: given.slow]:
        print(f"{o.seconds:7.2f} s  {o.name}")
    print(table(outcomes))
    return int(any(o.what not in ("passed", "skipped") for o in outcomes))


if __name__ == "__main__":
    sys.exit(main())
