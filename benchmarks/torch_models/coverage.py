"""``python -m benchmarks.torch_models.coverage [models]``: how much of each model engines compute, and how
far what they give is from eager's: with sizes that are known, with an open batch, and those that read words
also with an open length.

Of each model the operators of its graphs, those that engines computed, those that stay in torch by name and
number, and the largest difference of an output against its scale. A region that refused a call counts as
torch's. Open sizes are two calls that differ in them, of one compiled model: the second is not to compile it
anew. Times nothing.
"""

from __future__ import annotations

import argparse
import collections
import gc
import itertools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import torch

import tensorlang.torch

from .cases import CASES, case
from .worker import farthest, tensors

CLOSE, MOST = 1e-4, 0.95
Inputs = tuple[torch.Tensor, ...]


def covered(net: Any, calls: list[Inputs], dims: Iterable[int]) -> dict[str, Any]:
    """What became of these calls, with these dimensions of the inputs open."""
    torch._dynamo.reset()
    tensorlang.torch.reset()
    for x, dim in itertools.product(calls[0], dims):
        torch._dynamo.mark_dynamic(x, dim)
    compiled, apart, first = torch.compile(net, backend="tensorlang"), 0.0, 0
    with torch.no_grad():
        for inputs in calls:
            apart = max(apart, farthest(tensors(compiled(*inputs)), tensors(net(*inputs))))
            first = first or len(tensorlang.torch.graphs())
    graphs = tensorlang.torch.graphs()
    left = collections.Counter(operator for g in graphs for operator, _ in g.left.values())
    refused = sum(c.nodes for g in graphs for c in g.counts if c.reason or c.left)
    if refused:
        left["a region that was refused"] += refused
    nodes = sum(g.nodes for g in graphs)
    taken = sum(c.nodes for g in graphs for c in g.counts if not (c.reason or c.left))
    return {
        "graphs": len(graphs),
        "anew": len(graphs) - first,
        "nodes": nodes,
        "taken": taken,
        "left": left,
        "apart": apart,
    }


def several(inputs: Inputs, batch: int) -> Inputs:
    """The inputs for so many images or texts."""
    return tuple(torch.cat([x] * batch) for x in inputs)


def ways(inputs: Inputs) -> Iterator[tuple[str, list[Inputs], Iterable[int]]]:
    """How a model is called: a word for the table, the calls, and the dimensions that are open."""
    yield "known", [inputs], ()
    yield "open", [several(inputs, 3), several(inputs, 2)], (0,)
    if all(x.dtype == torch.int64 for x in inputs):
        shorter = tuple(x[:, : 2 * x.shape[1] // 3] for x in inputs)
        yield "length", [several(shorter, 3), several(inputs, 2)], (0, 1)


def line(name: str, how: str, found: dict[str, Any]) -> str:
    share = found["taken"] / max(found["nodes"], 1)
    told = ", ".join(f"{n} × {op}" for op, n in found["left"].most_common())
    bad = " !" if share < MOST or found["apart"] > CLOSE or found["anew"] else ""
    return (
        f"{name:20}{how:9}{found['graphs']:7}{found['nodes']:7}{found['taken']:7}{100 * share:8.1f} %"
        f"{found['apart']:11.1e}{bad}  {told}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.torch_models.coverage", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="model", help=", ".join(CASES))
    args = parser.parse_args()
    wrong = [n for n in args.names if n not in CASES]
    if wrong:
        parser.error(f"no model {wrong[0]}; there are {', '.join(CASES)}")
    print(f"{'model':20}{'sizes':9}{'graphs':>7}{'nodes':>7}{'ours':>7}{'':10}{'apart':>11}", flush=True)
    below, far, anew, rows = [], [], [], 0
    for name in args.names or CASES:
        net, inputs = case(name)
        for how, calls, dims in ways(inputs):
            found = covered(net, calls, dims)
            print(line(name, how, found), flush=True)
            rows += 1
            below += [f"{name}, {how}"] * (found["taken"] < MOST * found["nodes"] or not found["nodes"])
            far += [f"{name}, {how}"] * (found["apart"] > CLOSE)
            anew += [f"{name}, {how}"] * (found["anew"] > 0)
        del net
        gc.collect()
    print(f"{rows} rows; below {100 * MOST:.0f} %: {', '.join(below) or 'none'}")
    print(f"farther than {CLOSE:g}: {', '.join(far) or 'none'}")
    print(f"compiled anew for other sizes: {', '.join(anew) or 'none'}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
