"""The place in the user's own code that an error names: files, text given to exec, prompts, notebook cells,
lambdas inside calls."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.errors import DeclareError, ScheduleError

PROGRAM = """from tensorlang import te
A = te.placeholder((4,), name="A")
B = te.compute(
    (4,),
    lambda i:
        A[i]
        / (i // 0),
    name="B")
"""


def place(file: str, names: dict | None = None) -> str:
    """What the error of PROGRAM, run under that file name, says of its place."""
    with pytest.raises(DeclareError) as caught:
        exec(compile(PROGRAM, file, "exec"), {} if names is None else names)
    return str(caught.value).splitlines()[-1].split(maxsplit=1)[1]


def test_the_line_of_a_lambda_that_runs_inside_compute():
    assert place("kernels/my_kernel.py") == "my_kernel.py:7"
    assert place(str(Path(tl.__file__).parent.with_name("tensorlang_examples") / "conv.py")) == "conv.py:7"


def test_text():
    assert place("<string>") == "<string>:7"
    assert place("<stdin>", {"__name__": "__main__"}) == "<stdin>:7"


def test_notebook_cells(monkeypatch):
    cell = "somewhere/ipykernel_4711/1838277241.py"
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert place(cell) == "cell line 7"
    assert place("<ipython-input-3-af31c2>") == "cell 3, line 7"
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={cell: 12}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert place(cell) == "cell 12, line 7"
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert place(cell) == "cell line 7"


def test_the_call_when_the_mistake_is_in_its_arguments():
    A = te.placeholder((4, 4), name="A")
    line = sys._getframe().f_lineno + 2
    with pytest.raises(DeclareError, match=f"test_places.py:{line}$"):
        te.compute((4, 4), lambda i: A[i, i], name="B")


def test_a_refusal_of_a_schedule_names_the_step():
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    s[B].reorder(*reversed(s[B].op.axis))
    with pytest.raises(ScheduleError) as caught:
        s[B].split(B.op.axis[0], 0)
    assert str(caught.value).endswith(f"test_places.py:{sys._getframe().f_lineno - 1}, step 2 of the trace")


def test_an_error_keeps_its_text_through_pickle():
    with pytest.raises(DeclareError) as caught:
        te.placeholder((-1,), name="P")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is DeclareError and str(again) == str(caught.value)


def test_all_errors_are_one_family():
    for name in ("DeclareError", "ScheduleError", "LowerError", "CallError", "TargetError"):
        assert issubclass(getattr(tl, name), tl.TensorLangError)
