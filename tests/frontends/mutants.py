"""Small ONNX models and what spoils them: bytes, fields of nodes, tensors and declared types.

``mutant(seed)`` is the bytes of one; ``answer`` what becomes of a file. ``python -m tests.frontends.mutants
FIRST COUNT`` prints the mutants that are not answered as they should be, and the files outside their folder
that they reach.
"""

from __future__ import annotations

import functools
import random
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tensorlang as tl
from tensorlang.graph.kernels import Compiler
from tensorlang.graph.to_engine import compiled
from tests.frontends.watched import Den, Watch, limit
from tests.plain import let_pass

THEIRS = ("simple/test_sequence_model3", "pytorch-operator/test_operator_repeat", "simple/test_shrink")
PLACES = (
    "data",
    "",
    ".",
    "..",
    "../secret",
    "link",
    "out/secret",
    "below",
    "pipe",
    "device",
    "circle",
    "m.onnx",
    "/dev/zero",
    "/etc/passwd",
    "/proc/self/mem",
    "below/../../secret",
    "a\0b",
    "x" * 5000,
    "~/x",
    "http://h/x",
)
SHARED = Compiler(cache=False, workers=1)
NUMBERS = (-(2**63), -(10**18), -2, -1, 0, 1, 2, 3, 7, 63, 2**31, 10**9, 10**18, 2**63 - 1)
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


# -- models


def model(
    nodes: Any, inputs: Any, outputs: Any, constants: Any = (), functions: Any = (), opset: int = 18
) -> onnx.ModelProto:
    """Inputs and outputs are (name, type, shape), constants a mapping of arrays."""
    infos = [[helper.make_tensor_value_info(*x) for x in xs] for xs in (inputs, outputs)]
    arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in dict(constants).items()]
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    graph = helper.make_graph(nodes, "g", *infos, arrays)
    return helper.make_model(graph, opset_imports=domains, functions=list(functions))


def _f(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype="float32").reshape(shape) % 5


def _dense() -> onnx.ModelProto:
    n = helper.make_node
    nodes = [
        n("Gemm", ["x", "w", "b"], ["h"], alpha=0.5, transB=1),
        n("Relu", ["h"], ["r"]),
        n("Transpose", ["r"], ["t"], perm=[1, 0]),
        n("MatMul", ["r", "t"], ["m"]),
        n("Softmax", ["m"], ["s"], axis=-1),
        n("Add", ["s", "one"], ["y"]),
    ]
    return model(nodes, [("x", F, ["n", 4])], [("y", F, None)], {"w": _f(3, 4), "b": _f(3), "one": _f(1)})


def _image() -> onnx.ModelProto:
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        n("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"], epsilon=0.1),
        n("MaxPool", ["b"], ["m"], kernel_shape=[2, 2]),
        n("Resize", ["m", "", "scales"], ["z"], mode="nearest"),
        n("Pad", ["z", "pads"], ["p"], mode="constant"),
        n("GlobalAveragePool", ["p"], ["g"]),
        n("Flatten", ["g"], ["y"], axis=1),
    ]
    scales = np.array([1, 1, 2, 2], "float32")
    constants = {
        "w": _f(2, 1, 3, 3),
        "s": _f(2),
        "scales": scales,
        "pads": np.array([0, 0, 1, 0, 0, 0, 1, 0]),
    }
    return model(nodes, [("x", F, [1, 1, 8, "w"])], [("y", F, None)], constants)


def _shapes() -> onnx.ModelProto:
    n = helper.make_node
    nodes = [
        n("Shape", ["x"], ["s"]),
        n("Gather", ["s", "zero"], ["k"], axis=0),
        n("Unsqueeze", ["k", "axes"], ["k1"]),
        n("Concat", ["k1", "rest"], ["target"], axis=0),
        n("Reshape", ["x", "target"], ["r"]),
        n("Slice", ["r", "axes", "rest2", "axes"], ["c"]),
        n("Squeeze", ["c", "last"], ["q"]),
        n("Cast", ["q"], ["i"], to=I),
        n("ConstantOfShape", ["k1"], ["o"], value=numpy_helper.from_array(np.array([7]))),
        n("Tile", ["o", "two"], ["t"]),
        n("Range", ["zero", "four", "one"], ["a"]),
        n("Expand", ["a", "two4"], ["e"]),
    ]
    constants = {
        "zero": np.array(0),
        "axes": np.array([0]),
        "rest": np.array([6, -1]),
        "rest2": np.array([2]),
        "last": np.array([2]),
        "two": np.array([2]),
        "four": np.array(4),
        "one": np.array(1),
        "two4": np.array([2, 4]),
    }
    return model(nodes, [("x", F, ["n", 6])], [("i", I, None), ("t", I, None), ("e", I, None)], constants)


def _picks() -> onnx.ModelProto:
    n = helper.make_node
    nodes = [
        n("TopK", ["x", "k"], ["v", "at"], axis=1),
        n("ReduceSum", ["v", "k"], ["s"], keepdims=0),
        n("Clip", ["s", "low"], ["c"]),
        n("Split", ["x"], ["p", "q"], axis=1, num_outputs=2),
        n("Less", ["p", "q"], ["l"]),
        n("Where", ["l", "p", "q"], ["w"]),
        n("Einsum", ["w", "q"], ["e"], equation="ab,cb->ac"),
        n("ScatterND", ["e", "at0", "u"], ["d"]),
        n("QuantizeLinear", ["d", "low", "z"], ["i8"]),
        n("DequantizeLinear", ["i8", "low", "z"], ["f"]),
        n("OneHot", ["at", "four", "off"], ["h"], axis=-1),
    ]
    constants = {
        "k": np.array([1]),
        "low": np.array(1, "float32"),
        "at0": np.array([[0]]),
        "u": _f(1, 2),
        "z": np.array(0, "int8"),
        "four": np.array(4),
        "off": _f(2),
    }
    return model(nodes, [("x", F, [2, 4])], [("c", F, None), ("f", F, None), ("h", F, None)], constants)


def _branches() -> onnx.ModelProto:
    n, r = helper.make_node, [helper.make_tensor_value_info("r", F, None)]
    then = helper.make_graph([n("Neg", ["x"], ["r"])], "then", [], r)
    other = helper.make_graph([n("ReduceMean", ["x"], ["r"], keepdims=0)], "else", [], r)
    nodes = [n("If", ["c"], ["y"], then_branch=then, else_branch=other), n("Exp", ["y"], ["z"])]
    return model(nodes, [("x", F, [2, 3]), ("c", B, [])], [("z", F, None)])


def _loop() -> onnx.ModelProto:
    n, info = helper.make_node, helper.make_tensor_value_info
    body = helper.make_graph(
        [n("Mul", ["s", "x"], ["t"]), n("Identity", ["go"], ["on"]), n("Abs", ["t"], ["row"])],
        "body",
        [info("i", I, []), info("go", B, []), info("s", F, [3])],
        [info("on", B, []), info("t", F, [3]), info("row", F, [3])],
    )
    nodes = [n("Loop", ["m", "", "x"], ["last", "rows"], body=body)]
    return model(nodes, [("x", F, [3])], [("last", F, None), ("rows", F, None)], {"m": np.array(3)})


def _lstm() -> onnx.ModelProto:
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["y", "h", "c"], hidden_size=2, direction="forward"),
        helper.make_node("Tanh", ["h"], ["z"]),
    ]
    return model(
        nodes, [("x", F, ["t", 1, 3])], [("y", F, None), ("z", F, None)], {"w": _f(1, 8, 3), "r": _f(1, 8, 2)}
    )


def _functions() -> onnx.ModelProto:
    n, domains = helper.make_node, [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    leaky = n("LeakyRelu", ["a"], ["m"])
    leaky.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="alpha")
    inner = helper.make_function(
        "own", "Inner", ["a"], ["b"], [leaky, n("Sqrt", ["m"], ["b"])], domains, ["alpha"]
    )
    outer = helper.make_function(
        "own", "Outer", ["a"], ["b"], [n("Inner", ["a"], ["b"], domain="own", alpha=0.5)], domains
    )
    nodes = [n("Outer", ["x"], ["y"], domain="own"), n("Sigmoid", ["y"], ["z"])]
    return model(nodes, [("x", F, ["n"])], [("z", F, None)], (), [inner, outer])


def _elsewhere() -> onnx.ModelProto:
    """Constants in the file ``data`` of the model's folder, where it has one."""
    n = helper.make_node
    m = model(
        [n("Add", ["x", "w"], ["s"]), n("Mul", ["s", "v"], ["y"])], [("x", F, [2, 3])], [("y", F, None)]
    )
    for name, offset in (("w", 0), ("v", 24)):
        t = m.graph.initializer.add(name=name, data_type=F, dims=[2, 3])
        t.data_location = TensorProto.EXTERNAL
        for key, value in (("location", "data"), ("offset", offset), ("length", 24)):
            t.external_data.add(key=key, value=str(value))
    return m


@functools.cache
def bases() -> tuple[bytes, ...]:
    """All models, as files: those made here and three of onnx's own tests."""
    own = (_dense, _image, _shapes, _picks, _branches, _loop, _lstm, _functions, _elsewhere)
    data = Path(onnx.__file__).parent / "backend/test/data"
    theirs = [(data / name / "model.onnx").read_bytes() for name in THEIRS]
    return (*(f().SerializeToString() for f in own), *theirs)


# -- what spoils them

Change = Callable[[random.Random, onnx.ModelProto], None]


def _graphs(g: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    yield g
    for n in g.node:
        for a in n.attribute:
            if a.HasField("g"):
                yield from _graphs(a.g)


def _bodies(m: onnx.ModelProto) -> list[Any]:
    """All messages with nodes."""
    return [*_graphs(m.graph), *m.functions]


def _node(r: random.Random, m: onnx.ModelProto) -> onnx.NodeProto:
    return r.choice([n for b in _bodies(m) for n in b.node] or [onnx.NodeProto()])


def _name(r: random.Random, m: onnx.ModelProto) -> str:
    names = [x for b in _bodies(m) for n in b.node for x in (*n.input, *n.output)]
    return r.choice([*names, "", "nobody"])


def _inputs(r: random.Random, m: onnx.ModelProto) -> None:
    n = _node(r, m)
    names = n.output if r.random() < 0.25 else n.input
    what = r.randrange(3)
    if what == 0 or not names:
        names.append(_name(r, m))
    elif what == 1:
        names[r.randrange(len(names))] = _name(r, m)
    else:
        del names[r.randrange(len(names))]


def _attribute(r: random.Random, m: onnx.ModelProto) -> None:
    n = r.choice([n for b in _bodies(m) for n in b.node if n.attribute] or [onnx.NodeProto()])
    if not n.attribute:
        return
    k = r.randrange(len(n.attribute))
    a, what = n.attribute[k], r.randrange(4)
    if what == 0:
        del n.attribute[k]
    elif what == 1:
        a.type = r.randrange(15)
    elif what == 2:
        others = [1, -1, 10**18, 0.5, float("nan"), "text", [1, -1], [10**18] * 2, [0.5], ["a", "b"]]
        a.CopyFrom(helper.make_attribute(a.name, r.choice(others)))
    elif a.ints:
        a.ints[r.randrange(len(a.ints))] = r.choice(NUMBERS)
    else:
        a.i = r.choice(NUMBERS)


def _operator(r: random.Random, m: onnx.ModelProto) -> None:
    n = _node(r, m)
    n.op_type = _node(r, m).op_type if r.random() < 0.8 else "Nothing"
    if r.random() < 0.1:
        n.domain = r.choice(["own", "com.microsoft", "ai.onnx.ml", "x"])


def _order(r: random.Random, m: onnx.ModelProto) -> None:
    nodes = r.choice(_bodies(m)).node
    kept = list(nodes)
    what = r.randrange(3)
    if what == 0:
        r.shuffle(kept)
    elif what == 1 and kept:
        kept.pop(r.randrange(len(kept)))
    elif kept:
        kept.append(r.choice(kept))
    copies = [onnx.NodeProto.FromString(n.SerializeToString()) for n in kept]
    del nodes[:]
    nodes.extend(copies)


def _tensor(r: random.Random, m: onnx.ModelProto) -> None:
    found = [t for g in _graphs(m.graph) for t in g.initializer]
    found += [a.t for b in _bodies(m) for n in b.node for a in n.attribute if a.HasField("t")]
    if not found:
        return
    t, what = r.choice(found), r.randrange(6)
    if what == 0:
        t.dims.append(r.choice(NUMBERS))
    elif what == 1 and t.dims:
        t.dims[r.randrange(len(t.dims))] = r.choice(NUMBERS)
    elif what == 2:
        t.data_type = r.choice([*range(28), -1, 99])
    elif what == 3:
        t.raw_data = t.raw_data[: r.randrange(len(t.raw_data) + 1)]
    elif what == 4 and t.data_type == I:  # a number that a shape or an axis is made of
        values = np.frombuffer(t.raw_data[: len(t.raw_data) // 8 * 8], "int64").copy()
        values[r.randrange(len(values) + 1) :][:1] = r.choice(NUMBERS)
        t.raw_data = values.tobytes()
    else:
        t.name = _name(r, m)


def _declared(r: random.Random, m: onnx.ModelProto) -> None:
    v = r.choice([v for g in _graphs(m.graph) for v in (*g.input, *g.output)] or [onnx.ValueInfoProto()])
    what, t = r.randrange(4), v.type.tensor_type
    if what == 0:
        t.elem_type = r.choice([*range(28), -1, 99])
    elif what == 1 and t.shape.dim:
        t.shape.dim[r.randrange(len(t.shape.dim))].dim_value = r.choice(NUMBERS)
    elif what == 2:
        t.shape.dim.add().dim_value = r.choice(NUMBERS)
    else:
        v.name = _name(r, m)


def _version(r: random.Random, m: onnx.ModelProto) -> None:
    if m.opset_import:
        r.choice(m.opset_import).version = r.choice([*NUMBERS, *range(5, 30)])


def _sections(r: random.Random, m: onnx.ModelProto) -> None:
    g = r.choice(list(_graphs(m.graph)))
    part = r.choice([g.input, g.output, g.initializer, m.functions, m.opset_import])
    if part and r.random() < 0.6:
        del part[r.randrange(len(part))]
    elif part:
        part.add().CopyFrom(r.choice(part))


def _file(r: random.Random, m: onnx.ModelProto) -> None:
    """Where the data of a constant is, if not in the model."""
    found = [t for g in _graphs(m.graph) for t in g.initializer]
    if not found:
        return
    t = r.choice([t for t in found if t.external_data] or found)
    t.data_location = r.choice([0, 1, 1, 1, 1])
    what = r.randrange(4)
    key = ("location", "offset", "length", "checksum")[what]
    value = r.choice(PLACES if what == 0 else [*map(str, NUMBERS), "x", "1e3", ""])
    entries = [e for e in t.external_data if e.key == key]
    if entries and r.random() < 0.8:
        entries[0].value = value
    else:
        t.external_data.add(key=key, value=value)


CHANGES: tuple[Change, ...] = (
    *(_inputs, _attribute, _tensor) * 3,
    *(_operator, _order, _declared) * 2,
    _version,
    _sections,
    _file,
)


def _spoiled(r: random.Random, data: bytes) -> bytes:
    """Other bytes, fewer, or more."""
    found, what = bytearray(data), r.randrange(4)
    if what == 0:
        return bytes(found[: r.randrange(len(found))])
    if what == 1:
        at = r.randrange(len(found))
        found[at:at] = r.randbytes(r.randrange(1, 9))
        return bytes(found)
    for _ in range(r.randrange(1, 6)):
        found[r.randrange(len(found))] = r.randrange(256)
    return bytes(found)


def mutant(seed: int) -> bytes:
    """A model with one to three things wrong (most often: some changes leave a right model)."""
    r = random.Random(seed)
    data = r.choice(bases())
    if r.random() < 0.3:
        return _spoiled(r, data)
    m = onnx.ModelProto.FromString(data)
    changes = (
        (_file,)
        if m.graph.initializer and m.graph.initializer[0].external_data and r.random() < 0.8
        else CHANGES
    )
    for _ in range(r.choice([1, 1, 2, 3])):
        r.choice(changes)(r, m)
    return m.SerializeToString()


def answer(source: Any, level: int = 0) -> str:
    """The error of a file, "" when it is a model. Raises what is no error of ours."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compiled(tl.load_onnx(source), SHARED, level)
    except tl.TensorLangError as e:
        return str(e)
    return ""


def main(first: int, count: int) -> None:
    let_pass()
    for data in bases():  # what is imported and read once is read before anyone watches
        answer(data, 2)
    den, right = Den(), 0
    watch = Watch([den.folder])
    limit(16)
    for seed in range(first, first + count):
        begin = time.perf_counter()
        path = den.model(mutant(seed))
        try:
            with watch:
                right += not answer(path, 2 * (seed % 2))
        except Exception as e:
            frame = traceback.extract_tb(e.__traceback__)[-1]
            print(
                f"{seed}: {type(e).__name__}: {str(e)[:200]} at {frame.filename[-40:]}:{frame.lineno}",
                flush=True,
            )
        for stray in watch.strays:
            print(f"{seed}: touched {stray}", flush=True)
        took = time.perf_counter() - begin
        if took > 5:
            print(f"{seed}: {took:.1f} s", flush=True)
    den.end()
    print(f"{count} mutants, {right} of them still models")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
