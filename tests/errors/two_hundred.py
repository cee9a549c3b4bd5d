"""Two hundred mistakes of newcomers, one line of code each, in the order in which people meet the project. The
names that they use are those of ``scene``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import ops, te, tir, topi


def dense(m: Any, n: Any) -> list[te.Tensor]:
    """A workload of two sizes."""
    X = te.placeholder((m, n), name="X")
    return [X, te.compute((m, n), lambda i, j: X[i, j] + 1.0, name="Y")]


def scene(place: Path) -> dict[str, Any]:
    """What the mistakes are made with; files go to ``place``."""
    A, B = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B")
    I = te.placeholder((8,), "int32", name="I")
    k = te.reduce_axis((0, 8), name="k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((8, 8), lambda i, j: C[i, j] * 2.0, name="D")
    s = te.create_schedule(D.op)
    f = _kernel(A, B, D)
    g = tl.Graph("mlp")
    x = g.input(("rows", 8), "float32", "x")
    y = g.call(ops.relu, x)
    g.output(y, "y")
    notes = place / "notes.txt"
    notes.write_text("milk, bread\n", encoding="utf-8")
    (place / "folder").mkdir(exist_ok=True)
    a = np.ones((8, 8), np.float32)
    found = {
        "tl": tl,
        "te": te,
        "ops": ops,
        "topi": topi,
        "tir": tir,
        "autosched": autosched,
        "np": np,
        "A": A,
        "B": B,
        "C": C,
        "D": D,
        "I": I,
    }
    found |= {
        "k": k,
        "s": s,
        "f": f,
        "a": a,
        "c": np.zeros_like(a),
        "i": D.op.axis[0],
        "j": D.op.axis[1],
        "g": g,
        "x": x,
        "y": y,
    }
    found |= {
        "engine": _engine(g),
        "task": autosched.SearchTask(dense, (8, 8)),
        "dense": dense,
        "notes": str(notes),
    }
    return found | {"folder": str(place / "folder"), "log": autosched.RecordLog(None), "n": te.var("n")}


_MADE = SimpleNamespace(kernel=None, engine=None)


def _kernel(A: te.Tensor, B: te.Tensor, D: te.Tensor) -> tl.Module:
    """One kernel for all."""
    if _MADE.kernel is None:
        _MADE.kernel = tl.build(te.create_schedule(D.op), [A, B, D], name="matmul")
    return _MADE.kernel


def _engine(g: tl.Graph) -> tl.Engine:
    if _MADE.engine is None:
        _MADE.engine = g.compile(cache=False)
    return _MADE.engine


MISTAKES = """
tl.auto_scheduler
tl.autotvm
tl.relay
tl.cuda()
tl.gpu(0)
tl.te.gemm
tl.bulid
tl.Lower
tl.IRModule
tl.placeholder((8,))
from tensorlang import autotvm
from tensorlang import meta_schedule, te
from tensorlang.te import thread_axis
from autosched import TuningOptions, RecordToFile
te.relu(A)
te.gemm(A, B)
te.thread_axis("threadIdx.x")
te.placehoder((8, 8))
te.matmul(A, B)
te.softmax
te.gradient
te.mean
te.hybrid
te.create_prim_func([A, C])
te.log2p(A[0, 0])
ops.rellu(A)
ops.Softmax(A)
ops.placeholder((8,))
topi.cuda
topi.nn.rellu(A)
tir.Block
tl.nd.arange(8)
tl.nd.gpu(0)
autosched.TaskScheduler([])
autosched.TuningOptions(num_measure_trials=64)
autosched.SketchPolicy(task)
autosched.LocalRunner()
autosched.tunes(task)
autosched.RecordReader("f.json")
te.placeholder()
te.placeholder(8.5)
te.placeholder("A")
te.placeholder((8, "8"))
te.placeholder((8, None))
te.placeholder((8, -1))
te.placeholder((8, 8), "float23")
te.placeholder((8, 8), name=3)
te.placeholder((8, 8), shape=(3,))
te.placeholder((8, 8), nmae="A")
te.placeholder(A)
te.compute((8, 8))
te.compute((8, 8), 3)
te.compute((8, 8), lambda i: A[i, i])
te.compute((8, 8), lambda i, j, l: A[i, j])
te.compute((8, 8), lambda i, j: A[i])
te.compute((8, 8), lambda i, j: A[i, j, 0])
te.compute((8, 8), lambda i, j: A)
te.compute((8, 8), lambda i, j: None)
te.compute((8, 8), lambda i, j: "x")
te.compute((8, 8), lambda i, j: A[i, j] if i < 4 else 0.0)
te.compute((8, 8), lambda i, j: A[i, j] + I[j])
te.compute((8, 8), lambda i, j: np.exp(A[i, j]))
te.compute((8, 8), lambda i, j: A[i, j] @ B[i, j])
te.compute((8, 8), lambda i, j: A[i, j] // (j // 0))
te.create_schedule(te.compute((8, 8), lambda i, j: A[i + 8, j]).op)
te.compute((8, 8), lambda i, j: A[i * 0.5, j])
te.compute((8, 8), lambda i, j: A[i, j] + {})
te.compute((8, 8), lambda i, j: A(i))
te.compute((8, 8), lambda i, j: te.sum(A[i, k]))
te.compute((8, 8), lambda i, j: te.sum(A[i, k], axis=1))
te.compute((8, 8), lambda i, j: te.sum(A[i, k], axis="k"))
te.compute((8, 8), lambda i, j: 1.0 + te.sum(A[i, k], axis=k))
te.compute((8, 8), lambda i, j: te.sum(A, axis=k))
te.compute((8, 8), lambda i, j: A[i, j].astype("flot32"))
te.compute((8, 8), lambda i, j: te.max(A[i, j]))
te.compute((8, 8), lambda i, j: float(A[i, j]))
te.compute((8, 8), lambda i, j: A[i, j], dtype="float16")
te.sum(A)
te.sum(A, axis=0)
te.exp("x")
te.exp(A)
te.exp(A[0, 0], A[0, 1])
te.reduce_axis(8)
te.reduce_axis((0, 8), "k", 3)
te.reduce_axis((0, "n"))
te.reduce_axis((8, 0, 1))
te.var(3)
te.var("n", "int33")
te.dim("m", 5, 2)
te.dim("m", "1", 2)
te.dim("m", 1, 64, multiple_of=0)
te.const("x")
te.cast("float32")
te.create_schedule(3)
te.create_schedule([])
te.create_schedule(A.op)
te.create_schedule(C, D, A)
A + "x"
A @ "x"
A.opp
A.numpy()
C.op.axes
ops.matmul(A)
ops.matmul(A, 3)
ops.matmul(A, a)
ops.softmax(A, axis="x")
ops.softmax(A, axis=5)
ops.softmax(A, dim=1)
ops.conv2d(A, B)
ops.reshape(A, (3, 3))
ops.concatenate(A, B)
ops.transpose(A, (0, 0))
ops.sum(A, axis=7)
s[A].split("i", 4)
s[A].parallel(i)
s[D].split(i)
s[D].split(i, 0)
s[D].split(i, "4")
s[D].split(i, factor=4, nparts=2)
s[D].split("x", 4)
s[D].split(i, factr=4)
s[D].split()
s[D].splitt(i, 4)
s[D].bind(i, "threadIdx.x")
s[D].fuse(i, k)
s[D].reorder(j, k)
s[D].vectorize(k)
s[C].parallel(C.op.reduce_axis[0])
s[D].tile(i, j, 4)
s[D].compute_at(s[D], i)
s[C].compute_at(s[D], "z")
s[C].compute_at(D)
s[D].unroll(3)
s[D].pragma(i, "unrol")
s[D].tensorize(i, 3)
s["Z"].split("i", 4)
s[3]
s.cache_rad(A, "local", [D])
s.cache_read(A, "shared", [D])
s.cache_read(A, "local", [A])
s.cache_write(A, "local")
s.rfactor(D, i)
s.split(i, 4)
s.get_block("C")
s.can("splitt", D, i)
s.replay(3)
tl.lower(D, [A, D])
tl.lower(s)
tl.lower(s, A)
tl.lower(s, [A, "B", D])
tl.lower(s, [A, D])
tl.lower(s, [A, B, D], nam="x")
tl.lower(s, [A, B, D], bounds_check="yes")
tl.build()
tl.build(s)
tl.build(s, [A, B, D], target="cuda")
tl.build(s, [A, B, D], "llvm -mcpu=potato")
tl.build(s, [A, B, D], target=7)
tl.build(s, [A, B, D], name=7)
tl.build(s, [A, B, D], math="fast")
tl.build(s, [A, B, D], constants={C: a})
tl.build(s, [A, B, D], constants=[a])
tl.compile(A)
tl.compile([A])
tl.compile([A, B, D], trials=64)
tl.Target("cuda")
tl.Target(3)
tl.load("nothere.tl")
tl.load(notes)
tl.load(3)
tl.load_onnx("nothere.onnx")
tl.load_onnx(notes)
tl.load_onnx(3)
tl.set_num_threads("two")
tl.set_num_threads(0)
tl.register_func(3)
f()
f(a)
f(a, a, a, a)
f(a, "b")
f(a, [1, 2])
f(a[:4], a)
f(a.astype("float64"), a)
f(A=a, B=a, E=a)
f(a, a, out=a[:4])
f(a, a, out="c")
f.benchmark()
f.benchmark(a, a, seconds="1")
f.benchmark(a, a, second=1)
f.benchmrk(a, a)
f.profile(a)
f.get_source("python")
f.asm
f.evaluate(a, a)
f.save(folder)
f.export("matmul.exe")
f.time_evaluator("matmul", number=0)
tl.Graph(3)
g.input((3, "n"), "float33")
g.input(3)
g.call("relu", x)
g.call(ops.relu, 3)
g.call(ops.relu, a)
g.call(ops.relu, x, axes=1)
g.call(ops.matmul, x)
g.call(dense, x, x)
g.output(3)
g.output(a)
g.compile(levl=1)
g.compile(level=7)
g.compile(target="cuda")
g.compile(outputs=["z"])
g.comple()
engine()
engine(3)
engine(a, a)
engine(a[:, :4])
engine(z=a)
engine.bind(y="z")
engine.run(a)
engine.run({"z": a})
engine.explian()
tl.Engine.load("nothere.engine")
tl.Engine.load(notes)
autosched.SearchTask(dense)
autosched.SearchTask(dense, (8,))
autosched.SearchTask(dense, (8, 8, 8))
autosched.SearchTask(dense, ("8", 8))
autosched.SearchTask("dense_of_nobody", (8, 8))
autosched.SearchTask(3, (8, 8))
autosched.SearchTask(dense, (8, 8), target="cuda")
autosched.SearchTask(dense, (8, 8), target=7)
autosched.SearchTask(lambda m: None, (8,))
autosched.register_workload(3)
autosched.tune(dense, trials=64)
autosched.tune("dense")
autosched.tune(task, trials="64")
autosched.tune(task, trials=0)
autosched.tune(task, trials=2.5)
autosched.tune(task, num_trials=64)
autosched.tune(task, strategy="genetic")
autosched.tune(task, model="lightgbm")
autosched.tune(task, seconds=-1)
autosched.tune(task, seconds="60")
autosched.tune(task, seed="x")
autosched.tune(task, batch=0)
autosched.tune(task, timeout=-1)
autosched.tune(task, records=7)
autosched.tune(task, records=notes)
autosched.tune(task, records=folder)
autosched.tune(task, patience=0)
autosched.tune_tasks(task)
autosched.tune_tasks([])
autosched.tune_tasks([task], weights=[1, 2])
autosched.tune_tasks([task, dense])
autosched.tune_tasks([task], trials="256")
autosched.tune_dynamic(task, {"m": (1, 64)})
autosched.tune_dynamic(dense, {"m": (1, 64)})
autosched.ShapeProfile(3)
autosched.ShapeProfile({"m": (64, 1)})
autosched.RecordLog(3)
autosched.RecordLog(notes).best(3)
autosched.autotune(trials="64")
autosched.autotune(3)
autosched.best_guess(dense)
autosched.compile(3)
autosched.extract_tasks(3)
autosched.specialise(3, task)
task.apply_best("nothere.jsonl")
task.apply_best(3)
task.tune()
""".strip().splitlines()
