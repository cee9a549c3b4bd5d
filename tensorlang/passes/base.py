"""What a pass is, and how a pipeline of passes runs: hooks may show, time and verify after each. Knows no
particular pass."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ..arith.simplify import remembered
from ..boundary import guard
from ..entries import public
from ..errors import TensorLangError
from ..loopir.stmt import Func, Stmt


@dataclass(frozen=True, slots=True)
class Pass:
    """A named function from kernel to kernel. ``does`` says in a line what for; ``accepts`` and ``produces``
    list the kinds of loops that may stand in its input and output. ``settles`` promises that it changes
    nothing in what it made itself."""

    name: str
    run: Callable[[Func], Func]
    does: str = ""
    accepts: tuple[str, ...] = ("serial", "parallel", "vectorized", "unrolled")
    produces: tuple[str, ...] = ("serial", "parallel", "vectorized", "unrolled")
    settles: bool = False

    def __str__(self) -> str:
        return self.name


Hook = Callable[[Pass, Func, float], None]


@dataclass(frozen=True, slots=True)
class PassPipeline:
    """Passes run in order. ``hooks`` are called with the pass, its result and the seconds it took."""

    passes: tuple[Pass, ...]

    def run(self, func: Func, hooks: tuple[Hook, ...] = ()) -> Func:
        """The kernel after every pass. One that settles is left out where it stands again and nothing has
        changed since."""
        made: dict[Callable[[Func], Func], Stmt] = {}
        with remembered():
            for p in self.passes:
                start = time.perf_counter()
                if made.get(p.run) is not func.body:
                    func = p.run(func)
                    if p.settles:
                        made[p.run] = func.body
                took = time.perf_counter() - start
                for hook in hooks:
                    hook(p, func, took)
        return func

    def cut(self, name: str) -> tuple[PassPipeline, PassPipeline]:
        """The passes before the one of that name, and from it on."""
        at = next(i for i, p in enumerate(self.passes) if p.name == name)
        return PassPipeline(self.passes[:at]), PassPipeline(self.passes[at:])

    def __str__(self) -> str:
        return " → ".join(p.name for p in self.passes)

    def table(self) -> str:
        """What each pass does, the file it is in, and the kinds of loops that it accepts and leaves, as
        text."""
        rows = [
            (
                p.name,
                f"{p.run.__module__.rpartition('.')[2]}.py",
                ", ".join(p.accepts),
                ", ".join(p.produces),
                p.does,
            )
            for p in self.passes
        ]
        head = ("pass", "file", "accepts loops that are", "leaves loops that are", "what it does")
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head) - 1)]
        return "\n".join(
            "  ".join([*(f"{x:<{w}}" for x, w in zip(row, widths, strict=False)), row[-1]])
            for row in (head, *rows)
        )


@public(TensorLangError, "TimeTable", text="plain", page="times")
class TimeTable:
    """A hook that adds up the time per pass; prints as a table in milliseconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def __call__(self, p: Pass, func: Func, took: float) -> None:
        self.add(p.name, took)

    def add(self, name: str, took: float) -> None:
        """Count ``took`` seconds for a stage of compilation, one more time."""
        self.seconds[name] = self.seconds.get(name, 0.0) + took

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        rows = [f"{name:<24} {s * 1e3:8.2f} ms" for name, s in self.seconds.items()]
        return "\n".join([*rows, f"{'total':<24} {total * 1e3:8.2f} ms"])


guard(TimeTable, ("__call__",), "times", TensorLangError)
