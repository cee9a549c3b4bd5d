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
from torch.testing._comparison import default_tolerances  # noqa: E402
from torch.testing._internal.common_device_type import toleranceOverride  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.opinfo.core import DecorateInfo  # noqa: E402
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
CLASSES = ("TestCommon", "TestInductorOpInfo")  # whose tests compare with eager's results
PLACES = ("aten.topk", "aten.sort", "aten.argsort")  # of equal elements any comes first


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


def compare(f, args, kwargs, out, **tolerances):
    """Whether an operator gives what torch gives; None where it is not taken."""
    try:
        found = ours(f, args, kwargs, out)
    except DeclareError:  # runs in torch
        return None
    said = tree_leaves(out)
    if str(f).startswith(PLACES) and args[0].ndim:
        first = 2 if "topk" in str(f) else 1
        dim = kwargs.get("dim", args[first] if len(args) > first else -1)
        found, said = ([torch.take_along_dim(args[0], many[-1], dim), *many[:-1]] for many in (found, said))
    for a, b in zip(found, said, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        if "empty" not in str(f):  # of new memory nothing is said
            torch.testing.assert_close(
                a, b, **tolerances, equal_nan=True, msg=lambda m: f"{f}{shown(args)}{shown(kwargs)}\n{m}"
            )
    return True


def tolerances_of(info, kind):
    """Those that OpInfo has for an operator in torch's own tests, where they are wider than assert_close's."""
    rtol, atol = default_tolerances(kind)
    for d in info.decorators:
        if isinstance(d, DecorateInfo) and d.cls_name in CLASSES and d.device_type in (None, "cpu"):
            for wanted in d.decorators:
                if isinstance(wanted, toleranceOverride) and kind in wanted.d:
                    rtol, atol = max(rtol, wanted.d[kind].rtol), max(atol, wanted.d[kind].atol)
    return {"rtol": rtol, "atol": atol}


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
                agree += compare(f, args, kwargs, out, **tolerances_of(info, kind)) is True
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
