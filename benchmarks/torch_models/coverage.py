"""``python -m benchmarks.torch_models.coverage [models]``: how much of each model engines compute, and how
far what they give is from eager's, once with sizes that are known and once with an open batch.

Of each model the operators of its graphs, those that engines computed, those that stay in torch by name and
number, and the largest difference of an output against its scale. A region that refused a call counts as
torch's. Times nothing.
"""

from __future__ import annotations

import argparse
import collections
import gc
import warnings
from typing import Any

import torch

import tensorlang.torch

from .cases import CASES, case
from .worker import farthest, tensors

CLOSE, MOST = 1e-4, 0.95


def covered(net: Any, calls: list[tuple[torch.Tensor, ...]], dynamic: bool) -> dict[str, Any]:
    """What became of these calls."""
    torch._dynamo.reset()
    tensorlang.torch.reset()
    if dynamic:
        for x in calls[0]:
            torch._dynamo.mark_dynamic(x, 0)
    compiled, apart = torch.compile(net, backend="tensorlang"), 0.0
    with torch.no_grad():
        for inputs in calls:
            apart = max(apart, farthest(tensors(compiled(*inputs)), tensors(net(*inputs))))
    graphs = tensorlang.torch.graphs()
    left = collections.Counter(operator for g in graphs for operator, _ in g.left.values())
    refused = sum(c.nodes for g in graphs for c in g.counts if c.reason or c.left)
    if refused:
        left["a region that was refused"] += refused
    nodes = sum(g.nodes for g in graphs)
    taken = sum(c.nodes for g in graphs for c in g.counts if not (c.reason or c.left))
    return {"graphs": len(graphs), "nodes": nodes, "taken": taken, "left": left, "apart": apart}


def several(inputs: tuple[torch.Tensor, ...], batch: int) -> tuple[torch.Tensor, ...]:
    """The inputs for so many images or texts."""
    return tuple(torch.cat([x] * batch) for x in inputs)


def line(name: str, how: str, found: dict[str, Any]) -> str:
    share = found["taken"] / max(found["nodes"], 1)
    told = ", ".join(f"{n} × {op}" for op, n in found["left"].most_common())
    bad = " !" if share < MOST or found["apart"] > CLOSE else ""
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
    below, far, rows = [], [], 0
    for name in args.names or CASES:
        net, inputs = case(name)
        for how, calls in (("known", [inputs]), ("open", [several(inputs, 3), several(inputs, 2)])):
            found = covered(net, calls, how == "open")
            print(line(name, how, found), flush=True)
            rows += 1
            below += [f"{name}, {how}"] * (found["taken"] < MOST * found["nodes"] or not found["nodes"])
            far += [f"{name}, {how}"] * (found["apart"] > CLOSE)
        del net
        gc.collect()
    print(f"{rows} rows; below {100 * MOST:.0f} %: {', '.join(below) or 'none'}")
    print(f"farther than {CLOSE:g}: {', '.join(far) or 'none'}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
