"""Recursion without Python's limit: a function that calls itself is written as a generator, and the calls in
progress stand in a list.

::

    def depth(s: Stmt) -> Steps[int]:
        found = 0
        for p in s.parts():
            found = max(found, (yield depth(p)))
        return found + 1

    run(depth(func.body))

A program of a thousand stages is a thousand nested scopes, and Python gives up at a thousand calls. Knows no
nodes.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]


def run(first: Steps[T]) -> T:
    """What ``first`` returns, where each ``yield`` of a generator is answered with what that one returns.
    Exceptions pass as in calls."""
    calls: list[Generator[Any, Any, Any]] = [first]
    resume, answer = first.send, None
    while True:
        try:
            called = resume(answer)
        except StopIteration as end:
            calls.pop()
            if not calls:
                return end.value  # type: ignore[no-any-return]
            resume, answer = calls[-1].send, end.value
        except BaseException as error:
            calls.pop()
            if not calls:
                raise
            resume, answer = calls[-1].throw, error
        else:
            calls.append(called)
            resume, answer = called.send, None
