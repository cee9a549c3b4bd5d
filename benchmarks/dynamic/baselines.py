"""P8: other ways to serve every number of rows with the same micro-kernels, and ours with one of its choices
off, in turns on the same arrays.

Baselines, as a CPU would run them:

- DietCode (Zheng et al., MLSys 2022, section 4): rows padded to a multiple of the tile; a tile costs f_MK,
  its measured seconds a row when there are many, times f_adapt, what padding adds (their occupancy of cores
  is part of the measured f_MK here: threads share columns, of which every number of rows has the same). A
  decision tree picks the tile, fitted to every 19th number of rows and asked for all.
- residue kernels (Shen et al., "Nimble", MLSys 2021, section 4.5): as many full tiles as fit and one kernel
  for the remainder, where the tile is the one with the least f_MK.
- buckets: rows padded to 64, 128, 256 or 512, each bucket by the best of our plans for its size.
- always generic: the default schedule with run-time extents. Always exact: the default schedule of each exact
  number of rows, compiled for free: what always recompiling has left once everything is compiled (P9 counts
  the compiling).
- numpy, torch, torch.compile with a dynamic size, onnxruntime with a dynamic axis, where they are installed:
  see ``peers``.

What pads copies the rows to a padded array and the result back; the same "with room" computes the padding
without any copy, in arrays that happen to be larger. Baselines that call several kernels call them from
Python, which takes 0.1 µs each. "The best of our plans" is what a tree that never errs would have picked; as
the least of several measurements, it is a little too good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from autosched.dynamic.decision_tree import fit, picks
from autosched.dynamic.kernel_times import times
from autosched.dynamic.micro_kernel import dense_of, schedule, tiles
from tensorlang import te

from .dense import MOST, compiled, declared, layers
from .figures import Figure, Table, pooled
from .peers import Peers
from .turns import Call, in_turns

ABOUT = (
    "the same micro-kernels used as DietCode, Nimble and buckets would, and ours without each of its "
    "choices; M in 1 … 512"
)
BUCKETS = (64, 128, 256, 512)
LISTED = tuple(range(5, MOST + 1, 19))  # the shapes DietCode is told of
OPT = 128  # rows the kernel expects most
MANY = 384  # rows at which f_MK is measured, about
SECONDS = 0.15  # of measuring at each number of rows

Kernels = Mapping[int, tl.Module]  # by height; each takes any multiple of it


def up(rows: int, height: int) -> int:
    """Rows with their padding."""
    return -(-rows // height) * height


def residue(rows: int, height: int) -> list[tuple[int, int, int]]:
    """(height, first row, last row + 1) of the full tiles, and of the remainder."""
    full = rows // height * height
    parts = [(height, 0, full), (rows - full, full, rows)]
    return [p for p in parts if p[1] < p[2]]


def bucket(rows: int) -> int:
    """The smallest bucket that holds the rows."""
    return next(b for b in BUCKETS if b >= rows)


@dataclass(frozen=True)
class DietCode:
    """Its choice of a tile: ``per_row`` is f_MK by height, the tree is fitted to listed numbers of rows."""

    per_row: Mapping[int, float]
    tree: Any

    @staticmethod
    def cost(per_row: Mapping[int, float], rows: Sequence[int]) -> Any:
        """Predicted seconds [rows, heights]: rows · f_MK · f_adapt, heights in order."""
        return np.array([[m * per_row[h] * (up(m, h) / m) for h in sorted(per_row)] for m in rows])

    @staticmethod
    def fitted(per_row: Mapping[int, float], listed: Sequence[int] = LISTED) -> DietCode:
        """Its tree."""
        shapes = np.array(listed)[:, None]
        return DietCode(
            per_row, fit(("m",), shapes, DietCode.cost(per_row, listed), np.ones(len(listed)), False).tree
        )

    def height(self, rows: int) -> int:
        """The tile of a number of rows, listed or not."""
        return sorted(self.per_row)[int(picks(self.tree, ("m",), np.array([[rows]]))[0])]


@dataclass(frozen=True)
class Arrays:
    """A layer's arguments of m rows at the front of arrays with room for more, and padded arrays for those
    that copy."""

    x: Any
    y: Any
    padded_x: Any
    padded_y: Any

    @staticmethod
    def of(most: int, n: int, k: int) -> Arrays:
        """Arrays of at most so many rows."""
        x = np.random.default_rng(0).random((most, k), np.float32)
        return Arrays(x, np.zeros((most, n), np.float32), np.zeros_like(x), np.zeros((most, n), np.float32))

    def copied(self, entry: Any, rows: int, padded: int) -> Call:
        """A call of padded copies; without padding there is nothing to copy."""
        if rows == padded:
            return self.part(entry, 0, rows)
        x, y, into, out = self.x[:rows], self.y[:rows], self.padded_x[:rows], self.padded_y[:rows]
        px, py = self.padded_x[:padded], self.padded_y[:padded]

        def call() -> None:
            np.copyto(into, x)
            entry(px, py)
            np.copyto(y, out)

        return call

    def parts(self, kernels: Kernels, parts: Sequence[tuple[int, int, int]]) -> Call:
        """Calls of micro-kernels one after the other."""
        made = [self.part(kernels[h].entry, a, b) for h, a, b in parts]
        if len(made) == 1:
            return made[0]
        first, second = made

        def call() -> None:
            first()
            second()

        return call

    def part(self, entry: Any, first: int, last: int) -> Call:
        """A call of some of the rows."""
        x, y = self.x[first:last], self.y[first:last]
        return lambda: entry(x, y)


class Ways:
    """All ways to serve a layer, made once; ``calls(m)`` gives them for a number of rows."""

    def __init__(self, n: int, k: int, seconds: float = 2.0) -> None:
        self.n, self.k = n, k
        self.w = np.random.default_rng(1).random((k, n), np.float32)
        task = autosched.SearchTask(
            declared, (te.dim("m", 0, 2 * MOST), n, k), name="dense"
        )  # micro-kernels take the padding of the most rows too
        self.ours = autosched.tune_dynamic(
            task, {"m": (1, OPT, MOST)}, constants={"W": self.w}, cache=False, seconds=seconds
        )
        d = self.ours.dispatcher
        self.plans = [tl.Dispatcher(d.signature, [r]) for r in d.routes]
        self.kernels: Kernels = max(d.routes, key=lambda r: r.highest).kernels
        self.unpacked = tl.Dispatcher(d.signature, self._unpacked(), d.tree)
        self.generic = compiled(te.dim("m", 0, MOST, hint=OPT), n, k, self.w)
        self.peers = Peers(self.w)
        self.arrays = Arrays.of(MOST + max(self.kernels), n, k)
        many = {h: MANY // h * h for h in self.kernels}
        measured = times(
            {h: self.arrays.part(module.entry, 0, many[h]) for h, module in self.kernels.items()}, seconds
        )
        per_row = {h: measured[h] / many[h] for h in measured}
        self.diet = DietCode.fitted(per_row)
        self.full = min(per_row, key=lambda h: per_row[h])
        self.of_bucket = {}
        for b in BUCKETS:
            measured = times(
                {i: self.arrays.part(p.entry, 0, b) for i, p in enumerate(self.plans)}, seconds / 8
            )
            self.of_bucket[b] = self.plans[min(measured, key=lambda i: measured[i])].entry

    def calls(self, m: int) -> dict[str, Call]:
        """Calls by name: ours, plans by number, and all ways of ``BASELINES`` and ``ABLATIONS``."""
        a, d = self.arrays, self.ours.dispatcher
        tile, wide = self.diet.height(m), bucket(m)
        entry, padded = self.kernels[tile].entry, up(m, tile)
        limit = d.routes[d.slot((m,))].highest
        return {
            "ours": a.part(self.ours.entry, 0, m),
            **{f"plan {i}": a.part(p.entry, 0, m) for i, p in enumerate(self.plans)},
            "DietCode": a.copied(entry, m, padded),
            "DietCode with room": a.part(entry, 0, padded),
            "residue kernels": a.parts(self.kernels, residue(m, self.full)),
            "buckets": a.copied(self.of_bucket[wide], m, wide),
            "buckets with room": a.part(self.of_bucket[wide], 0, wide),
            "always generic": a.part(self.generic.entry, 0, m),
            "always exact": a.part(compiled(m, self.n, self.k, self.w).entry, 0, m),
            "blocks not balanced": a.parts(self.kernels, residue(m, limit)),
            f"no tree: the plan of {OPT}": a.part(self.plans[d.slot((OPT,))].entry, 0, m),
            "no tree: the highest blocks": a.part(self.plans[-1].entry, 0, m),
            "weight not packed": a.part(self.unpacked.entry, 0, m),
            **self.peers.calls(a.x[:m], a.y[:m]),
        }

    def wrong(self, calls: Mapping[str, Call], m: int) -> list[str]:
        """Those of the calls whose result is not the product."""
        want = self.arrays.x[:m] @ self.w
        bad = []
        for name, call in calls.items():
            self.arrays.y[:] = np.nan
            returned = call()  # by those who make their result anew
            if not np.allclose(
                self.arrays.y[:m] if returned is None else np.asarray(returned), want, rtol=1e-3
            ):
                bad.append(name)
        return bad

    def _unpacked(self) -> list[tl.Rows]:
        """Our routes with kernels of the same tiles that read the weight as it is: their schedules without
        the copy."""
        target = tl.Target.host()
        lanes = target.vector_lanes("float32")
        kernels = {}
        for tile in tiles(target.vector_registers, lanes, self.n):
            if self.kernels[tile.rows].signature.name != f"dense_{tile.rows}x{tile.vectors}":
                continue
            tensors = declared(te.dim("m", 0, MOST, multiple_of=tile.rows), self.n, self.k)
            found = dense_of(tensors, {tensors[1]: self.w})
            assert found is not None
            packing = schedule(tensors, found, tile, lanes, tl.num_threads())
            assert packing is not None
            rest = tl.Trace(
                tuple(
                    p
                    for p in packing.trace.steps
                    if p.name != "cache_read" and p.arguments().get("stage") != "W.global"
                )
            )
            kernels[tile.rows] = tl.build(
                rest.apply(tl.create_schedule(tensors[2])), tensors, constants={tensors[1]: self.w}
            )
        return [tl.Rows(r.dim, {h: kernels[h] for h in r.kernels}) for r in self.ours.dispatcher.routes]


BASELINES = (
    "DietCode",
    "DietCode with room",
    "residue kernels",
    "buckets",
    "buckets with room",
    "always generic",
    "always exact",
)
ABLATIONS = (
    "blocks not balanced",
    f"no tree: the plan of {OPT}",
    "no tree: the highest blocks",
    "weight not packed",
)


def run(options: Any) -> Iterator[str | Figure]:
    """The lines of the suite."""
    found: list[Figure] = []
    for n, k in layers(options):
        ways, table = Ways(n, k), Table(f"N={n} K={k}")
        tall = sorted({ways.diet.height(m) for m in LISTED})
        yield (
            f"{table.case}: full tiles of {ways.full} rows for residue kernels, tiles of "
            f"{', '.join(map(str, tall))} rows in DietCode's tree; "
            f"{ways.peers}"
        )
        for m in spread(24 if options.quick else 96, options.seed):
            calls = ways.calls(m)
            assert not (bad := ways.wrong(calls, m)), (m, bad)
            seconds = in_turns(calls, SECONDS + 1e-3 * m, options.seed)
            best = min(s for name, s in seconds.items() if name.startswith("plan "))
            ours = min(
                seconds.pop("ours"), seconds[f"plan {ways.ours.dispatcher.slot((m,))}"]
            )  # the same code, timed twice
            table.add(m, {name: s / ours for name, s in seconds.items() if not name.startswith("plan ")})
            table.add(m, {"the best of our plans": min(best / ours, 1.0)})
        found += table.figures()
        yield from table.figures()
    if len({f.case for f in found}) > 1:
        yield "all layers"
        yield from map(str, pooled(found))


def spread(count: int, seed: int) -> list[int]:
    """Numbers of rows, evenly among 1 … 512, each anywhere in its stretch."""
    edges = np.linspace(1, MOST + 1, count + 1)
    return np.random.default_rng(seed).uniform(edges[:-1], edges[1:]).astype(int).tolist()
