"""What is asked of a program whose line marked BREAK ends a graph."""

from __future__ import annotations

import inspect

import torch

from tensorlang.frontends.torch.explain import breaks_of


def given():
    return torch.tensor([1.0, 2.0, -3.0, 4.0])


def found(program, where, advice):
    """The break is found at the marked line of ``where``, with its text and this advice."""
    lines, first = inspect.getsourcelines(where)
    line = first + next(i for i, text in enumerate(lines) if "# BREAK" in text)
    seen, _ = breaks_of(program, (given(),), {})
    (mine,) = [b for b in seen if (b.line, b.file) == (line, inspect.getsourcefile(where))]
    assert advice in mine.advice and mine.text in "".join(lines)


def removed(program, mended, equal=True):
    """What follows the advice has no break, and gives what the program gives."""
    assert not breaks_of(mended, (given(),), {})[0]
    if equal:
        torch.testing.assert_close(mended(given()), torch.as_tensor(program(given())))
