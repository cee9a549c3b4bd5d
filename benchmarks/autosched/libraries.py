"""The twenty tasks in libraries, beside what a search finds: torch, what its compiler finds with
``max-autotune``, and the ONNX model that torch makes of the same function in onnxruntime and OpenVINO. Knows
the suite, and how the four are called.

Weights are given at the call, to everybody: nobody may pack them beforehand. All is timed in turns in one
fresh process, where threads have time to sleep between two turns; what is wrong or refused is told instead of
timed.
"""

from __future__ import annotations

import io
import json
import os
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, tune
from autosched.measure import cores
from tensorlang import te

from ..harness import machine
from ..harness.measure import ratio, settle, take_turns
from .chains import Entry, _kernel, target_of
from .suites import declared

BUDGET = 6.0  # seconds of timing a task
AGAIN = 3  # processes at most: one in which two processors shared a core is replaced
LIBRARIES = ("torch", "inductor", "onnxruntime", "openvino")
RTOL, ATOL = 1e-3, 1e-3


def functions() -> dict[str, Callable[..., Any]]:
    """The tasks as a user of torch writes them, of the same arguments."""
    import torch
    import torch.nn.functional as F

    def capsule(x: Any, w: Any) -> Any:
        """As one convolution: rows of the matrices are the batch, their columns channels."""
        images = x.permute(3, 2, 4, 0, 1).reshape(4, 32, 16, 16)
        weights = w.permute(3, 5, 2, 4, 0, 1).reshape(64, 32, 3, 3)
        return F.conv2d(images, weights).reshape(4, 16, 4, 14, 14).permute(3, 4, 1, 0, 2)

    return {
        "C1D": lambda x, w, b: F.relu(F.conv1d(x, w, b, padding=1)),
        "C2D": lambda x, w: F.conv2d(x, w, padding=1),
        "C3D": lambda x, w: F.conv3d(x, w, padding=1),
        "GRP": lambda x, w: F.conv2d(x, w, padding=1, groups=4),
        "DIL": lambda x, w: F.conv2d(x, w, padding=2, dilation=2),
        "DEP": lambda x, w: F.conv2d(x, w, padding=1, groups=96),
        "T2D": lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        "CAP": capsule,
        "NRM": lambda x: torch.linalg.vector_norm(x).reshape(1),
        "GMM": torch.matmul,
        "odd": torch.matmul,
        "TBG": lambda x, y: torch.bmm(x, y.transpose(1, 2)),
        "SFM": lambda x: torch.softmax(x, -1),
        "conv bn relu": lambda x, w, mean, variance, scale, shift: F.relu(
            F.batch_norm(F.conv2d(x, w, padding=1), mean, variance, scale, shift)
        ),
        "self-attention": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
        "MLP": lambda x, w, b, v, c: F.linear(F.relu(F.linear(x, w, b)), v, c),
        "layer norm": lambda x, scale, shift: F.layer_norm(x, (768,), scale, shift),
        "pool": lambda x: F.max_pool2d(x, 3, stride=2, padding=1),
        "conv 1x1": lambda x, w, b: F.relu(F.conv2d(x, w, b)),
        "transposed product": lambda x, w: F.linear(x, w),
    }


def beside(name: str, trials: int, seed: int, threads: int | None) -> Entry:
    """Tune a task, then time it beside libraries in a fresh process."""
    task = SearchTask.of(declared(name), target_of(threads), name=name)
    result = tune(task, trials=trials, seed=seed, progress=False)
    steps = "" if result.best is None or result.best.start else result.best.steps
    asked = json.dumps({"name": name, "steps": steps, "threads": threads})
    command, told = [sys.executable, "-m", __name__], {"apart": False}
    for _ in range(AGAIN):
        if not told["apart"]:
            done = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
            told = json.loads(done.stdout.splitlines()[-1])
    return {"program": name, "when": machine.now(), "trials": result.trials, "claimed": result.gain, **told}


def timed(name: str, steps: str, threads: int | None) -> Entry:
    """Median seconds of a run of each, and how many times as long as ours it takes; why not, of others;
    whether the processors were cores of their own before and after."""
    import torch

    tensors = declared(name)
    inputs = [t for t in tensors if isinstance(t.op, te.PlaceholderOp)]
    rng = np.random.default_rng(0)
    values = [rng.random([int(str(e)) for e in t.shape], dtype=np.float32) for t in inputs]
    count = threads or len(os.sched_getaffinity(0))
    tl.set_num_threads(count)
    torch.set_num_threads(count)
    torch.set_grad_enabled(False)
    ours = _kernel(tensors, steps, target_of(threads))
    out = ours(*values)
    right = out.copy()
    runs: dict[str, Callable[[], Any]] = {"tuned": lambda: ours(*values, out)}
    if steps:
        default, other = _kernel(tensors, "", target_of(threads)), np.empty_like(out)
        runs["default"] = lambda: default(*values, other)
    failed: dict[str, str] = {}
    kept = []
    for library in LIBRARIES:
        try:
            run, result = MAKERS[library](functions()[name], values, count)
            run()
            kept.append(result)
            if np.allclose(result(), right, rtol=RTOL, atol=ATOL * float(np.abs(right).max())):
                runs[library] = run
            else:
                failed[library] = "the answer is another one"
        except Exception as e:  # whatever a library refuses with
            failed[library] = f"{type(e).__name__}: {str(e).splitlines()[0][:160] if str(e) else ''}"
    before = _apart(count)
    samples = take_turns(runs, budget=BUDGET)
    return {
        "apart": before and _apart(count),
        "threads": count,
        "median": {who: s.median for who, s in samples.items()},
        "ratio": {who: ratio(samples["tuned"], s)[0] for who, s in samples.items() if who != "tuned"},
        "failed": failed,
    }


def _apart(threads: int) -> bool:
    """Whether the processors are cores of their own, asked when nobody's threads spin."""
    settle()
    return cores.apart_after_a_pause(threads)


Made = tuple[Callable[[], Any], Callable[[], Any]]  # what runs it, and what gives the answer of the last run


def _torch(function: Callable[..., Any], values: Sequence[Any], threads: int) -> Made:
    import torch

    arguments = [torch.from_numpy(v) for v in values]
    return lambda: function(*arguments), lambda: function(*arguments).numpy()


def _inductor(function: Callable[..., Any], values: Sequence[Any], threads: int) -> Made:
    import torch

    made = torch.compile(function, mode="max-autotune", dynamic=False)
    return _torch(made, values, threads)


def _model(function: Callable[..., Any], values: Sequence[Any]) -> tuple[bytes, list[str]]:
    """The function as an ONNX model, and the names of its inputs."""
    import torch

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *arguments: Any) -> Any:
            return function(*arguments)

    names, file = [f"in{i}" for i in range(len(values))], io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Module(),
            tuple(map(torch.from_numpy, values)),
            file,  # type: ignore[arg-type]
            input_names=names,
            output_names=["out"],
            opset_version=17,
            dynamo=False,
        )
    return file.getvalue(), names


def _onnxruntime(function: Callable[..., Any], values: Sequence[Any], threads: int) -> Made:
    import onnxruntime as rt

    text, names = _model(function, values)
    options = rt.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    session = rt.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, value in zip(names, values, strict=True):
        binding.bind_cpu_input(name, value)
    out = np.empty(session.get_outputs()[0].shape, np.float32)
    binding.bind_output("out", "cpu", 0, out.dtype, list(out.shape), out.ctypes.data)
    return lambda: session.run_with_iobinding(binding), lambda: out


def _openvino(function: Callable[..., Any], values: Sequence[Any], threads: int) -> Made:
    import openvino as ov

    text, names = _model(function, values)
    core = ov.Core()
    how = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(threads),
    }
    compiled = core.compile_model(core.read_model(io.BytesIO(text)), "CPU", how)
    request = compiled.create_infer_request()
    held = [ov.Tensor(value, shared_memory=True) for value in values]
    for name, tensor in zip(names, held, strict=True):
        request.set_tensor(name, tensor)

    def result() -> Any:
        assert core and compiled and held  # a request knows of none of them
        return request.get_output_tensor(0).data

    return request.infer, result


MAKERS: dict[str, Callable[[Callable[..., Any], Sequence[Any], int], Made]] = {
    "torch": _torch,
    "inductor": _inductor,
    "onnxruntime": _onnxruntime,
    "openvino": _openvino,
}


def best(entry: Entry) -> float | None:
    """How many times as long as ours the best library takes."""
    return min((entry["ratio"][x] for x in LIBRARIES if x in entry["ratio"]), default=None)


def table(entries: list[Entry]) -> str:
    """A line a task: how many times as fast as each library ours is, and what libraries refused."""
    heads = ("default", *LIBRARIES)
    lines = [f"{'times as fast as':<22}{'µs':>8}" + "".join(f"{h:>14}" for h in (*heads, "best library"))]
    for e in entries:
        cells = [*(e["ratio"].get(h, 1.0 if h == "default" else None) for h in heads), best(e)]
        lines.append(
            f"{e['program']:<22}{e['median']['tuned'] * 1e6:>8.0f}"
            + "".join(f"{'–' if c is None else format(c, '.2f'):>14}" for c in cells)
        )
    known = [b for b in map(best, entries) if b]
    if known:
        mean = statistics.geometric_mean(known)
        lines.append(f"geometric mean of {len(known)}: {mean:.2f}, least {min(known):.2f}")
    lines += [f"{e['program']}: {who}: {why}" for e in entries for who, why in e["failed"].items()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(json.dumps(timed(**json.loads(sys.stdin.read()))))
