"""A trace as Python text: the calls a person would write. Each primitive writes its own
(``Primitive.python``); here is what they write with. Knows no particular primitive, needs no schedule and
applies nothing.

Stages and the loops that calls return become variables; what no call returned is looked up by its name when
it is first used. The names of new loops and stages are predicted by the rules that make them; where that is
not certain (the axes of a new layout have names of their own; two caches may or may not want one name), they
are looked up.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..core.names import free_name
from .primitives.base import Primitive
from .primitives.fields import Knob, Size, field_types


def python_text(
    steps: tuple[Primitive, ...],
    decisions: Mapping[str, tuple[int, ...]],
    numbers: bool,
    notes: Mapping[int, str] | None = None,
) -> str:
    """``def apply(s): …`` for these steps. With ``numbers`` sampled sizes are written as numbers and not
    sampled again. ``notes`` are comments behind the lines of steps."""
    w = Writer(decisions, numbers)
    # two calls that ask for one name get it in an order that the printed text, which leaves out some, may not
    # keep
    counts = Counter(p.uncertain_name() for p in steps)
    w.uncertain = {name for name, n in counts.items() if n > 1}
    for n, p in enumerate(steps):
        if numbers and p.samples:
            continue
        p.python(w)
        if notes and n in notes:
            w.lines[-1] += f"  # {notes[n]}"
    return "\n".join(["def apply(s):", *[f"    {line}" for line in w.lines], "    return s"]) + "\n"


class Writer:
    """The lines so far, and the variables that hold stages, loops and knobs."""

    def __init__(self, decisions: Mapping[str, tuple[int, ...]], numbers: bool) -> None:
        self.decisions = decisions
        self.numbers = numbers
        self.lines: list[str] = []
        self.used = {"s", "apply"}
        self.stages: dict[str, str] = {}
        self.named: dict[tuple[str, str], str] = {}  # the loops of stages
        self.knobs: dict[str, str] = {}
        self.foreign: set[str] = set()  # stages whose loops may have any name
        self.uncertain: set[str] = set()  # names that more than one new stage asks for

    def line(self, text: str) -> None:
        """One more line of the function."""
        self.lines.append(text)

    def variable(self, preferred: str) -> str:
        """A fresh identifier that looks like ``preferred``."""
        word = re.sub(r"\W", "_", preferred)
        word = f"_{word}" if not word.isidentifier() or keyword.iskeyword(word) else word
        name = free_name(word, self.used)
        self.used.add(name)
        return name

    def tensor(self, stage: str, index: int = 0) -> str:
        """A stage's tensor as an argument: its variable, or the call that finds a later output."""
        if index:
            return f"s.tensor({stage!r}, {index})"
        if stage not in self.stages:
            name = self.stages[stage] = self.variable(stage)
            self.lines.append(f"{name} = s.tensor({stage!r})")
        return self.stages[stage]

    def new_stage(self, preferred: str, base: str = "") -> str:
        """The variable of a stage that a call makes of ``base``, as the left side of an assignment; none
        where the stage's name is uncertain."""
        if preferred in self.uncertain:
            return ""
        name = free_name(preferred, self.stages)
        if base in self.foreign:
            self.foreign.add(name)
        self.stages[name] = self.variable(name)
        return f"{self.stages[name]} = "

    def loops(self, stage: str, *loops: str) -> list[str]:
        """The loops as arguments; those that no call returned are looked up first, in one line."""
        at = self.tensor(stage)
        if stage in self.foreign:
            return [repr(x) for x in loops]  # calls take the name of a loop as well
        missing = [x for x in loops if (stage, x) not in self.named]
        if missing:
            names = self.bind(stage, missing)
            self.line(f"{names} = {', '.join(f's[{at}].loop({x!r})' for x in missing)}")
        return [self.named[stage, x] for x in loops]

    def new_loops(self, stage: str, *preferred: str) -> str:
        """Variables for the loops that a call makes, as the left side of an assignment; ``preferred`` are
        names for the loops, used where they are free."""
        return self.bind(stage, [self.fresh_loop(stage, name) for name in preferred])

    def bind(self, stage: str, loops: list[str]) -> str:
        """Fresh variables for loops of a stage, as the left side of an assignment."""
        names = []
        for x in loops:
            name = self.variable(x.replace(".outer", "o").replace(".inner", "i").replace(".fused", ""))
            if stage not in self.foreign:
                self.named[stage, x] = name
            names.append(name)
        return ", ".join(names)

    def renamed(self, stage: str, loop: str, preferred: str) -> str:
        """Another variable for a loop that a call returns as it is, as the left side of an assignment."""
        new = self.new_loops(stage, preferred)
        self.named[stage, loop] = new
        return new

    def loop_itself(self, stage: str, loop: str) -> str:
        """The loop as an argument, where the call takes no name of one."""
        (text,) = self.loops(stage, loop)
        return f"s[{self.tensor(stage)}].loop({text})" if stage in self.foreign else text

    def fresh_loop(self, stage: str, preferred: str) -> str:
        """The name a loop made now will have."""
        return free_name(preferred, {name for owner, name in self.named if owner == stage})

    def renewed(self, *stages: str, layout: bool = False) -> None:
        """Calls have made the axes of these stages anew; ``layout``: with names of their own."""
        self.named = {k: v for k, v in self.named.items() if k[0] not in stages}
        self.foreign.update(stages if layout else ())

    def value(self, value: Any) -> str:
        """A number, a size, a knob or any plain data as an argument."""
        if isinstance(value, Knob) and value.name in self.knobs:
            return self.knobs[value.name]
        return self._plain(value)

    def new_knobs(self, decision: str, parts: int = 1) -> str:
        """Variables for the values of a decision, as the left side of an assignment."""
        names = [self.variable(f"{decision}_{i}" if parts > 1 else decision) for i in range(parts)]
        self.knobs.update({f"{decision}.{i}": name for i, name in enumerate(names)})
        return ", ".join(names)

    def sampled(self, decision: str, given: tuple[int, ...] | None) -> tuple[int, ...] | None:
        """The values of a decision: those of the trace, else what the call was given."""
        return self.decisions.get(decision, given)

    def call(self, p: Primitive) -> str:
        """``s[C].name(…)`` with the other fields in order."""
        arguments: list[str] = []
        of = ""
        for f in field_types(type(p)):  # type: ignore[arg-type]  # a class is hashable
            value = getattr(p, f.name)
            if f.meaning.of == "stage" and f.element is None:
                arguments.append(f"s[{self.tensor(value)}]")
                of = value
            elif f.meaning.of == "tensor":
                arguments.append(self.tensor(value))
            elif f.meaning.of in ("loop", "axis"):
                arguments += self.loops(of, *(value if isinstance(value, tuple) else (value,)))
            else:
                arguments.append(self.value(value))
        return f"{arguments[0]}.{p.name}({', '.join(arguments[1:])})"

    def placing(self, p: Primitive, stage: str, at: str, loop: str) -> str:
        """``s[P].compute_at(s[C], loop)`` and the like."""
        (place,) = self.loops(at, loop)
        return f"s[{self.tensor(stage)}].{p.name}(s[{self.tensor(at)}], {place})"

    def step(self, p: Primitive) -> str:
        """``s.step("name", …)``, the fields by name as plain data: for what a call needs an object for that a
        trace does not hold."""
        given = p.arguments()
        if "values" in given and "decision" in given:
            given["values"] = self.sampled(given["decision"], given["values"])
        return f"s.step({', '.join([repr(p.name), *[f'{k}={self._plain(v)}' for k, v in given.items()]])})"

    def _plain(self, value: Any) -> str:
        """A field as ``s.step`` takes it."""
        if isinstance(value, Size):
            return f"s.size({value.name!r})"
        if isinstance(value, Knob):
            base, _, index = value.name.rpartition(".")
            values = self.decisions.get(base, ()) if self.numbers else ()
            decided = index.isdecimal() and int(index) < len(values)
            return repr(values[int(index)]) if decided else f"s.knob({value.name!r})"
        return repr(value)
