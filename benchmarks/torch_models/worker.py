"""One model compiled one way in a process of its own: told ``go`` on its standard input, it makes a call and
prints the seconds by a clock. Knows the ways; nothing of who compares them.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
import warnings
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .cases import case


def compiled(net: Any, way: str) -> Any:
    """The model as that way calls it: ``eager``, ``inductor_frozen`` (with parameters as constants), or a
    backend of torch.compile."""
    if way == "eager":
        return net
    if way == "inductor_frozen":
        import torch._inductor.config as config

        config.freezing = True
    return torch.compile(net, backend=way.partition("_")[0])


def tensors(made: Any) -> list[torch.Tensor]:
    """All tensors in what a model gives."""
    return [x for x in tree_leaves(made) if isinstance(x, torch.Tensor)]


def within(way: str) -> float:
    """Seconds inside the backend, from graphs to what is called."""
    if way == "tensorlang":
        import tensorlang.torch

        return sum(g.to_compile for g in tensorlang.torch.graphs())
    told = torch._dynamo.utils.get_compilation_metrics()
    return sum(m.inductor_compile_time_s or 0.0 for m in told)


def farthest(found: list[Any], wanted: list[Any]) -> float:
    """The largest difference of any output, against that output's largest element."""
    return max(
        float((a - b).abs().max() / b.abs().max().clamp(min=1e-6))
        for a, b in zip(found, wanted, strict=True)
        if b.is_floating_point() and b.numel()
    )


CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}


def main(name: str, way: str, threads: int, clock: str) -> None:
    now = CLOCKS[clock]
    torch.set_num_threads(threads)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        net, inputs = case(name)
        wanted = tensors(net(*inputs))
        fn = compiled(net, way)
        start = time.perf_counter()
        found = tensors(fn(*inputs))
        whole = time.perf_counter() - start
        apart = farthest(found, wanted)
        for _ in range(3):
            fn(*inputs)
    print(json.dumps({"compile": whole, "within": within(way), "apart": apart}), flush=True)
    with torch.no_grad():
        for _ in sys.stdin:
            start = now()
            fn(*inputs)
            print(now() - start, flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
