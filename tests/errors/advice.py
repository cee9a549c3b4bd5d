"""How the advice of an error is followed: what its ``try`` says, quoted piece by piece, with its code
evaluated where the mistake was made."""

from __future__ import annotations

import re
import traceback
from typing import Any

from tensorlang.errors import TensorLangError

from .scene import Mistake, Scene

CODE = re.compile(
    r"\b(?:te|tl|ops|np|autosched)\.\w+|\w+\(|\w+="
)  # what is code in an advice, and must be followed


class Advice:
    """What an error says to try. ``a(code)`` is the value of code that stands in it, ``a.kw(code)`` that of
    arguments; ``a.says(words)`` quotes words."""

    def __init__(self, mistake: Mistake, **names: Any) -> None:
        try:
            mistake(Scene())
        except TensorLangError as e:
            advice = e.try_() if callable(e.try_) else e.try_
            frames = [
                f for f, _ in traceback.walk_tb(e.__traceback__) if f.f_code.co_name == mistake.__name__
            ]
        else:
            raise AssertionError(f"{mistake.__name__} was accepted")
        self.text = self.left = str(advice or "")
        self.names = frames[0].f_globals | names | frames[0].f_locals

    def __getattr__(self, name: str) -> Any:
        """A local variable of the mistake."""
        return self.names[name]

    def __call__(self, code: str, **names: Any) -> Any:
        """The value of code that the advice writes out, beside other names that it takes for granted."""
        self.says(code)
        return eval(code, self.names | names)

    def kw(self, code: str, **names: Any) -> dict[str, Any]:
        """The arguments that the advice writes out, as in ``dtype='float32'``."""
        self.says(code)
        return eval(f"dict({code})", self.names | names)

    def says(self, words: str) -> None:
        """Asserts that the advice has these words, and takes note that they are followed."""
        assert words in self.text, f"{words!r} is not in the advice {self.text!r}"
        self.left = self.left.replace(words, " ", 1)

    def assert_followed(self) -> None:
        """Asserts that something was quoted and that no code of the advice is left that nobody followed."""
        assert self.left != self.text, f"nothing of the advice was followed: {self.text}"
        assert not CODE.search(self.left), f"code of the advice that is not followed: {self.left}"
