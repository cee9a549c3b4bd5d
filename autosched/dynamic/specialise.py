"""``specialise``: let a DynamicKernel grow code of its own for the shapes that pay. Knows the kernel, its
declaration and the tiers by their one constructor each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorlang as tl

from ..task import SearchTask
from ..tiers import (
    SPECIALISED,
    TUNED,
    CodeCache,
    Dispatched,
    Manager,
    Thresholds,
    Tiers,
    Trials,
    Workshop,
    cycle_of,
)
from .declaration import Declaration
from .kernel import DynamicKernel

BUDGET = 64 << 20


def specialise(
    kernel: DynamicKernel,
    task: SearchTask,
    *,
    constants: Mapping[Any, Any] | None = None,
    directory: str | Path | None = None,
    budget: int = BUDGET,
    highest: int = SPECIALISED,
    trials: int = 64,
    dwell: float = 1.0,
) -> Tiers:
    """Specialise a kernel while it is in use: shapes that benefit enough get code of their own, compiled in
    the background.

    ``task`` and ``constants`` are those the kernel was made from. ``directory`` keeps the code for later runs
    (None: until the tiers go), at most ``budget`` bytes are held in memory; ``highest=3`` also searches,
    ``trials`` candidates a shape; a shape changes at most every ``dwell`` seconds. Temporary memory is
    planned by one call at the largest sizes of the profiles, and none is allocated while serving them. Call
    ``start()`` on the result, or use it in a ``with``; ``kernel.stats()`` says what happened and
    ``kernel.explain`` which tier serves a shape. An earlier specialiser of the kernel is stopped, and the
    code that it published is removed. Raises TensorLangError for a task whose arguments are not the kernel's,
    and for a directory that cannot be made.
    """
    decl = _same_declaration(kernel, task, constants)
    if highest not in (SPECIALISED, TUNED):
        raise tl.TensorLangError(
            f"specialise(highest={highest})", legal=f"{SPECIALISED} (specialised) or {TUNED} (searched)"
        )
    d = kernel.dispatcher
    # the same code behind counters of its own: trials must not look like shapes that the user called
    twin = tl.Dispatcher(d.signature, d.routes, d.tree)
    most, typical = _largest_and_typical(kernel, decl)
    # planned by the largest call, so that serving a shape never allocates
    tl.plan_workspace(lambda: twin(*decl.arrays(most)))
    tier = kernel.base
    served = Dispatched(d, lambda shape: tier, cycle_of(twin, decl.arrays(typical)))
    workshop = Workshop(
        decl.tensors,
        kernel.dims,
        constants=decl.constants,
        target=decl.target,
        directory=directory,
        trials=trials,
    )
    tiers = Tiers(
        Manager(
            served,
            workshop,
            Trials(twin),
            thresholds=Thresholds(dwell=dwell),
            cache=CodeCache(budget),
            highest=highest,
        )
    )
    former, kernel.tiers = kernel.tiers, tiers
    if former is not None:
        # stopped before its code goes, or it would publish that again
        former.stop()
        for shape in former.manager.published:
            d.retire(shape)
    return tiers


def _same_declaration(
    kernel: DynamicKernel, task: SearchTask, constants: Mapping[Any, Any] | None
) -> Declaration:
    """What ``task`` declares. Raises TensorLangError unless the kernel was made from it."""
    if not isinstance(kernel, DynamicKernel):
        raise tl.TensorLangError(
            f"specialise: the kernel is of type {type(kernel).__name__}",
            because="what tune_dynamic makes can be specialised",
            try_="autosched.specialise(autosched.tune_dynamic(task, profile), task)",
        )
    decl = Declaration(task, constants)
    if sorted(decl.dims) != sorted(kernel.dims):
        raise tl.TensorLangError(
            f"specialise({kernel.account.name}): the task has the dims {', '.join(decl.dims)}",
            because=f"those of the kernel are {', '.join(kernel.dims)}",
            try_="the task the kernel was made from",
        )
    mine, theirs = _arguments(decl), {p.name for p in kernel.dispatcher.signature.params}
    if set(mine) != theirs:
        raise tl.TensorLangError(
            f"specialise({kernel.account.name}): the task takes {', '.join(mine)}",
            because=f"the kernel takes {', '.join(sorted(theirs))}",
            try_="the task and the constants that the kernel was made from",
        )
    return decl


def _largest_and_typical(kernel: DynamicKernel, decl: Declaration) -> tuple[dict[str, int], dict[str, int]]:
    """The largest sizes of all profiles and the typical ones of the first, as multiples of what the dims
    promise."""
    multiples = {name: v.multiple_of for name, v in decl.dims.items()}
    # a size that is no multiple of what its dim promises is never called
    most = {
        name: max(p.dims[name].most for p in kernel.profiles) // by * by for name, by in multiples.items()
    }
    first = kernel.profiles[0].dims
    typical = {
        name: max(first[name].opt // by, -(-first[name].least // by)) * by for name, by in multiples.items()
    }
    return most, typical


def _arguments(decl: Declaration) -> list[str]:
    """The names of a kernel's arguments."""
    return [t.name for t in decl.tensors if t.name not in decl.constants]
