"""What one core must fetch of another: parts of the program that one thread writes and another one reads,
such as a packed operand or an image with its margin that are made ahead of the loop that uses them. Knows
statements and the table of costs.

Without it schedules for two threads were ordered much worse than those for one: of the pairs that were put in
the wrong order most had a copy that is made once by all threads against copies that every thread makes for
itself, which look like more work and are faster.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang import Target
from tensorlang.analysis import (
    Access,
    Expr,
    Statement,
    amount,
    ceil_quotient,
    cost_of,
    least,
    plus,
    quotient,
    times,
)

from .estimate import SCALE


def handed(statements: Sequence[Statement], target: Target) -> list[Expr]:
    """For each statement, sixteenths of cycles in which the busiest thread waits for what others have
    written: of what it reads, they wrote all but its own share."""
    cores = target.num_cores
    if cores < 2:
        return [amount(0)] * len(statements)
    writers = {a.tensor: st for st in statements for a in st.accesses if a.write}
    each = round(SCALE / cost_of(target).remote_rate)
    found = []
    for st in statements:
        read = [
            _read(st, a, target)
            for a in st.accesses
            if not a.write and a.tensor in writers and not _together(st, writers[a.tensor])
        ]
        found.append(quotient(times(plus(*read), each * (cores - 1)), cores))
    return found


def _together(st: Statement, other: Statement) -> bool:
    """Whether the same thread runs one and the other: in the same iteration of a parallel loop, or outside
    any."""
    return _around(st) == _around(other)


def _around(st: Statement) -> list[tuple[str, str]]:
    """The loops down to the parallel one, by name; none where nothing is shared out."""
    at = st.first("parallel")
    return [] if at is None else [(loop.stage, loop.name) for loop in st.loops[: at + 1]]


def _read(st: Statement, a: Access, target: Target) -> Expr:
    """Bytes of whole lines that a thread reads: those of its iterations, which may be the same ones again and
    again."""
    line, at = target.cache_line, st.first("parallel")
    every = times(a.lines(0, line), line)
    if at is None:
        return every
    rounds = ceil_quotient(st.loops[at].extent, target.num_cores)
    return least(every, times(a.lines(at + 1, line), line, rounds))
