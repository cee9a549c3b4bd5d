"""``tune_dynamic``: from a declaration with open sizes to a DynamicKernel, in seconds. Knows the rooms around
it by their one function each."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.analysis import costs_text

from ..task import SearchTask
from .decision_tree import Fit, fit, guarded, limited
from .declaration import Declaration
from .families import FAMILIES, Options, Settings
from .kernel import Account, DynamicKernel
from .kernel_times import Tables
from .size_profile import ShapeProfile, hull, profiles_of

SECONDS = 2.0  # of measuring, unless given


def tune_dynamic(
    task: SearchTask,
    profile: Any,
    records: str | Path | None = None,
    *,
    constants: Mapping[Any, Any] | None = None,
    out_of_range: str = "error",
    seconds: float = SECONDS,
    cache: str | Path | bool | None = None,
) -> DynamicKernel:
    """A kernel of every shape in the profile, put together of micro-kernels: Zheng et al., "DietCode:
    Automatic Optimization for Dynamic Tensor Programs", MLSys 2022, section 4.

    ``task`` declares the computation with ``te.dim`` sizes among its arguments; ``profile`` is ``{"m": (min,
    opt, max), …}``, a ShapeProfile, or a list of them. ``constants`` are inputs with their arrays, by name:
    they are packed once and are not arguments of the kernel. ``seconds`` is about how long to measure;
    ``cache`` is the directory that keeps measured tables (the user's cache directory unless given, False for
    none). ``records`` is a file of ``autosched.tune``: schedules tuned for shapes of this computation are
    tried for the others too. Raises TensorLangError for a profile that does not fit the declaration.
    """
    begin = time.perf_counter()
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise tl.TensorLangError(
            f"tune_dynamic(seconds={seconds!r})",
            because="it is how long to measure: a number, 0 or more",
            try_="seconds=2.0",
        )
    decl = Declaration(task, constants)
    profiles = profiles_of(profile, out_of_range)
    box = hull(profiles)
    _check(decl, profiles)
    opt = {d: profiles[0].dims[d].opt for d in box}
    tables = Tables(cache, decl.target)
    open_ = profiles[0].out_of_range == "generic"
    settings = Settings(seconds, tables, opt, records, not open_)
    # the first family that knows the computation; the last one takes any
    options = next(o for make in FAMILIES if (o := make(decl, box, settings)) is not None)
    fitted = _fitted(decl, options, profiles)
    tree = _joined(options, profiles, fitted, open_)
    ranges = None if open_ else {d: box[d] for d in options.dims}
    dispatcher = tl.Dispatcher(options.like, options.routes, tree, ranges, name=decl.short_name)
    return DynamicKernel(
        dispatcher,
        profiles,
        _account(decl, options, fitted, time.perf_counter() - begin, tables),
        options.plans,
    )


def _check(decl: Declaration, profiles: tuple[ShapeProfile, ...]) -> None:
    names = sorted(profiles[0].dims)
    if names != sorted(decl.dims):
        raise tl.TensorLangError(
            f"tune_dynamic({decl.name}): the profile is of {', '.join(names)}",
            because=f"its dims are {', '.join(sorted(decl.dims))}",
            try_=f"profile={{{', '.join(f'{d!r}: (min, opt, max)' for d in sorted(decl.dims))}}}",
        )
    for p in profiles:
        if p.out_of_range != profiles[0].out_of_range:
            raise tl.TensorLangError(
                "tune_dynamic: the profiles differ in out_of_range",
                because=f"one says {profiles[0].out_of_range!r}, another {p.out_of_range!r}",
                try_="the same in all of them",
            )
        for name, span in p.dims.items():
            d = decl.dims[name]
            if span.least < (d.lo or 0) or (d.hi is not None and span.most > d.hi):
                raise tl.TensorLangError(
                    f"tune_dynamic({decl.name}): the profile of {name} is {span}",
                    because=f"{name} is declared from {d.lo or 0} to {d.hi if d.hi is not None else 'any'}",
                    try_="a profile inside that, or a wider te.dim",
                )
            if span.most // d.multiple_of * d.multiple_of < span.least:
                raise tl.TensorLangError(
                    f"tune_dynamic({decl.name}): the profile of {name} is {span}",
                    try_="a wider profile",
                    because=f"{name} is declared as a multiple of {d.multiple_of}, and none is in it",
                )


def _fitted(decl: Declaration, options: Options, profiles: tuple[ShapeProfile, ...]) -> list[Fit]:
    fits = []
    for p in profiles:
        shapes, whole = p.samples(options.dims, {n: d.multiple_of for n, d in decl.dims.items()})
        order = [list(options.dims).index(d) for d in p.dims]
        weights = np.array([p.weight(tuple(int(s[i]) for i in order)) for s in shapes])
        seconds = options.plans.cost(shapes)
        # one plan: nothing to choose
        seconds = np.ones((len(shapes), 1)) if seconds is None else seconds
        # a shape of no weight still has to be served
        made = fit(options.dims, shapes, seconds, np.maximum(weights, 1e-9), whole)
        least = [{d: n for d, n in _least(r).items() if d in p.dims} for r in options.routes]
        fits.append(
            replace(
                made, tree=limited(made.tree, least, options.general, {d: s.least for d, s in p.dims.items()})
            )
        )
    return fits


def _least(route: tl.Module | tl.Rows) -> dict[str, int]:
    """The sizes a route takes at least."""
    return {} if isinstance(route, tl.Rows) else {d.name: d.lo or 0 for d in route.signature.dims}


def _joined(options: Options, profiles: tuple[ShapeProfile, ...], fits: list[Fit], open_: bool) -> Any:
    """One tree of all profiles: the first that holds a shape serves it. Outside all of them stands the
    general route."""
    if len(profiles) == 1 and not open_:
        return fits[0].tree
    tree: Any = options.general
    # from the inside: the first profile's guard is asked first
    for p, f in reversed(list(zip(profiles, fits, strict=True))):
        inner, box = f.tree, {d: (s.least, s.most) for d, s in p.dims.items()}
        tree = guarded(inner, box, tree)
    return tree


def _account(decl: Declaration, options: Options, fits: list[Fit], seconds: float, tables: Tables) -> Account:
    worst = max(fits, key=lambda f: f.worst_loss)
    notes = (
        *options.notes,
        costs_text(decl.target),
        *(f"the stored table was not used: {why}" for why in tables.misses),
    )
    return Account(
        decl.name,
        options.family,
        options.kernels,
        seconds,
        sum(f.leaves for f in fits),
        sum(f.shapes for f in fits),
        all(f.exhaustive for f in fits),
        max(f.mean_loss for f in fits),
        worst.worst_loss,
        worst.worst_shape,
        notes,
    )
