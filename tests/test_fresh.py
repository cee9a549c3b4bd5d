"""Scripts run by ``tests.fresh`` end, fail, die and hang as a program would."""

from __future__ import annotations

import signal

import pytest

from tests.fresh import python


def test_a_script_is_a_program() -> None:
    done = python(
        "import atexit, sys\natexit.register(print, 'at exit')\ndef f(): return text_of\ntext_of = sys.argv\nprint(f(), __name__)",
        "a b",
        "c",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "['-c', 'a b', 'c'] __main__\nat exit\n", "")


def test_its_end_is_told() -> None:
    assert python("raise SystemExit(3)").returncode == 3
    failed = python("print('begun', flush=True); 1 / 0")
    assert failed.returncode == 1 and failed.stdout == "begun\n" and "ZeroDivisionError" in failed.stderr
    assert python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").returncode == -signal.SIGSEGV


def test_none_sees_another() -> None:
    python("import tensorlang; tensorlang.left = 1; left = 1")
    done = python(
        "import threading, tensorlang as tl\nprint(hasattr(tl, 'left'), 'left' in globals(), threading.active_count())"
    )
    assert done.stdout == "False False 1\n", done.stderr


def test_the_environment_is_that_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("1", "2"):
        monkeypatch.setenv("TENSORLANG_OF_A_TEST", value)
        assert python("import os; print(os.environ['TENSORLANG_OF_A_TEST'])").stdout == f"{value}\n"


def test_one_that_hangs_is_killed() -> None:
    with pytest.raises(pytest.fail.Exception, match="hangs; said 'here"):
        python("import time; print('here', flush=True); time.sleep(100)", timeout=0.5)
    assert python("print(1)").stdout == "1\n"
