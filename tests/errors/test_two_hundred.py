"""Each of two hundred mistakes ends in one error of ours at the user's line, with at most two frames of ours in
Python's traceback and at most twelve lines in a notebook. ``--refresh-golden`` keeps the texts anew."""

from __future__ import annotations

import re
import traceback

import pytest

import tensorlang as tl
from autosched import task
from tensorlang.boundary import MOST
from tensorlang.errors import is_ours

from .scene import GOLDEN
from .two_hundred import MISTAKES, scene

FILE = GOLDEN / "two_hundred.md"
UGLY = (" at 0x", "<class", "<function", "<lambda", "object at", "tensorlang/", "Traceback")


@pytest.fixture(scope="module", autouse=True)
def nothing_is_registered():
    """Errors list what there is, and other tests register workloads."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "_workloads", {})
        yield


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    return scene(tmp_path_factory.mktemp("mistakes"))


def refused(code: str, names: dict) -> tl.TensorLangError:
    """The error of a line of code."""
    try:
        exec(compile("\n" * 41 + code, "user.py", "exec"), dict(names, __name__="user"))
    except tl.TensorLangError as e:
        return e
    raise AssertionError(f"accepted: {code}")


def text_of(error: tl.TensorLangError, names: dict) -> str:
    text = str(error).replace(names["folder"], "folder").replace(names["notes"], "notes.txt")
    text = re.sub(r"(legal +[\w.\[\]]+)\(.*=.*\)", r"\1(…)", text)  # a signature, which others may add to
    text = re.sub(r"-mcpu=[^ ]+ .*-num-cores=[0-9]+", "…", text)
    return f"{type(error).__name__}: {re.sub(r'two_hundred.py:[0-9]+', 'two_hundred.py', text)}"


@pytest.fixture(scope="module")
def golden(request, names):
    if request.config.getoption("--refresh-golden"):
        kept = [f"### `{m}`\n\n```text\n{text_of(refused(m, names), names)}\n```\n" for m in MISTAKES]
        FILE.write_text("\n".join(kept), encoding="utf-8")
    return dict(
        re.findall(
            r"### `(.*)`\n\n```text\n((?:.|\n)*?)\n```\n",
            FILE.read_text(encoding="utf-8") if FILE.exists() else "",
        )
    )


@pytest.mark.parametrize("code", MISTAKES)
def test_mistake(code, names, golden):
    error = refused(code, names)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_ours(frame)]
    assert len(frames) <= 2, [f.f_code for f in frames]
    at = re.search(r"(user|two_hundred)\.py:(\d+)", str(error))  # the second: in a function of the user's
    assert at is not None, str(error)
    shown = error._render_traceback_()  # type: ignore[attr-defined]
    assert len(shown) <= MOST and shown[1].startswith(f"----> {at[2]}"), shown
    text = text_of(error, names)
    assert not [ugly for ugly in UGLY if ugly in text], text
    assert text == golden.get(code, "no golden text: pytest --refresh-golden")


def test_there_are_two_hundred(golden):
    assert len(set(MISTAKES)) == len(MISTAKES) >= 200
    assert list(golden) == MISTAKES
