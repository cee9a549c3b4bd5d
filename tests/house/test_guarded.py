"""What users reach by the packages' names, ``autosched.search.allocate``, answers wrong arguments in errors of
ours: rooms that the packages offer guard what they list."""

from __future__ import annotations

import importlib
import inspect
from enum import Enum
from functools import _lru_cache_wrapper
from types import FunctionType, SimpleNamespace

import pytest

import autosched
import tensorlang as tl
from tensorlang import te
from tests.house.source import none

# what they offer beside names of their own: modules of one job each, in which nothing is listed, are not asked
ROOMS = (
    "autosched.cost_model",
    "autosched.dynamic",
    "autosched.measure",
    "autosched.records",
    "autosched.reporting.plot",
    "autosched.reporting.progress",
    "autosched.reporting.units",
    "autosched.search",
    "autosched.space",
    "autosched.space.rules",
    "autosched.task_scheduler",
    "autosched.templates",
    "autosched.tiers",
    "autosched.whole_files",
    "tensorlang.analysis",
    "tensorlang.codegen",
    "tensorlang.display",
    "tensorlang.graph",
    "tensorlang.recipes",
    "tensorlang.target",
    "tensorlang.te.schedule",
    "tensorlang.topi",
    "tensorlang.topi.utils",
    "tensorlang.workers",
)


def listed(room: str):
    module = importlib.import_module(room) if room != "tensorlang.te.schedule" else tl.te.schedule
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == room and n[0] != "_"]
    for name in getattr(module, "__all__", own):
        yield f"{room}.{name}", getattr(module, name)


def guarded(thing: object) -> bool:
    if not isinstance(thing, type):
        return hasattr(thing, "__guarded__")
    if issubclass(thing, (list, str, Enum)):  # which Python makes
        return True
    made = "__new__" if issubclass(thing, tuple) else "__init__"
    f = inspect.getattr_static(thing, made)
    return hasattr(getattr(f, "__func__", f), "__guarded__") or f.__qualname__.startswith("_protocol.")


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_lists_is_guarded(room):
    none(
        f"{word} ends in Python's own errors: share(__name__) at the end of the room guards it"
        for word, thing in listed(room)
        if isinstance(thing, (FunctionType, _lru_cache_wrapper))
        or (isinstance(thing, type) and f"{thing.__module__}.".startswith(f"{room}."))
        if not guarded(thing)
    )


def test_every_room_of_the_tuner_that_lists_names_is_asked():
    offered = (name for name in dir(autosched) if inspect.ismodule(vars(autosched).get(name)))
    none(
        f"autosched.{name} lists names and has no row in ROOMS"
        for name in offered
        if hasattr(vars(autosched)[name], "__all__")
        and f"autosched.{name}" not in ROOMS
        and name not in ("entries", "signposts")  # which make the errors
    )


def test_our_own_calls_get_python_s_errors():
    """Code of ours that expects one is not told another."""
    from tensorlang.boundary import guard

    inside = {"__name__": "tensorlang.inside"}
    exec(compile("def number(text): return int(text)", "inside.py", "exec"), inside)
    room = SimpleNamespace(number=inside["number"])
    guard(room, ("number",), "room", tl.TensorLangError, direct=True)
    with pytest.raises(tl.TensorLangError, match=r"room.number\(text='x'\)"):
        room.number("x")
    with pytest.raises(ValueError, match="invalid literal"):
        exec(compile("room.number('x')", "inside.py", "exec"), inside | {"room": room})


def test_arguments_that_fit_are_not_bound_to_a_signature(monkeypatch):
    A = te.placeholder((4, 4), name="A")

    def declare():
        return te.compute((4, 4), lambda i, j: A[i, j] + 1, name="B")

    declare()
    monkeypatch.setattr(inspect.Signature, "bind", lambda *_, **__: pytest.fail("bound"))
    assert declare().shape == A.shape
    monkeypatch.undo()
    for name in (3, ["B"]):  # of a type that fitted before, another is refused
        with pytest.raises(tl.TensorLangError):
            te.compute((4, 4), lambda i, j: A[i, j] + 1, name=name, tag=name)
