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


RFACTOR = """
import tvm
from tvm import te
A = te.placeholder((64, 64), name="A")
k = te.reduce_axis((0, 64), "k")
B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
BF = s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=16)[1])
s[B].set_store_predicate(True)
fcuda = tvm.build(s, [A, B], "cuda")
opencl = tvm.build(s, [A, B], target="opencl -device=adreno")
print(fcuda.imported_modules[0].get_source())
"""


def test_the_gpu_half_of_a_tutorial_is_listed_line_by_line():
    """Names of stages and kernels that are TVM's alone, and targets that are no CPU."""
    left = [(line, what) for line, what, _ in migrate(RFACTOR).left]
    assert left == [
        (9, ".set_store_predicate"),
        (10, "'cuda'"),
        (11, "'opencl -device=adreno'"),
        (12, ".imported_modules"),
    ]
    assert migrate('device = "cuda"\n').left == []


def test_going_on_from_records_says_what_trials_counts():
    """TVM measures as many more; here those of the file are among them."""
    program = """
from tvm import auto_scheduler
policy = auto_scheduler.SketchPolicy(
    task, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates("f.json")])
task.tune(auto_scheduler.TuningOptions(num_measure_trials=5), search_policy=policy)
"""
    ((line, what, why),) = migrate(program).left
    assert (line, what) == (4, "PreloadMeasuredStates") and "trials= counts those of its records" in why


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
task.tune(option, search_policy=mine)
"""


def test_what_tune_does_by_itself_goes_and_what_is_asked_of_it_is_listed():
    made = migrate(POLICY)
    for line in ("ctx = None", "model = None", "policy = None"):
        assert f"\n{line}\n" in made.text
    assert made.text.count("auto_scheduler.tune(task, **option)\n") == 2
    left = {what: (line, why) for line, what, why in made.left}
    assert set(left) == {"tvm.topi.testing", "model.update_from_file", "task.tune(…)"}
    assert left["tvm.topi.testing"] == (
        3,
        "TVM's numpy references; te.reference.evaluate(T, {x: array})[0] is any tensor by numpy",
    )
    assert left["model.update_from_file"][0] == 8 and left["task.tune(…)"][0] == 11


def test_names_that_are_left_are_as_they_are_written():
    (left,) = migrate("from tvm import auto_scheduler\nx = auto_scheduler.ComputeDAG(y)\n").left
    assert left[:2] == (2, "auto_scheduler.ComputeDAG")


def test_targets_that_hold_for_a_block_are_listed():
    (left,) = migrate("import tvm\nwith tvm.target.Target('llvm'):\n    pass\n").left
    assert left == (2, "with Target(…)", "a target is an argument: target= of build and SearchTask")


NETWORK = """
import tvm
import tvm.testing
from tvm import auto_scheduler
tasks, weights = auto_scheduler.extract_tasks(mod["main"], params, target)
tuner = auto_scheduler.TaskScheduler(tasks, weights)
option = auto_scheduler.TuningOptions(num_measure_trials=2, measure_callbacks=[auto_scheduler.RecordToFile(log)])
tuner.tune(option)
tuner = auto_scheduler.TaskScheduler(tasks, load_log_file=log)
print(task.print_best(log, print_mode="schedule"))
print(task.print_best(log, print_mode="cuda"))
"""


def test_a_scheduler_of_tasks_becomes_the_arguments_of_a_call():
    made = migrate(NETWORK)
    assert made.text.count("import tensorlang as tvm\n") == 1
    assert "\ntuner = (tasks, weights)\n" in made.text
    assert "\nauto_scheduler.tune_tasks(*tuner, **option)\n" in made.text
    assert "\nprint(task.print_best(log))\n" in made.text
    assert [left[:2] for left in made.left] == [
        (5, "extract_tasks(…)"),
        (9, "auto_scheduler.TaskScheduler"),
        (11, "'cuda'"),
        (11, "print_best(…)"),
    ]


TEMPLATE = """
import tvm
from tvm import autotvm, relay, te
from tvm import meta_schedule as ms
from tvm.script import tir as T

@autotvm.template("matmul")
def matmul(n):
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    return s, [C]

task = autotvm.task.create("matmul", args=(tvm.cuda(0),), target=tvm.target.cuda())
tuner = autotvm.tuner.XGBTuner(task)
tuner.tune(n_trial=10)
tuner = list()
tuner.append(relay.nn.relu)

@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in T.serial(8):
        A[i] = 0.0

sch = tvm.tir.Schedule(main)
block = sch.get_block("A")
sch.reorder(*sch.get_loops(block))
ms.tune_tir(mod=main, target="llvm")
"""


def test_each_use_of_what_is_left_is_listed_with_what_there_is():
    made = {(line, what): why for line, what, why in migrate(TEMPLATE).left}
    for place, part in {
        (7, "autotvm.template"): "templates are functions",
        (10, "cfg.define_split"): "s.sample_tile",
        (11, 'cfg["tile_y"].apply'): "line 9",
        (14, "autotvm.task.create"): "template=g",
        (14, "tvm.cuda"): "CPU",
        (14, "tvm.target.cuda"): "CPU",
        (15, "autotvm.tuner.XGBTuner"): "strategy=",
        (16, "tuner.tune"): "autosched.tune",
        (18, "relay.nn.relu"): "load_onnx",
        (20, "T.prim_func"): "te.compute",
        (25, "tvm.tir.Schedule"): "te.create_schedule",
        (26, "sch.get_block"): "s[T]",
        (27, "sch.get_loops"): "leaf_iter_vars",
        (28, "ms.tune_tir"): "autosched.tune",
    }.items():
        assert part in made.pop(place)
    assert sorted(line for line, _ in made) == [3, 3, 4, 5, 9, 27]


def test_a_name_that_is_given_anew_is_no_longer_what_is_left():
    text = "import tvm\nx = tvm.cuda(0)\nx = x.copy()\nx = [1]\nx.append(2)\n"
    assert [line for line, *_ in migrate(text).left] == [2, 3]


def test_modules_within_modules_are_imported_from_here():
    text = "from tvm.topi.utils import get_const_tuple\nimport tvm.topi.nn as nn\nfrom tvm.tir import const\n"
    made = migrate(text)
    assert not made.left and made.text == (
        "from tensorlang.topi.utils import get_const_tuple\nfrom tensorlang.topi import nn as nn\n"
        "from tensorlang.tir import const\n"
    )
    exec(made.text, {})
