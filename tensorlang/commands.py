"""``python -m tensorlang inspect | run | compile model.onnx``: models from the shell. Knows graphs, engines
and files of ONNX; ``COMMANDS`` is the one table of them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .errors import TensorLangError
from .frontends import load_onnx
from .runtime.engine import Engine

ENGINE = ".engine"


def inspect(given: argparse.Namespace) -> None:
    """operators, values, open sizes and constants of a model"""
    print(_engine(given.model) if given.model.endswith(ENGINE) else load_onnx(given.model))


def compile(given: argparse.Namespace) -> None:
    """a model to an engine in a file, MODEL.engine unless -o says otherwise"""
    goal = given.output or f"{given.model.removesuffix('.onnx')}{ENGINE}"
    start = time.perf_counter()
    engine = load_onnx(given.model).compile(workers=given.workers, progress=_progress)
    engine.save(goal)
    print(f"{goal}: {engine!r}, {time.perf_counter() - start:.1f} s")


def run(given: argparse.Namespace) -> None:
    """a model or engine on the arrays of an .npz file, by their names; -o keeps the outputs in another"""
    engine = _engine(given.model)
    try:
        with np.load(given.inputs, allow_pickle=False) as arrays:
            inputs = dict(arrays)
    except (OSError, ValueError) as e:
        raise TensorLangError(f"run: {given.inputs} cannot be read", because=str(e)) from None
    outputs = engine.run(inputs)
    for name, a in outputs.items():
        print(f"{name}: {a.dtype}{list(a.shape)}")
    if given.output:
        np.savez(given.output, **outputs)


def _engine(path: str) -> Engine:
    return Engine.load(path) if path.endswith(ENGINE) else load_onnx(path).compile(progress=_progress)


def _progress(ready: int, whole: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{ready} of {whole} kernels", end="\n" if ready == whole else "", file=sys.stderr)


class Command(NamedTuple):
    """What it does, and its arguments beside the model: names and the keywords of ``add_argument``."""

    work: Callable[[argparse.Namespace], None]
    arguments: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = ()


_OUTPUT = (("-o", "--output"), {"help": "the file to write"})
COMMANDS = {
    "inspect": Command(inspect),
    "run": Command(run, ((("inputs",), {"help": "an .npz file"}), _OUTPUT)),
    "compile": Command(compile, (_OUTPUT, (("--workers",), {"type": int, "help": "processes at once"}))),
}


def add(parsers: Any) -> None:
    """Add the commands to a parser's subcommands."""
    for name, command in COMMANDS.items():
        parser = parsers.add_parser(name, help=command.work.__doc__)
        parser.add_argument("model", help="an .onnx file" + ("" if name == "compile" else " or .engine file"))
        for names, options in command.arguments:
            parser.add_argument(*names, **options)


def serve(name: str, given: argparse.Namespace) -> int:
    """Run a command; the exit code. What is wrong is told in one message."""
    try:
        COMMANDS[name].work(given)
    except TensorLangError as e:
        print(e, file=sys.stderr)
        return 1
    return 0
