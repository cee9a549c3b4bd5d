"""How a mistake is played: what must not change is watched, the error is caught, its message made independent
of line numbers."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.errors import TensorLangError
from tensorlang.te.tensor import Tensor

GOLDEN = Path(__file__).parent / "golden"
Mistake = Callable[["Scene"], Any]


class Scene:
    """Given to each mistake. ``watch`` returns its argument, which must be the same after the refusal."""

    def __init__(self) -> None:
        self._watched: list[tuple[Any, Any]] = []

    def watch(self, thing: Any) -> Any:
        """A schedule, a tensor or an array that the mistake must not change. Call it last before the
        mistake."""
        self._watched.append((thing, _photo(thing)))
        return thing

    def unchanged(self) -> None:
        """Asserts that everything watched is as it was."""
        for thing, photo in self._watched:
            assert _photo(thing) == photo, f"{thing!r} was changed by a call that was refused"


def _photo(thing: Any) -> Any:
    if isinstance(thing, tl.Schedule):
        return thing.state, thing.tree(), thing.trace, str(thing.trace)
    if isinstance(thing, Tensor):
        return thing.shape, thing.dtype, thing.op.outputs, getattr(thing.op, "body", None), thing.op.tag
    assert isinstance(thing, np.ndarray)
    return thing.tobytes(), thing.shape, thing.strides, thing.dtype, thing.flags.writeable


def mistakes(module: ModuleType) -> dict[str, Mistake]:
    """The mistakes of a file: its public functions that take a scene, in order."""
    return {
        name: f
        for name, f in vars(module).items()
        if isinstance(f, FunctionType)
        and f.__module__ == module.__name__
        and not name.startswith("_")
        and list(inspect.signature(f).parameters) == ["t"]
    }


def play(mistake: Mistake, expected: type[TensorLangError]) -> str:
    """The message of a mistake. Asserts that it is refused with an error of that class, at the user's own
    line, and changes nothing."""
    scene = Scene()
    try:
        mistake(scene)
    except TensorLangError as e:
        error = e
    else:
        raise AssertionError(f"{mistake.__name__} was accepted")
    assert type(error) is expected, f"{type(error).__name__} instead of {expected.__name__}: {error}"
    scene.unchanged()
    text = str(error)
    assert str(error) == text
    for ugly in (" at 0x", "<class", "<function", "<lambda", "object at", "tensorlang/"):
        assert ugly not in text, f"{ugly!r} in the message:\n{text}"
    return f"{type(error).__name__}: {_relative(text, mistake)}"


def _relative(text: str, mistake: Mistake) -> str:
    """The line number counted from the mistake's own first line, which must hold the place."""
    lines, first = inspect.getsourcelines(mistake)
    file = Path(inspect.getsourcefile(mistake) or "").name
    places = re.findall(rf"{re.escape(file)}:(\d+)", text)
    assert len(places) == 1, f"the place in {file} is not named once:\n{text}"
    line = int(places[0]) - first
    assert 0 < line < len(lines), f"line {places[0]} is not one of {mistake.__name__}:\n{text}"
    return text.replace(f"{file}:{places[0]}", f"{file}: line {line} of {mistake.__name__}")


def read(family: str) -> dict[str, str]:
    """The golden messages of a family by the name of the mistake."""
    path = GOLDEN / f"{family}.txt"
    if not path.exists():
        return {}
    parts = re.split(r"^# (\w+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], (p.strip("\n") for p in parts[2::2]), strict=True))


def write(family: str, messages: dict[str, str]) -> None:
    """Keep these messages as the golden ones."""
    path = GOLDEN / f"{family}.txt"
    path.write_text(
        "\n\n".join(f"# {name}\n{text}" for name, text in messages.items()) + "\n", encoding="utf-8"
    )
