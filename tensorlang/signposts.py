"""Where TVM's names went: a table for each module and class of ours that people look them up in, from the
name to what is there instead, after the reason and a semicolon where there is one. Text only."""

from __future__ import annotations

_GPU = "kernels run on the CPU; tl.cpu(), the one device"
# kinds of targets, and rooms, of those who have them
GPUS = ("cuda", "gpu", "nvptx", "rocm", "hip", "vulkan", "metal", "opencl", "webgpu", "mali")
_RELAY = "TVM's graphs; tl.load_onnx('model.onnx'), or tl.Graph() by hand"
_AUTO = "a package of its own, autosched; autosched.SearchTask, autosched.register_workload, autosched.tune"
_TIR = "TVM's TIR; te.compute declares, s[T] schedules, tl.lower(s, args) is the loop IR"
_BY_HAND = "there are no programs of a GPU; te.compute declares, s[T] schedules"
_ARRAYS = "kernels take numpy arrays; np.zeros, np.ones"
_RPC = "measuring elsewhere is done by a Dask cluster; autosched.tune(task, measurer=…)"

PACKAGE = {
    "jit": "te.compute declares, tl.compile([A, B]) makes the kernel",
    "njit": "te.compute declares, tl.compile([A, B]) makes the kernel",
    "vmap": "te.compute declares every axis",
    "grad": "derivatives are not made; torch.compile(model, backend='tensorlang') trains by torch's",
    "no_grad": "derivatives are not made; f(a, b)",
    "Config": "schedules are searched; autosched.tune(task, trials=64)",
    "program_id": _BY_HAND,
    "language": _BY_HAND,
    "store": _BY_HAND,
    "constexpr": "sizes are numbers, or te.dim('n')",
    "cdiv": "te.ceildiv(a, b)",
    "dot": "ops.matmul(A, B)",
    "matmul": "ops.matmul(A, B)",
    "float32": "dtypes are text; 'float32'",
    "float16": "dtypes are text; 'float16'",
    "bfloat16": "dtypes are text; 'bfloat16'",
    "float64": "dtypes are text; 'float64'",
    "int32": "dtypes are text; 'int32'",
    "int64": "dtypes are text; 'int64'",
    "int8": "dtypes are text; 'int8'",
    "zeros": _ARRAYS,
    "ones": _ARRAYS,
    "empty": "kernels take numpy arrays; tl.nd.empty(shape)",
    "array": "kernels take numpy arrays; tl.nd.array(x)",
    "asarray": "kernels take numpy arrays; np.asarray(x)",
    "arange": "kernels take numpy arrays; np.arange, or ops.arange in a computation",
    "tensor": "te.placeholder declares a tensor; kernels take numpy arrays",
    "Tensor": "te.placeholder declares a te.Tensor",
    "Buffer": "te.decl_buffer(shape, dtype)",
    "Var": "te.var('n')",
    "Func": "te.compute(shape, lambda i, j: …)",
    "function": "te.compute(shape, lambda i, j: …)",
    "manual_seed": "random choices are the search's; autosched.tune(task, seed=0)",
    "extern": "te.extern",
    "decl_buffer": "te.decl_buffer",
    "var": "te.var",
    "sum": "te.sum, ops.sum",
    "reduce_axis": "te.reduce_axis",
    "thread_axis": "there are no threads of a GPU; s[T].parallel(axis), s[T].vectorize(axis)",
    "convert": "kernels take numpy arrays; te.const(3) for a number",
    "const": "te.const",
    "support": "python -m tensorlang doctor says what is here",
    "get_include": "f.export('kernel.o') writes a C header beside it",
    "version": "tl.__version__",
    "create_target": "tl.Target('llvm -mcpu=…')",
    "build_config": "tl.build(s, args, target=…, math=…, bounds_check=…)",
    "PassContext": "tl.build(s, args, target=…, math=…, bounds_check=…)",
    "InferenceSession": "g = tl.load_onnx('model.onnx'), then g.compile()",
    "Session": "g = tl.load_onnx('model.onnx'), then g.compile()",
    "from_onnx": "tl.load_onnx('model.onnx')",
    "export": "f.export('kernel.o')",
    "auto_scheduler": _AUTO,
    "autotvm": "templates are functions: autosched.SearchTask(f, sizes, template=g), s.sample_tile(loop)",
    "meta_schedule": _AUTO,
    "relay": _RELAY,
    "relax": _RELAY,
    "IRModule": "there is one kernel of loop IR; tl.lower(s, args), and tl.build of that",
    "ir": "expressions are te.Expr; tl.lower(s, args) is loop IR",
    "contrib": "libraries are not wrapped; te.extern calls a C function or Python",
    "driver": "tl.lower, tl.build",
    "script": _TIR,
    "transform": "passes are listed by python -m tensorlang passes; tl.lower(s, args, hooks=…)",
    "rpc": _RPC,
    "micro": "other targets get object files; f.export('kernel.o') with a C header",
    "instrument": "tl.TimeTable() for the compiler, f.profile(a, b) for a kernel",
    "gpu": _GPU,
    "cuda": _GPU,
    "metal": _GPU,
    "opencl": _GPU,
    "vulkan": _GPU,
    "rocm": _GPU,
    "context": "the one device; tl.cpu()",
    "ndarray": "kernels take numpy arrays; tl.nd.array(x)",
    "register_extern": "tl.register_symbol, tl.register_func",
    "get_global_func": "Python functions are made known by tl.register_func",
    "save": "f.save(path)",
    "evaluate": "f.benchmark(a, b)",
    "create_prim_func": _TIR,
    "placeholder": "te.placeholder",
    "compute": "te.compute",
    "autotune": "autosched.autotune",
    "tune": "autosched.tune",
    "SearchTask": "autosched.SearchTask",
}

TE = {
    "thread_axis": "there are no threads of a GPU; s[T].parallel(axis), s[T].vectorize(axis) take axes",
    "create_prim_func": _TIR,
    "extern_primfunc": "TVM's TIR; te.extern takes a Python callback or a C symbol",
    "gradient": "derivatives are not made; declare the backward computation with te.compute",
    "hybrid": "TVM's hybrid script; te.compute, or te.loops(…) of a te.loop_program, loops by hand",
    "trace": "TVM's tracing; tl.build(…, bounds_check=True) reports accesses out of bounds",
    "SpecializedCondition": "te.dim('n', 1, 4096, multiple_of=4)",
    "gemm": "ops.matmul(A, B)",
    "dot": "ops.matmul(A, B)",
    "mean": "ops.mean, or te.sum divided by the size",
    "avg": "ops.mean, or te.sum divided by the size",
    "lower": "tl.lower(s, args)",
    "build": "tl.build(s, args)",
    "floordiv_mod": "te.floordiv, te.floormod",
    "clip": "te.max(te.min(x, hi), lo), or ops.clip of tensors",
    "argmax": "ops.argmax, or te.comm_reducer of pairs",
    "argmin": "ops.argmin, or te.comm_reducer of pairs",
    "pad": "te.if_then_else(inside, A[i], 0), or ops.pad",
    "Schedule": "te.create_schedule(C.op)",
    "array": "te.placeholder(shape, dtype, name=…)",
    "where": "te.if_then_else(cond, a, b), te.select(cond, a, b), or ops.where of tensors",
}

TOPI = {
    "cuda": "operators of GPUs; topi.generic has the schedules of CPUs",
    "x86": "schedules by hand; topi.generic takes the default schedule, autosched searches for one",
    "testing": "TVM's numpy references; te.reference.evaluate(T, {x: array})[0] is any tensor by numpy",
    "tag": "ops.tags",
    "sparse": "te.compute sums over rows of a CSR matrix: te.reduce_axis((indptr[i], indptr[i + 1]))",
    "image": "ops.resize(x, shape, mode)",
    "vision": "te.loops declares detection, such as te.loop_program of NMS",
}

_LOOPS = "pointers and stores of TVM's IR builder; te.loops(…) runs a te.loop_program, which is loops by hand"
BUILDER = dict.fromkeys(("buffer_ptr", "for_range", "if_scope", "allocate", "pointer", "while_loop"), _LOOPS)

ND = {
    "gpu": _GPU,
    "cuda": _GPU,
    "sparse": "a CSR matrix is three arrays; kernels take them",
    "arange": "kernels take numpy arrays; np.arange",
    "zeros": "kernels take numpy arrays; np.zeros",
    "ones": "kernels take numpy arrays; np.ones",
    "from_dlpack": "kernels take whatever speaks DLPack as it is",
}

TIR = {
    "PrimFunc": _TIR,
    "Schedule": "te.create_schedule(C.op)",
    "For": _TIR,
    "Block": _TIR,
    "transform": "passes are not written by hand; python -m tensorlang passes",
    "analysis": "tensorlang.analysis",
    "stmt_functor": _TIR,
    "call_intrin": "the functions of te, or te.call_pure_extern of a C function",
    "Cast": "x.astype(dtype)",
    "Any": "te.var('n'), a size that is not known",
    "Broadcast": "the schedule makes vectors; s[T].vectorize(axis)",
    "Ramp": "the schedule makes vectors; s[T].vectorize(axis)",
    "generic": "x.astype(dtype), and Python's operators",
}

SCHEDULE = {
    "print_tree": "print(s.tree())",
    "merge": "a schedule only grows; s.replay(trace) makes the calls of another",
    "create_group": "stages move one by one; s[T].compute_at(s[C], axis) for each of them",
    "groups": "stages move one by one; s[T].compute_at(s[C], axis) for each of them",
    "stage_map": "s[T], s.stages",
    "op_list": "s.stages, or T.op of a tensor",
    "op2stage_cache_": "s[T], s.stages",
    "view": "tl.view(s, args), .save('view.html') of it",
    "svg": "a notebook draws s as it is; tl.view(s, args) is a page",
    "undo": "a schedule only grows; s.copy() before the call",
    "get_block": "a stage is found by its tensor; s[T]",
    "get_loops": "s[T].op.axis, s[T].leaf_iter_vars",
    "mod": "tl.lower(s, args)",
    "print": "print(s.tree())",
    "show": "print(s.tree())",
    "split": "s[T].split(axis, factor=8)",
    "tile": "s[T].tile(i, j, 8, 8)",
    "fuse": "s[T].fuse(i, j)",
    "reorder": "s[T].reorder(i, j)",
    "vectorize": "s[T].vectorize(axis)",
    "parallel": "s[T].parallel(axis)",
    "unroll": "s[T].unroll(axis)",
    "compute_at": "s[P].compute_at(s[C], axis)",
    "compute_inline": "s[P].compute_inline()",
}

STAGE = {
    "env_threads": "there are no threads of a GPU; s[T].parallel(axis)",
    "set_store_predicate": "tails are part of the split; s[T].split(axis, factor=8, tail='mask')",
    "store_predicate": "tails are part of the split; s[T].split(axis, factor=8, tail='mask')",
    "rolling_buffer": "a ring of rows is kept by s[P].store_at(s[C], outer) with compute_at further in",
    "origin_op": "s[T].op",
    "group": "stages move one by one; s[T].compute_at(s[C], axis) for each of them",
    "num_child_stages": "there are no groups of stages; s.stages",
    "scope": "s[T].set_scope('local') sets it, print(s.tree()) shows it",
    "attach_type": "where a stage stands is in the tree; print(s.tree()), s.legal_places(T)",
    "attach_ivar": "where a stage stands is in the tree; print(s.tree()), s.legal_places(T)",
    "attach_stage": "where a stage stands is in the tree; print(s.tree()), s.legal_places(T)",
    "relations": "the calls that made the loops are in the trace; print(s.trace)",
    "iter_var_attrs": "what is said of loops is in the tree; print(s.tree())",
    "is_output": "s.outputs",
    "split_by_nparts": "s[T].split(axis, nparts=4)",
    "split_by_factor": "s[T].split(axis, factor=8)",
    "compute_with": "loops of stages are not merged; s[P].compute_at(s[C], axis)",
    "axis": "s[T].op.axis",
    "reduce_axis": "s[T].op.reduce_axis",
    "cache_write": "s.cache_write(T, 'local')",
    "cache_read": "s.cache_read(T, 'local', [reader])",
    "rfactor": "s.rfactor(T, loop)",
    "buffer_bind": "tl.build(s, args, binds={T: te.decl_buffer(…)})",
}

_METHODS = (
    *(
        "mean",
        "sum",
        "prod",
        "max",
        "min",
        "argmax",
        "argmin",
        "std",
        "var",
        "cumsum",
        "cumprod",
        "transpose",
    ),
    *(
        "reshape",
        "flatten",
        "squeeze",
        "clip",
        "round",
        "sort",
        "argsort",
        "take",
        "gather",
        "matmul",
        "relu",
    ),
    *("exp", "log", "sqrt", "tanh", "sigmoid", "softmax"),
)
_NO_ELEMENTS = "a tensor is a declaration; kernels make arrays: tl.compile([A, B])(a)"
_NO_DEVICE = (
    "a tensor is a declaration, with no device or gradient; kernels make arrays: tl.compile([A, B])(a)"
)
TENSOR = {
    **dict.fromkeys(("tolist", "item", "fill", "nbytes", "at", "data", "block_until_ready"), _NO_ELEMENTS),
    **dict.fromkeys(("to", "cuda", "cpu", "detach", "requires_grad", "backward", "grad"), _NO_DEVICE),
    "strides": "te.placeholder(shape, strides='any') takes arrays of any strides",
    **{n: f"what arrays do by methods, functions do; ops.{n}(x, …)" for n in _METHODS},
    "T": "ops.transpose(x)",
    "permute": "ops.transpose(x, axes)",
    "unsqueeze": "ops.expand_dims(x, axis)",
    "view": "ops.reshape(x, shape)",
    "tree": "a schedule has a tree; s = te.create_schedule(x), s.tree()",
    "numpy": "a tensor is a declaration; kernels make arrays: tl.compile([A, B])(a)",
    "asnumpy": "a tensor is a declaration; kernels make arrays: tl.compile([A, B])(a)",
    "axis": "C.op.axis",
    "reduce_axis": "C.op.reduce_axis",
    "size": "C.shape",
}

MODULE = {
    "launch": "a kernel is a function; f(a, b)",
    "realize": "a kernel is a function; f(a, b)",
    "get_function": "a kernel is a function; f(a, b)",
    "load": "tl.load('kernel.tl')",
    "threads": "tl.set_num_threads(2)",
    "evaluate": "f.benchmark(a, b)",
    "imported_modules": "f.get_source('asm')",
    "time": "f.benchmark(a, b)",
    "asm": "f.get_source('asm')",
    "ir": "f.get_source('ir')",
    "llvm": "f.get_source('ll')",
    "run": "a kernel is a function; f(a, b)",
    "entry_func": "a kernel is a function; f(a, b)",
    "set_input": "arrays are arguments; f(a, b)",
    "get_output": "a kernel returns its output; f(a, b)",
    "source": "f.get_source('ir')",
    "roofline": "f.view() is a page with the roofline; f.view().save('view.html')",
    "report": "f.view().save('view.html'), f.explain()",
    "why": "f.explain()",
    "flops": "operations are counted of a task; autosched.SearchTask.of([x, y]).flops",
    "tune": "a computation is tuned; autosched.tune(autosched.SearchTask.of([x, y]))",
}

_ONE = "an engine is a function; engine(a), or engine.run({'x': a}) by names"
MAKES_ENGINES = "g.compile() of a tl.Graph or tl.load_onnx(path), tl.Engine.load(path)"
ENGINE = {
    "tune": "kernels are tuned before; g.tune('model.jsonl'), then g.compile(records='model.jsonl')",
    "view": "engine.report('model.html', x)",
    **dict.fromkeys(("roofline", "flops"), "engine.profile(x) has the time of each kernel, and GB/s"),
    "cpu": "an engine runs on the processor; engine(a)",
    "half": "what is exported in float16 is computed so; engine(a)",
    "compile": "an engine is compiled; engine(a)",
    "state_dict": "weights are in the engine; g.constants of the graph",
    "warmup": "an engine is compiled before its first call; engine(a)",
    "graph": "engine.explain(), or the graph that it was compiled from",
    "train": "an engine computes what was exported; engine(a)",
    "forward": _ONE,
    "predict": _ONE,
    "infer": _ONE,
    "execute": _ONE,
    "invoke": _ONE,
    "evaluate": "engine.benchmark(a), engine.profile(a)",
    "time": "engine.benchmark(a)",
    "time_evaluator": "engine.benchmark(a)",
    "inputs": "repr(engine) names them",
    "outputs": "engine.output_names",
    "input_names": "repr(engine) names them",
    "get_inputs": "repr(engine) names them",
    "get_outputs": "engine.output_names",
    "set_input": "arrays are arguments; engine(a)",
    "get_output": "outputs are returned; engine(a)",
    "get_source": "an engine has machine code only; f.get_source('asm') of a tl.compile",
    "dump": "engine.save('model.engine')",
    "export_library": "engine.export('model.o') for C, engine.save('model.engine') for Python",
    "to": _GPU,
    "cuda": _GPU,
    "eval": "an engine computes what was exported; engine(a)",
}

TORCH = {
    "compile": "torch.compile(model, backend='tensorlang')",
    "export": "torch.export.export(model, args), and tl.load_torch of that",
    "load": "tl.load_torch(torch.export.export(model, args))",
    "script": "torch.export.export(model, args), and tl.load_torch of that",
    "trace": "torch.export.export(model, args), and tl.load_torch of that",
}

# of rooms that have nothing else to say
ROOMS = {
    "te.schedule": {
        "ScheduleOps": "loops are made in one step; tl.lower(s, args)",
        **dict.fromkeys(("SchedulePostProcToPrimFunc", "VerifyCompactBuffer"), "tl.lower(s, args)"),
    },
    "topi.nn": {"dilate": "te.compute(shape, lambda i: te.if_then_else(i % 2 == 0, A[i // 2], 0.0))"},
    "topi.utils": {
        "const_matrix": "constants={M: array} of tl.build, for a te.placeholder M",
        "traverse_inline": "recipes inline what is elementwise; tl.compile(args), or s[T].compute_inline()",
        "simplify": "expressions are simplified as they are made; the expression itself",
    },
    "tl.target": {
        **dict.fromkeys(("cuda", "rocm", "vulkan", "metal", "opencl", "intel_graphics", "mali"), _GPU),
        **dict.fromkeys(("create", "x86"), "tl.Target('llvm -mcpu=…')"),
        "generic": "tl.Target('llvm')",
        "arm_cpu": "tl.Target('llvm -mtriple=aarch64-linux-gnu')",
        "riscv_cpu": "tl.Target('llvm -mtriple=riscv64-linux-gnu')",
    },
    "tl.runtime": {
        "load_module": "tl.load('kernel.tl')",
        "enabled": _GPU,
        "vm": _RELAY,
        "cpu": "tl.cpu()",
        "device": "tl.device('cpu')",
        "ndarray": "tl.nd.array(x)",
    },
}

# what others call an argument, and what it may be called here
ARGUMENTS = {
    "num_measure_trials": "trials",
    "n_trial": "trials",
    "n_trials": "trials",
    "max_trials": "trials",
    "max_trials_global": "trials",
    "num_trials": "trials",
    "num_measures_per_round": "batch",
    "num_trials_per_iter": "batch",
    "early_stopping": "patience",
    "verbose": "progress",
    "verbosity": "progress",
    "log_file": "records",
    "measure_callbacks": "records",
    "database": "records",
    "work_dir": "records",
    "search_policy": "strategy",
    "tuner": "strategy",
    "cost_model": "model",
    "program_cost_model": "model",
    "builder": "measurer",
    "runner": "measurer",
    "time_limit": "seconds",
    "time": "seconds",
    "time_budget": "seconds",
    "workload": "func, task",
    "task_weights": "weights",
    "output": "out, outputs",
    "params": "constants",
    "dim": "axis, axes",
    "dims": "axes, axis",
    "keepdim": "keepdims",
    "stride": "strides",
    "strides": "stride",
    "pad": "padding",
    "input": "x, data",
    "other": "y",
}

# how one comes by what an argument must be, by how errors call it
MADE = {"a SearchTask": "autosched.SearchTask.of([A, B, C]), or autosched.SearchTask(function, sizes)"}

# what Python's syntax asks of an object in vain → what there is; "pickle": how objects are kept instead
INSTEAD: dict[str, dict[str, str]] = {
    "Schedule": {
        "__len__": "len(s.stages)",
        "__call__": "f = tl.build(s, [A, B, C]), then f(a, b)",
        "pickle": "its trace, as JSON: tl.Trace.from_json(text).apply(s) replays it",
    },
    "Stage": {"__getitem__": "s[C].op.axis[0]"},
    "Record": {"__call__": "task.apply_best(records)"},
    "RecordLog": {"__call__": "task.apply_best(records), with log.path for a file"},
    "ShapeProfile": {"__call__": "autosched.tune_dynamic(task, profile)"},
    "TasksResult": {"__call__": "task.apply_best(records), of each task"},
    "Timing": {"__call__": "f.benchmark(a, b), which gave it; timing.median is in seconds"},
    "Profile": {"__call__": "f.profile(a, b), which gave it"},
    "SearchTask": {"__call__": "autosched.tune(task, trials=64)"},
    "TuneResult": {"__call__": "f = tl.build(result.schedule, result.tensors), then f(a, b)"},
    "Trace": {"__call__": "trace.apply(s) of trace = s.trace"},
    "Module": {
        "__getitem__": "f(a, b), the one kernel that it is; f(a, b)[0], of its result",
        "__len__": "len(f(a, b)), of its result",
    },
    "Engine": {"__getitem__": "engine(x)[0], of its result", "pickle": "engine.save(path) and its load"},
    "Var": {"pickle": "te.serialize.to_json(tensors)"},
    "Operation": {"pickle": "te.serialize.to_json(tensors)", "__getitem__": "op.output(0)[i, j]"},
    "Tensor": {"pickle": "te.serialize.to_json([A, B])"},
    "IterVar": {"pickle": "te.serialize.to_json(tensors)", "__getitem__": "an axis is an index: A[i]"},
}

_LOAD_TRACE = "text is kept by whoever wants it; tl.Trace.from_json(open(path).read())"
_SAVE = "text is kept by whoever wants it; open(path, 'w').write(t.to_json()) of t = s.trace"
# what people look up in a class itself
OF_CLASS: dict[str, dict[str, str]] = {
    "Trace": {
        "load": _LOAD_TRACE,
        "loads": "tl.Trace.from_json(text)",
        "from_file": _LOAD_TRACE,
        "save": _SAVE,
        "dump": _SAVE,
        "dumps": "t.to_json() of t = s.trace",
    },
    "Engine": {
        "from_onnx": "g = tl.load_onnx('model.onnx'), then g.compile()",
        "from_torch": "g = tl.load_torch(torch.export.export(model, args)), then g.compile()",
        "create": MAKES_ENGINES,
    },
    "Graph": {
        "load": "tl.load_onnx('model.onnx'), tl.load_torch(program), tl.Engine.load('model.engine')",
        "from_onnx": "tl.load_onnx('model.onnx')",
        "from_torch": "tl.load_torch(torch.export.export(model, args))",
    },
    "Module": {"load": "tl.load('kernel.tl')"},
    "SearchTask": {
        "tune": "autosched.tune(task, trials=64)",
        "create": "autosched.SearchTask(function, sizes)",
    },
    "RecordLog": {"load": "autosched.RecordLog(path)", "save": "what is appended is in the file already"},
    "Schedule": {"create": "te.create_schedule(C.op)"},
}

_MADE_ANEW = "te.placeholder(shape, dtype, name=…) declares it"
# what people assign to, and what there is instead
SET = {
    "trials": "autosched.tune(task, trials=64)",
    "threads": "tl.set_num_threads(2)",
    "num_threads": "tl.set_num_threads(2)",
    "target": "the argument target=, or a block of with tl.Target('llvm -mcpu=…'):",
    "num_cores": "tl.Target('llvm -num-cores=4')",
    "level": "g.compile(level=1)",
    "name": "the argument name= where it is declared or built",
    "shape": f"{_MADE_ANEW}; ops.reshape(x, shape) of what is computed",
    "dtype": f"{_MADE_ANEW}; x.astype(dtype) of what is computed",
    "args": "autosched.SearchTask(function, sizes)",
    "path": "autosched.RecordLog(path)",
    "parallel": "s[T].parallel(axis)",
    "vectorize": "s[T].vectorize(axis)",
    "unroll": "s[T].unroll(axis)",
    "trace": "s.replay(trace)",
    "outputs": "te.create_schedule([C, D]), g.output(value, name)",
}

TARGET = {
    "create": "tl.Target('llvm -mcpu=…')",
    "from_device": "tl.Target.host()",
    "list_kinds": "llvm is the one kind; tl.Target('llvm')",
    "with_host": "tl.Target('llvm -mcpu=…')",
    "keys": "print(target)",
    "max_num_threads": "target.num_cores",
    "cuda": _GPU,
}
GRAPH = {
    **dict.fromkeys(("run", "forward", "eval", "predict"), "engine = g.compile(), then engine(a)"),
    "save": "g.compile().save('model.engine')",
    "add_node": "g.call(ops.relu, x)",
    "add": "g.call(ops.add, x, y)",
    "remove": "g.subgraph(inputs, outputs) of what is to stay",
    "summary": "print(g)",
    "optimize": "compile optimises; g.compile(level=2)",
    "simplify": "compile simplifies; g.compile(level=2)",
    "benchmark": "g.compile().benchmark(a)",
}
_TEXT = "print(tl.lower(s, args)), str of it"
FUNC = {
    **dict.fromkeys(("astext", "script", "show", "save"), _TEXT),
    "functions": "a Func is one kernel; tl.build(func)",
}
