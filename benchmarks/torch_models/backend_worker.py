"""One model compiled one way in a process of its own, which tells how long the backend took: from the graph
that dynamo hands over to what is called. Knows the ways; nothing of who compares them.

A backend that puts work off to the first call is charged with it. What each compiler imports is imported
before a graph comes, and counts for neither.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from .cases import Case, case
from .worker import compiled, farthest, tensors


class Watch:
    """Seconds in functions that may call one another: what is inside another counts once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.depth = 0

    def around(self, owner: Any, name: str) -> None:
        """Count the calls of this function from now on."""
        setattr(owner, name, self.timed(getattr(owner, name)))

    def timed(self, f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def g(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            self.depth += 1
            try:
                return f(*args, **kwargs)
            finally:
                self.depth -= 1
                if not self.depth:
                    self.seconds += time.perf_counter() - start

        return g


def _model(name: str) -> Case:
    """The case of that name; ``first`` is a small one of its own."""
    if name != "first":
        return case(name)
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.Tanh()), (torch.randn(6, 24),)


def watched(way: str) -> Watch:
    """What counts the time of this backend."""
    watch = Watch()
    if way == "tensorlang":
        import tensorlang.torch  # noqa: F401
        from tensorlang.frontends.torch import backend, region

        watch.around(backend.Graph, "_made")
        watch.around(region.Region, "_anew")
        watch.around(backend, "tensorlang")
    elif way.startswith("inductor"):
        from torch._inductor import compile_fx

        watch.around(compile_fx, "compile_fx")
    return watch


def main(name: str, way: str, threads: int) -> None:
    torch.set_num_threads(threads)
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        net, inputs = _model(name)
        wanted = tensors(net(*inputs))
        watch = watched(way)
        fn = compiled(net, way)
        start = time.perf_counter()
        found = tensors(fn(*inputs))
        whole = time.perf_counter() - start
    apart = farthest(found, wanted)
    counters = torch._dynamo.utils.counters
    hits = {
        "autograd": counters["aot_autograd"]["autograd_cache_hit"],
        "graph": counters["inductor"]["fxgraph_cache_hit"],
    }
    print(json.dumps({"backend": watch.seconds, "whole": whole, "apart": apart, "hits": hits}), flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
