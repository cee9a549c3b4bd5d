"""Which rules a task is sketched by: its own first, then the list, without those that it leaves out. Knows
rules; nothing of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorlang as tl
from tensorlang.boundary import shown

from .rule import Rule


def chosen(name: str, own: Iterable[Any], listed: Sequence[Rule], without: Iterable[str]) -> list[Rule]:
    """The rules of the task ``name``. Raises TensorLangError for one of its ``own`` that is no rule, and for
    one left out that there is not."""
    own, without = tuple(own), tuple(without)
    for r in own:
        if not all(hasattr(r, word) for word in ("name", "applies", "apply")):
            raise tl.TensorLangError(
                f"{name}: rules=[…, {shown(r)}]",
                because="a rule has a name, applies and apply",
                try_="@autosched.space.rules.rule(applies) over a function that schedules a stage",
            )
    there: list[Rule] = [*own, *listed]
    for left_out in without:
        if all(r.name != left_out for r in there):
            raise tl.TensorLangError(
                f"{name}: without={left_out!r}",
                because="there is no rule of that name",
                legal=", ".join(dict.fromkeys(r.name for r in there)),
            )
    return [r for r in there if r.name not in without]
