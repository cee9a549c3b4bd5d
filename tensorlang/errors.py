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
from types import FrameType
from typing import Any

# characters that a terminal obeys or hides, and how Python writes them
_CONTROL = {n: repr(chr(n))[1:-1] for n in (*range(32), *range(127, 160)) if n != ord("\n")}
# how Python writes what has no text of its own: by an address, which is another at each run
_BY_ADDRESS = re.compile(r"<(?:[\w.]+\.)?(\w+) (?:object )?(?:[\w.<>]+ )?at 0x[0-9a-f]+>")
_FUNCTION = re.compile(
    r"<(?:bound method|built-in (?:function|method)|function) (?:[\w.<>]*\.)?(<lambda>|\w+)"
    r"(?: (?:at|of) [^<>]*)?>"
)
_CLASS = re.compile(r"<class '(?:[^']*\.)?(\w+)'>")
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_ours_by_file: dict[str, bool] = {}  # whether the code of a file is: asked at every call of a public function
_CELL = re.compile(r"<ipython-input-(\d+)-|[/\\]ipykernel_\d+[/\\]")


def user_location() -> str | None:
    """Where the user's code stands, as ``file:line`` of the innermost frame outside this package; None when
    there is none.

    Text given to ``exec`` or typed at a prompt counts (``<string>:3``), code that Python or this package
    makes of text does not. A notebook cell reads ``cell 7, line 2``.
    """
    frame = sys._getframe(1)
    while frame is not None:
        # the innermost line that the user wrote, and not the one of ours that raises
        if not is_ours(frame) and not _of_others(frame):
            return readable_place(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def is_ours(frame: FrameType) -> bool:
    """Whether a frame runs code of this project, or code that only stands between it and its user."""
    file = frame.f_code.co_filename
    known = _ours_by_file.get(file)
    if known is None:
        known = file.startswith((_HERE, "<frozen ", "<__array_function__")) or _ours(frame.f_globals)
        if not file.startswith("<"):  # text that was executed may be anybody's
            _ours_by_file[file] = known
    return known


def _of_others(frame: FrameType) -> bool:
    """Whether a frame is one of numpy's functions, which ask their arguments (``np.sum(A)``), or of torch's,
    which call their backend."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in ("numpy", "torch")


def readable_place(file: str, line: int) -> str:
    """``file:line``, or the cell and line of a notebook."""
    return f"{_readable(file)}{line}"


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


def counted(n: int, one: str, many: str = "") -> str:
    """How many of something, in words: ``1 record``, ``2 records``; ``1 index``, ``2 indices``."""
    return f"{n} {one if n == 1 else many or one + 's'}"


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
        # without arguments: the text is made when somebody reads it, and a refusal that is only asked for
        # costs little
        super().__init__()

    def __str__(self) -> str:
        return "\n".join([*self._lines(), *_fact("at", self.at or "")])

    def brief(self, most: int) -> list[str]:
        """The lines of the message without the place: where they would be more than ``most``, the tree is cut
        to what concerns it, and what is beyond is left out."""
        lines = self._lines()
        if len(lines) > most and self._height():
            lines = self._lines(max(2, most - (len(lines) - self._height())))
        return lines if len(lines) <= most else [*lines[: most - 1], "  … (print the error for the rest)"]

    def _height(self) -> int:
        return len((_text(self.tree) or "").splitlines())

    def _lines(self, height: int | None = None) -> list[str]:
        """The message without its place; the tree has ``height`` lines at most."""
        lines = [_text(self.what) or ""]
        for label, part in (
            ("because", self.because),
            ("tree", self.tree),
            ("legal", self.legal),
            ("try", self.try_),
            ("program", self.program),
        ):
            shown = _text(part) or ""
            lines += _fact(label, _cut(shown, height) if label == "tree" and shown and height else shown)
        return lines

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), str(self))


def _text(t: Text) -> str | None:
    text = t() if callable(t) else t
    if text is None:
        return None
    if "<" in text:
        text = _CLASS.sub(r"\1", text)
        for _ in range(2):  # a method, and the object that it is of
            text = _FUNCTION.sub(lambda m: "a function" if m[1] == "<lambda>" else m[1], text)
            text = _BY_ADDRESS.sub(lambda m: f"{'an' if m[1][0] in 'aeiou' else 'a'} {m[1]}", text)
    # names come from models and files: an escape sequence in one must not reach a terminal
    return text if text.isprintable() else text.translate(_CONTROL)


def _fact(label: str, text: str) -> list[str]:
    """A fact with its label, the lines below one another."""
    if not text:
        return []
    first, *rest = text.splitlines()
    return [f"  {label:<9} {first}", *(f"  {'':<9} {line}" for line in rest)]


def _cut(tree: str, height: int) -> str:
    """The marked line of a tree and what it is in, as far as there is room."""
    lines = tree.splitlines()
    marked = next((n for n, line in enumerate(lines) if "←" in line), len(lines) - 1)
    kept, depth = [marked], _depth(lines[marked])
    for n in range(marked - 1, -1, -1):
        if _depth(lines[n]) < depth:
            kept, depth = [n, *kept], _depth(lines[n])
    kept = kept[-height + 1 :] if len(kept) >= height else kept
    return "\n".join([*(lines[n] for n in kept), "… (print the error for the whole tree)"])


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" │├└─"))


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
