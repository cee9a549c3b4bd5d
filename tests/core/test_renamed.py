"""Old names work for one version more, and warn with the new one."""

from importlib import import_module

import pytest

import tensorlang as tl
from tensorlang import analysis, te


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [("tensorlang.analysis", "Turn", "Transposition"), ("tensorlang.analysis", "turned", "transposed")],
)
def test_an_old_name_gives_the_new_thing_and_warns(module, old, new):
    room = import_module(module)
    with pytest.warns(DeprecationWarning, match=rf"{module}\.{old} is now {module}\.{new}") as caught:
        assert getattr(room, old) is getattr(room, new)
    assert caught[0].filename == __file__, "the warning points at the caller"
    assert old not in room.__all__ and new in room.__all__


def test_a_name_that_never_was_is_no_attribute():
    with pytest.raises(AttributeError, match="has no 'twisted'"):
        analysis.twisted


def test_turns_of_a_statement_are_its_iterations():
    x = te.placeholder((6, 4), name="x")
    s = te.create_schedule(te.compute((6, 4), lambda i, j: x[i, j] + 1.0, name="y").op)
    (st,) = analysis.analyse(s).statements
    with pytest.warns(DeprecationWarning, match="Statement.iterations"):
        assert st.turns is st.iterations
