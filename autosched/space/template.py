"""Variants of a task. A template is a plain function ``template(s, tensors)`` that makes schedule calls with ``s.sample_*``: it
runs once, with the sampled values left symbolic. Knows tasks and variants."""

from __future__ import annotations

import tensorlang as tl

from ..task import SearchTask
from .variant import Variant


def variants_of(task: SearchTask) -> list[Variant]:
    """The variants to search. Raises TensorLangError when the task has no template, or the template samples nothing."""
    if task.template is None:
        raise tl.TensorLangError(
            f"{task.name}: no template",
            because="sketches are not derived by rules yet",
            try_="SearchTask(func, args, template=autosched.templates.matmul), or a template of your own",
        )
    s = task.schedule()
    returned = task.template(s, task.tensors)
    if isinstance(returned, tl.Schedule):
        s = returned
    if not s.decisions:
        raise tl.TensorLangError(
            f"{task.name}: the template samples nothing",
            because="there is exactly one candidate",
            try_="s.sample_tile(loop, …) where the template has a number",
        )
    return [Variant(s, task.target)]
