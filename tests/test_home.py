"""A user without a home directory, as in a container that runs under a number: what is kept in one is not."""

from __future__ import annotations

import platformdirs
import pytest

import autosched
import tensorlang as tl
from tensorlang import options
from tensorlang.analysis import cost_of
from tensorlang.analysis.cost_tables import saved_at
from tensorlang.calibrate import saved
from tensorlang.graph.kernel_cache import Cache


@pytest.fixture
def homeless(monkeypatch):
    def nowhere(*args, **named):
        raise RuntimeError("could not determine the home directory")

    for kind in ("cache", "config"):
        monkeypatch.setattr(platformdirs, f"user_{kind}_dir", nowhere)
    monkeypatch.delenv("TENSORLANG_CACHE", raising=False)
    saved_at.cache_clear()
    yield
    saved_at.cache_clear()


def test_nothing_is_kept_and_nothing_ends(homeless):
    assert options.user_directory("cache") is None
    assert Cache().directory is None
    assert saved_at("znver5") is None
    assert cost_of(tl.Target.host()).per_cycle


def test_what_asks_for_a_place_says_so(homeless):
    with pytest.raises(tl.TensorLangError, match="no directory to keep records in"):
        autosched.autotune(lambda a: a)
    with pytest.raises(tl.TensorLangError, match="no home directory"):
        saved()
