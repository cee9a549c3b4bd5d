"""How compile time grows with the program: seconds per stage of chains of 10 to 1,000 stages, by hand and by
default, and per primitive.

``python -m benchmarks.compile_growth`` prints the table; ``--before TREE`` measures another tree of sources
as well, ``--out FILE`` writes both as JSON. Each row is a process of its own that builds a small program of
the same kind first, then the one it times; the time of a program of one stage, the fixed cost of starting, is
subtracted. A row that takes longer than ``--limit`` seconds is given up and says so. Uses the public
interface only, and nothing that an older tree has not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorlang as tl
from tensorlang import te

SIZES = (10, 50, 200, 1000)
PRIMITIVES = (10, 50, 100, 400)
DEPTHS = (10, 30, 60)
REPEATED = 0.4
Row = dict[str, Any]


def reduce_and_map(n: int) -> list[te.Tensor]:
    """Row sums and what is made of them, in turns; two stages a link."""
    x = te.placeholder((16, 32), name="x")
    t = x
    for i in range(max(1, n // 2)):
        k = te.reduce_axis((0, 32), name=f"k{i}")
        total = te.compute((16,), lambda r, t=t, k=k: te.sum(t[r, k], axis=k), name=f"s{i}")
        t = te.compute((16, 32), lambda r, c, t=t, total=total: t[r, c] - total[r] * 0.03125, name=f"m{i}")
    return [x, t]


def stencil(n: int) -> list[te.Tensor]:
    """Three points of the stage before, clamped at the ends."""
    x = te.placeholder((256,), name="x")
    t = x
    for i in range(n):
        t = te.compute(
            (256,), lambda p, t=t: t[te.max(p - 1, 0)] + t[p] + t[te.min(p + 1, 255)], name=f"s{i}"
        )
    return [x, t]


def products(n: int) -> list[te.Tensor]:
    """Matrix products, each the left operand of the next."""
    x, w = te.placeholder((16, 16), name="x"), te.placeholder((16, 16), name="w")
    t = x
    for i in range(n):
        k = te.reduce_axis((0, 16), name=f"k{i}")
        t = te.compute((16, 16), lambda r, c, t=t, k=k: te.sum(t[r, k] * w[k, c], axis=k), name=f"p{i}")
    return [x, w, t]


def elementwise(n: int) -> list[te.Tensor]:
    """One operation an element and stage."""
    x = te.placeholder((32, 32), name="x")
    t = x
    for i in range(n):
        t = te.compute((32, 32), lambda r, c, t=t: t[r, c] * 0.5 + 1.0, name=f"e{i}")
    return [x, t]


def residual(n: int) -> list[te.Tensor]:
    """Each stage reads the two before it."""
    x = te.placeholder((32, 32), name="x")
    a = b = x
    for i in range(n):
        a, b = b, te.compute((32, 32), lambda r, c, a=a, b=b: te.max(b[r, c], 0.0) + a[r, c], name=f"r{i}")
    return [x, b]


def softmaxes(n: int) -> list[te.Tensor]:
    """Softmax of softmax; four stages a link."""
    x = t = te.placeholder((16, 32), name="x")
    for _ in range((n + 2) // 4):
        t = tl.ops.softmax(t, axis=-1)
    return [x, t]


def exponentials(n: int) -> list[te.Tensor]:
    """A function of the library in each stage."""
    x = t = te.placeholder((32, 32), name="x")
    for i in range(n):
        t = te.compute((32, 32), lambda r, c, t=t: te.exp(t[r, c]) - 1.0, name=f"e{i}")
    return [x, t]


def every_stage_given(n: int) -> list[te.Tensor]:
    """The elementwise chain with each of its stages an output."""
    found = [te.placeholder((32, 32), name="x")]
    for i in range(n):
        found.append(te.compute((32, 32), lambda r, c, t=found[-1]: t[r, c] * 0.5 + 1.0, name=f"e{i}"))
    return found


def independent(n: int) -> list[te.Tensor]:
    """Stages that read one input and no other stage."""
    x = te.placeholder((32, 32), name="x")
    return [x] + [
        te.compute((32, 32), lambda r, c, i=i: x[r, c] * float(i) + 1.0, name=f"e{i}") for i in range(n)
    ]


CHAINS: dict[str, Callable[[int], list[te.Tensor]]] = {
    "reduce + map": reduce_and_map,
    "stencil": stencil,
    "products": products,
    "elementwise": elementwise,
    "residual": residual,
}
BY_DEFAULT: dict[str, Callable[[int], list[te.Tensor]]] = {
    **CHAINS,
    "softmax": softmaxes,
    "exp": exponentials,
    "every stage an output": every_stage_given,
    "independent stages": independent,
}


def by_default(args: list[te.Tensor]) -> None:
    """The default schedule, built."""
    tl.compile(args)


def by_hand(args: list[te.Tensor]) -> None:
    """One primitive for every stage, built."""
    s = te.create_schedule(args[-1].op)
    for stage in s.stages:
        if getattr(stage.op, "axis", ()):
            stage.split(stage.op.axis[0], factor=4)
    tl.build(s, args)


def on_one_loop(n: int) -> None:
    """``n`` primitives on one stage: split and fuse in turns."""
    x = te.placeholder((64, 64), name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] + 1.0, name="y")
    s = te.create_schedule(y.op)
    loop = y.op.axis[0]
    for _ in range(n // 2):
        loop = s[y].fuse(*s[y].split(loop, factor=4))
    tl.build(s, [x, y])


def again(n: int, sizes: tuple[int, ...], symbolic: bool = False) -> None:
    """``n`` primitives on one stage: split, reorder and fuse by these factors, both axes in turns."""
    rows = te.var("rows") if symbolic else 64
    x = te.placeholder((rows, 60), name="x")
    y = te.compute((rows, 60), lambda i, j: x[i, j] + 1.0, name="y")
    s = te.create_schedule(y.op)
    loops = list(y.op.axis)
    for turn in range(n // 3):
        outer, inner = s[y].split(loops[turn % 2], factor=sizes[turn % len(sizes)])
        s[y].reorder(inner, outer)
        loops[turn % 2] = s[y].fuse(inner, outer)
    tl.build(s, [x, y])


def splits_only(n: int) -> None:
    """``n`` splits on one stage, each of the outer half of the one before."""
    x = te.placeholder((64, 64), name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] + 1.0, name="y")
    s = te.create_schedule(y.op)
    loop = y.op.axis[0]
    for _ in range(n):
        loop, _ = s[y].split(loop, factor=2)
    tl.build(s, [x, y])


def on_one_stage(n: int, kind: str) -> None:
    """``n`` primitives of one kind on one stage, built."""
    x = te.placeholder((4096, 16, 16), name="x")
    y = te.compute(x.shape, lambda i, j, k: x[i, j, k] + 1.0, name="y")
    s = te.create_schedule(y.op)
    stage, (i, j, k) = s[y], y.op.axis
    loops, inner = [i], k
    for turn in range(n):
        if kind == "split inner":
            _, i = stage.split(i, factor=4096)
        elif kind == "split, then fuse":  # half of them each
            loops[:1] = stage.split(loops[0], factor=1) if 2 * turn < n else ()
            if 2 * turn >= n:
                loops[:2] = [stage.fuse(*loops[:2])]
        elif kind == "reorder":
            stage.reorder(*((j, i), (i, j))[turn % 2])
        elif kind == "split and unroll":
            if turn % 2:
                stage.unroll(inner)
            else:
                i, inner = stage.split(i, factor=1)
        else:
            getattr(stage, kind)(k)
    tl.build(s, [x, y])


def shared(n: int) -> None:
    """``t * t + t``, ``n`` deep, by default: each stage reads the one before three times."""
    x = te.placeholder((64,), name="x")
    t = x
    for i in range(n):
        t = te.compute((64,), lambda p, t=t: t[p] * t[p] + t[p], name=f"t{i}")
    tl.compile([x, t])


def _chain(kind: str, how: Callable[[list[te.Tensor]], None]) -> Callable[[int], None]:
    return lambda n: how(BY_DEFAULT[kind](n))


def _of_kind(kind: str) -> Callable[[int], None]:
    return lambda n: on_one_stage(n, kind)


KINDS = ("split inner", "split, then fuse", "reorder", "unroll", "vectorize", "parallel", "split and unroll")
CASES: dict[str, tuple[Callable[[int], None], tuple[int, ...]]] = {
    **{f"{kind}, default": (_chain(kind, by_default), SIZES) for kind in BY_DEFAULT},
    **{f"{kind}, by hand": (_chain(kind, by_hand), SIZES) for kind in CHAINS},
    "split and fuse of one loop": (on_one_loop, PRIMITIVES),
    "even split, reorder, fuse": (lambda n: again(n, (4,)), PRIMITIVES),
    "uneven split, reorder, fuse": (lambda n: again(n, (5, 7)), PRIMITIVES),
    "uneven, symbolic": (lambda n: again(n, (5, 7), True), PRIMITIVES),
    "splits of one loop": (splits_only, PRIMITIVES),
    **{f"{kind}, one stage": (_of_kind(kind), PRIMITIVES) for kind in KINDS},
    "t * t + t, default": (shared, DEPTHS),
}


def _timed(run: Callable[[int], None], n: int) -> float:
    start = time.process_time()
    run(n)
    return time.process_time() - start


def _least(run: Callable[[int], None], n: int) -> float:
    """The shortest of some builds: two of a program that takes many seconds, three of others, as many of a
    short one as fit into ``REPEATED``. The first one of a process also asks for memory and touches pages."""
    times = [_timed(run, n)]
    while len(times) < (2 if times[0] > 3 else 3) or (sum(times) < REPEATED and len(times) < 40):
        times.append(_timed(run, n))
    return min(times)


def measure(case: str, n: int) -> Row:
    """Seconds of processor time of one build beyond that of the smallest program, in this process."""
    run, sizes = CASES[case]
    try:
        _timed(run, sizes[0])
        fixed, seconds = _least(run, 2), _least(run, n)
    except (tl.TensorLangError, RecursionError) as error:
        return {"case": case, "n": n, "failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
    return {"case": case, "n": n, "seconds": seconds, "fixed": fixed, "each": (seconds - fixed) / (n - 2)}


def _elsewhere(tree: Path, case: str, n: int, limit: float) -> Row:
    """The row as a process with the sources of ``tree`` measures it."""
    command = [sys.executable, str(Path(__file__).resolve()), "--row", case, str(n)]
    try:
        done = subprocess.run(
            command,
            env={**os.environ, "PYTHONPATH": str(tree)},
            cwd=tree,
            capture_output=True,
            text=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        return {"case": case, "n": n, "failed": f"more than {limit:.0f} s"}
    if done.returncode:
        return {
            "case": case,
            "n": n,
            "failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1],
        }
    return dict(json.loads(done.stdout.splitlines()[-1]))


def rows_of(tree: Path, limit: float, cases: list[str]) -> list[Row]:
    """Every row of these cases; what follows a failed one of a case is not tried."""
    out: list[Row] = []
    for case in cases:
        for n in CASES[case][1]:
            out.append(_elsewhere(tree, case, n, limit))
            if "failed" in out[-1]:
                break
    return out


def table(rows: list[Row], before: list[Row]) -> str:
    """Milliseconds per stage or primitive by size, and the growth from the smallest size to the largest."""
    old = {(r["case"], r["n"]): r for r in before}
    lines = [f"{'':<30}{'n':>6}{'ms each':>10}{'before':>10}{'growth':>9}"]
    first: dict[str, float] = {}
    for r in rows:
        was = old.get((r["case"], r["n"]))
        shown = "" if not before else "-" if was is None or "failed" in was else f"{was['each'] * 1e3:.2f}"
        if "failed" in r:
            lines.append(f"{r['case']:<30}{r['n']:>6}  {r['failed']}")
            continue
        base = first.setdefault(r["case"], r["each"])
        lines.append(
            f"{r['case']:<30}{r['n']:>6}{r['each'] * 1e3:>10.2f}{shown:>10}{r['each'] / base:>8.2f}×"
        )
    for r in before:
        if "failed" in r:
            lines.append(f"before: {r['case']}, {r['n']}: {r['failed']}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; see the top of the file."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compile_growth")
    parser.add_argument("--row", nargs=2, metavar=("CASE", "N"), help="one row, in this process, as JSON")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--before", type=Path, help="another tree of sources")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a row may take")
    parser.add_argument("--out", type=Path, help="write the result as JSON")
    options = parser.parse_args([] if arguments is None else arguments)
    if options.row:
        print(json.dumps(measure(options.row[0], int(options.row[1]))))
        return
    cases = [c for c in CASES if options.only in c]
    here = rows_of(Path(__file__).resolve().parents[1], options.limit, cases)
    before = rows_of(options.before, options.limit, cases) if options.before else []
    print(table(here, before))
    if options.out:
        options.out.write_text(json.dumps({"rows": here, "before": before}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
