"""The public names exist, are listed once, and say what they do."""

from __future__ import annotations

import importlib
import inspect

import pytest

from tests.house.source import modules

PUBLIC = (
    "tensorlang",
    "tensorlang.te",
    "tensorlang.ops",
    "tensorlang.recipes",
    "tensorlang.analysis",
    "autosched",
)
LEAST = 60  # characters of a docstring


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names(name):
    if name not in modules():
        pytest.skip(f"{name} is not written yet")
    module = importlib.import_module(name)
    listed = getattr(module, "__all__", None)
    assert listed is not None, f"{name} has no __all__"
    assert len(listed) == len(set(listed)), f"{name}.__all__ names something twice"
    for item in listed:
        assert not item.startswith("_") or item == "__version__", f"{name}.{item} is private"
        thing = getattr(module, item, None)
        assert thing is not None, f"{name}.__all__ names {item}, which is not there"
        if inspect.isclass(thing) or inspect.isroutine(thing) or inspect.ismodule(thing):
            doc = inspect.getdoc(thing)
            assert doc and len(doc) >= LEAST, f"{name}.{item} says little: {doc!r}"
