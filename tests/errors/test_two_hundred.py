"""Each of two hundred mistakes ends in one error of ours at the user's line, with at most two frames of ours in
Python's traceback and at most twelve lines in a notebook. ``--refresh-golden`` keeps the texts anew."""

from __future__ import annotations

import ast
import re
import sys
import traceback

import pytest

import tensorlang as tl
from autosched import task
from tensorlang.boundary import MOST
from tensorlang.errors import is_ours

from .drawn import DRAWN
from .guessed import GUESSED
from .indexed import INDEXED
from .latest import LATEST
from .newest import NEWEST, WITHOUT_TORCH
from .rooms import ROOMS
from .scene import GOLDEN
from .two_hundred import MISTAKES, scene

FILE = GOLDEN / "two_hundred.md"
ALL = [*MISTAKES, *NEWEST, *LATEST, *GUESSED, *DRAWN, *INDEXED, *ROOMS]
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
        kept = [f"### `{m}`\n\n```text\n{text_of(refused(m, names), names)}\n```\n" for m in ALL]
        FILE.write_text("\n".join(kept), encoding="utf-8")
    return dict(
        re.findall(
            r"### `(.*)`\n\n```text\n((?:.|\n)*?)\n```\n",
            FILE.read_text(encoding="utf-8") if FILE.exists() else "",
        )
    )


@pytest.mark.parametrize("code", ALL)
def test_mistake(code, names, golden):
    error = refused(code, names)
    check_shown(error)
    assert text_of(error, names) == golden.get(code, "no golden text: pytest --refresh-golden")


@pytest.mark.parametrize("code", WITHOUT_TORCH)
def test_mistake_without_torch(code, names, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for room in [m for m in sys.modules if m.startswith("tensorlang.frontends.torch")]:
        monkeypatch.delitem(sys.modules, room)
    error = refused(code, names)
    check_shown(error)
    assert "tensorlang.torch" in str(error) or "pip install 'tensorlang[torch]'" in str(error)


def check_shown(error: tl.TensorLangError) -> None:
    """Short, at the user's line, without what only we understand."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__) if is_ours(frame)]
    assert len(frames) <= 2, [f.f_code for f in frames]
    at = re.search(r"(user|two_hundred)\.py:(\d+)", str(error))  # the second: in a function of the user's
    assert at is not None, str(error)
    shown = error._render_traceback_()  # type: ignore[attr-defined]
    assert len(shown) <= MOST and shown[1].startswith(f"----> {at[2]}"), shown
    assert not [ugly for ugly in UGLY if ugly in str(error)], str(error)


def test_a_long_reason_is_cut_in_a_notebook(names):
    """It ended in an IndexError of the code that shows it: there is no tree to cut."""
    error = refused("tl.testing.assert_allclose(np.zeros((8, 8)), np.ones((8, 8)))", names)
    check_shown(error)
    assert "Mismatched elements" in str(error)
    shown = error._render_traceback_()  # type: ignore[attr-defined]
    assert shown[-1] == "  … (print the error for the rest)" and len(str(error).splitlines()) > MOST


def test_there_are_two_hundred(golden):
    assert len(set(ALL)) == len(ALL) >= 840
    assert list(golden) == ALL


# advice that names things of the scene otherwise, or a file that somebody has
EXAMPLES = (
    "tl.load_onnx('model.onnx')",
    "tl.lower(te.create_schedule(D.op), [A, D])",
    "tl.build(s, [A, B, C])",
)


def advised(error: tl.TensorLangError, names: dict) -> ast.Expression | None:
    """What to try, where that is an expression of names that there are."""
    text = error.try_() if callable(error.try_) else error.try_ or ""
    for piece in (text, *text.split(", or "), *text.split(" or "), *text.split("; "), *text.split(" with ")):
        try:
            tree = ast.parse(piece.strip(), mode="eval")
        except SyntaxError:
            continue
        used = {x.id for x in ast.walk(tree) if isinstance(x, ast.Name)}
        if used and used <= names.keys() and "…" not in piece and not isinstance(tree.body, ast.Tuple):
            return tree
    return None


def test_advice_that_is_code_works(tmp_path, monkeypatch):
    """In a scene of its own, which advice changes."""
    names = scene(tmp_path)
    monkeypatch.chdir(tmp_path)
    followed = set(EXAMPLES)
    for code in ALL:
        tree = advised(refused(code, names), names)
        # tuning is tried elsewhere; here it would take the most of the time
        if tree is None or ast.unparse(tree) in followed or "autosched.tune" in ast.unparse(tree):
            continue
        followed.add(ast.unparse(tree))
        try:
            other = {} if "g." in ast.unparse(tree) else {"x": names["A"]}
            # an argument is called as the tensor that it is given for
            arrays = {"A": [1, 2], "B": [1, 2]} if "np.as" in ast.unparse(tree) else {}
            eval(compile(tree, "advice.py", "eval"), names | other | arrays)
        except ValueError:  # numpy's, of the very array that was refused
            assert "np.as" in ast.unparse(tree), code
        except tl.TensorLangError as e:
            raise AssertionError(f"{code}: {ast.unparse(tree)} is advised: {e}") from e
    assert len(followed) >= 20
