"""The answer of a check: legal, or not with reasons that are put into words only when somebody reads them."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Text
from ...protocols import fix


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """True when legal. Otherwise ``because`` says why; ``legal`` what would be, ``try_`` what to do, ``mark``
    which line of the tree is meant.

    ``pending`` when it is not legal yet and a later call may make it so: the call is taken, and lowering
    refuses what still waits.
    """

    ok: bool
    because: Text = None
    legal: Text = None
    try_: Text = None
    mark: tuple[str, str | None] | None = None  # (stage, loop or None)
    pending: bool = False

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        if self.ok:
            return "Verdict(legal)"
        return f"Verdict({'pending' if self.pending else 'not legal'}: {self.reason})"

    def __str__(self) -> str:
        """``legal``, or why not, what would be legal and what to try."""
        if self.ok:
            return "legal"
        facts = (("because", self.reason), ("legal", self.legal), ("try", self.try_))
        rows = [(word, (text() if callable(text) else text) or "") for word, text in facts]
        return "\n".join(
            [
                "pending" if self.pending else "not legal",
                *(f"  {word:<9} {text}" for word, text in rows if text),
            ]
        )

    @property
    def reason(self) -> str:
        """``because`` as text; empty when legal."""
        return (self.because() if callable(self.because) else self.because) or ""


fix(Verdict, "verdict", {})
YES = Verdict(True)


def refuse(
    because: Text,
    *,
    legal: Text = None,
    try_: Text = None,
    mark: tuple[str, str | None] | None = None,
    pending: bool = False,
) -> Verdict:
    """A refusal."""
    return Verdict(False, because, legal, try_, mark, pending)
