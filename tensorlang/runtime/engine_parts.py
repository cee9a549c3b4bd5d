"""An engine as the parts of a file, and back: the programs that may follow it, those of graphs it runs, those
that take overrides; what they share is there once. Knows engines; how a file looks is ``engine_file``'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..native import object_code
from .codes import KernelCode
from .engine_file import Contents, Given, Part
from .overrides import Overrides
from .program import Host, Program
from .steps import Loaded

if TYPE_CHECKING:
    from .engine import Engine


def contents_of(whole: Engine) -> Contents:
    """What a file of this engine holds."""
    given = whole.overrides or Overrides("", ())
    taking = dict(given.engines)
    parts: list[Engine] = [whole, *taking.values()]
    codes: dict[str, KernelCode] = {}
    constants: dict[int, np.ndarray] = {}
    numbered = []
    for engine in parts:  # grows while it is walked
        later = {}
        for key, after in engine.later.items():
            later[key] = len(parts)
            parts.append(after)
        bodies = {}
        for body in engine.bodies:
            bodies[id(body)] = len(parts)
            parts.append(body)
        for c in engine.codes:
            codes.setdefault(c.symbol, c)
        for a in engine.constants:
            constants.setdefault(id(a), a)
        numbered.append((engine, later, bodies))
    defaults = {n: given.defaults[n] for names in taking for n in names}
    constants.update((id(a), a) for a in defaults.values())
    symbols, arrays = {s: i for i, s in enumerate(codes)}, {n: i for i, n in enumerate(constants)}
    return Contents(
        [Part(_shared(e, symbols, arrays, bodies), later) for e, later, bodies in numbered],
        list(codes.values()),
        list(constants.values()),
        whole.target,
        object_code.kept() if whole.target is None else {},
        Given(
            given.names,
            {n: arrays[id(a)] for n, a in defaults.items()},
            {names: n for n, names in enumerate(taking, 1)},
        ),
    )


def _shared(
    engine: Engine, codes: Mapping[str, int], arrays: Mapping[int, int], bodies: Mapping[int, int]
) -> Program:
    """The program with numbers of codes, constants and bodies that several programs share."""
    p = engine.program
    own = [arrays[id(a)] for a in engine.constants]
    kernels = [
        k._replace(code=codes[engine.codes[k.code].symbol], constants=tuple(own[c] for c in k.constants))
        for k in p.kernels
    ]
    steps = [
        replace(s, stored=replace(s.stored, bodies=[bodies[id(b)] for b in s.stored.bodies]))
        if isinstance(s, Host)
        else s
        for s in p.steps
    ]
    constants = {v: own[c] for v, c in p.constants.items()}
    return replace(p, kernels=kernels, constants=constants, steps=steps)


def engine_of(found: Contents, make: Callable[..., Engine]) -> Engine:
    """The engine of what a file holds; ``make`` is its class."""
    object_code.adopt(found.helpers)
    loaded = Loaded(found.codes)
    engines: list[Any] = [make(p.program, found.codes, found.constants, None, loaded) for p in found.parts]
    for engine, part in zip(engines, found.parts, strict=True):
        engine.later.update((key, engines[n]) for key, n in part.later.items())
        for s in part.program.steps:
            if isinstance(s, Host):
                s.stored.bodies[:] = [engines[n] for n in s.stored.bodies]
    whole: Engine = engines[0]
    if found.given.names:
        whole.overrides = Overrides(whole.program.name, found.given.names)
        whole.overrides.defaults.update((n, found.constants[c]) for n, c in found.given.defaults.items())
        whole.overrides.engines.update((names, engines[n]) for names, n in found.given.engines.items())
    return whole
