"""The site of every release beside that of the tree: ``make docs-versions``. A release is a tag such as
``v1.2.0``; its pages are built from its own sources. Knows git and Sphinx; nothing of what the pages say.

``docs/_build`` then has a directory a version and one named ``latest``, and an index that lists them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs" / "_build"
TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def releases(tags: Iterable[str]) -> list[str]:
    """Tags that are releases, the newest first."""
    found = [(tuple(map(int, m.groups())), m.group()) for m in map(TAG.fullmatch, tags) if m]
    return [tag for _, tag in sorted(found, reverse=True)]


def index(versions: Iterable[str]) -> str:
    """The page that lists the versions."""
    items = "".join(f'<li><a href="{v}/index.html">{v}</a></li>' for v in versions)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>tensorlang: versions</title>'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<body><h1>tensorlang</h1><p>Documentation of</p><ul>{items}</ul></body></html>\n"
    )


def _git(*args: str) -> str:
    return subprocess.run(["git", "-C", ROOT, *args], check=True, capture_output=True, text=True).stdout


def _build(tree: Path, version: str) -> None:
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "docs", str(SITE / version)]
    subprocess.run(command, check=True, cwd=tree)


def main() -> None:
    """Build them all."""
    _build(ROOT, "latest")
    tags = releases(_git("tag").split())
    for tag in tags:
        with tempfile.TemporaryDirectory() as tree:
            _git("worktree", "add", "--detach", "--force", tree, tag)
            try:
                _build(Path(tree), tag)
            finally:
                _git("worktree", "remove", "--force", tree)
    (SITE / "index.html").write_text(index(["latest", *tags]), encoding="utf-8")
    print(f"the sites are in {SITE}: {', '.join(['latest', *tags])}")


if __name__ == "__main__":
    main()
