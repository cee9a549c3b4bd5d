"""Files a person can read: not too long, opening with what they are for, and free of what belongs to
somebody's machine."""

from __future__ import annotations

import re
import statistics
from pathlib import Path

from tests.house.source import PACKAGES, ROOT, none, place, python_files, relative

LONG = 600
CODE = python_files(*PACKAGES)
ALL = python_files(*PACKAGES, "tests", "benchmarks", "tutorials", ".ci")
TEXTS = tuple(
    sorted(
        {
            *ALL,
            *(
                p
                for top in (*PACKAGES, "tests", "benchmarks", "tutorials")
                for p in place(top).rglob("*")
                if p.suffix in (".md", ".ipynb", ".toml", ".txt", ".json")
                and ".ipynb_checkpoints" not in p.parts
            ),
            *(
                p
                for p in (
                    ROOT / "pyproject.toml",
                    ROOT / "README.md",
                    ROOT / "Makefile",
                    ROOT / ".ci" / "run",
                )
                if p.exists()
            ),
        }
    )
)

# pieces are put together here, so that this file does not hold them
FOREIGN = tuple(
    re.compile(p)
    for p in (
        "/" + "tmp/",
        "/" + "work/",
        "/" + "root/",
        r"/home/" + r"\w",
        r"\b(design|facts|models|dynamic)" + r"\.md\b",
        r"\bissue #?\d+\b(?! of)",
    )
)


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_no_file_is_too_long():
    none(
        f"{relative(p)} has {len(lines(p))} lines; {LONG} is the limit: it holds two things"
        for p in ALL
        if len(lines(p)) > LONG
    )


def test_files_are_short_on_the_whole():
    assert statistics.median(len(lines(p)) for p in CODE) <= 200


def test_every_file_opens_with_what_it_is_for():
    opens = re.compile(r'(#[^\n]*\n)*r?"""(?!""")[^"]{21}')
    none(
        f"{relative(p)}: no docstring that says what the file is for"
        for p in ALL
        if not opens.match(text := p.read_text(encoding="utf-8"))
        and not (not text.strip() and relative(p).startswith("tests/") and p.name == "__init__.py")
    )


def test_nothing_of_one_machine_is_left_in_the_tree():
    none(
        f"{relative(path)}:{n}: `{found[0]}` means nothing to a reader elsewhere"
        for path in TEXTS
        for n, line in enumerate(lines(path), 1)
        for pattern in FOREIGN
        if (found := pattern.search(line))
    )
