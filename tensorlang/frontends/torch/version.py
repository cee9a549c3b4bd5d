"""Whether a torch is there that this room knows. Nothing else of it may be imported before."""

from __future__ import annotations

import re

from ...errors import TensorLangError

LEAST, BELOW = (2, 9), (2, 15)


def check() -> None:
    """Raises TensorLangError when torch is missing or of a version that is not known."""
    try:
        import torch
    except ImportError as error:
        raise TensorLangError(
            f"torch cannot be imported: {error}",
            because="its graphs are read by torch itself",
            try_="pip install 'tensorlang[torch]'",
        ) from None
    checked(torch.__version__)


def checked(version: str) -> None:
    """Raises TensorLangError for a version that is too old or too new."""
    found = re.match(r"(\d+)\.(\d+)", version)
    here = (int(found[1]), int(found[2])) if found else (0, 0)
    # newer ones too: private parts of dynamo are used, which move without notice
    if not LEAST <= here < BELOW:
        raise TensorLangError(
            f"torch {version} is not supported",
            because="the graphs that torch hands over change with its versions",
            legal=f"torch {_text(LEAST)} and newer, older than {_text(BELOW)}",
            try_="pip install 'tensorlang[torch]'",
        )


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
