"""Torch's own samples (OpInfo) for the operators of the table: our te, evaluated by the numpy reference, beside eager.
The default run takes the first samples of some operators, ``-m fuzz`` all operators and types."""

from __future__ import annotations

import itertools
import operator
from collections import Counter

import numpy as np
import pytest

from tensorlang.te import reference

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which torch's tests need
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from tensorlang.frontends.torch import OPERATORS  # noqa: E402
from tensorlang.frontends.torch.importer import Importer, Refused  # noqa: E402
from tensorlang.frontends.torch.tensors import held, tensor_of  # noqa: E402

TYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
SOME = [
    "add",
    "clamp",
    "gather",
    "index_select",
    "mean",
    "nn.functional.layer_norm",
    "softmax",
    "std",
    "where",
]
MOST = 4000  # elements of a sample: the reference computes them one by one
ORDER_IS_FREE = ("topk", "sort", "empty")  # of equal elements any comes first; of new memory nothing is said


class Calls(TorchDispatchMode):
    """The calls of operators of the table."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        before = copied((args, kwargs or {}))
        out = f(*args, **(kwargs or {}))
        if str(f) in OPERATORS and all(isinstance(t, torch.Tensor) for t in tree_leaves(out)):
            self.calls.append((f, *before, copied(out)))
        return out


def copied(tree):
    return tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, tree)


def graph_of(f, args, kwargs, out):
    """A graph of this call alone, and its tensors."""
    graph, tensors = torch.fx.Graph(), []

    def placed(x):
        if not isinstance(x, torch.Tensor):
            return x
        tensors.append(x)
        n = graph.placeholder(f"x{len(tensors)}")
        n.meta["val"] = x
        return n

    args, kwargs = tree_map(placed, (args, kwargs))
    node = graph.call_function(f, args, kwargs)
    node.meta["val"] = out
    made = [node]
    if isinstance(out, list | tuple):
        made = [graph.call_function(operator.getitem, (node, i)) for i in range(len(out))]
        for n, t in zip(made, out, strict=True):
            n.meta["val"] = t
    graph.output(tuple(made))
    return graph, tensors


def ours(f, args, kwargs, out):
    graph, tensors = graph_of(f, args, kwargs, out)
    importer = Importer("call", {})
    g = importer.load(graph)
    values = {v: held(tensors[i]) for v, i in zip(g.inputs, importer.inputs, strict=True)}
    for n in g.nodes:
        made = reference.evaluate(n.results, {v.tensor: values[v] for v in n.reads})
        values.update(zip(n.outputs, made, strict=True))
    return [tensor_of(np.array(values[v], order="C")) for v in g.outputs]


def check(info, kind, samples, seen):
    """Compare the calls that samples of an operator make; how many agree."""
    agree = 0
    for sample in itertools.islice(info.sample_inputs("cpu", kind), samples):
        mode = Calls()
        with torch.no_grad(), mode:
            info(sample.input, *sample.args, **sample.kwargs)
        for f, args, kwargs, out in mode.calls:
            seen[f, kind] += 1
            size = sum(t.numel() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
            if seen[f, kind] > samples or size > MOST:
                continue
            try:
                found = ours(f, args, kwargs, out)
            except Refused:  # runs in torch
                continue
            theirs = tree_leaves(out)
            for a, b in list(zip(found, theirs, strict=True))[
                : 1 if any(w in str(f) for w in ORDER_IS_FREE) else None
            ]:
                if "empty" in str(f):
                    assert a.shape == b.shape and a.dtype == b.dtype
                else:
                    torch.testing.assert_close(
                        a, b, equal_nan=True, msg=lambda m, f=f, args=args: f"{f}{args}\n{m}"
                    )
            agree += 1
    return agree


@pytest.mark.parametrize("name", SOME)
def test_samples_of_torchs_own_tests(name):
    (info, *_) = [i for i in op_db if i.name == name]
    kinds = [t for t in TYPES if t in info.supported_dtypes("cpu")]
    assert all(check(info, t, 3, Counter()) for t in kinds)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_all_samples_of_torchs_own_tests(kind):
    seen, wrong, agree = Counter(), {}, 0
    for info in op_db:
        if kind in info.supported_dtypes("cpu"):
            try:
                agree += check(info, kind, 6, seen)
            except AssertionError as error:
                wrong[info.name] = str(error)[:300]
            except Exception:  # torch's own samples that do not run here, such as those of other devices
                continue
    assert agree > 500 and len(wrong) < 0.01 * agree, wrong
