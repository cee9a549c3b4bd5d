"""What users ask of the backend: options, modes, and whether it is on. Knows torch's names of inputs and
sizes; no graphs of ours and no engines.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import fx

from ... import options as environment
from ...errors import TensorLangError, counted
from ...graph.kernel_cache import Cache
from ...graph.makers import schedules

log = logging.getLogger("tensorlang.torch")
OPTIONS = ("cache", "freeze", "level", "profile", "records", "trials", "workers")
TRIALS = 32  # of each kernel, in mode="max-autotune"
EXAMPLE = 'options={"profile": {"x": [(1, 8, 32), None]}}'
Bounds = tuple[int, ...]  # (least, most) or (least, usual, most)


@dataclass(frozen=True)
class Settings:
    """``level`` as for ``Graph.compile``; ``freeze``: whether parameters are constants; ``profile``: the
    sizes that will come, by names of inputs; ``records``: a file of schedules that were found; ``trials``:
    how many are measured for each kernel beforehand; ``sizes``: what the profile says of a graph's symbols.
    """

    level: int = 2
    freeze: bool = True
    workers: int | None = None
    cache: Any = None
    profile: Mapping[str, Any] | None = None
    records: Any = None
    trials: int = 0
    sizes: Mapping[str, Bounds] = dataclasses.field(default_factory=dict)

    def within(self, dims: Mapping[str, tuple[int, int | None]]) -> dict[str, Bounds]:
        """What the profile says of these dims, of which the least and the largest values are known."""
        found = {}
        for name, (low, high) in dims.items():
            given = self.sizes.get(name)
            if given is not None:
                most = given[-1] if high is None else min(given[-1], high)
                least = max(given[0], low)
                if least <= most:
                    # the usual size stays between the two
                    found[name] = (least, *(min(max(n, least), most) for n in given[1:-1]), most)
        return found


def settings_of(options: Mapping[str, Any] | None, mode: str | None) -> Settings:
    """Options as settings. Raises TensorLangError for what is none."""
    if mode not in (None, "default", "max-autotune", "max-autotune-no-cudagraphs"):
        raise TensorLangError(
            f"torch.compile(mode={mode!r}) is not known to this backend",
            legal="default, max-autotune",
            try_="leave mode out; options={'level': …} chooses how graphs are simplified",
        )
    if options is not None and not isinstance(options, Mapping):
        raise TensorLangError(f"torch.compile(options={options!r}): a dict", try_="options={'level': 2}")
    wrong = [k for k in options or {} if k not in OPTIONS]
    if wrong:
        raise TensorLangError(
            f"torch.compile(options={{{wrong[0]!r}: …}}) is not known to this backend",
            legal=", ".join(OPTIONS),
        )
    given = dict(options or {})
    if mode is not None and mode.startswith("max-autotune"):
        # trials that are given say more than a mode does
        given.setdefault("trials", TRIALS)
    made = Settings(**given)
    _check(made)
    if made.trials and made.records is None:
        return dataclasses.replace(made, records=_own_records(made.cache))
    if made.records is not None and not made.trials:
        schedules(made.records)  # what cannot be read is an error now
    return made


def _check(s: Settings) -> None:
    if s.level not in (0, 1, 2) or isinstance(s.level, bool):
        raise TensorLangError(f"torch.compile(options={{'level': {s.level!r}}})", legal="0, 1, 2")
    if not isinstance(s.trials, int) or isinstance(s.trials, bool) or s.trials < 0:
        raise TensorLangError(
            f"torch.compile(options={{'trials': {s.trials!r}}})",
            because="it is how many candidates are measured for each kernel, a number from 0",
        )
    if s.workers is not None and (
        isinstance(s.workers, bool) or not isinstance(s.workers, int) or s.workers < 1
    ):
        raise TensorLangError(
            f"torch.compile(options={{'workers': {s.workers!r}}}): at least one process compiles, this one",
            try_="options={'workers': 1}",
        )
    if not isinstance(s.freeze, bool):
        raise TensorLangError(
            f"torch.compile(options={{'freeze': {s.freeze!r}}}): True or False",
            because="parameters are constants, or inputs of each call",
        )
    if not isinstance(s.cache, bool | str | Path | None):
        raise TensorLangError(
            f"torch.compile(options={{'cache': {s.cache!r}}})",
            because="it is a directory, False for none, or None for the user's",
        )
    if s.profile is not None and not isinstance(s.profile, Mapping):
        raise TensorLangError(
            f"torch.compile(options={{'profile': {s.profile!r}}})",
            because="a profile has a list of sizes for each input that it names",
            try_=EXAMPLE,
        )
    for name, sizes in (s.profile or {}).items():
        if not isinstance(sizes, list | tuple):
            raise TensorLangError(
                f"torch.compile(options={{'profile': {{{name!r}: {sizes!r}}}}})",
                because="a profile has for an input a list with an entry for each dimension",
                try_=EXAMPLE,
            )
        for entry in sizes:
            _bounds(name, entry)


def _own_records(cache: Any) -> Path:
    """The file of what max-autotune found, beside the kernels."""
    directory = Cache(cache).directory
    if directory is None:
        raise TensorLangError(
            "torch.compile(options={'trials': …}) keeps what it measures, and nothing may be kept",
            because="the cache is switched off, by options={'cache': False} or TENSORLANG_CACHE=0",
            try_="options={'trials': 32, 'records': 'model.jsonl'}",
        )
    directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory.parent / "torch.jsonl"


def _bounds(name: str, entry: Any) -> Bounds | None:
    """A size, (least, most) or (least, usual, most). Raises TensorLangError for another."""
    if entry is None:
        return None
    numbers = tuple(entry) if isinstance(entry, tuple | list) else (entry, entry)
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in numbers)
    if not whole or len(numbers) not in (2, 3) or list(numbers) != sorted(numbers) or numbers[0] < 0:
        raise TensorLangError(
            f"torch.compile(options={{'profile': {{{name!r}: [… {entry!r} …]}}}})",
            because="an entry is a size, (least, most), (least, usual, most), or None",
            try_=EXAMPLE,
        )
    return tuple(int(n) for n in numbers)


def with_profile(settings: Settings, gm: fx.GraphModule) -> Settings:
    """Settings for a graph that dynamo made, with what the profile says of its symbols."""
    if not settings.profile:
        return settings
    inputs = dict(_inputs(gm))
    unknown = [n for n in settings.profile if n not in inputs]
    if unknown:
        log.warning(
            "profile: a graph has no input %r; its inputs are %s", unknown[0], ", ".join(inputs) or "none"
        )
    sizes: dict[str, Bounds] = {}
    for name, entries in settings.profile.items():
        shape = inputs.get(name)
        if shape is None:
            continue
        if len(shape) != len(entries):
            raise TensorLangError(
                f"profile: {name!r} has {counted(len(shape), 'dimension')}, the profile has {len(entries)}",
                try_=EXAMPLE,
            )
        for n, entry in zip(shape, entries, strict=True):
            bounds = _bounds(name, entry)
            if bounds is not None and isinstance(n, torch.SymInt):
                # by the symbol: other inputs with the same one have the bounds too
                sizes[str(n.node.expr)] = bounds
    return dataclasses.replace(settings, sizes=sizes)


def _inputs(gm: fx.GraphModule) -> Any:
    """The tensors among the inputs of a function, by the names it gives them, with their shapes; those of
    modules of torch itself, which dynamo calls through a function of its own, are ``args[0]`` and so on."""
    for n in gm.graph.nodes:
        source = getattr(n.meta.get("grapharg"), "source", None)
        fake = n.meta.get("example_value")
        if n.op == "placeholder" and source is not None and isinstance(fake, torch.Tensor):
            name = source.name if isinstance(source.name, str) else source.name()
            local = re.fullmatch(r"L\['(?:(\w+)|kwargs'\]\['(\w+))'\]|L\['(args)'\](\[\d+\])", name)
            if local:
                yield "".join(filter(None, local.groups())), tuple(fake.shape)


class Switch:
    """Whether engines compute graphs. ``off``: somebody said no, which also holds for what is compiled;
    ``said``: somebody said yes or no, and the environment is not asked."""

    off = False
    said = False

    def turn(self, on: bool) -> None:
        self.off, self.said = not on, True

    def allows(self) -> bool:
        """Whether graphs that come now are compiled."""
        return not self.off if self.said else environment.torch_backend()


SWITCH = Switch()
