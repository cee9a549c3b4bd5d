"""Random graphs of random operators, of open and odd sizes, and what te.reference says they compute."""

from __future__ import annotations

import numpy as np

from tensorlang import ops, te
from tensorlang.expr.nodes import Expr, Var, const_int
from tensorlang.graph import Graph
from tensorlang.graph.sizes import function

KINDS = ("float32", "float32", "float32", "int32", "float64")


def random_graph(seed, size):
    """A graph of about ``size`` operators and arrays for its inputs."""
    return _Random(seed).graph(size)


class _Random:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.g = Graph(f"random{seed}")
        self.kind = str(self.rng.choice(KINDS))
        self.dims = {te.dim(n, 1, 64): int(self.rng.integers(1, 12)) for n in ("n", "w")}
        self.values = []
        self.fixed = []

    def graph(self, size):
        for i in range(int(self.rng.integers(1, 3))):
            self.values.append(self.g.input(self.shape(), self.kind, f"x{i}"))
        steps = [self.unary, self.unary, self.binary, self.binary, self.places, self.again, self.constants]
        steps += [self.reduction, self.rows, self.product, self.product, self.joined]
        while len(self.g.nodes) < size:
            step = steps[self.rng.integers(len(steps))]
            for v in step() or ():
                self.values.append(v)
        read = {v for n in self.g.nodes for v in n.reads}
        for v in [v for v in self.values if v not in read and v.node is not None][:3] or [self.values[-1]]:
            self.g.output(v)
        if self.rng.random() < 0.2:
            self.g.output(self.pick())
        return self.g, [self.array([self.number(n) for n in v.shape]) for v in self.g.inputs]

    # -- parts

    def number(self, n):
        return const_int(n) if const_int(n) is not None else self.dims[n]

    def size(self):
        return int(self.rng.choice([1, 2, 3, 4, 5, 8, 16, 17]))

    def shape(self):
        n, w = self.dims
        form = self.rng.integers(4)
        if form == 0:
            return (n, self.size())
        if form == 1:
            return (n, self.size(), w)
        return (1, self.size(), self.size(), w) if form == 2 else (n, 4, 5, 7)

    def array(self, shape):
        return self.rng.integers(-2, 3, shape).astype(self.kind)

    def constant(self, shape):
        return self.g.constant(self.array(shape))

    def pick(self):
        return self.values[self.rng.integers(max(0, len(self.values) - 6), len(self.values))]

    def call(self, fn, *args, **attrs):
        return [self.g.call(fn, *args, **attrs)]

    def small(self, v):
        """Kept from growing: whole numbers stay exact."""
        return self.g.call(ops.clip, v, min=-4, max=4)

    def alike(self, x):
        """The values of its shape."""
        return [v for v in self.values if list(map(id, v.shape)) == list(map(id, x.shape))]

    # -- steps

    def unary(self):
        names = ["relu", "negative", "abs"] + ["sigmoid", "tanh"] * (self.kind != "int32")
        return self.call(getattr(ops, str(self.rng.choice(names))), self.pick())

    def binary(self):
        fn = getattr(ops, str(self.rng.choice(["add", "multiply", "subtract", "maximum"])))
        x = self.pick()
        alike = self.alike(x)
        if self.rng.random() < 0.5:
            return self.call(fn, self.small(x), alike[self.rng.integers(len(alike))])
        shape = [const_int(n) if const_int(n) and self.rng.random() < 0.6 else 1 for n in x.shape]
        return self.call(fn, self.small(x), self.constant(shape))

    def places(self):
        x = self.pick()
        form = self.rng.integers(5)
        if form == 0:
            return self.call(ops.transpose, x, axes=[int(i) for i in self.rng.permutation(x.ndim)])
        if form == 1:
            return self.call(ops.reshape, x, shape=list(x.shape))
        if form == 2:
            return self.call(ops.expand_dims, x, axis=0) if x.ndim < 4 else None
        if form == 3 and (const_int(x.shape[1]) or 0) > 2:
            return self.call(ops.strided_slice, x, begin=[1], end=[const_int(x.shape[1])], axes=[1])
        return self.call(ops.reshape, x, shape=[x.shape[0], -1])

    def again(self):
        """An operator that is there already, once more."""
        if not self.g.nodes:
            return None
        n = self.g.nodes[self.rng.integers(len(self.g.nodes))]
        return self.call(n.fn, *n.inputs, op=n.op, **n.attrs) if len(n.outputs) == 1 else None

    def constants(self):
        x = self.pick()
        sizes = [const_int(n) or 1 for n in x.shape]
        c = self.g.call(ops.add, self.constant(sizes), self.constant([1]))
        return self.call(ops.multiply, self.small(x), self.g.call(ops.relu, c))

    def reduction(self):
        x = self.pick()
        axes = sorted({int(a) for a in self.rng.integers(0, x.ndim, 2)})
        fn = getattr(ops, str(self.rng.choice(["max", "min"])))
        return self.call(fn, x, axis=tuple(axes), keepdims=True)

    def rows(self):
        if self.kind == "int32":
            return None
        x = self.pick()
        form = self.rng.integers(2)
        if form == 0:
            return self.call(ops.softmax, self.small(x), axis=-1)
        mean = self.g.call(ops.mean, x, axis=-1, keepdims=True)
        return self.call(ops.subtract, x, mean)

    def product(self):
        x = self.pick()
        channels = const_int(x.shape[1]) if x.ndim > 1 else None
        out = self.size()
        if x.ndim == 4 and channels:
            k = int(self.rng.choice([1, 3]))
            b = self.constant([out]) if self.rng.random() < 0.5 else None
            y = self.g.call(
                ops.conv2d, self.small(x), self.constant([out, channels, k, k]), b, padding=k // 2
            )
            shape = (out, 1, 1)
        elif const_int(x.shape[-1]):
            y = self.g.call(ops.matmul, self.small(x), self.constant([const_int(x.shape[-1]), out]))
            shape = (out,)
        else:
            return None
        if self.rng.random() < 0.5:
            y = self.g.call(ops.multiply, y, self.constant(shape))
        return [self.g.call(ops.add, y, self.constant(shape))]

    def joined(self):
        x = self.pick()
        alike = self.alike(x)
        y = alike[self.rng.integers(len(alike))]
        return (
            [self.g.call(lambda a, b: ops.concatenate([a, b], 1), x, y, op="concat")] if x.ndim > 1 else None
        )


def reference(graph, arrays):
    """The outputs of a graph, node by node by numpy."""
    found = dict(zip(graph.inputs, arrays, strict=True))
    for n in graph.nodes:
        for v in n.reads:
            if v.data is not None:
                found[v] = v.data
        tensors = [None if v is None else te.placeholder(found[v].shape, v.dtype) for v in n.inputs]
        dims = {
            d: s
            for v, a in zip(graph.inputs, arrays, strict=True)
            for d, s in zip(v.shape, a.shape, strict=True)
            if isinstance(d, Var)
        }
        made = n.fn(*tensors, **{k: _numbers(x, dims) for k, x in n.attrs.items()})
        results = list(made) if isinstance(made, tuple | list) else [made]
        given = {t: found[v] for t, v in zip(tensors, n.inputs, strict=True) if t is not None}
        found.update(zip(n.outputs, te.reference.evaluate(results, given), strict=True))
    return [found[v] if v.data is None else v.data for v in graph.outputs]


def _numbers(x, dims):
    """An attribute with numbers for sizes."""
    if isinstance(x, list | tuple):
        return type(x)(_numbers(y, dims) for y in x)
    return function([x], list(dims))(*dims.values())[0] if isinstance(x, Expr) else x
