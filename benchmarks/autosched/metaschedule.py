"""One tune by TVM's MetaSchedule, in a process of its own: ``python -m benchmarks.autosched.metaschedule CASE
TRIALS SEED OUTPUT.so``.

Prints a line of JSON with the seconds it took and what became of it; leaves the best kernel in the file. The
only file that knows how TVM tunes and calls its kernels. The operators are topi's; their meaning is that of
``cases``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from ..harness.case import Array, Case
from .cases import CASES
from .urgent import urgent


def _operators() -> dict[str, Callable[..., Any]]:
    from tvm import te, tirx, topi

    def conv2d(x: Any, w: Any, b: Any, stride: int, padding: int, groups: int) -> Any:
        convolve = topi.nn.conv2d_nchw if groups == 1 else topi.nn.depthwise_conv2d_nchw
        total = convolve(x, w, stride, padding, 1)
        return te.compute(
            total.shape,
            lambda n, c, i, j: tirx.max(total[n, c, i, j] + b[c], tirx.const(0.0, "float32")),
            name="relu",
        )

    return {
        "matmul": topi.matmul,
        "conv2d": conv2d,
        "softmax": topi.nn.softmax,
        "layer_norm": lambda x, scale, shift, epsilon: topi.nn.layer_norm(x, scale, shift, [1], epsilon),
        "batch_matmul_nt": topi.nn.batch_matmul,
    }


def target() -> Any:
    """This machine, all of its processors."""
    import llvmlite.binding as llvm
    import tvm

    return tvm.target.Target(
        {"kind": "llvm", "mcpu": llvm.get_host_cpu_name(), "num-cores": len(os.sched_getaffinity(0))}
    )


def tune(case: Case, trials: int, seed: int, output: str) -> dict[str, Any]:
    """Tune, build, save. MetaSchedule's own settings but for the number of trials and, where all is tuned at
    once, of a round."""
    import tvm
    from tvm import te
    from tvm.s_tir import meta_schedule as ms

    inputs = [te.placeholder(a.shape, name=a.name, dtype=a.dtype) for a in case.arguments]
    function = te.create_prim_func([*inputs, _operators()[case.op](*inputs, **case.params)])
    where = target()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        database = ms.tir_integration.tune_tir(
            function,
            where,
            directory,
            trials,
            num_trials_per_iter=min(64, trials),
            seed=seed,
            runner=ms.runner.LocalRunner(initializer=urgent),
        )
        schedule = ms.tir_integration.compile_tir(database, function, where)
        seconds = time.perf_counter() - begin
        records = database.get_all_tuning_records()
        costs = [min(float(s) for s in r.run_secs) for r in records if r.run_secs]
    if schedule is None:
        return {"status": "failed", "seconds": seconds, "note": "no candidate worked"}
    tvm.compile(schedule.mod, where).export_library(output)
    return {
        "status": "ok",
        "seconds": seconds,
        "measured": len(records),
        "best": min(c for c in costs if c < 1e9),
    }


def kernel(
    file: str, case: Case, arrays: dict[str, Array]
) -> tuple[Callable[[], object], Callable[[], Array]]:
    """(run, result) of a saved kernel on these inputs."""
    import tvm

    module = tvm.runtime.load_module(file)
    device = tvm.cpu()
    values = [tvm.runtime.tensor(arrays[a.name], device) for a in case.arguments]
    out = tvm.runtime.tensor(case.empty(), device)
    call = module["main"]

    def run() -> None:
        call(*values, out)

    return run, lambda: (run(), out.numpy())[1]


if __name__ == "__main__":
    os.environ.setdefault("TVM_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    print(json.dumps(tune(CASES[sys.argv[1]], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
