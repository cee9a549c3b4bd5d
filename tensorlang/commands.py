"""``python -m tensorlang inspect | run | bench | compare | compile model.onnx``: models from the shell. Knows
graphs, engines and files of ONNX; ``COMMANDS`` is the one table of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .errors import TensorLangError
from .frontends import load_onnx
from .peers import answers, turns
from .peers import inputs as data
from .peers.runtimes import installed
from .runtime.engine import Engine
from .runtime.threads import num_threads

ENGINE = ".engine"
LOADED = ("inspect", "run")  # these take files of engines too


def inspect(given: argparse.Namespace) -> None:
    """operators, values, open sizes and constants of a model"""
    print(_engine(given.model) if given.model.endswith(ENGINE) else load_onnx(given.model))


def compile(given: argparse.Namespace) -> None:
    """a model to an engine in a file, MODEL.engine unless -o says otherwise"""
    goal = given.output or f"{given.model.removesuffix('.onnx')}{ENGINE}"
    start = time.perf_counter()
    engine = load_onnx(given.model).compile(
        workers=given.workers, progress=_progress, overridable=given.overridable
    )
    engine.save(goal)
    print(f"{goal}: {engine!r}, {time.perf_counter() - start:.1f} s")


def run(given: argparse.Namespace) -> None:
    """a model or engine on the arrays of an .npz file, by their names; -o keeps the outputs in another"""
    engine = _engine(given.model)
    outputs = dict(_arrays(engine.run(data.read(given.inputs))))
    for name, a in outputs.items():
        print(f"{name}: {a.dtype}{list(a.shape)}")
    if given.output:
        data.write(given.output, outputs)


def _arrays(outputs: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays among outputs, those of a sequence by numbers; what is missing is none."""
    if isinstance(outputs, dict | list | tuple):
        for k, x in outputs.items() if isinstance(outputs, dict) else enumerate(outputs):
            yield from _arrays(x, f"{name}.{k}" if name else str(k))
    elif outputs is not None:
        yield name, np.asarray(outputs)


def bench(given: argparse.Namespace) -> None:
    """a model's time beside onnxruntime and OpenVINO where they are installed, in turns"""
    inputs, threads = _inputs(given), given.threads or num_threads()
    rows = turns.race(given.model, inputs, installed(), threads, given.rounds, cold=given.cold)
    table = turns.table(rows)
    sizes = ", ".join(f"{name} {list(a.shape)}" for name, a in inputs.items())
    how = f"{threads} thread{'s' * (threads > 1)}, {given.rounds} rounds{', empty caches' * given.cold}"
    print(f"{given.model}: {sizes}; {how}")
    print(table)


def compare(given: argparse.Namespace) -> int:
    """a model's outputs beside those of onnxruntime, or of its operators one by one"""
    comparison = answers.Comparison(given.model, _inputs(given), given.tolerance)
    print(comparison.outputs())
    if given.all:
        print(comparison.inside())
    return int(comparison.wrong)


def _inputs(given: argparse.Namespace) -> dict[str, np.ndarray]:
    graph = load_onnx(given.model)
    return data.read(given.inputs) if given.inputs else data.made(graph, data.shapes_of(given.shape))


def _engine(path: str) -> Engine:
    return Engine.load(path) if path.endswith(ENGINE) else load_onnx(path).compile(progress=_progress)


def _count(text: str) -> int:
    if (n := int(text)) < 1:
        raise ValueError
    return n


def _progress(ready: int, whole: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{ready} of {whole} kernels", end="\n" if ready == whole else "", file=sys.stderr)


class Command(NamedTuple):
    """What it does, and its arguments beside the model: names and the keywords of ``add_argument``."""

    work: Callable[[argparse.Namespace], int | None]
    arguments: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = ()


_OUTPUT = (("-o", "--output"), {"help": "the file to write"})
_INPUTS = (
    (("--shape",), {"action": "append", "default": [], "help": "x=1,3,48,320; what is open is 1 else"}),
    (("--inputs",), {"help": "an .npz file, in place of numbers made up"}),
)
COMMANDS = {
    "inspect": Command(inspect),
    "run": Command(run, ((("inputs",), {"help": "an .npz file"}), _OUTPUT)),
    "bench": Command(
        bench,
        (
            *_INPUTS,
            (("--threads",), {"type": _count, "help": "of each runtime"}),
            (("--rounds",), {"type": _count, "default": 9, "help": "rounds of timings of each (default 9)"}),
            (("--cold",), {"action": "store_true", "help": "empty the caches before each call"}),
        ),
    ),
    "compare": Command(
        compare,
        (
            *_INPUTS,
            (("--all",), {"action": "store_true", "help": "find the first value inside that differs"}),
            (("--tolerance",), {"type": float, "default": 1e-4, "help": "part of the scale (default 1e-4)"}),
        ),
    ),
    "compile": Command(
        compile,
        (
            _OUTPUT,
            (("--workers",), {"type": int, "help": "processes at once"}),
            (
                ("--overridable",),
                {"action": "append", "default": [], "metavar": "NAME", "help": "a default that calls give"},
            ),
        ),
    ),
}


def add(parsers: Any) -> None:
    """Add the commands to a parser's subcommands."""
    for name, command in COMMANDS.items():
        parser = parsers.add_parser(name, help=command.work.__doc__)
        parser.add_argument("model", help="an .onnx file" + (" or .engine file" if name in LOADED else ""))
        for names, options in command.arguments:
            parser.add_argument(*names, **options)


def serve(name: str, given: argparse.Namespace) -> int:
    """Run a command; the exit code. What is wrong is reported in one message."""
    try:
        return COMMANDS[name].work(given) or 0
    except TensorLangError as e:
        print(e, file=sys.stderr)
        return 1
