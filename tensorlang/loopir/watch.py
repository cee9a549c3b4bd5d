"""The interpreter of loop IR, watched: every read and write is reported as it happens. Knows the translator;
not who watches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .interpret_memory import Site
from .interpret_source import Atom, Translator, store_lanes
from .stmt import Func, Load, Store


@dataclass(frozen=True, slots=True)
class Access:
    """One element that is read or written: ``number`` counts all accesses from 0; ``loops`` are the loops
    around with their values; ``value`` is what was written, None of a read."""

    number: int
    kind: str
    buffer: str
    index: tuple[int, ...]
    value: Any
    loops: dict[str, int]

    def __str__(self) -> str:
        place = f"{self.buffer}[{', '.join(map(str, self.index))}]"
        at = " ".join(f"{n}={v}" for n, v in self.loops.items())
        what = place if self.kind == "read" else f"{place} = {self.value}"
        return f"{self.number:>6}  {self.kind:<5}  {what:<28}  {at}"


class Watch:
    """Tells ``see`` of each access."""

    def __init__(self, see: Callable[[Access], None]) -> None:
        self.see = see
        self.number = 0

    def __call__(self, site: Site, kind: str, index: Any, value: Any, mask: Any, at: tuple[int, ...]) -> None:
        assert site.buffer is not None
        loops = {v.name: int(n) for (v, _), n in zip(site.loops, at, strict=True)}
        for lane, place in enumerate(_lanes(index, site.lanes)):
            on = mask if mask is None or np.ndim(mask) == 0 else mask[lane]
            if on is None or on:
                one = value if np.ndim(value) == 0 else value[lane]
                self.see(Access(self.number, kind, site.buffer.name, place, one, loops))
                self.number += 1


def _lanes(index: Any, lanes: int) -> list[tuple[int, ...]]:
    if lanes == 1:
        return [tuple(int(i) for i in index)]
    return [tuple(int(i if np.ndim(i) == 0 else i[lane]) for i in index) for lane in range(lanes)]


class WatchedTranslator(Translator):
    """Adds a call of ``watch`` beside every load and store."""

    def __init__(self, func: Func, races: bool, watch: Watch) -> None:
        super().__init__(func, races)
        self.globals["watch"] = watch

    def _report(self, kind: str, node: Load | Store, lanes: int, value: str) -> None:
        mask = "None" if node.mask is None else self.value(node.mask)
        index = "".join(f"{self.value(i)}, " for i in node.indices)
        at = "".join(f"{name}, " for _, name in self.loops)
        site = self.site(node.buffer, lanes)
        self.line(f"watch({site}, {kind!r}, ({index}), {value}, {mask}, ({at}))")

    def load(self, e: Load) -> Atom:
        if self.active is None:  # else some lanes only are evaluated
            self._report("read", e, e.dtype.lanes, "None")
        return super().load(e)

    def store(self, s: Store) -> None:
        value = self.value(s.value)
        super().store(s)
        self._report("write", s, store_lanes(s), value)
