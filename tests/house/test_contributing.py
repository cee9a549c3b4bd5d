"""What CONTRIBUTING.md, the pre-commit file and the workflow of the hosted CI speak of is there: files, tests, targets of make."""

from __future__ import annotations

import re

import pytest

from tests.house.source import HOME, ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TEXTS = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", ".pre-commit-config.yaml", ".github/workflows/ci.yml")
}


def test_paths_that_the_guide_names_are_there():
    named = set(re.findall(r"`((?:tensorlang|autosched|benchmarks|tests)/[\w/.]*|\w+\.md)`", GUIDE))
    assert len(named) > 15
    missing = sorted(p for p in named if not any((at / p).exists() for at in (ROOT, HOME)))
    assert not missing, f"CONTRIBUTING.md names {', '.join(missing)}"


def test_tests_that_the_guide_names_are_there():
    named = set(re.findall(r"`(test_\w+)`", GUIDE))
    assert len(named) > 6
    defined = {
        name
        for p in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", p.read_text("utf-8"), re.M)
    }
    assert not named - defined, f"CONTRIBUTING.md names {', '.join(sorted(named - defined))}"


@pytest.mark.parametrize("name", TEXTS)
def test_targets_of_make_are_there(name):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    called = set(re.findall(r"(?:run: |`|^    )make ([\w-]+)", TEXTS[name], re.M))
    assert called <= targets, f"{name}: make {', '.join(sorted(called - targets))}"
    if name.endswith("ci.yml"):
        assert called == {"lint", "docs", "test"}


def test_the_hosted_machine_and_the_hooks_run_what_lint_runs():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert lint is not None
    for line in lint[1].strip().splitlines():
        tool = line.replace("$(BIN)/", "").removesuffix(" .").strip()
        assert f".venv/bin/{tool}" in TEXTS[".pre-commit-config.yaml"], tool


def test_the_changelog_begins_with_what_is_not_released():
    versions = re.findall(r"^## \[(.+)\]", TEXTS["CHANGELOG.md"], re.M)
    assert versions[0] == "Unreleased" and "0.1.0" in versions
