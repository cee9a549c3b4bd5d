"""Torch's own samples (OpInfo) on engines of this package: for each operator and type, forward and backward,
what was computed by engines and equals eager.

``make test-torch ARGS="--cap 2"``, or ``python -m tests.frontends.torch.opinfo [operator …]``. A sample's calls of
ATen operators are compiled one by one as ``torch.compile`` would, and compared by ``torch.testing.assert_close``
at OpInfo's tolerances. A sample of which nothing ran on an engine proves nothing and is counted apart; one of which
some calls did and others stayed in torch is among the compared, and its calls are counted. Each operator has ``cap``
samples, drawn evenly; what the file of results has is not run again, so a run may be stopped at any time. Operators
run in a worker process, which may die: that is a result as well.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

KINDS = ("f32", "f64", "bf16", "i64", "bool")
COMPARED = ("equal", "wrong", "error", "slow", "died")
WORKER = 60  # operators, after which another process goes on: memory of engines is given back
PATIENCE = 60  # seconds of processor for a call
DEAD = 900  # seconds without a word
Counts = collections.Counter[str]
DIRECTIONS = ("forward", "backward")


class Slow(BaseException):
    """A call takes too long. No Exception, which the backend would take for a reason to leave it to torch."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context that raises Slow after so much time of the processor."""
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class Worker:
    """Runs the samples of operators, in a process of its own."""

    def __init__(self) -> None:
        import torch

        from tensorlang.frontends.torch import backend, settings

        from . import samples

        torch.set_num_threads(1)
        self.torch, self.backend, self.samples = torch, backend, samples
        self.settings = settings.settings_of({"workers": 1}, None)

        def stop(*_: Any) -> None:
            raise Slow

        signal.signal(signal.SIGVTALRM, stop)

    def operator(self, index: int, kind: str, direction: str, drawn: list[int]) -> dict[str, Any]:
        """The line of results of an operator: of samples, of calls, and what went wrong."""
        info, start = self.samples.op_db[index], time.process_time()
        dtype, backward = getattr(self.torch, self.samples.TYPES[kind]), direction == "backward"
        samples, calls, notes = collections.Counter[str](), collections.Counter[str](), []
        self.torch.manual_seed(0)
        try:
            given = list(info.sample_inputs("cpu", dtype, requires_grad=backward))
        except Exception as error:  # torch's
            given = []
            notes.append(f"no samples: {type(error).__name__}")
        order = list(range(len(given)))
        random.Random(info.name).shuffle(order)  # so that a larger cap goes on where a smaller one stopped
        for i in order[drawn[0] : drawn[1]]:
            samples[self.sample(info, dtype, given[i], backward, calls, notes)] += 1
        return {"samples": samples, "calls": calls, "notes": notes, "seconds": time.process_time() - start}

    def sample(
        self, info: Any, dtype: Any, sample: Any, backward: bool, counts: Counts, notes: list[str]
    ) -> str:
        """What became of a sample."""
        try:
            with limited(PATIENCE):
                calls = self.samples.calls_of(info, sample, backward)
        except (Slow, Exception):  # torch does not run it here, or not under a mode
            return "no run"
        whole = "torch"
        for call in calls:
            found, why = self.call(call, self.samples.tolerances_of(info, dtype))
            counts[found] += 1
            if found in COMPARED[1:]:
                notes.append(f"{found}: {call[0]}{self.samples.shown(call[1:3])[:300]}: {why}")
                whole = found
            elif found == "equal" and whole == "torch":
                whole = found
        return whole

    def call(self, call: Any, tolerances: dict[str, float]) -> tuple[str, str]:
        """What became of a call, and why."""
        graph, tensors = self.samples.graph_of(*call)
        module = self.torch.fx.GraphModule(self.torch.nn.Module(), graph)
        try:
            with limited(PATIENCE):
                made = self.backend.Graph("inference", module, set(), self.settings)
                found = list(made(*[t.detach() for t in tensors]))
            self.backend.GRAPHS.clear()
            if not sum(c.calls for c in made.compiled.counts):
                return "torch", ""
            self.samples.close(call, found, **tolerances)
        except Slow:
            return "slow", f"more than {PATIENCE} s"
        except AssertionError as error:
            why = " | ".join(line for line in str(error).split("\n") if line.strip())[:300]
            return "wrong", why + self.samples.from_exact(call, found)
        except Exception as error:
            return "error", f"{type(error).__name__}: {str(error)[:300]}"
        return "equal", ""


def work() -> None:
    """Operators that are asked for on the standard input, a line of results each."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print
    worker = Worker()
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps(task | worker.operator(**task)), file=out, flush=True)


class Process:
    """A worker as its parent sees it."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--worker"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.done = 0

    def ask(self, task: dict[str, Any]) -> dict[str, Any] | None:
        """The results; None where it died or says nothing for long."""
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        self.done += 1
        stdin.write(json.dumps(task) + "\n")
        stdin.flush()
        said = stdout.readline() if select.select([stdout], [], [], DEAD)[0] else ""
        found: dict[str, Any] | None = json.loads(said) if said else None
        return found

    def close(self) -> int:
        """Ends it; how it ended."""
        if self.process.poll() is None:
            self.process.kill()
        return self.process.wait()


def tasks(args: argparse.Namespace, done: dict[tuple[Any, ...], int]) -> Iterator[dict[str, Any]]:
    """What is still to run, of all types and directions before more samples of one."""
    import torch

    from . import samples

    known = {info.name for info in samples.op_db}
    wrong = [n for n in args.names if n not in known]
    if wrong:
        raise SystemExit(f"torch's database has no operator {wrong[0]!r}")
    for kind, direction in itertools.product(args.types, args.directions):
        for index, info in enumerate(samples.op_db):
            have = done.get((index, kind, direction), 0)
            if (
                have < args.cap
                and (not args.names or info.name in args.names)
                and samples.takes(info, getattr(torch, samples.TYPES[kind]), direction == "backward")
            ):
                yield {"index": index, "kind": kind, "direction": direction, "drawn": [have, args.cap]}


def run(args: argparse.Namespace) -> None:
    """Run what the file of results does not have."""
    import torch

    from . import samples

    done: dict[tuple[Any, ...], int] = {}
    for row in rows(args.out):
        done[_key(row)] = max(done.get(_key(row), 0), row["drawn"][1])
    process, end = None, time.monotonic() + args.seconds
    with args.out.open("a") as out:
        for task in tasks(args, done):
            if time.monotonic() > end:
                break
            if process is None or process.done >= WORKER:
                if process:
                    process.close()
                process = Process()
            found = process.ask(task)
            if found is None:
                note = f"died: the process ended with {process.close()}"
                found, process = task | {"samples": {"died": 1}, "calls": {}, "notes": [note]}, None
            info = samples.op_db[task["index"]]
            name = ".".join(filter(None, (info.name, info.variant_test_name)))
            out.write(json.dumps(found | {"name": name, "torch": torch.__version__}) + "\n")
            out.flush()
    if process:
        process.close()


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of results."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["index"], row["kind"], row["direction"]


def report(found: list[dict[str, Any]]) -> str:
    """The figures of each type and direction, and every sample that is not equal by its operator's name."""
    head = (
        f"{'':14}{'operators':>10}{'samples':>9}{'compared':>9}{'equal':>7}{'':9}{'in torch':>9}{'no run':>7}"
    )
    lines = [head + f"{'calls: engine':>15}{'torch':>7}"]
    for kind, direction in itertools.product(KINDS, DIRECTIONS):
        of = [r for r in found if (r["kind"], r["direction"]) == (kind, direction)]
        samples, calls = (sum((Counts(r[k]) for r in of), Counts()) for k in ("samples", "calls"))
        compared = sum(samples[k] for k in COMPARED)
        if compared:
            ran = sum(calls[k] for k in COMPARED)
            lines.append(
                f"{kind + ' ' + direction:14}{len({r['index'] for r in of}):10}{sum(samples.values()):9}{compared:9}"
                f"{samples['equal']:7}{100 * samples['equal'] / compared:7.2f} %{samples['torch']:9}"
                f"{samples['no run']:7}{ran:15}{calls['torch']:7}"
            )
    for r in found:
        bad = sum(n for k, n in r["samples"].items() if k in COMPARED[1:])
        if bad:
            lines.append(f"{r['kind']} {r['direction']} {r['name']}: {bad} of {sum(r['samples'].values())}")
            lines += [f"    {note}" for note in r["notes"][:2]]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.frontends.torch.opinfo", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="operator", help="as torch's database calls them; else all"
    )
    parser.add_argument("--types", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--directions", nargs="+", choices=DIRECTIONS, default=DIRECTIONS)
    parser.add_argument("--cap", type=int, default=1, help="samples of each operator")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="after which no operator begins")
    parser.add_argument("--out", type=Path, default=Path("opinfo.jsonl"), help="the file of results")
    parser.add_argument("--report", action="store_true", help="of what the file has; run nothing")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work()
        return
    if not args.report:
        run(args)
    print(report(rows(args.out)))


if __name__ == "__main__":
    main()
