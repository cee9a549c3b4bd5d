"""A user's file, README's examples among it: it must pass strict type checkers, with the types that
``assert_type`` names. The upper part is run by the tests too; the functions are only checked."""

from __future__ import annotations

from typing import assert_type

import numpy as np

import autosched
import tensorlang as tl
from tensorlang import te

M = N = K = 32
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
k = te.reduce_axis((0, K), name="k")
C = te.compute((M, N), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
assert_type(C, te.Tensor)

s = te.create_schedule(C.op)
assert_type(s, tl.Schedule)
acc = s.cache_write(C, "local")
assert_type(acc, te.Tensor)
io, jo, ii, ji = s[C].tile(*s[C].op.axis, x_factor=4, y_factor=16)
s[acc].compute_at(s[C], jo)
assert_type(s[acc].op, te.ComputeOp)
i, j = s[acc].op.axis
s[acc].reorder(k, i, j)
for stage, rows, columns in ((acc, i, j), (C, ii, ji)):
    s[stage].unroll(rows)
    s[stage].vectorize(columns)
outer, inner = s[acc].split(k, factor=np.int64(4))
assert_type(outer, te.IterVar)
assert_type(s[acc].split("k.outer", nparts=2), tuple[te.IterVar, te.IterVar])
s[C].parallel(io)
verdict = s.can("vectorize", C, ii)
tree = s.tree()
assert_type(tree, str)
print(tl.lower(s, [A, B, C]))
f = tl.build(s, [A, B, C], name="matmul")
assert_type(f, tl.Module)
a, b = np.random.rand(2, N, N).astype("float32")
np.testing.assert_allclose(f(a, b), a @ b, rtol=1e-4)
assert_type(f.get_source("ir"), str)

n = te.var("n")
m = te.dim("m", 1, 4096, multiple_of=4)
assert_type(m, te.Var)
x = te.placeholder((n, m), name="x")
element = te.sqrt(x[0, 1]) * 2 + 1
assert_type(element, te.Expr)
low, high = te.compute((n,), lambda i: (x[i, 0], te.max(x[i][1], 0)), name="pair")
assert_type(low, te.Tensor)
r = te.reduce_axis((0, m), name="r")
total = te.compute((n,), lambda i: te.sum(x[i, r], axis=r), name="total")
t = te.create_schedule([total.op, low.op])
partial = t.rfactor(total, t[total].split(total.op.reduce_axis[0], factor=16)[1])
assert_type(partial, te.Tensor)
knob = t.sample_tile(total.op.axis[0])
assert_type(knob, te.Var)
assert_type(t.sample_tile(total.op.axis[0], 2), tuple[te.Var, ...])
assert_type(tl.ops.softmax(x), te.Tensor)


def scanned(steps: te.Var) -> te.Tensor:
    state, data = te.placeholder((steps, n)), te.placeholder((steps, n))
    first = te.compute((1, n), lambda _, i: data[0, i])
    update = te.compute((steps, n), lambda t, i: state[t - 1, i] + data[t, i])
    return te.scan(first, update, state, inputs=[data])


def dense(m: int, n: int, k: int) -> list[te.Tensor]:
    X, W = te.placeholder((m, k), name="X"), te.placeholder((k, n), name="W")
    bias = te.placeholder((n,), name="bias")
    r = te.reduce_axis((0, k), name="r")
    product = te.compute((m, n), lambda i, j: te.sum(X[i, r] * W[r, j], axis=r), name="product")
    return [X, W, bias, te.compute((m, n), lambda i, j: te.max(product[i, j] + bias[j], 0.0), name="out")]


def template(s: tl.Schedule, tensors: list[te.Tensor]) -> None:
    out = tensors[-1]
    i, j = s[out].op.axis
    _, inner = s[out].split(j, factor=s.sample_categorical([8, 16], name="width"))
    s[out].vectorize(inner)
    s[out].parallel(i)


@autosched.autotune(trials=64)
def normed(x: te.Tensor) -> te.Tensor:
    r = te.reduce_axis((0, x.shape[1]), name="r")
    total = te.compute((x.shape[0],), lambda i: te.sum(x[i, r] * x[i, r], axis=r), name="total")
    return te.compute(x.shape, lambda i, j: x[i, j] / te.sqrt(total[i]), name="normed")


def tuned() -> None:
    task = autosched.SearchTask(dense, (128, 256, 192), template=template)
    result = autosched.tune(task, trials=64, records="dense.jsonl")
    f = tl.build(*task.apply_best("dense.jsonl"), name="dense")
    assert_type(f, tl.Module)
    result.report().save("dense.html")
    print(normed(np.zeros((100, 300), "float32")), normed.kernel(np.zeros((100, 300), "float32")))
    weights = {"W": np.zeros((192, 256), "float32")}
    q = autosched.tune_dynamic(task, {"m": (1, 128, 512)}, constants=weights)
    assert_type(q, autosched.DynamicKernel)
    with autosched.specialise(q, task, constants=weights):
        print(q(np.zeros((77, 192), "float32")), q.explain(m=77), q.stats())
    q.save("layer.dyn")
