"""One tune by TVM's MetaSchedule, in a process of its own: ``python -m benchmarks.autosched.metaschedule CASE
TRIALS SEED OUTPUT.so``.

Prints a line of JSON with the seconds it took and what became of it; leaves the best kernel in the file. The
only file that knows how TVM tunes and calls its kernels. The operators are topi's; their meaning is that of
``cases``.

It runs with apache-tvm 0.27.0 and apache-tvm-ffi 0.1.14.post0; with 0.1.15 evolution dies in ``ToJSONGraph``.
The builder is one of ours. TVM's own starts its processes anew for each round, and the first build in a
process imports the tensor intrinsics, which takes 24–60 seconds: its limit of 30 is over before a candidate
is built. Here the processes are forked from one that has imported them, before the clock starts.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from ..harness.case import Array, Case
from .cases import CASES
from .urgent import urgent

BUILD = 30.0  # seconds that a candidate may take to build: MetaSchedule's own limit
LONGEST = 4096  # bytes of an answer, which a pipe takes at once


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


def _said_by_child(work: Callable[[], str]) -> tuple[int, int]:
    """(pipe, process) of a forked child, which writes what the work answers, or ``!`` and why it failed."""
    answer, said = os.pipe()
    pid = os.fork()
    if pid:
        os.close(said)
        return answer, pid
    try:
        text = work()
    except BaseException as e:
        text = f"!{e}"
    os.write(said, text.encode()[:LONGEST])
    os._exit(0)


def _build_all(works: Sequence[Callable[[], str]], workers: int) -> list[str]:
    """What each of them answers, at most ``workers`` of them at once, each in a child of its own."""
    answers, waiting = [""] * len(works), list(range(len(works)))[::-1]
    running: dict[int, tuple[int, int, float]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            number = waiting.pop()
            pipe, pid = _said_by_child(works[number])
            running[pipe] = number, pid, time.monotonic() + BUILD
        ready, _, _ = select.select(list(running), [], [], 1.0)
        for pipe, (number, pid, end) in list(running.items()):
            if pipe in ready:
                answers[number] = os.read(pipe, LONGEST).decode(errors="replace") or "!it died"
            elif time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                answers[number] = f"!not built after {BUILD:g} s"
            else:
                continue
            os.close(pipe)
            os.waitpid(pid, 0)
            del running[pipe]
    return answers


def builder() -> Any:
    """A builder for MetaSchedule that forks a child for each candidate."""
    import tvm.s_tir.tensor_intrin  # noqa: F401  what takes so long
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.builder import BuilderResult, PyBuilder, local_builder

    @derived_object
    class Forking(PyBuilder):  # type: ignore[misc]
        def build(self, build_inputs: Any) -> Any:
            works = [
                lambda b=b: local_builder.default_export(local_builder.default_build(b.mod, b.target, None))
                for b in build_inputs
            ]
            return [
                BuilderResult(None, said[1:]) if said.startswith("!") else BuilderResult(said, None)
                for said in _build_all(works, len(os.sched_getaffinity(0)))
            ]

    return Forking()


def tune(case: Case, trials: int, seed: int, output: str) -> dict[str, Any]:
    """Tune, build, save. MetaSchedule's own settings but for the builder, the number of trials and, where all
    is tuned at once, of a round."""
    import tvm
    from tvm import te
    from tvm.s_tir import meta_schedule as ms

    inputs = [te.placeholder(a.shape, name=a.name, dtype=a.dtype) for a in case.arguments]
    function = te.create_prim_func([*inputs, _operators()[case.op](*inputs, **case.params)])
    where, forking = target(), builder()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        database = ms.tir_integration.tune_tir(
            function,
            where,
            directory,
            trials,
            num_trials_per_iter=min(64, trials),
            seed=seed,
            builder=forking,
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
