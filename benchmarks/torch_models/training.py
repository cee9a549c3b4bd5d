"""``python -m benchmarks.torch_models.training [names] --threads 1 2``: training under torch.compile.

A step is the loss, its gradients and plain SGD, of a perceptron, a block of ResNet-18 and a layer of BERT,
without dropout. Each way trains for 50 steps from the same seed, in float64 and in float32, and tells how far
its parameters then are from eager's, against the largest element of each; afterwards steps in float32 are
timed, one each in turn. Knows nothing of how ways are asked.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import io
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from .cases import TEXT
from .command import Rows, Table, parser, run
from .ways import measured, table
from .worker import CLOCKS, compiled, within

WAYS = ("eager", "inductor", "tensorlang")
STEPS = 50
RATE = 0.01
Case = tuple[torch.nn.Module, torch.Tensor, torch.Tensor]


class Loss(torch.nn.Module):
    """The cross entropy of what a head makes of the mean of the dimensions ``over``."""

    def __init__(self, body: torch.nn.Module, width: int, over: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.body, self.head, self.over = body, torch.nn.Linear(width, 10), over

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        made = self.body(x)
        made = made[0] if isinstance(made, tuple) else made
        return functional.cross_entropy(self.head(made.mean(self.over) if self.over else made), y)


def _mlp() -> Case:
    nn = torch.nn
    body = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU())
    return Loss(body, 1024), torch.randn(64, 256), torch.randint(0, 10, (64,))


def _resnet_block() -> Case:
    from torchvision.models.resnet import BasicBlock

    return Loss(BasicBlock(64, 64), 64, (2, 3)), torch.randn(8, 64, 28, 28), torch.randint(0, 10, (8,))


def _bert_layer() -> Case:
    import transformers
    from transformers.models.bert.modeling_bert import BertLayer

    config = transformers.BertConfig(**TEXT, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config._attn_implementation = "sdpa"
    return Loss(BertLayer(config), 256, (1,)), torch.randn(4, 128, 256), torch.randint(0, 10, (4,))


CASES: dict[str, Callable[[], Case]] = {"mlp": _mlp, "resnet_block": _resnet_block, "bert_layer": _bert_layer}


def steps(net: torch.nn.Module, way: str, *given: torch.Tensor) -> Callable[[], None]:
    """A step of training of the module, which is compiled this way."""
    fn, optimiser = compiled(net, way), torch.optim.SGD(net.parameters(), lr=RATE)

    def step() -> None:
        optimiser.zero_grad()
        fn(*given).backward()
        optimiser.step()

    return step


def farthest(net: torch.nn.Module, way: str, x: torch.Tensor, y: torch.Tensor) -> float:
    """How far parameters and statistics are from eager's after all steps."""
    theirs, ours = copy.deepcopy(net), copy.deepcopy(net)
    for made, how in ((theirs, "eager"), (ours, way)):
        step = steps(made, how, x, y)
        for _ in range(STEPS):
            step()
    pairs = zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True)
    return max(float((a - b).abs().max() / b.abs().max()) for a, b in pairs if b.is_floating_point())


def work(name: str, way: str, threads: int, clock: str) -> None:
    """One way in this process: told ``go``, it makes a step and prints the seconds."""
    now = CLOCKS[clock]
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        net, x, y = CASES[name]()
        apart = {
            "float64": farthest(
                copy.deepcopy(net).double(), way, x.double() if x.is_floating_point() else x, y
            )
        }
        apart["float32"] = farthest(net, way, x, y)
        torch._dynamo.reset()
        step, start = steps(net, way, x, y), time.perf_counter()
        step()
        whole = time.perf_counter() - start
        for _ in range(3):
            step()
    print(json.dumps({"compile": whole, "within": within(way), "apart": apart}), flush=True)
    for _ in sys.stdin:
        start = now()
        step()
        print(now() - start, flush=True)


def told(rows: Rows, ways: list[str]) -> Table:
    """The times, and how far from eager each way is after all steps."""
    made = table(rows, ways)
    lines = [
        f"{line}   apart after {STEPS} steps: "
        + ", ".join(
            f"{w} {row[w]['apart']['float64']:.0e} (float64), {row[w]['apart']['float32']:.0e}"
            for w in ways
            if row.get(w) and w != "eager"
        )
        for line, row in zip(made.lines, rows.values(), strict=True)
    ]
    return Table(made.head, lines, made.end)


def figures(args: argparse.Namespace, names: list[str]) -> Iterator[tuple[str, Any]]:
    """A row for each model and number of threads."""
    worker = "benchmarks.torch_models.training"
    for name in names:
        for threads in args.threads:
            found = measured(
                args.python, name, threads, args.ways, args.seconds, args.calls, args.clock, worker
            )
            yield f"{name}, {threads}", found


def main() -> None:
    command = parser("benchmarks.torch_models.training", __doc__, WAYS, CASES)
    command.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    command.add_argument("--seconds", type=float, default=4.0, help="of steps, for each model")
    command.add_argument("--calls", type=int, default=200)
    command.add_argument("--clock", choices=tuple(CLOCKS), default="wall")
    run(command, CASES, figures, told, CASES)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if len(sys.argv) == 5 and sys.argv[1] in CASES and sys.argv[2] in WAYS:  # asked by ``measured``
        work(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        main()
