"""The text of one random computation in the making: sizes, tensors, axes and small exact operations. Knows
nothing of families or schedules."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67)
ROUND = (1, 4, 6, 8, 9, 12, 16, 24, 32, 48, 64)
FLOATS = ("float32", "float64")
TYPES = ("float32", "float32", "float32", "float64", "int8", "int32", "int64")
VOLUME = 6000  # points of the largest iteration space

Size = int | str


@dataclass(frozen=True)
class Graph:
    """``text`` defines ``graph() -> (args, outputs, ranges)``; ``sizes`` are values of the symbolic sizes to
    try."""

    family: str
    text: str
    sizes: tuple[dict[str, int], ...]


@dataclass
class Sketch:
    """The text of one graph in the making."""

    rng: random.Random
    lines: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    sizes: tuple[dict[str, int], ...] = ({},)
    used: int = 0

    def name(self, wish: str) -> str:
        self.used += 1
        return f"{wish}{self.used}"

    def extent(self, limit: int = 67) -> int:
        """A size from 1 to ``limit``, primes favoured."""
        pool = PRIMES if self.rng.random() < 0.6 else ROUND
        return self.rng.choice([n for n in pool if n <= limit] or [1])

    def shape(self, rank: int, volume: int = VOLUME, empty: bool = False) -> list[int]:
        """Sizes whose product stays within ``volume``. When it may be ``empty``, one of them is zero now and
        then."""
        out: list[int] = []
        for _ in range(rank):
            out.append(self.extent(max(1, min(67, volume))))
            volume //= out[-1]
        self.rng.shuffle(out)
        if empty and self.rng.random() < 0.02:
            out[self.rng.randrange(rank)] = 0
        return out

    def rows(self, n: int, share: float = 0.25) -> Size:
        """``n``, or a symbolic size in its place."""
        if self.rng.random() > share or self.sizes != ({},):
            return n
        kind = self.rng.choice(("var", "size_var", "dim", "dim4"))
        tries = {0, 1, n, self.rng.randint(2, 20)}
        if kind == "dim4":
            self.lines.append('n = te.dim("n", 4, 64, multiple_of=4)')
            tries = {4, 8, 4 * self.rng.randint(3, 9)}
        elif kind == "dim":
            self.lines.append('n = te.dim("n", 1, 128)')
            tries.discard(0)
        else:
            self.lines.append(f'n = te.{kind}("n")')
        self.sizes = tuple({"n": k} for k in sorted(tries))
        return "n"

    def tensor(self, shape: list[Size], dtype: str, lo: int = -4, hi: int = 5) -> str:
        """A placeholder with values in ``lo .. hi - 1``."""
        name = self.name("A")
        self.lines.append(f'{name} = te.placeholder({shape_text(shape)}, "{dtype}", "{name}")')
        self.inputs.append(name)
        self.ranges[name] = (lo, hi)
        return name

    def axis(self, begin: Size, end: Size) -> str:
        name = self.name("k")
        self.lines.append(f'{name} = te.reduce_axis(({begin}, {end}), "{name}")')
        return name

    def compute(self, shape: list[Size], indices: str, body: str, wish: str = "T") -> str:
        name = self.name(wish)
        self.lines.append(f'{name} = te.compute({shape_text(shape)}, lambda {indices}: {body}, "{name}")')
        return name

    def op(self, x: str, y: str | None = None) -> str:
        """A random scalar operation that keeps small integers small integers."""
        r = self.rng
        forms = [
            f"{x} + {r.randint(1, 3)}",
            f"{x} * {r.choice((2, -1, 3))}",
            f"te.max({x}, {r.randint(-1, 2)})",
            f"te.min({x}, {r.randint(-1, 3)})",
            f"te.if_then_else({x} > {r.randint(-1, 1)}, {x}, 1 - {x})",
            f"te.select({x} < {r.randint(0, 2)}, {x} + 1, {x})",
            f"2 - {x}",
        ]
        if y is not None:
            forms = [
                f"{x} + {y}",
                f"{x} * {y}",
                f"{x} - {y}",
                f"te.max({x}, {y})",
                f"te.if_then_else({y} > 0, {x}, {y})",
            ]
        return r.choice(forms)

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def finish(self, family: str) -> Graph:
        read = [
            a
            for a in self.inputs
            if any(re.search(rf"\b{a}\b", line) and f"{a} = " not in line for line in self.lines)
        ]
        args = [*read, *self.outputs]
        body = "\n".join(f"    {line}" for line in self.lines)
        # some inputs may lie as they like, chosen apart so that the rest of the case stays as it is
        if "te.extern" not in body:
            own = random.Random(body)
            body = "\n".join(
                line[:-1] + ', strides="any")' if "te.placeholder" in line and own.random() < 0.15 else line
                for line in body.split("\n")
            )
        text = f"def graph():\n{body}\n    return [{', '.join(args)}], [{', '.join(self.outputs)}], {self.ranges!r}\n"
        return Graph(family, text, self.sizes)


def shape_text(shape: list[Size]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def letters(rank: int) -> list[str]:
    return list("ijlm"[:rank])
