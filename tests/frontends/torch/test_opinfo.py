"""Torch's own samples (OpInfo) for the operators of the table, forward and backward: our te, evaluated by the numpy
reference, beside eager. The default run takes the first samples of some operators, ``-m fuzz`` all operators and
types."""

from __future__ import annotations

import itertools
import operator
from collections import Counter

import numpy as np
import pytest

from tensorlang.errors import DeclareError
from tensorlang.te import reference

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")  # which torch's tests need
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from tensorlang.frontends.torch import OPERATORS  # noqa: E402
from tensorlang.frontends.torch.importer import Importer  # noqa: E402
from tensorlang.frontends.torch.tensors import held, tensor_of  # noqa: E402

TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool)
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
# of 16-bit floats torch rounds more than the result (the logarithm of the sum, the product before its bias,
# what each tap adds, weights of neighbours): these are compared with its result in float64, rounded once
ROUGH = (
    "aten._log_softmax.default",
    "aten.log_softmax.int",
    "aten.linear.default",
    "aten.conv_transpose2d.input",
    "aten.conv_transpose3d.input",
    "aten.upsample_linear1d.default",
    "aten.upsample_bicubic2d.default",
)
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


def calls_of(info, sample, backward):
    """The calls of operators of the table that a sample makes, and its own where torch takes it apart."""
    given = (sample.input, *sample.args)
    with torch.set_grad_enabled(backward), Calls() as mode:
        out = info(*given, **sample.kwargs)
        if backward:
            made = [t for t in tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
            torch.autograd.backward(made, [torch.ones_like(t) for t in made])
    return mode.calls if backward else [*mode.calls, *whole(info, given, sample.kwargs)]


def whole(info, given, kwargs):
    """The call of the operator itself, which torch takes apart before others see it."""
    name = info.aten_name or info.name
    try:
        overload = torch._C._jit_resolve_packet(f"aten::{name}", *given, **kwargs)
        f = getattr(getattr(torch.ops.aten, name), overload)
        if str(f) in OPERATORS and not f._schema.is_mutable:
            before = copied((given, kwargs))
            with torch.no_grad():
                return [(f, *before, copied(f(*given, **kwargs)))]
    except (AttributeError, RuntimeError, TypeError):  # samples have another order of arguments
        pass
    return []


def compare(f, args, kwargs, out):
    """Whether an operator gives what torch gives; None where it is not taken."""
    try:
        found = ours(f, args, kwargs, out)
    except DeclareError:  # runs in torch
        return None
    if str(f) in ROUGH and args[0].dtype is torch.bfloat16:
        wide = tree_map(lambda x: x.double() if isinstance(x, torch.Tensor) else x, (args, kwargs))
        out = f(*wide[0], **wide[1]).bfloat16()
    first = 1 if any(w in str(f) for w in ORDER_IS_FREE) else None
    for a, b in list(zip(found, tree_leaves(out), strict=True))[:first]:
        if "empty" in str(f):
            assert a.shape == b.shape and a.dtype == b.dtype
        else:
            torch.testing.assert_close(
                a, b, equal_nan=True, msg=lambda m: f"{f}{shown(args)}{shown(kwargs)}\n{m}"
            )
    return True


def shown(tree):
    return tree_map(lambda x: (x.dtype, tuple(x.shape)) if isinstance(x, torch.Tensor) else x, tree)


def check(info, kind, samples, seen, backward=False, wrong=None):
    """Compare the calls that samples of an operator make; how many agree. Those that do not are put into
    ``wrong``."""
    agree = 0
    for sample in itertools.islice(info.sample_inputs("cpu", kind, requires_grad=backward), samples):
        try:
            calls = calls_of(info, sample, backward)
        except (AssertionError, RuntimeError, NotImplementedError, TypeError):  # samples that do not run here
            continue
        for f, args, kwargs, out in calls:
            size = sum(t.numel() for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor))
            if seen[f, kind] >= samples or size > MOST:
                continue
            seen[f, kind] += 1
            try:
                agree += compare(f, args, kwargs, out) is True
            except AssertionError as error:
                if wrong is None:
                    raise
                wrong.append((str(f), str(kind), str(error)[:600]))
    return agree


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", SOME)
def test_samples_of_torchs_own_tests(name, backward):
    (info, *_) = [i for i in op_db if i.name == name]
    taken = (info.supported_backward_dtypes if backward else info.supported_dtypes)("cpu")
    kinds = [t for t in TYPES if t in taken]
    assert all(check(info, t, 3, Counter(), backward) for t in kinds)


@pytest.mark.fuzz
@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_all_samples_of_torchs_own_tests(kind, backward):
    seen, wrong, agree = Counter(), [], 0
    for info in op_db:
        kinds = (info.supported_backward_dtypes if backward else info.supported_dtypes)("cpu")
        if kind in kinds:
            agree += check(info, kind, 6, seen, backward, wrong)
    if agree:  # integers have no gradients
        assert len(wrong) < 0.01 * agree, wrong
