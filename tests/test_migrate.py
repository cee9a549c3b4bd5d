"""Programs in the manner of TVM's tutorials: what is rewritten runs, what is left is listed with its line."""

from __future__ import annotations

import pytest

import tensorlang as tl
from tensorlang.__main__ import main as main_of_all
from tensorlang.migrate import main, migrate

VECTOR_ADD = """
import tvm
import tvm.testing
from tvm import te
import numpy as np

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
outer, inner = s[C].split(C.op.axis[0], factor=64)
s[C].parallel(outer)
s[C].vectorize(inner)
tgt = tvm.target.Target("llvm")
fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
dev = tvm.device("llvm", 0)
a = tvm.nd.array(np.random.uniform(size=100).astype(A.dtype), dev)
b = tvm.nd.array(np.random.uniform(size=100).astype(B.dtype), dev)
c = tvm.nd.array(np.zeros(100, dtype=C.dtype), dev)
fadd(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
print(tvm.lower(s, [A, B, C], simple_mode=True))
"""

GEMM = """
import tvm, numpy
from tvm import te, topi
M = 32
k = te.reduce_axis((0, M), "k")
A = te.placeholder((M, M), name="A"); B = te.placeholder((M, M), name="B")
C = te.compute((M, M), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")
D = topi.nn.relu(C)
s = te.create_schedule(D.op)
mo, no, mi, ni = s[D].tile(D.op.axis[0], D.op.axis[1], 8, 8)
s[C].compute_at(s[D], no)
func = tvm.build(s, [A, B, D], target="llvm", name="mmult")
a = numpy.random.rand(M, M).astype("float32")
d = tvm.nd.array(numpy.zeros((M, M), "float32"), tvm.cpu(0))
func(a, a, d)
numpy.testing.assert_allclose(d.numpy(), numpy.maximum(a @ a, 0), rtol=1e-4)
evaluator = func.time_evaluator(func.entry_name, tvm.cpu(0), number=1)
assert evaluator(a, a, d).mean > 0
"""

AUTO = """
import os
import tvm
from tvm import te, auto_scheduler

@auto_scheduler.register_workload
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return [A, B, C]

target = tvm.Target("llvm")
task = auto_scheduler.SearchTask(func=matmul_add, args=(16, 16, 16, "float32"), target=target)
tune_option = auto_scheduler.TuningOptions(
    num_measure_trials=10,
    measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    verbose=2,
)
task.tune(tune_option)
sch, args = task.apply_best(log_file)
"""

GPU = """from tvm import te, relay
import tvm
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i], name="B")
s = te.create_schedule(B.op)
s[B].bind(s[B].op.axis[0], te.thread_axis("threadIdx.x"))
dev = tvm.cuda(0)
from tvm.contrib import cblas
from tvm import autotvm
"""


@pytest.mark.parametrize("program", [VECTOR_ADD, GEMM], ids=["vector add", "gemm"])
def test_what_is_rewritten_runs(program, capsys):
    made = migrate(program)
    assert made.left == [] and "import tvm" not in made.text.replace("as tvm", "")
    exec(compile(made.text, "migrated.py", "exec"), {"__name__": "migrated"})


def test_tuning_options_become_arguments(monkeypatch):
    made = migrate(AUTO)
    assert made.left == []
    assert "tune_option = dict(trials=10, records=log_file)" in made.text
    assert "auto_scheduler.tune(task, **tune_option)" in made.text
    import autosched

    asked = {}
    monkeypatch.setattr(autosched, "tune", lambda task, **options: asked.update(options))
    monkeypatch.setattr(autosched.SearchTask, "apply_best", lambda self, file: (file, self.tensors))
    names = {"__name__": "migrated_auto", "log_file": "x.jsonl"}
    exec(compile(made.text, "migrated.py", "exec"), names)
    assert asked == {"trials": 10, "records": "x.jsonl"} and names["sch"] == "x.jsonl"


def test_what_is_left_is_listed_with_its_line():
    made = migrate(GPU)
    assert [(line, what) for line, what, _ in made.left] == [
        (1, "tvm.relay"),
        (6, ".bind(…)"),
        (6, "te.thread_axis"),
        (7, "tvm.cuda"),
        (8, "tvm.contrib"),
        (9, "tvm.autotvm"),
    ]
    assert all(why for *_, why in made.left)
    assert made.text.startswith(
        "from tensorlang import te\nfrom tvm import relay\nimport tensorlang as tvm\n"
    )


def test_a_program_without_tvm_stays_as_it_is():
    text = "import numpy as np\nfrom . import te  # ñ\nx = te.relu(3)\n"
    assert migrate(text).text == text and migrate(text).left == []


def test_the_command(tmp_path, capsys):
    old = tmp_path / "old.py"
    old.write_text(VECTOR_ADD, encoding="utf-8")
    assert main([str(old)]) == 0
    said = capsys.readouterr()
    assert "import tensorlang as tvm" in said.out and "0 left" in said.err and old.read_text() == VECTOR_ADD
    (tmp_path / "bad.py").write_text("def (:\n")
    assert main(["-i", str(old), str(tmp_path / "bad.py"), str(tmp_path / "none.py")]) == 1
    assert "import tensorlang as tvm" in old.read_text() and "no Python program" in capsys.readouterr().err
    with pytest.raises(tl.TensorLangError, match="no Python program"):
        migrate("def (:")


WRITTEN_OUT = """
import os
import tvm
from tvm import te

def workload(n):
    A = te.placeholder((n,), name="A")
    return [A, te.compute((n,), lambda i: A[i] + 1.0, name="B")]

task = tvm.auto_scheduler.SearchTask(func=workload, args=(64,), target=tvm.target.Target("llvm"))
print(task.compute_dag)
task.tune(tvm.auto_scheduler.TuningOptions(num_measure_trials=1, verbose=0))
"""


def test_the_tuner_written_out_is_imported_by_its_name():
    made = migrate(WRITTEN_OUT)
    assert not made.left
    assert "import autosched\nimport tensorlang as tvm\n" in made.text
    assert "autosched.SearchTask(func=workload" in made.text
    assert "print(task.tensors)" in made.text and "autosched.tune(task, **dict(trials=1))" in made.text
    before = made.text.partition("autosched.tune(")[0]
    space: dict = {}
    exec(before, space)
    assert [t.name for t in space["task"].tensors] == ["A", "B"]


def test_help_of_the_command_is_its_own(capsys):
    with pytest.raises(SystemExit) as e:
        main_of_all(["migrate", "--help"])
    assert e.value.code == 0 and "tensorlang migrate old.py > new.py" in capsys.readouterr().out


POLICY = """
from tvm import te, auto_scheduler
from tvm.topi.testing import conv2d_nchw_python
ctx = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=300)
option = auto_scheduler.TuningOptions(num_measure_trials=2, runner=ctx.runner)
model = auto_scheduler.XGBModel()
policy = auto_scheduler.SketchPolicy(task, model)
model.update_from_file("log.json")
task.tune(option, policy)
task.tune(option, search_policy=policy)
"""


def test_what_tune_does_by_itself_goes_and_what_is_asked_of_it_is_listed():
    made = migrate(POLICY)
    for line in ("ctx = None", "model = None", "policy = None", "auto_scheduler.tune(task, **option)"):
        assert f"\n{line}\n" in made.text
    left = {what: (line, why) for line, what, why in made.left}
    assert set(left) == {"tvm.topi.testing", "model.update_from_file", "task.tune(…)"}
    assert left["tvm.topi.testing"] == (
        3,
        "TVM's numpy references; te.reference.evaluate computes any tensor with numpy",
    )
    assert left["model.update_from_file"][0] == 8 and left["task.tune(…)"][0] == 10


def test_names_that_are_left_are_as_they_are_written():
    (left,) = migrate("from tvm import auto_scheduler\nx = auto_scheduler.ComputeDAG(y)\n").left
    assert left[:2] == (2, "auto_scheduler.ComputeDAG")


def test_targets_that_hold_for_a_block_are_listed():
    (left,) = migrate("import tvm\nwith tvm.target.Target('llvm'):\n    pass\n").left
    assert left == (2, "with Target(…)", "a target is an argument: target= of build and SearchTask")
