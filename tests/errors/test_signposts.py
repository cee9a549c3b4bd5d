"""What a signpost names is there: modules, functions, methods; and tracebacks of errors are short unless
somebody asks for all."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable

import numpy as np
import pytest

import autosched
import tensorlang as tl
from autosched import signposts as of_autosched
from tensorlang import ops, signposts, te, topi
from tensorlang.boundary import close
from tensorlang.errors import is_ours

TABLES = {
    n: t for m in (signposts, of_autosched) for n, t in vars(m).items() if isinstance(t, dict) and n.isupper()
}
A = te.placeholder((4,), name="A")
C = te.compute((4,), lambda i: A[i] + 1, name="C")
ROOTS = {
    "te": te,
    "tl": tl,
    "ops": ops,
    "topi": topi,
    "autosched": autosched,
    "np": np,
    "s": tl.Schedule,
    "f": tl.Module,
    "task": autosched.SearchTask.of([A, C]),
    "C": te.Tensor,
}


@pytest.mark.parametrize("table", TABLES)
def test_what_is_named_is_there(table):
    assert TABLES[table]
    for name, texts in TABLES[table].items():
        text = texts if isinstance(texts, str) else ", ".join(texts.values())
        for stage, root, path in re.findall(
            r"\b(?:(s)\[\w+\]|(te|tl|ops|topi|autosched|np|s|f|task)(?!\.jsonl))\.(\w[\w.]*\w)", text
        ):
            thing = tl.Stage if stage else ROOTS[root]
            for part in path.removesuffix(".axis").removesuffix(".reduce_axis").split("."):
                assert hasattr(thing, part), f"{table}[{name!r}] names {path}"
                thing = getattr(thing, part)


@pytest.mark.parametrize(
    ("module", "table"),
    [(te, "TE"), (tl, "PACKAGE"), (topi, "TOPI"), (tl.nd, "ND"), (tl.tir, "TIR"), (autosched, "GONE")],
)
def test_names_that_are_gone_are_not_there(module, table):
    for name in TABLES[table]:
        with pytest.raises(tl.TensorLangError) as e:
            getattr(module, name)
        assert e.value.try_ or e.value.because, name


# the methods and fields of tvm.te.Schedule and tvm.te.Stage, of TVM 0.19
OF_SCHEDULES = "normalize create_group cache_read cache_write rfactor stages outputs groups stage_map"
OF_STAGES = (
    "split fuse set_scope bind env_threads set_store_predicate compute_at compute_inline compute_root reorder tile "
    "vectorize tensorize unroll parallel pragma prefetch storage_align double_buffer rolling_buffer transform_layout "
    "op origin_op group scope attach_type attach_ivar attach_stage all_iter_vars leaf_iter_vars store_predicate "
    "relations iter_var_attrs is_output num_child_stages"
)


def test_every_word_of_tvms_schedules_works_or_says_what_does():
    s = te.create_schedule(C.op)
    for thing, words in ((s, OF_SCHEDULES), (s[C], OF_STAGES)):
        for word in words.split():
            if not hasattr(thing, word):
                with pytest.raises(AttributeError, match=f"has no '{word}'(.|\n)* try "):
                    getattr(thing, word)
    for table, cls in ((signposts.SCHEDULE, tl.Schedule), (signposts.STAGE, tl.Stage)):
        assert not [word for word in table if hasattr(cls, word)]


def test_a_group_of_stages_moves_one_by_one():
    """What is said of create_group, done."""
    double = te.compute((4,), lambda i: C[i] * 2, name="double")
    last = te.compute((4,), lambda i: double[i] - 1, name="last")
    s = te.create_schedule(last.op)
    with pytest.raises(AttributeError, match="for each of them"):
        s.create_group(outputs=double, inputs=A, include_inputs=False)
    for T in (double, C):
        s[T].compute_at(s[last], last.op.axis[0])
    a = np.arange(4, dtype="float32")
    assert (tl.build(s, [A, last])(a) == (a + 1) * 2 - 1).all()


def test_slips_are_near():
    assert close("Softmax", ops.__all__)[0] == "softmax"
    assert close("cachewrite", ["cache_write", "cache_read"])[0] == "cache_write"
    assert close("zzz", ["cache_write"]) == []


def test_probing_for_a_name_goes_on_working():
    s = te.create_schedule(C.op)
    assert not hasattr(te, "relu") and not hasattr(s[C], "splitt") and not hasattr(A, "numpy")
    assert getattr(tl, "gpu", None) is None and getattr(s, "_ipython_display_", None) is None


def test_what_the_users_function_raises_is_the_users():
    with pytest.raises(KeyError, match="mine"):
        te.compute((4,), lambda i: {}["mine"])
    with pytest.raises(ZeroDivisionError):
        autosched.SearchTask(lambda n: 1 // 0, (4,))


def test_an_error_of_an_argument_names_what_came():
    with pytest.raises(tl.TensorLangError, match=r"trials='64'.*an int is needed"):
        autosched.tune(autosched.SearchTask.of([A, C]), trials="64")
    with pytest.raises(tl.DeclareError, match="no argument 'nmae'; 'name' is near"):
        te.placeholder((4,), nmae="A")


def test_debugging_shows_every_frame(monkeypatch):
    def frames():
        with pytest.raises(tl.ScheduleError) as e:
            s[C].split(C.op.axis[0], 0)
        return [f for f, _ in traceback.walk_tb(e.value.__traceback__) if is_ours(f)]

    s = te.create_schedule(C.op)
    assert len(frames()) == 1
    monkeypatch.setenv("TENSORLANG_DEBUG", "1")
    assert len(frames()) > 2
    with pytest.raises(TypeError):
        te.placeholder((4,), nmae="A")


def test_pytest_and_notebooks_hide_the_frame_of_ours():
    with pytest.raises(tl.DeclareError) as e:
        te.placeholder((4,), nmae="A")
    *_, last = traceback.walk_tb(e.value.__traceback__)
    assert last[0].f_locals["__tracebackhide__"]


def test_a_notebook_shows_the_line_and_the_message():
    code = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.colors = "NoColor"
shell.run_cell("from tensorlang import te\\nA = te.placeholder((4,), name='A')")
shell.run_cell("x = 1\\nB = te.compute((4,), lambda i: A[i, 0])")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0].startswith("DeclareError at cell ")
    assert done.stdout.splitlines()[1:] == [
        "----> 2 B = te.compute((4,), lambda i: A[i, 0])",
        "",
        "A[i, 0]: 2 indices for 1 dimension",
        "  because   A has shape (4,)",
        "  try       A[i]",
    ]


def test_without_hints_names_that_are_missing_are_plain_errors() -> None:
    code = (
        "from tensorlang import te; import tensorlang as tl; n = te.var('n')\n"
        "A = te.placeholder((n,), name='A'); C = te.compute((n,), lambda i: A[i] + n, name='C')\n"
        "objects = (n, n + 1, n.dtype, A[n], tl.build(tl.create_schedule(C), [A, C]))\n"
        "for o in objects:\n"
        "    try: o.nonsense\n"
        "    except AttributeError as e: print(type(e).__name__)"
    )
    for hints, error in (("0", "AttributeError"), ("1", "UnknownNameError")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TENSORLANG_HINTS": hints},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.split() == [error] * 5, done.stdout
    done = subprocess.run(
        [sys.executable, "-c", "import tensorlang; tensorlang.te.var"],
        env={**os.environ, "TENSORLANG_HINTS": "some"},
        capture_output=True,
        text=True,
    )
    assert "TENSORLANG_HINTS=some" in done.stderr and done.returncode == 1


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: te.schedule.ScheduleOps, "tl.lower"),
        (lambda: te.hybrid, "te.loop_program"),
        (lambda: topi.image, "ops.resize"),
        (lambda: topi.nn.dilate, "te.compute"),
        (lambda: topi.utils.const_matrix, "constants="),
        (lambda: tl.tir.Cast, "astype"),
        (lambda: te.create_schedule(C.op).create_group, "compute_at"),
        (lambda: te.create_schedule(C.op)[C].iter_var_attrs, "s.tree"),
        (lambda: tl.lower(te.create_schedule(C.op), [A, C]).functions, "tl.build"),
        (lambda: tl.build(te.create_schedule(C.op), [A, C])["main"], r"f\(a, b\), the one kernel"),
    ],
)
def test_what_programs_for_tvm_look_up_says_where_it_went(ask: Callable[[], object], says: str) -> None:
    with pytest.raises(tl.TensorLangError, match=says):
        ask()
