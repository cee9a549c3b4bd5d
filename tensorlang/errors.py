"""The errors a user can see, and how they are worded. Imports nothing of the project.

One form for all: what was asked, then indented facts: because, tree, legal, try, program, at. Text that is
costly to make is handed over as a function and rendered only when somebody reads it, because a search is
refused thousands of times.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CELL = re.compile(r"<ipython-input-(\d+)-|[/\\]ipykernel_\d+[/\\]")


def user_location() -> str | None:
    """Where the user's code stands, as ``file:line`` of the innermost frame outside this package; None when
    there is none.

    Text given to ``exec`` or typed at a prompt counts (``<string>:3``), code that Python or this package
    makes of text does not. A notebook cell reads ``cell 7, line 2``.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_HERE, "<frozen ", "<__array_function__")) and not _ours(frame.f_globals):
            return f"{_readable(name)}{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _ours(names: dict[str, object]) -> bool:
    """Whether a frame with these globals runs in a module of this project: also the code that dataclasses
    make of text, which has no file, the module that ``python -m autosched`` runs, and what stands between a
    context manager of ours and its user."""
    module = names.get("__package__" if names.get("__name__") == "__main__" else "__name__")
    return isinstance(module, str) and module.partition(".")[0] in (__package__, "autosched", "contextlib")


def _readable(file: str) -> str:
    """The file's name with what stands before the line's number."""
    cell = _CELL.search(file)
    if cell is None:
        return f"{file if file.startswith('<') else os.path.basename(file)}:"
    number = cell[1] or _cell_numbers().get(file)
    return f"cell {number}, line " if number is not None else "cell line "


def _cell_numbers() -> dict[str, int]:
    """The numbers of the cells that a running notebook has executed, by file name; empty outside one."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    found = getattr(getattr(shell, "compile", None), "_filename_map", None)
    return found if isinstance(found, dict) else {}


Text = str | Callable[[], str] | None


class TensorLangError(Exception):
    """Base of every error this project raises for a mistake of its user.

    Parameters: ``what`` was asked, ``because`` of which facts, ``tree`` (a drawing), ``legal`` alternatives,
    what to ``try_``, the ``program`` it is about. Each may be a function that makes the text when it is first
    shown.
    """

    def __init__(
        self,
        what: Text,
        *,
        because: Text = None,
        tree: Text = None,
        legal: Text = None,
        try_: Text = None,
        program: Text = None,
        at: str | None = None,
    ) -> None:
        self.what = what
        self.because = because
        self.tree = tree
        self.legal = legal
        self.try_ = try_
        self.program = program
        self.at = at if at is not None else user_location()
        super().__init__()

    def __str__(self) -> str:
        def text(t: Text) -> str | None:
            return t() if callable(t) else t

        lines = [text(self.what) or ""]
        for label, part in (
            ("because", self.because),
            ("tree", self.tree),
            ("legal", self.legal),
            ("try", self.try_),
            ("program", self.program),
            ("at", self.at),
        ):
            shown = text(part)
            if shown:
                first, *rest = shown.splitlines()
                lines.append(f"  {label:<9} {first}")
                lines.extend(f"  {'':<9} {line}" for line in rest)
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self))


def _rebuild(cls: type[TensorLangError], text: str) -> TensorLangError:
    error = cls(text, at="")
    return error


class DeclareError(TensorLangError):
    """A computation was declared wrongly: a dtype, a size, an index, a foreign axis.

    ``apart`` are two sizes that are not known to be equal: if they were, it might be right.
    """

    apart: tuple[Any, Any] | None = None

    def unless_equal(self, a: Any, b: Any) -> DeclareError:
        """This error, which says that it is for want of ``a == b``."""
        self.apart = (a, b)
        return self


class ScheduleError(TensorLangError):
    """A schedule primitive was refused. The schedule is as it was before the call."""


class LowerError(TensorLangError):
    """A schedule could not be lowered to a kernel with the given arguments."""


class CompileError(TensorLangError):
    """LLVM made no code of a kernel: a bug of ours or of LLVM's. The error shows the program."""


class CallError(TensorLangError):
    """A kernel was called with arguments it cannot take. Nothing was written."""


class TargetError(TensorLangError):
    """A target string that means nothing, or a target this machine cannot run."""
