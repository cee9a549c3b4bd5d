"""Whether a file holds together, before any work: names, numbers of inputs, attributes, functions. Knows the
plain data of ``proto`` and the table; builds nothing.

What a file says may be wrong by accident or on purpose; each thing found here is one error that names the
node. What only the elements or sizes of values show is refused where an operator is imported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy as np

from ...errors import TensorLangError, counted
from .proto import Body, Call, Function, Model, Reference, Signature, Type, short, signature
from .table import MANY, OPERATORS, Operator

# functions that call functions multiply: thirty in a row, each calling the next twice, are a billion nodes in
# a file of some kilobytes
MAX_NODES = 1_000_000
_SORTS: dict[str, tuple[str, Any]] = {  # what an attribute of a kind holds, in words and for isinstance
    "INT": ("a whole number", int),
    "FLOAT": ("a number", int | float),
    "STRING": ("a text", str),
    "INTS": ("a list of whole numbers", int),
    "FLOATS": ("a list of numbers", int | float),
    "STRINGS": ("a list of texts", str),
    "TENSOR": ("a tensor", np.ndarray),
    "SPARSE_TENSOR": ("a tensor", np.ndarray),
    "TYPE_PROTO": ("a type", Type),
}


def check(model: Model) -> None:
    """Raises TensorLangError for the first thing that is wrong."""
    _functions(model.functions)
    _body(model.body, (), model, model.opsets, whole=True)
    for key, f in model.functions.items():
        where = f"the function {key[1]!r}"
        _calls(f.calls, f.inputs, model, {**model.opsets, **f.opsets}, where)
        # a function sees nothing of the graph that calls it
        made = {*f.inputs, *(n for c in f.calls for n in c.outputs)}
        _made(f.outputs, made, where)


# -- names


def _body(
    body: Body, outer: Collection[str], model: Model, opsets: dict[str, int], whole: bool = False
) -> None:
    where = f"the graph {body.name!r}"
    inputs, outputs = [n for n, _ in body.inputs], [n for n, _ in body.outputs]
    if whole and "" in inputs:
        raise TensorLangError(f"load_onnx: an input of {where} has no name")
    if whole:
        _once(outputs, f"is an output of {where}")
    made = _calls(body.calls, [*inputs, *body.constants], model, opsets, where, outer)
    _made(outputs, made, where)


def _calls(
    calls: Sequence[Call],
    given: Sequence[str],
    model: Model,
    opsets: dict[str, int],
    where: str,
    outer: Collection[str] = (),
) -> set[str]:
    """All names there are at the end."""
    # single assignment, as the standard asks: a value made twice would mean two things
    _once([*given, *(n for c in calls for n in c.outputs)], f"is made in {where}")
    later = {n for c in calls for n in c.outputs}
    there = {*outer, *given}
    for c in calls:
        for n in c.inputs:
            if n and n not in there:
                because = (
                    "a node that reads what comes of it makes it: there is a cycle"
                    if n in later
                    else "no node, input or initialiser has this name"
                )
                raise TensorLangError(f"load_onnx: {c!r} reads {n!r}, which is not there", because=because)
        _node(c, model, opsets)
        for g in c.graphs.values():
            _body(g, there, model, opsets)
        # after its graphs: a body does not see what its own node makes
        there.update(n for n in c.outputs if n)
    return there


def _once(names: Iterable[str], what: str) -> None:
    twice = [n for n, k in Counter(names).items() if n and k > 1]
    if twice:
        raise TensorLangError(f"load_onnx: the value {twice[0]!r} {what} more than once")


def _made(outputs: Iterable[str], there: Collection[str], where: str) -> None:
    for n in outputs:
        if n not in there:
            raise TensorLangError(f"load_onnx: {where} has an output {n!r} that no node makes")


# -- nodes


def _node(c: Call, model: Model, opsets: dict[str, int]) -> None:
    """A node beside what the standard says of its operator, else beside the function of the table."""
    function = model.functions.get((c.domain, c.op))
    if function is not None:
        _count(c, "inputs", c.inputs, 0, len(function.inputs))
        _count(c, "outputs", c.outputs, 0, len(function.outputs))
        return
    # a function of the model hides the standard's operator of that name
    declared = signature(c.op, c.domain, opsets.get(c.domain, 1))
    if declared is not None:
        _standard(c, declared)
        return
    operator = OPERATORS.get((c.domain, c.op))
    if operator is not None and not operator.whole:
        _tabled(c, operator)


def _standard(c: Call, declared: Signature) -> None:
    _count(c, "inputs", c.inputs, *declared.inputs)
    _count(c, "outputs", c.outputs, *declared.outputs)
    for i in declared.needed:
        if i < len(c.inputs) and not c.inputs[i]:
            raise TensorLangError(f"load_onnx: {c!r}: input {i} is left out, {c.op} needs it")
    for key, (kind, required) in declared.attributes.items():
        if kind == "GRAPH":
            there = key in c.graphs
            # a reference stands for whatever the call of the function gives
            wrong = key in c.attrs and not isinstance(c.attrs[key], Reference)
        else:
            there = key in c.attrs
            wrong = key in c.graphs or (there and not _is(c.attrs[key], kind))
        if wrong:
            what = "a graph" if key in c.graphs else repr(c.attrs[key])
            meant = "a graph" if kind == "GRAPH" else _SORTS[kind][0]
            raise TensorLangError(f"load_onnx: {c!r}: the attribute {key} is {short(what)}, not {meant}")
        if required and not there and key not in c.attrs:
            raise TensorLangError(f"load_onnx: {c!r}: the attribute {key} is missing")
    for key in declared.attributes.keys() & c.graphs.keys():
        if c.op == "If" and c.graphs[key].inputs:
            raise TensorLangError(f"load_onnx: {c!r}: {key} has inputs, a branch has none")
        if c.op == "If" and len(c.graphs[key].outputs) != len(c.outputs):
            raise TensorLangError(
                f"load_onnx: {c!r}: {key} has {counted(len(c.graphs[key].outputs), 'output')}, "
                f"the node {len(c.outputs)}"
            )


def _is(x: Any, kind: str) -> bool:
    # kinds that no operator here reads are not judged
    if isinstance(x, Reference) or kind not in _SORTS:
        return True
    sort = _SORTS[kind][1]
    if kind.endswith("S"):
        return isinstance(x, list) and all(isinstance(y, sort) for y in x)
    return isinstance(x, sort)


def _tabled(c: Call, operator: Operator) -> None:
    _count(c, "inputs", c.inputs, *operator.inputs)
    for key in operator.required:
        if key not in c.attrs:
            raise TensorLangError(f"load_onnx: {c!r}: the attribute {key} is missing")


def _count(c: Call, what: str, names: Sequence[str], least: int, most: int) -> None:
    if not least <= len(names) <= most:
        meant = str(least) if least == most else f"{least} to {most}" if most < MANY else f"{least} or more"
        raise TensorLangError(f"load_onnx: {c!r} has {len(names)} {what}, {c.op} has {meant}")


# -- functions


def _functions(functions: dict[tuple[str, str], Function]) -> None:
    """Raises TensorLangError for one that calls itself, or that stands for too many nodes: calls of calls
    multiply."""
    called = {key: _called(f.calls) for key, f in functions.items()}
    try:
        # callees first, so that each size is a sum of known ones
        order = list(TopologicalSorter(called).static_order())
    except CycleError as e:
        (_, name), *_ = e.args[1]
        raise TensorLangError(f"load_onnx: the function {name!r} calls itself") from None
    sizes: dict[tuple[str, str], int] = {}
    for key in order:
        sizes[key] = sum(sizes[k] for k in called[key]) if key in called else 1
        if sizes[key] > MAX_NODES:
            raise TensorLangError(
                f"load_onnx: the function {key[1]!r} stands for {sizes[key]} nodes",
                because=f"at most {MAX_NODES} can be imported",
            )


def _called(calls: Iterable[Call]) -> list[tuple[str, str]]:
    """The operators of these nodes and of those in their graphs."""
    return [
        k
        for c in calls
        for k in ((c.domain, c.op), *(x for g in c.graphs.values() for x in _called(g.calls)))
    ]
