"""The whole path in a few minutes: a photograph and two kernels, declared, scheduled by hand, compiled, run;
then a search for the numbers of those schedules, a minute's search for the whole schedule of a convolution,
from its declaration alone, and at the end a whole network, from an ONNX file to an engine.

``make demo``, or ``python tutorials/demo.py [--trials N] [--seconds S] [--rounds N] [--out DIR]``. Steps 1 to
4 are timed on one thread, numpy's BLAS too, the others on all; in turns within one run: absolute figures move
with the machine and its load, the ratios are what counts.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import re
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from threadpoolctl import threadpool_limits

import autosched
import tensorlang as tl
from autosched.reporting.progress import Live
from tensorlang import te
from tensorlang.peers import answers
from tensorlang.peers import turns as peers
from tensorlang.peers.runtimes import installed

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:
    sys.exit("the demo reads and writes pictures with Pillow: pip install 'tensorlang[viz]'")

console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
CPU = tl.Target.host()
LANES = CPU.vector_lanes("float32")
ROWS = 6 if CPU.vector_registers <= 16 else 12  # of a register tile: as many sums as there is room for
VECTORS = [LANES * n for n in (1, 2, 3, 4)]


# -- what to compute -----------------------------------------------------------------------------------------


def matmul(n: int) -> list[te.Tensor]:
    """C = A·B, square."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C]


def conv2d(filters: int, height: int, width: int, channels: int = 3) -> list[te.Tensor]:
    """A bank of 3×3 filters over a photograph (or a layer's input), with a border of zeros, bias and relu."""
    photo = te.placeholder((channels, height, width), name="photo")
    weight = te.placeholder((filters, channels, 3, 3), name="weight")
    bias = te.placeholder((filters,), name="bias")
    padded = te.compute(
        (channels, height + 2, width + 2),
        lambda c, y, x: te.if_then_else(
            (y >= 1) & (y <= height) & (x >= 1) & (x <= width), photo[c, y - 1, x - 1], 0.0
        ),
        name="padded",
    )
    c, dy, dx = te.reduce_axis((0, channels), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    conv = te.compute(
        (filters, height, width),
        lambda f, y, x: te.sum(padded[c, y + dy, x + dx] * weight[f, c, dy, dx], axis=[c, dy, dx]),
        name="conv",
    )
    out = te.compute(
        (filters, height, width), lambda f, y, x: te.max(conv[f, y, x] + bias[f], 0.0), name="out"
    )
    return [photo, weight, bias, out]


# -- how to compute it ---------------------------------------------------------------------------------------
# One function serves the hand and the search: given tile sizes it is a schedule, without them a space of
# schedules, in which the search begins at the hand's sizes.


def schedule_matmul(
    s: tl.Schedule, tensors: Sequence[te.Tensor], rows: Any = None, columns: Any = None, steps: Any = None
) -> None:
    """A tile of sums in registers, ``steps`` iterations of k at once; a panel of B is packed, so that k walks
    through it in order."""
    _, B, C = tensors
    acc = s.cache_write(C, "local")
    panel = s.cache_read(B, "global", [acc])
    i, j = s[C].op.axis
    io, jo, ii, ji = s[C].tile(
        i,
        j,
        x_factor=rows or s.sample_tile(i, max_factor=16, name="rows", values=ROWS),
        y_factor=columns
        or s.sample_tile(j, candidates=VECTORS, name="columns", role="vector", values=2 * LANES),
    )
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[acc].compute_at(s[C], io)
    i, j = s[acc].op.axis
    (k,) = s[acc].op.reduce_axis
    ko, ki = s[acc].split(
        k, steps or s.sample_tile(k, candidates=[1, 2, 4, 8], name="steps", role="unroll", values=1)
    )
    s[acc].reorder(ko, ki, i, j)
    s[acc].unroll(ki)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    s[panel].compute_at(s[C], jo)
    s[panel].vectorize(s[panel].op.axis[1])


def schedule_conv2d(
    s: tl.Schedule, tensors: Sequence[te.Tensor], band: Any = None, filters: Any = None, pixels: Any = None
) -> None:
    """Bands of the photograph, each with its own border; in them a tile of sums in registers, filters ×
    pixels of a row."""
    out = tensors[-1]
    conv, _ = out.op.input_tensors
    padded, _ = conv.op.input_tensors
    f, y, x = s[out].op.axis
    yo, yi = s[out].split(y, band or s.sample_tile(y, max_factor=64, name="band", values=16))
    fo, fi = s[out].split(f, filters or s.sample_tile(f, max_factor=8, name="filters", values=4))
    xo, xi = s[out].split(
        x, pixels or s.sample_tile(x, candidates=VECTORS, name="pixels", role="vector", values=2 * LANES)
    )
    s[out].reorder(yo, fo, yi, xo, fi, xi)
    s[out].unroll(fi)
    s[out].vectorize(xi)
    s[conv].compute_at(s[out], xo)
    f, _, x = s[conv].op.axis
    c, dy, dx = s[conv].op.reduce_axis
    s[conv].reorder(c, dy, dx, f, x)
    for loop in (dy, dx, f):
        s[conv].unroll(loop)
    s[conv].vectorize(x)
    s[padded].compute_at(s[out], yo)
    s[padded].vectorize(s[padded].split(s[padded].op.axis[2], LANES)[1])


# -- the photograph and its filters --------------------------------------------------------------------------


def load_photo() -> np.ndarray:
    """The Summer Palace by Gaylon (from scikit-learn's samples), channels first, 0..1."""
    from sklearn.datasets import load_sample_image  # takes seconds to import

    pixels = load_sample_image("china.jpg")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


def filter_bank() -> tuple[np.ndarray, np.ndarray]:
    """16 filters: sharpen RGB (0–2), edges in 8 directions (3–10), embossing from 2 sides (11–12), soft RGB
    (13–15)."""
    weight = np.zeros((16, 3, 3, 3), np.float32)
    bias = np.zeros(16, np.float32)
    sharpen = np.array([[0, -0.5, 0], [-0.5, 3, -0.5], [0, -0.5, 0]], np.float32)
    soft = np.outer([1, 2, 1], [1, 2, 1]).astype(np.float32) / 16
    luminance = np.array([0.30, 0.59, 0.11], np.float32)
    ring = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]  # around the centre, clockwise
    for channel in range(3):
        weight[channel, channel] = sharpen
        weight[13 + channel, channel] = soft
    for eighth in range(8):
        edge = np.zeros((3, 3), np.float32)
        for place, value in enumerate((1, 2, 1, 0, -1, -2, -1, 0)):
            edge[ring[(place + eighth) % 8]] = value
        weight[3 + eighth] = luminance[:, None, None] * edge
        bias[3 + eighth] = -0.25
    for n, emboss in enumerate(([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], [[0, -1, -2], [1, 0, -1], [2, 1, 0]])):
        weight[11 + n] = luminance[:, None, None] * np.array(emboss, np.float32)
        bias[11 + n] = 0.5
    return weight, bias


def conv2d_numpy(photo: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The usual way in numpy: every 3×3 window becomes a column, then one BLAS call, then bias and relu in
    place."""
    filters, (channels, height, width) = len(weight), photo.shape
    padded = np.pad(photo, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    columns = windows.transpose(0, 3, 4, 1, 2).reshape(9 * channels, height * width)
    out = weight.reshape(filters, 9 * channels) @ columns
    out += bias[:, None]
    return np.asarray(np.maximum(out, 0, out=out).reshape(filters, height, width))


# -- reading what came out -----------------------------------------------------------------------------------


def show(title: str, body: Any) -> None:
    """A titled panel."""
    console.print(Panel(body, title=title, title_align="left", border_style="dim", padding=(0, 1)))


def heading(text: str) -> None:
    """What comes next."""
    console.print(f"\n[bold cyan]{text}[/]\n")


def cut(text: str) -> str:
    """Lines as wide as a panel, cut at the edge rather than wrapped."""
    width = console.width - 4
    return "\n".join(line if len(line) <= width else line[: width - 1] + "…" for line in text.splitlines())


def code(text: str, language: str) -> Any:
    """Source text, coloured where there are colours."""
    return (
        Syntax(cut(text), language, theme="ansi_dark", background_color="default")
        if console.is_terminal
        else Text(cut(text))
    )


def source(func: Callable[..., Any]) -> str:
    """The body of a function without its docstring."""
    lines = inspect.getsource(func).splitlines()
    return "\n".join([lines[0], *lines[2:]])


def loop_of(ir: str, variable: str, reads: str) -> str:
    """The first loop of the loop IR over that variable that reads that tensor, dedented; at most 8 lines."""
    lines = ir.splitlines()
    for start, line in enumerate(lines):
        if re.match(rf"\s*for {re.escape(variable)}(_\d+)? in", line):
            depth = len(line) - len(line.lstrip())
            end = next(
                (n for n in range(start + 1, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) <= depth),
                len(lines),
            )
            block = [line[depth:] for line in lines[start:end]]
            if f"{reads}[" in "".join(block):
                return "\n".join(
                    block[:8] + ([f"    … and {len(block) - 8} more lines"] if len(block) > 8 else [])
                )
    return ""


def hot_loop(assembly: str) -> list[str]:
    """The innermost loop with the most fused multiply-adds."""
    lines = [re.sub(r"\s*(#|//).*", "", line).strip() for line in assembly.splitlines()]
    lines = [line for line in lines if line and (line.startswith(".L") or not line.startswith("."))]
    best: list[str] = []
    label: int | None = None
    for n, line in enumerate(lines):
        if line.endswith(":"):
            label = n
        elif label is not None and re.match(r"(j|b\.|cbn?z)", line) and line.endswith(lines[label][:-1]):
            loop = lines[label : n + 1]
            if fused(loop) > fused(best):
                best = loop
    return best


def fused(lines: list[str]) -> int:
    """How many fused multiply-adds."""
    return sum(line.startswith(("vfmadd", "fmla")) for line in lines)


def head_and_tail(lines: list[str], count: int) -> str:
    """The lines, with the middle left out when there are more than ``count``."""
    shown = [line if line.endswith(":") else "    " + line.replace("\t", "  ") for line in lines]
    if len(shown) > count:
        shown[count - 3 : -3] = [f"    … {len(shown) - count} more"]
    return "\n".join(shown)


# -- timing --------------------------------------------------------------------------------------------------


def race(runs: dict[str, Callable[[], Any]], rounds: int, share: float = 0.08) -> dict[str, float]:
    """Seconds of each, in rounds of about ``share`` seconds each: the fastest run of a round, and of the
    rounds the median.

    So a moment in which the processor was somebody else's does not count, nor does one in which it was
    quicker than usual.
    """
    first: dict[str, float] = {}
    best: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in runs.items():
        begin = time.perf_counter()
        run()
        first[name] = time.perf_counter() - begin
    for n in range(rounds):
        for name, run in runs.items():
            if n >= 2 and first[name] > 5 * share:
                continue  # very slow: two rounds will do
            taken = []
            for _ in range(max(1, min(200, int(share / first[name])))):
                begin = time.perf_counter()
                run()
                taken.append(time.perf_counter() - begin)
            best[name].append(min(taken))
    return {name: statistics.median(times) for name, times in best.items()}


def picture(photo: np.ndarray, out: np.ndarray, path: Path) -> None:
    """The photograph before and after, as one picture of two by two."""
    height, width = photo.shape[1:]
    angles = np.linspace(0, 2 * np.pi, 8, endpoint=False)
    hues = np.stack([0.5 + 0.5 * np.cos(angles - shift) for shift in (0.0, 2.1, -2.1)], axis=1).astype(
        np.float32
    )
    edges = np.einsum("fyx,fc->cyx", out[3:11], 0.45 * hues)
    panels = (
        ("before", photo),
        ("after: sharpened", out[0:3]),
        ("after: edges, a colour for each direction", edges),
        ("after: embossed", np.broadcast_to(out[11], photo.shape)),
    )
    font = ImageFont.load_default(size=20)
    sheet = Image.new("RGB", (2 * width + 30, 2 * (height + 40) + 10), "white")
    draw = ImageDraw.Draw(sheet)
    for n, (caption, pixels) in enumerate(panels):
        x, y = 10 + (n % 2) * (width + 10), (n // 2) * (height + 40)
        draw.text((x, y + 9), caption, fill="black", font=font)
        sheet.paste(
            Image.fromarray((np.clip(pixels, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)), (x, y + 40)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)


# -- the demo ------------------------------------------------------------------------------------------------


class Kernel:
    """One computation, and the kernels built for it: name of the way → kernel."""

    def __init__(
        self,
        name: str,
        task: autosched.SearchTask,
        inputs: list[np.ndarray],
        flops: float,
        numpy: Callable[[], Any],
    ) -> None:
        self.name, self.task, self.inputs, self.flops, self.numpy = name, task, inputs, flops, numpy
        self.expected = numpy()
        self.built: dict[str, tl.Module] = {}

    def add(self, way: str, kernel: tl.Module) -> None:
        """Keep a kernel if it does what numpy does."""
        error = float(np.abs(kernel(*self.inputs) - self.expected).max() / np.abs(self.expected).max())
        assert error < 1e-5, f"{self.name}, {way}: differs from numpy by {error:.1e}"
        self.built[way] = kernel

    def race(self, rounds: int) -> dict[str, float]:
        """GFLOP/s of every way and of numpy, in turns."""
        out = np.empty_like(self.expected)
        runs: dict[str, Callable[[], Any]] = {
            way: functools.partial(f, *self.inputs, out) for way, f in self.built.items()
        }
        return {
            way: self.flops / seconds / 1e9
            for way, seconds in race({**runs, "numpy": self.numpy}, rounds).items()
        }


def without_search(kernel: Kernel, schedule: Callable[..., None], **sizes: int) -> None:
    """Three kernels: plain loops, the compiler's own choice, and ours by hand, of which the tree is shown."""
    task = kernel.task
    kernel.add("plain loops", tl.build(task.schedule(), task.tensors, name=kernel.name))
    kernel.add("tl.compile", tl.compile(task.tensors, name=kernel.name))
    s = task.schedule()
    schedule(s, task.tensors, **sizes)
    begin = time.perf_counter()
    ours = tl.build(s, task.tensors, name=kernel.name)
    took = time.perf_counter() - begin
    kernel.add("by hand", ours)
    chosen = ", ".join(f"{name} {size}" for name, size in sizes.items())
    show(f"{kernel.name}: the schedule tree, by hand ({chosen})", Text(cut(s.tree())))
    console.print(f"  compiled in {took * 1e3:.0f} ms; run; [green]the same as numpy's[/]\n")


def show_code(kernel: tl.Module, loop: str, reads: str) -> None:
    """A few lines of the two texts below the tree."""
    show(f"loop IR: the loop over {loop}", code(loop_of(kernel.get_source("ir"), loop, reads), "python"))
    hot = hot_loop(kernel.get_source("asm"))
    show(
        f"assembly: the same loop, {fused(hot)} multiply-adds of {LANES} lanes an iteration",
        code(head_and_tail(hot, 12), "gas"),
    )


def search(kernel: Kernel, trials: int, records: Path) -> None:
    """Let the search find the tile sizes, measuring in a process of its own, and build the best."""
    live = Live(console) if console.is_terminal else None
    result = autosched.tune(kernel.task, trials=trials, records=records, batch=8, progress=live)
    kernel.flops = result.flops
    s, tensors = kernel.task.apply_best(records)
    kernel.add("searched", tl.build(s, tensors, name=kernel.name))


def search_schedule(seconds: float, rounds: int, records: Path) -> None:
    """Let the search find the whole schedule of a layer of a network, and race it against the default one and
    numpy, on all threads."""
    filters, height, width, channels = 48, 28, 28, 32
    task = autosched.SearchTask(conv2d, (filters, height, width, channels), CPU)
    console.print(
        f"  The same convolution as a layer of a network, {channels} channels to {filters} at "
        f"{height}×{width}. No template: the search\n"
        f"  has the declaration, rules, {tl.num_threads()} threads and {seconds:.0f} seconds.\n"
    )
    result = autosched.tune(
        task,
        trials=5000,
        seconds=seconds,
        records=records,
        progress=Live(console) if console.is_terminal else None,
    )
    if result.best is None:  # the machine was too busy to measure anything in that time
        result = autosched.tune(task, trials=1, records=records)
    rng = np.random.default_rng(1)
    inputs = [
        rng.standard_normal(shape, dtype=np.float32)
        for shape in ((channels, height, width), (filters, channels, 3, 3), (filters,))
    ]
    layer = Kernel("layer", task, inputs, task.flops, lambda: conv2d_numpy(*inputs))
    layer.add("tl.compile", tl.compile(task.tensors, name=layer.name))
    layer.add("found", tl.build(*task.apply_best(records), name=layer.name))
    figures = layer.race(rounds)
    report = result.report()
    show("the schedule it found, as Python", code(report.python, "python"))
    console.print(table({layer.name: figures}, rounds))
    report.save(records.with_suffix(".html"))
    console.print(
        f"  Gain over the default schedule:  [bold]{figures['found'] / figures['tl.compile']:.2f}×[/]"
    )
    console.print(f"  The report of this search:       [bold]{records.with_suffix('.html')}[/]\n")


def run(trials: int, rounds: int, out: Path) -> None:
    """Steps 1 to 4, from the photograph to the table."""
    photo = load_photo()
    _, height, width = photo.shape
    weight, bias = filter_bank()
    n = 512
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    product = Kernel(
        "matmul",
        autosched.SearchTask(matmul, (n,), CPU, template=schedule_matmul),
        [a, b],
        2 * n**3,
        lambda: a @ b,
    )
    filtered = Kernel(
        "conv2d",
        autosched.SearchTask(conv2d, (16, height, width), CPU, template=schedule_conv2d),
        [photo, weight, bias],
        2 * 16 * 27 * height * width,
        lambda: conv2d_numpy(photo, weight, bias),
    )

    heading(f"1  Declare what to compute      [dim]{CPU}[/]")
    show(
        "matmul, and the filter bank for the photograph",
        code(f"{source(matmul)}\n\n{source(conv2d)}", "python"),
    )
    heading("2  Schedule by hand how to compute it")
    without_search(product, schedule_matmul, rows=ROWS, columns=2 * LANES, steps=1)
    show_code(product.built["by hand"], "k.outer", reads="A")
    without_search(filtered, schedule_conv2d, band=16, filters=4, pixels=2 * LANES)
    heading("3  Let a search choose the numbers")
    for name in ("demo.jsonl", "layer.jsonl"):
        (out / name).unlink(missing_ok=True)  # a search that finds its old records has nothing left to do
    for kernel in (product, filtered):
        search(kernel, trials, out / "demo.jsonl")
    heading("4  What it is worth")
    console.print(table({kernel.name: kernel.race(rounds) for kernel in (product, filtered)}, rounds))
    picture(photo, filtered.built["searched"](photo, weight, bias), out / "demo.png")
    console.print(f"  The photograph before and after: [bold]{out / 'demo.png'}[/]")
    console.print(f"  Every schedule measured:         [bold]{out / 'demo.jsonl'}[/]\n")


NETWORK = """<ir_version: 8, opset_import: ["": 17]>
network (float[n, 3, height, width] x) => (float[n, 10] classes) {
  conv1 = Conv <pads = [1, 1, 1, 1]> (x, weight1)
  norm1 = BatchNormalization (conv1, scale1, shift1, mean1, variance1)
  relu1 = Relu (norm1)
  pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (relu1)
  conv2 = Conv <pads = [1, 1, 1, 1]> (pooled, weight2)
  norm2 = BatchNormalization (conv2, scale2, shift2, mean2, variance2)
  joined = Add (norm2, pooled)
  relu2 = Relu (joined)
  conv3 = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (relu2, weight3)
  norm3 = BatchNormalization (conv3, scale3, shift3, mean3, variance3)
  relu3 = Relu (norm3)
  means = GlobalAveragePool (relu3)
  features = Flatten (means)
  scores = Gemm (features, dense, bias)
  classes = Softmax <axis = -1> (scores)
}"""


def write_network(path: Path) -> None:
    """The network as an ONNX file, with seeded weights: nobody trained it."""
    import onnx.numpy_helper
    import onnx.parser

    rng = np.random.default_rng(2)
    weights = {"dense": 0.3 * rng.standard_normal((64, 10)), "bias": 0.1 * rng.standard_normal(10)}
    for n, (read, made) in enumerate(((3, 32), (32, 32), (32, 64)), 1):
        weights[f"weight{n}"] = rng.standard_normal((made, read, 3, 3)) * np.sqrt(2 / (9 * read))
        weights |= {f"{name}{n}": rng.uniform(0.5, 1.5, made) for name in ("scale", "variance")}
        weights |= {f"{name}{n}": 0.1 * rng.standard_normal(made) for name in ("shift", "mean")}
    model = onnx.parser.parse_model(NETWORK)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(a.astype(np.float32), name) for name, a in weights.items()
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString())


def whole_model(rounds: int, path: Path) -> None:
    """A network from its file to an engine, its answers and its time beside onnxruntime."""
    if find_spec("onnx") is None:
        console.print("  Left out: it needs the package onnx, pip install 'tensorlang[onnx]'\n")
        return
    write_network(path)
    begin = time.perf_counter()
    model = tl.load_onnx(path)
    engine = model.compile(cache=False)
    took = time.perf_counter() - begin
    show(f"{path}: {len(model.nodes)} operators, sizes open", Text(cut(str(model))))
    show("the engine: what each kernel computes", Text(cut(engine.explain())))
    photo = load_photo()[None, :, :224, :224].copy()
    console.print(f"  From file to engine in {took:.1f} s, every size of picture included.\n")
    comparison = answers.Comparison(str(path), {"x": photo}, 1e-4)
    show("the largest difference of its answer", Text(comparison.outputs()))
    assert not comparison.wrong, "the engine and its peer disagree"
    figures = peers.table(peers.race(str(path), {"x": photo}, installed(), tl.num_threads(), rounds))
    show(f"224×224 on {tl.num_threads()} threads, in turns", Text(cut(figures)))


def table(figures: dict[str, dict[str, float]], rounds: int) -> Table:
    """A row for each way, GFLOP/s and the ratio to numpy for each kernel."""
    threads = tl.num_threads()
    console.print(f"GFLOP/s on {threads} thread{'s' if threads > 1 else ''}, medians of {rounds} rounds")
    result = Table(box=SIMPLE_HEAD)
    result.add_column("")
    for name in figures:
        result.add_column(name, justify="right")
        result.add_column("÷ numpy", justify="right", style="dim")
    for way in next(iter(figures.values())):
        cells = [
            cell
            for by_way in figures.values()
            for cell in (f"{by_way[way]:.1f}", f"{by_way[way] / by_way['numpy']:.2f}×")
        ]
        result.add_row(way, *cells, style="bold" if way in ("searched", "found") else "")
    return result


def main() -> None:
    """The demo, from the photograph to the gain."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--trials", type=int, default=24, help="schedules to measure per kernel in step 3 (default 24)"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long step 5 searches (default 60)")
    parser.add_argument("--rounds", type=int, default=11, help="of timings of each way (default 11)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("out"),
        help="folder for the picture, the records and the report (default out)",
    )
    options = parser.parse_args()
    begin = time.perf_counter()
    threads = tl.num_threads()
    tl.set_num_threads(1)
    with threadpool_limits(1):
        run(options.trials, options.rounds, options.out)
    tl.set_num_threads(threads)
    heading("5  Let a search choose the whole schedule")
    search_schedule(options.seconds, options.rounds, options.out / "layer.jsonl")
    heading("6  A whole network, from file to engine")
    whole_model(options.rounds, options.out / "network.onnx")
    console.print(f"[dim]{time.perf_counter() - begin:.0f} s in all[/]")


if __name__ == "__main__":
    main()
