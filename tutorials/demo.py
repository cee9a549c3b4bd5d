"""The whole path in two minutes: a photograph and two kernels, declared, scheduled by hand, compiled, run, and then searched.

``make demo``, or ``python tutorials/demo.py [--trials N] [--out DIR]``. Everything is timed on one thread, numpy's BLAS too, and
interleaved in one run: absolute figures move with the machine and its load, the ratios are what counts.
"""

from __future__ import annotations

import argparse
import platform
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.panel import Panel
from rich.rule import Rule
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from threadpoolctl import threadpool_limits

import tensorlang as tl
from tensorlang import te

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError:
    sys.exit("the demo reads and writes pictures with Pillow: pip install 'tensorlang[viz]'")

console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
CPU = tl.Target.host()
LANES = CPU.vector_lanes("float32")


# -- what to compute -----------------------------------------------------------------------------------------------------------


def matmul(n: int) -> list[te.Tensor]:
    """C = A·B, square."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C]


def conv2d(filters: int, height: int, width: int) -> list[te.Tensor]:
    """A bank of 3×3 filters over an RGB photograph, with a border of zeros, bias and relu."""
    photo = te.placeholder((3, height, width), name="photo")
    weight = te.placeholder((filters, 3, 3, 3), name="weight")
    bias = te.placeholder((filters,), name="bias")
    padded = te.compute((3, height + 2, width + 2), lambda c, y, x: te.if_then_else(
        (1 <= y) & (y <= height) & (1 <= x) & (x <= width), photo[c, y - 1, x - 1], 0.0), name="padded")
    c, dy, dx = te.reduce_axis((0, 3), "c"), te.reduce_axis((0, 3), "dy"), te.reduce_axis((0, 3), "dx")
    conv = te.compute((filters, height, width), lambda f, y, x: te.sum(
        padded[c, y + dy, x + dx] * weight[f, c, dy, dx], axis=[c, dy, dx]), name="conv")
    out = te.compute((filters, height, width), lambda f, y, x: te.max(conv[f, y, x] + bias[f], 0.0), name="out")
    return [photo, weight, bias, out]


# -- how to compute it, by hand ------------------------------------------------------------------------------------------------


def schedule_matmul(tensors: list[te.Tensor]) -> tl.Schedule:
    """A register tile of rows × two vectors, accumulated in registers; a panel of B is packed so that k walks through it in order."""
    _, B, C = tensors
    s = te.create_schedule(C.op)
    acc = s.cache_write(C, "local")
    panel = s.cache_read(B, "global", [acc])
    rows = 6 if CPU.vector_registers <= 16 else 12
    io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=rows, y_factor=2 * LANES)
    s[C].reorder(jo, io, ii, ji)
    s[C].unroll(ii)
    s[C].vectorize(ji)
    s[acc].compute_at(s[C], io)
    i, j = s[acc].op.axis
    (k,) = s[acc].op.reduce_axis
    s[acc].reorder(k, i, j)
    s[acc].unroll(i)
    s[acc].vectorize(j)
    s[panel].compute_at(s[C], jo)
    s[panel].vectorize(s[panel].op.axis[1])
    return s


def schedule_conv2d(tensors: list[te.Tensor]) -> tl.Schedule:
    """Bands of 16 rows with their own border; in them a register tile of 4 filters × two vectors of pixels."""
    out = tensors[-1]
    (conv,) = (t for t in out.op.input_tensors if t.name == "conv")
    padded, _ = conv.op.input_tensors
    s = te.create_schedule(out.op)
    f, y, x = s[out].op.axis
    yo, yi = s[out].split(y, 16)
    fo, fi = s[out].split(f, 4)
    xo, xi = s[out].split(x, 2 * LANES)
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
    return s


# -- the photograph and its filters --------------------------------------------------------------------------------------------


def load_photo() -> np.ndarray:
    """The Summer Palace by Gaylon (from scikit-learn's samples), channels first, 0..1."""
    import warnings

    from sklearn.datasets import load_sample_image  # noqa: PLC0415  (it takes seconds to import)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pixels = load_sample_image("china.jpg")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


def filter_bank() -> tuple[np.ndarray, np.ndarray]:
    """16 filters: sharpen RGB (0–2), edges in 8 directions (3–10), embossing from 2 sides (11–12), soft RGB (13–15)."""
    weight = np.zeros((16, 3, 3, 3), np.float32)
    bias = np.zeros(16, np.float32)
    sharpen = np.array([[-0.5, -1, -0.5], [-1, 7, -1], [-0.5, -1, -0.5]], np.float32)
    soft = np.outer([1, 2, 1], [1, 2, 1]).astype(np.float32) / 16
    luminance = np.array([0.30, 0.59, 0.11], np.float32)
    ring = [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2), (2, 1), (2, 0), (1, 0)]  # around the centre, clockwise
    for channel in range(3):
        weight[channel, channel] = sharpen
        weight[13 + channel, channel] = soft
    for turn in range(8):
        edge = np.zeros((3, 3), np.float32)
        for place, value in enumerate((1, 2, 1, 0, -1, -2, -1, 0)):
            edge[ring[(place + turn) % 8]] = value
        weight[3 + turn] = luminance[:, None, None] * edge
        bias[3 + turn] = -0.25
    for n, emboss in enumerate(([[-2, -1, 0], [-1, 0, 1], [0, 1, 2]], [[0, -1, -2], [1, 0, -1], [2, 1, 0]])):
        weight[11 + n] = luminance[:, None, None] * np.array(emboss, np.float32)
        bias[11 + n] = 0.5
    return weight, bias


def conv2d_numpy(photo: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """The usual way in numpy: every 3×3 window becomes a column, then one BLAS call, then bias and relu in place."""
    filters, (_, height, width) = len(weight), photo.shape
    padded = np.pad(photo, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    columns = windows.transpose(0, 3, 4, 1, 2).reshape(27, height * width)
    out = weight.reshape(filters, 27) @ columns
    out += bias[:, None]
    return np.maximum(out, 0, out=out).reshape(filters, height, width)


# -- reading what came out -----------------------------------------------------------------------------------------------------


def show(title: str, body: Any) -> None:
    """A titled panel."""
    console.print(Panel(body, title=title, title_align="left", border_style="dim", padding=(0, 1)))


def code(text: str, language: str) -> Any:
    """Source text, coloured where there are colours, and cut at the edge rather than wrapped."""
    width = console.width - 4
    text = "\n".join(line if len(line) <= width else line[:width - 1] + "…" for line in text.splitlines())
    return Syntax(text, language, theme="ansi_dark", background_color="default") if console.is_terminal else Text(text)


def loop_of(ir: str, header: str) -> str:
    """The first loop of the loop IR whose head starts with ``header``, dedented; at most 8 lines."""
    lines = ir.splitlines()
    start = next(n for n, line in enumerate(lines) if line.strip().startswith(header))
    depth = len(lines[start]) - len(lines[start].lstrip())
    end = next((n for n in range(start + 1, len(lines)) if len(lines[n]) - len(lines[n].lstrip()) <= depth), len(lines))
    block = [line[depth:] for line in lines[start:end]]
    return "\n".join(block[:8] + ([f"    … and {len(block) - 8} more lines"] if len(block) > 8 else []))


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
            loop = lines[label:n + 1]
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
        shown[count - 3:-3] = [f"    … {len(shown) - count} more"]
    return "\n".join(shown)


# -- timing --------------------------------------------------------------------------------------------------------------------


def race(runs: dict[str, Callable[[], Any]], rounds: int = 7, share: float = 0.05) -> dict[str, float]:
    """Median seconds of each, taking turns: in every round each runs for about ``share`` seconds. Very slow ones run in few rounds."""
    first: dict[str, float] = {}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for name, run in runs.items():
        begin = time.perf_counter()
        run()
        first[name] = time.perf_counter() - begin
    for turn in range(rounds):
        for name, run in runs.items():
            if first[name] > 5 * share and turn >= 2:
                continue
            for _ in range(max(1, min(200, int(share / first[name])))):
                begin = time.perf_counter()
                run()
                samples[name].append(time.perf_counter() - begin)
    return {name: statistics.median(taken) for name, taken in samples.items()}


def picture(photo: np.ndarray, out: np.ndarray, path: Path) -> None:
    """The photograph before and after, as one picture of two by two."""
    height, width = photo.shape[1:]
    hues = np.array([[np.cos(a), np.cos(a - 2.1), np.cos(a + 2.1)] for a in np.linspace(0, 2 * np.pi, 8, endpoint=False)], np.float32)
    edges = np.einsum("fyx,fc->cyx", out[3:11], 0.5 + 0.5 * hues) * 0.45
    panels = (("before", photo), ("sharpened", (out[0:3] - photo) * 0.35 + photo if False else out[0:3]),
              ("edges, one colour a direction", edges), ("embossed", np.broadcast_to(out[11], photo.shape)))
    font = ImageFont.load_default(size=20)
    sheet = Image.new("RGB", (2 * width + 30, 2 * (height + 40) + 10), "white")
    draw = ImageDraw.Draw(sheet)
    for n, (caption, pixels) in enumerate(panels):
        x, y = 10 + (n % 2) * (width + 10), (n // 2) * (height + 40)
        draw.text((x, y + 9), caption, fill="black", font=font)
        sheet.paste(Image.fromarray((np.clip(pixels, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)), (x, y + 40))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.save(path)
