"""Names: made unique only where text is printed, never in the trees themselves."""

from __future__ import annotations

import re
from collections.abc import Container

# What LLVM's own functions begin with, and a point: it takes no others of such names, and some end the
# process.
COMPILERS = "llvm"
# What code calls of the runtime.
RUNTIMES = frozenset(
    f"tensorlang_{what}"
    for what in ("alloc", "free", "parallel", "parallel_awake", "profile_start", "profile_stop")
)


def free_name(preferred: str, taken: Container[str], first: int = 1) -> str:
    """``preferred`` where it is not taken, else the first of ``preferred_1``, ``preferred_2``, … that is
    free; counted from ``first``."""
    name, n = preferred, first
    while name in taken:
        name, n = f"{preferred}_{n}", n + 1
    return name


class NameSupply:
    """Hands out each preferred name once; a second request for ``i`` gets ``i_1``. The same object always
    keeps its name."""

    def __init__(self, reserved: tuple[str, ...] = (), separator: str = "_") -> None:
        self._separator = separator
        self._used: dict[str, int] = dict.fromkeys(reserved, 0)
        self._given: dict[int, tuple[object, str]] = {}

    def fresh(self, preferred: str) -> str:
        if preferred not in self._used:
            self._used[preferred] = 0
            return preferred
        while True:
            self._used[preferred] += 1
            name = f"{preferred}{self._separator}{self._used[preferred]}"
            if name not in self._used:
                self._used[name] = 0
                return name

    def claim(self, name: str) -> bool:
        """Take a name as it is; whether it was free."""
        free = name not in self._used
        self._used.setdefault(name, 0)
        return free

    def of(self, thing: object, preferred: str) -> str:
        """The name of ``thing``, by identity; ``preferred`` counts only the first time."""
        found = self._given.get(id(thing))
        if found is None:
            found = self._given[id(thing)] = (thing, self.fresh(preferred))
        return found[1]


def identifier(name: str) -> str:
    """``name`` with every character that no C or LLVM identifier may hold replaced by ``_``."""
    clean = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return clean if clean and not clean[0].isdigit() else f"_{clean}"


def is_symbol(name: str) -> bool:
    """Whether a function of C or C++ may have that name in machine code. What is added to them has a point
    in its name."""
    return re.fullmatch(r"[A-Za-z_$][A-Za-z0-9_$]*", name) is not None
