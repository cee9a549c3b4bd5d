"""How a person follows the advice given to mistakes_dynamic: one entry for each ``try``; nothing is measured
(``seconds=0``)."""

from __future__ import annotations

from typing import Any

import numpy as np

import autosched
from autosched import SearchTask, ShapeProfile, tune_dynamic
from tensorlang import te

from .mistakes_dynamic import _made, _twice

NAMES: dict[str, Any] = {
    "autosched": autosched,
    "func": _twice,
    "array": np.ones(4, np.float32),
    "profile": {"m": (1, 8)},
}
PROFILE = '{"m": (1, 128, 4096)}'


def _task(hi: int = 64, multiple_of: int = 1) -> SearchTask:
    return SearchTask(_twice, (te.dim("m", 0, hi, multiple_of=multiple_of),))


def _tune(task: SearchTask, profile: Any, **keywords: Any) -> Any:
    return tune_dynamic(task, profile, **{"seconds": 0.0, "cache": False} | keywords)


def _profile(a):
    _tune(_task(), a.kw("profile={'m': (min, opt, max)}", min=1, opt=4, max=8)["profile"])


def _inside(a):
    a.says("a profile inside that")
    _tune(_task(), {"m": (1, 64)})
    a.says("a wider te.dim")
    _tune(_task(100), {"m": (1, 100)})


def _open(a):
    a.says('SearchTask(func, (te.dim("m", 0, 4096), …))')
    _tune(SearchTask(_twice, (te.dim("m", 0, 4096),)), {"m": (1, 8)})
    a.says("autosched.tune for fixed sizes")
    autosched.tune(SearchTask(_twice, (8,)), 1)


def _wider(a):
    a.says("a wider profile")
    _tune(_task(multiple_of=16), {"m": (1, 2, 16)})


def _search_task(a):
    a.says('autosched.SearchTask(func, (te.dim("m", 0, 4096), …))')
    _tune(autosched.SearchTask(_twice, (te.dim("m", 0, 4096),)), {"m": (1, 8)})


def _constants(a):
    def scaled(m):
        x, w = te.placeholder((m, 4), name="A"), te.placeholder((4,), name="W")
        return [x, w, te.compute((m, 4), lambda i, j: x[i, j] * w[j], name="B")]

    _tune(SearchTask(scaled, (te.dim("m", 0, 64),)), {"m": (1, 8)}, **a.kw('constants={"W": array}'))


def _the_task(a):
    a.says("the task and the constants that the kernel was made from")
    autosched.specialise(_made(), _task()).stop()


FOLLOW = {
    "profile_bounds_out_of_order": lambda a: ShapeProfile(a(PROFILE)),
    "profile_of_a_fraction": lambda a: ShapeProfile(a(PROFILE)),
    "profile_of_another_dim": _profile,
    "profile_beyond_the_declaration": _inside,
    "no_open_size": _open,
    "profile_that_is_no_dict": lambda a: ShapeProfile(a(PROFILE)),
    "profile_without_a_multiple": _wider,
    "weights_that_are_text": lambda a: ShapeProfile({"m": (1, 128)}, **a.kw("weights={(128,): 10.0}")),
    "task_that_is_a_function": _search_task,
    "constants_in_a_list": _constants,
    "measuring_for_less_than_nothing": lambda a: _tune(
        _task(), {"m": (1, 8)}, seconds=a.kw("seconds=2.0")["seconds"] / 1000
    ),
    "specialise_by_another_task": _the_task,
    "specialise_what_is_no_dynamic_kernel": lambda a: a(
        "autosched.specialise(autosched.tune_dynamic(task, profile), task)", task=_task()
    ),
}
