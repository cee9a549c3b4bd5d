"""A trace as Python text: the calls a person would write. Knows the fields of primitives; needs no schedule
and applies nothing.

Stages and the loops that calls return become variables; what no call returned is looked up by its name when
it is first used. The names of new loops and stages are foretold by the rules that make them; where that is
not certain (the axes of a new layout have names of their own; two caches may or may not want one name), they
are looked up.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from .primitives.base import Knob, Primitive, Size

Arguments = Mapping[str, Any]


def python_text(
    steps: tuple[Primitive, ...],
    decisions: Mapping[str, tuple[int, ...]],
    numbers: bool,
    notes: Mapping[int, str] | None = None,
) -> str:
    """``def apply(s): …`` for these steps. With ``numbers`` sampled sizes are written as numbers and not
    sampled again. ``notes`` are comments behind the lines of steps."""
    w = Writer(decisions, numbers)
    wishes = Counter(_cache_name(p.arguments()) for p in steps if p.name in ("cache_read", "cache_write"))
    w.uncertain = {name for name, n in wishes.items() if n > 1}
    for n, p in enumerate(steps):
        if numbers and p.name in ("sample_tile", "sample_categorical"):
            continue
        _FORMS.get(p.name, _of_stage)(w, p.name, p.arguments())
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
        self.loops: dict[tuple[str, str], str] = {}
        self.knobs: dict[str, str] = {}
        self.foreign: set[str] = set()  # stages whose loops may have any name
        self.uncertain: set[str] = set()  # names that more than one cache may get

    def variable(self, wish: str) -> str:
        """A fresh identifier that looks like ``wish``."""
        word = re.sub(r"\W", "_", wish)
        word = f"_{word}" if not word.isidentifier() or keyword.iskeyword(word) else word
        name, n = word, 1
        while name in self.used:
            name, n = f"{word}_{n}", n + 1
        self.used.add(name)
        return name

    def tensor(self, stage: str) -> str:
        """The variable of a stage's tensor."""
        if stage not in self.stages:
            name = self.stages[stage] = self.variable(stage)
            self.lines.append(f"{name} = s.tensor({stage!r})")
        return self.stages[stage]

    def new_stage(self, wish: str, base: str) -> str:
        """The variable of a stage that a call makes of ``base``, as the left side of an assignment; none
        where the stage's name is uncertain."""
        if wish in self.uncertain:
            return ""
        name, n = wish, 0
        while name in self.stages:
            n += 1
            name = f"{wish}_{n}"
        if base in self.foreign:
            self.foreign.add(name)
        self.stages[name] = self.variable(name)
        return f"{self.stages[name]} = "

    def loop(self, stage: str, name: str) -> str:
        """A loop as an argument."""
        if stage in self.foreign:
            return repr(name)  # calls take the name of a loop as well
        return self.loops[stage, name]

    def need(self, stage: str, *loops: str) -> list[str]:
        """The loops as arguments; those that no call returned are looked up first, in one line."""
        at = self.tensor(stage)
        missing = [] if stage in self.foreign else [x for x in loops if (stage, x) not in self.loops]
        if missing:
            names = self.bind(stage, missing)
            self.lines.append(f"{names} = {', '.join(f's[{at}].loop({x!r})' for x in missing)}")
        return [self.loop(stage, x) for x in loops]

    def bind(self, stage: str, loops: list[str]) -> str:
        """Fresh variables for loops of a stage, as the left side of an assignment."""
        names = []
        for x in loops:
            name = self.variable(x.replace(".outer", "o").replace(".inner", "i").replace(".fused", ""))
            if stage not in self.foreign:
                self.loops[stage, x] = name
            names.append(name)
        return ", ".join(names)

    def fresh_loop(self, stage: str, wish: str) -> str:
        """The name a loop made now will have."""
        name, n = wish, 1
        while (stage, name) in self.loops:
            name, n = f"{wish}_{n}", n + 1
        return name

    def renewed(self, *stages: str, layout: bool = False) -> None:
        """Calls have made the axes of these stages anew; ``layout``: with names of their own."""
        self.loops = {k: v for k, v in self.loops.items() if k[0] not in stages}
        self.foreign.update(stages if layout else ())

    def number(self, value: Any) -> str:
        """A literal, a size, or a knob."""
        if isinstance(value, Size):
            return f"s.size({value.name!r})"
        if not isinstance(value, Knob):
            return repr(value)
        base, _, index = value.name.rpartition(".")
        if self.numbers and base in self.decisions:
            return repr(self.decisions[base][int(index)])
        return self.knobs.get(value.name, f"s.knob({value.name!r})")


def _cache_name(a: Arguments) -> str:
    """The name a cache gets, unless it is taken; that of an operation with several outputs also tells which
    (``.v0``)."""
    return f"{a.get('tensor') or a['stage']}.{a['scope']}"


def _of_stage(w: Writer, name: str, a: Arguments) -> None:
    """``s[C].unroll(i)`` and the like: loops first, then the other fields in order."""
    stage = a["stage"]
    loops = w.need(stage, *([a[k] for k in ("loop", "axis") if k in a] or a.get("loops", ())))
    rest = [repr(v) for k, v in a.items() if k not in ("stage", "loop", "loops", "axis")]
    w.lines.append(f"s[{w.tensor(stage)}].{name}({', '.join([*loops, *rest])})")


def _at(w: Writer, name: str, a: Arguments) -> None:
    (loop,) = w.need(a["at"], a["loop"])
    w.lines.append(f"s[{w.tensor(a['stage'])}].{name}(s[{w.tensor(a['at'])}], {loop})")
    if name == "reverse_compute_at":
        w.renewed(a["stage"], a["at"], layout=True)


def _split(w: Writer, name: str, a: Arguments) -> None:
    stage, parent = a["stage"], a["loop"]
    (loop,) = w.need(stage, parent)
    how = [f"{k}={w.number(a[k])}" for k in ("factor", "nparts") if a[k] is not None]
    how += [f"tail={a['tail']!r}"] if a["tail"] != "auto" else []
    new = w.bind(stage, [w.fresh_loop(stage, f"{parent}.{half}") for half in ("outer", "inner")])
    w.lines.append(f"{new} = s[{w.tensor(stage)}].split({', '.join([loop, *how])})")


def _fuse(w: Writer, name: str, a: Arguments) -> None:
    stage, loops = a["stage"], a["loops"]
    args = w.need(stage, *loops)
    wish = loops[0] if loops else "singleton"
    for x in loops[1:]:
        wish = w.fresh_loop(stage, f"{wish.removesuffix('.fused')}.{x}.fused")
    new = w.bind(stage, [wish if len(loops) != 1 else w.fresh_loop(stage, f"{wish}.same")])
    w.lines.append(f"{new} = s[{w.tensor(stage)}].fuse({', '.join(args)})")
    if len(loops) == 1:  # the loop itself
        w.loops[stage, loops[0]] = new


def _cache_write(w: Writer, name: str, a: Arguments) -> None:
    stage = a["stage"]
    of = w.tensor(stage)
    w.renewed(stage)
    new = w.new_stage(_cache_name(a), stage)
    w.lines.append(f"{new}s.cache_write({of}, {a['scope']!r})")


def _cache_read(w: Writer, name: str, a: Arguments) -> None:
    of = w.tensor(a["tensor"]) if not a["index"] else f"s.tensor({a['tensor']!r}, {a['index']})"
    readers = ", ".join([w.tensor(r) for r in a["readers"]])
    new = w.new_stage(_cache_name(a), "")
    more = f", {a['dtype']!r}" if a["dtype"] else ""
    w.lines.append(f"{new}s.cache_read({of}, {a['scope']!r}, [{readers}]{more})")


def _rfactor(w: Writer, name: str, a: Arguments) -> None:
    stage = a["stage"]
    (loop,) = w.need(stage, a["loop"])
    of = w.tensor(stage)
    w.renewed(stage, layout=True)
    new = w.new_stage(f"{stage}.rf", stage)
    more = f", {a['factor_axis']}" if a["factor_axis"] else ""
    w.lines.append(f"{new}s.rfactor({of}, {loop}{more})")


def _transform_layout(w: Writer, name: str, a: Arguments) -> None:
    stage, digits = a["stage"], a["digits"]
    of = w.tensor(stage)
    count = 1 + max((d[0] for d in digits), default=-1)
    names = [f"i{n}" for n in range(count)]
    pad = "" if a["pad_value"] is None else f", pad_value={a['pad_value']!r}"
    new, at = [], 0
    for n in a["merged"] or (1,) * len(digits):
        group = digits[at : at + n]
        at += n
        text = ""
        for axis, stride, size in group:
            whole = f"s[{of}].op.outputs[0].shape[{axis}]"
            digit = names[axis] + (f" // {stride}" if stride != 1 else "") + (f" % {size}" if size else "")
            text = (
                digit
                if not text
                else f"{text if text.isidentifier() else f'({text})'} * {size or whole} + {digit}"
            )
            # the number of blocks of an axis has no short name
            if text != digit and not size and stride != 1:
                w.lines.append(
                    f"s.step('transform_layout', stage={stage!r}, digits={digits!r}, "
                    f"merged={a['merged']!r}{pad})"
                )
                w.renewed(stage, layout=True)
                return
        new.append(text)
    w.lines.append(f"s[{of}].transform_layout(lambda {', '.join(names)}: [{', '.join(new)}]{pad})")
    w.renewed(stage, layout=True)


def _sample_tile(w: Writer, name: str, a: Arguments) -> None:
    (loop,) = w.need(a["stage"], a["loop"])
    loop = f"s[{w.tensor(a['stage'])}].loop({loop})" if a["stage"] in w.foreign else loop
    values = w.decisions.get(a["decision"], a["values"])
    given = [f"{a['parts']}"] if a["parts"] != 1 else []
    given += [f"max_factor={a['max_factor']}"] if a["candidates"] is None or a["max_factor"] != 64 else []
    given += [f"candidates={a['candidates']}"] if a["candidates"] is not None else []
    given += [f"values={values[0] if len(values) == 1 else values}"] if values is not None else []
    given += [f"name={a['decision']!r}"] + ([f"role={a['role']!r}"] if a["role"] != "tile" else [])
    names = [
        w.variable(f"{a['decision']}_{i}" if a["parts"] > 1 else a["decision"]) for i in range(a["parts"])
    ]
    w.knobs.update({f"{a['decision']}.{i}": x for i, x in enumerate(names)})
    w.lines.append(f"{', '.join(names)} = s.sample_tile({', '.join([loop, *given])})")


def _sample_categorical(w: Writer, name: str, a: Arguments) -> None:
    values = w.decisions.get(a["decision"], a["values"])
    new = w.knobs[f"{a['decision']}.0"] = w.variable(a["decision"])
    value = f", value={values[0]}" if values is not None else ""
    role = f", role={a['role']!r}" if a["role"] != "categorical" else ""
    w.lines.append(f"{new} = s.sample_categorical({a['candidates']}, name={a['decision']!r}{value}{role})")


def _sample_location(w: Writer, name: str, a: Arguments) -> None:
    values = w.decisions.get(a["decision"], a["values"])
    value = f", value={values[0]}" if values is not None else ""
    w.lines.append(f"s.sample_location({w.tensor(a['stage'])}{value}, name={a['decision']!r})")


def _prefetch(w: Writer, name: str, a: Arguments) -> None:
    (loop,) = w.need(a["stage"], a["loop"])
    of = w.tensor(a["tensor"]) if not a["index"] else f"s.tensor({a['tensor']!r}, {a['index']})"
    w.lines.append(f"s[{w.tensor(a['stage'])}].prefetch({of}, {loop}, {a['offset']})")


def _step(w: Writer, name: str, a: Arguments) -> None:
    """By name, with plain data: what a call needs an object for that a trace does not hold."""
    w.lines.append(f"s.step({', '.join([repr(name), *[f'{k}={v!r}' for k, v in a.items()]])})")


_FORMS: dict[str, Callable[[Writer, str, Arguments], None]] = {
    "split": _split,
    "fuse": _fuse,
    "compute_at": _at,
    "reverse_compute_at": _at,
    "store_at": _at,
    "cache_write": _cache_write,
    "cache_read": _cache_read,
    "rfactor": _rfactor,
    "transform_layout": _transform_layout,
    "sample_tile": _sample_tile,
    "sample_categorical": _sample_categorical,
    "sample_location": _sample_location,
    "prefetch": _prefetch,
    "tensorize": _step,
}
