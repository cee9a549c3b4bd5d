"""Golden text: files of named sections that a person has read. ``--refresh-golden`` writes them anew, to be
reviewed as a diff."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest


def sections(path: Path) -> dict[str, str]:
    """The sections of a golden file by name."""
    if not path.exists():
        return {}
    parts = re.split(r"^== (.+) ==\n", path.read_text(encoding="utf-8"), flags=re.M)
    return dict(zip(parts[1::2], (p.rstrip("\n") for p in parts[2::2]), strict=True))


def write(path: Path, texts: Mapping[str, str]) -> None:
    path.write_text(
        "".join(f"== {name} ==\n{text.rstrip()}\n\n" for name, text in texts.items()), encoding="utf-8"
    )


def same(config: pytest.Config, path: Path, name: str, text: str) -> None:
    """The text is that of the section ``name``; with the flag set, the section becomes the text."""
    text = "\n".join(line.rstrip() for line in text.rstrip().splitlines())
    known = sections(path)
    if config.getoption("refresh_golden"):
        write(path, {**known, name: text})
        return
    assert name in known, (
        f"{path.name} has no section {name!r}: run once with --refresh-golden and read what it writes"
    )
    assert text == known[name]
