"""Mistakes drawn over every public name: elements of what has lists, assignments to attributes, names looked up
in classes, modules that are not there, wrong kinds and sizes of every argument. One line of code each; names
and rules are those of ``two_hundred``."""

from __future__ import annotations

DRAWN = """
g.nodes[9]
g.nodes["y"]
g.inputs[3]
g.inputs["x"]
g.outputs["z"]
g.constants["w"]
g.dims[3]
engine.kernels[99]
engine.kernels["relu"]
engine.bodies["z"]
engine.output_names[4]
tl.Trace.load("trace.json")
tl.Trace.loads("x")
s.trace.save("x.json")
s.trace.load("x.json")
tl.Trace.from_json("nothere.json")
tl.Trace.from_json('{"steps": 3}')
tl.Trace.from_json('[]')
tl.Trace("x").apply(s)
s.trace.apply(3)
s.trace.apply(D)
s.trace.append(3)
task.trials = 3
engine.threads = 4
engine.num_threads = 4
f.target = "llvm"
f.name = "other"
f.threads = 2
s.target = "llvm"
s[D].parallel = True
s[D].vectorize = 8
g.target = "llvm"
g.level = 2
g.threads = 8
A.shape = (4, 4)
A.dtype = "float64"
A.name = "Q"
log.path = "x"
tl.Target("llvm").num_cores = 4
D.op.tag = "x"
s.trace = None
s.outputs = [C]
task.target = "llvm"
task.args = (4, 4)
s.can("fuse", D, i, j).ok = True
f.signature.name = "q"
i.dom = 3
x.shape = (3,)
y.name = "z"
g.nodes[0].op = "tanh"
autosched.ShapeProfile({'m': (1, 8, 16)}).weights = 3
tl.target.create("llvm")
tl.Target.from_device("cpu")
tl.Target("llvm").with_host("llvm")
tl.Target.list_kinds()
tl.target.cuda()
tl.target.arm_cpu("rasp4b")
tl.target.intel_graphics()
tl.target.x86()
tl.target.generic()
tl.create_target("llvm")
tl.support.libinfo()
tl.extern((8,))
tl.contrib.graph_executor
te.var(None)
te.dim()
te.dim("n", 1.5, 8)
te.placeholder((8, 8), "f4x")
te.placeholder((8, 8), object)
te.placeholder(np.ones((8, 8)))
te.placeholder((8, float("nan")))
te.compute(A, lambda i: i)
te.compute((8, 8), lambda i, j: A[i, j], attrs=3)
te.compute((8, 8), lambda i, j: A[None, i, j])
te.compute((8, 8), lambda i, j: A.sum())
te.compute((8, 8), lambda i, j: range(i))
te.compute((8, 8), lambda i, j: np.maximum(A[i, j], 0))
te.compute((8, 8), lambda i, j: f"{A[i, j]:.2f}")
te.compute((8, 8), lambda i, j: I[i] ** "2")
te.compute((8, 8), lambda i, j: te.pow(A[i, j]))
te.compute((8, 8), lambda i, j: te.sum(A[i, j], axis=k) + te.sum(B[i, j], axis=k))
te.compute((8, 8), lambda i, j: te.sum(A[i, k], axis=k, dtype="float64"))
te.compute((8, 8), lambda i, j: te.all(A[i, j]))
te.scan(A, B)
te.extern((8, 8), A, "gemm")
te.extern((8, 8), [A], lambda: None)
te.decl_tensor_intrin(D.op, lambda: None)
te.serialize.from_json("x")
te.reference.evaluate([D], {A: a, B: a[:3]})
te.comm_reducer(lambda x, y: x + y, 0)
te.scatter(A, I)
te.tag_scope(3)
te.call_packed(3)
te.call_pure_extern("float32", 3, A[0, 0])
te.infinity("int99")
te.const(300, "int8")
te.const(a)
te.floordiv(i, 0)
te.add(A, B)
te.isnan("x")
te.create_schedule(s)
s[D.op.axis[0]]
s.stages[2.5]
s.outputs[3]
s.trace.steps[7]
s[D].leaf_iter_vars[9]
s[D].all_iter_vars["i"]
s[D].op.input_tensors[3]
D.op.input_tensors[4]
D.op.output(2)
A.strides
s[D].split(i, 16, tail="maskk")
s[D].split(i, True)
s[D].split([i], 4)
s[D].tile(i, i, 4, 4)
s[D].fuse(i, i)
s[D].unroll(i, factor=4)
s[D].parallel([i, j])
s[C].compute_at(s, i)
s[C].compute_at(s[A], i)
s[C].compute_at(te.create_schedule(D.op)[D], i)
s[C].compute_inline(True)
s[C].reverse_compute_inline()
s[D].set_scope("local")
s[D].prefetch(A, i, "x")
s[D].pragma(i, "auto_unroll_max_step", "x")
s[D].tensorize(i, lambda: None)
s[D].transform_layout(lambda a: a)
s.cache_write([C, D], "local", 3)
s.cache_read(C, "local", D, dtype="x")
s.rfactor(C, k, 9)
s.winograd(D)
s.sample_tile(i, candidates=3)
s.sample_location("zz")
s.concrete({"x": 3})
s.concrete(3)
s.normalize(3)
s.can()
s.decisions["x"]
s.merge(3)
tl.lower(s, {"A": A})
tl.lower(f, [A, B, D])
tl.lower(s, [A, B, D]).astext()
tl.build(tl.lower(s, [A, B, D]), [A])
tl.build(s, [A, B, D], target="x86")
tl.build(s, [A, B, D], target="")
tl.build(s, [A, B, D], math=None)
tl.build(s, [A, B, D], bounds_check=3)
tl.build(s, [A, B, D], name=None, target=None, hooks=[3])
tl.build(s, "ABD")
tl.compile(None)
tl.compile([A, B, D], backend="inductor")
tl.compile([A, A, B, D])
tl.jit
tl.grad
tl.arange(0, 8)
tl.float32
tl.tensor([1])
tl.no_grad
tl.cpu("0")
tl.nd.array(A)
tl.nd.array(a).copyto(tl.nd.empty((3, 3)))
f(a, a.tolist())
f(a[::2], a)
f(a, a, np.zeros((8, 8), "float64"))
f(a, a, D=3)
f(a, np.ma.masked_array(a, a > 0))
f(a, a, device="cuda")
f((a, a))
f.run(a, a)
f.benchmark(a, a, rep=100)
f.time_evaluator(repeat=0)
f.time_evaluator(f.entry_name, "cuda", number=1)
f.profile(a, a, seconds="x")
f.export("matmul.o", name="my kernel")
tl.load(None)
tl.load("model.engine")
tl.Engine.load(None)
tl.Engine.from_onnx("m.onnx")
engine(a, nothere=a)
engine(a.astype("int32"))
engine(*[a] * 5)
engine.run(None, {"x": a})
engine.bind()
engine.bind(3)
engine.profile(a)["relu"]
engine.export("x.exe")
engine.train()
engine.state_dict()
g.input()
g.input("rows")
g.call(ops.matmul, x, a)
g.call(ops.softmax, x, axis=9)
g.call(ops.relu, x, outputs="y")
g.output([y])
g.constant([[1, 2], [3]])
g.constant(a, 3)
g.rename_dims({"nothere": "q"})
g.specialised(3)
g.with_inputs("nothere")
g.tune("r.jsonl", trials="x")
g.tune("r.jsonl", 1, level=9)
g.compile(profile={"cols": 3})
g.compile(records=3)
g.compile(records=notes)
g.compile(workers=0)
g.compile(workers="x")
g.compile(without=3)
g.compile(hooks=3)
g.compile(outputs="y")
g.compile(outputs=[])
g.run({"x": a})
g.remove(y)
tl.Graph.trace(3)
tl.Graph.trace(lambda x: x)
tl.Graph.load("x")
tl.load_onnx("model.onnx", target="cuda")
tl.load_onnx(None)
tl.register_symbol("x")
tl.set_num_threads(-2)
tl.plan_workspace(3)
tl.Dispatcher.load("nothere.tl")
tl.Schedule(3)
tl.view(s, A)
tl.interpret(s)
tl.interpret(s, [A, B, D], [a, a, 3])
tl.interpret(s, [A, B, D], [a, a, a], untill=3)
ops.relu(a)
ops.add(A, te.placeholder((3, 3)))
ops.matmul(te.placeholder(()), A)
ops.einsum(A, B, "ij,jk->ik")
ops.softmax(A, -3)
ops.conv2d(te.placeholder((1, 3, 8, 8)), te.placeholder((4, 2, 3, 3)))
ops.conv2d(te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3)), padding=-1)
ops.conv2d(te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3)), te.placeholder((5,)))
ops.max_pool2d(te.placeholder((1, 3, 8, 8)), (2, 2, 2))
ops.adaptive_avg_pool2d(te.placeholder((1, 3, 8, 8)), 0)
ops.instance_norm(A)
ops.scaled_dot_product_attention(A)
ops.reshape(A, (-1, 5))
ops.transpose(A, (0, 2))
ops.squeeze(A, axis=7)
ops.flatten(A, 1.5)
ops.tile(A, "x")
ops.stack([])
ops.concat(A, B, 0)
ops.pad(A, "x")
ops.pad(A, 9, mode="reflect")
ops.take(A, 3.5)
ops.scatter_nd(A, I, 3)
ops.where(A, B, te.placeholder((3,)))
ops.arange(0, 8, dtype="x")
ops.eye("x")
ops.cast(A)
ops.sum(A, dim=0)
ops.max(I, axis=1)
ops.cumsum(A, axis=4)
ops.top_k(A)
ops.unique(A, axis=9)
ops.resize(te.placeholder((1, 3, 8, 8)), (4, 4), mode="x")
ops.quantize_linear(A, "x", 0)
ops.gru(A, B, C)
ops.lrn(A)
ops.leaky_relu(A, "x")
ops.bitwise_and(A, B)
ops.depth_to_space(A, 2)
ops.tags.nothere
topi.nn.dense(A, I)
topi.reshape(A, (3,))
topi.matmul(A, B, True, "x")
tir.ir_builder.create().for_range(0, 8)
tir.Select(1, 2)
autosched.SearchTask(dense, {"m": 8})
autosched.SearchTask(dense, (8, 8), template=lambda: 0)
autosched.SearchTask(lambda m, n: A, (8, 8))
autosched.SearchTask.of([A, B, D], limits=3)
autosched.tune(task, 64, "x.json", 3, 4, 5)
autosched.tune(task, trials=-5)
autosched.tune(task, trials=2, batch="x")
autosched.tune(task, trials=2, timeout="x")
autosched.tune(task, trials=2, strategy=3)
autosched.tune(task, trials=2, progress=3)
autosched.tune(task, trials=2, target="llvm")
autosched.tune_tasks()
autosched.tune_tasks([task], trials=2, objective=3)
autosched.tune_dynamic()
autosched.tune_dynamic(dense, {"m": 64})
autosched.ShapeProfile({"m": (-1, 8)})
autosched.ShapeProfile("m=1..8")
log.best("dense")
log.save("x")
autosched.Record()
autosched.autotune(dense, trial=3)
autosched.autotune(configs=[1])
autosched.autotune(dense)(a, "x")
autosched.autotune(dense, records=3)
autosched.compile()
autosched.extract_tasks()
autosched.extract_tasks(a)
autosched.register_workload()
autosched.register_workload("x")(3)
autosched.TasksResult(3)
autosched.SearchTask.tune(task)
autosched.create_task
autosched.measure_option()
autosched.XGBTuner(task)
autosched.task.create("x")
autosched.strategies
task.print_best(folder)
task.compute_dag
task.tensors[9]
task.tensors["A"]
task.build()
bool(A)
A[0] = 3
del A.name
del s.trace
del g.nodes
A()
g["y"]
tl.Target("llvm")["mcpu"]
np.ones((8, 8)) @ A
np.stack([x, y])
max(A, B)
round(A)
A.cuda()
A.block_until_ready()
A.nbytes
A[0, 0].dtypes
C.op.reduce_axis[0].dom.extent.nothere
f.benchmark(a, a, seconds=0)["median"]
from tensorlang import Tensor
from tensorlang import jit
from tensorlang import nothere
from tensorlang.te import nothere
from tensorlang.ops import Conv2D
from tensorlang import language as tl2
from tensorlang.topi import nothere
from tensorlang.nothere import x
import tensorlang.nothere
import tensorlang.language
import tensorlang.relay
from autosched import nothere
from autosched.nothere import x
import autosched.auto_scheduler
""".strip().splitlines()
