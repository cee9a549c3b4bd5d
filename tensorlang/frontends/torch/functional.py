"""Programs whose operators write to what they are given, as programs that write to nothing. Knows torch's
schemas and fake tensors; no operators of ours.

Torch does the same by tracing a program anew, which takes it longer than all that is done here. Where an
operator writes, its functional twin makes a new value, which is put back through the views that lead to the
memory; other names of that memory are read from there anew. Which values share memory is told by the fake
tensors that torch left in the program. What is written to must have been made by the program itself; for all
that is not as plain as that the answer is None, and torch traces.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

_aten = torch.ops.aten
# memory of its own, whatever fake tensors say
_FRESH = {
    "aten._batch_norm_impl_index.default",
    "aten.batch_norm.default",
    "aten.clone.default",
    "aten.lift_fresh_copy.default",
}
# where these lead depends on how memory lies, not on what they are given
_OPAQUE = {"aten.as_strided.default", "aten.set_.source_Tensor"}
# the same elements in the same order, in another shape
_SHAPES = {
    f"aten.{name}"
    for name in (
        "_unsafe_view.default",
        "contiguous.default",
        "flatten.using_ints",
        "reshape.default",
        "squeeze.default",
        "squeeze.dim",
        "squeeze.dims",
        "unflatten.int",
        "unsqueeze.default",
        "view.default",
        "view_as.default",
    )
}
_TURNED = {"aten.mT.default", "aten.t.default", "aten.transpose.int"}
_PARTS = {"aten.chunk.default", "aten.split.Tensor", "aten.split_with_sizes.default", "aten.split.sizes"}
_SCATTERS = {
    "aten.diagonal.default": _aten.diagonal_scatter.default,
    "aten.select.int": _aten.select_scatter.default,
    "aten.slice.Tensor": _aten.slice_scatter.default,
}
_DROPS = {
    "aten.alpha_dropout.default",
    "aten.dropout.default",
    "aten.feature_alpha_dropout.default",
    "aten.feature_dropout.default",
}
_TWINS = {"aten.bernoulli_.float": _aten.bernoulli.p, "aten.normal_.default": _aten.normal_functional.default}


class _Unclear(Exception):
    """Torch has to trace the program."""


@dataclass
class _Name:
    """What a node of the program is now: ``value`` in the new graph, of the memory of ``root`` when that had
    been written to ``seen`` times; ``of`` is the node that it is a view of, or with ``same`` all of."""

    value: fx.Node
    root: fx.Node
    of: fx.Node | None = None
    seen: int = 0
    same: bool = False


def functional(graph: fx.Graph) -> fx.Graph | None:
    """A graph of the same results whose operators write to nothing; None where torch has to make it."""
    try:
        return _Functional(graph).made()
    except _Unclear:
        return None


def writes(node: fx.Node) -> bool:
    """Whether an operator writes to elements that it is given."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    # what makes a tensor of a number in a program ends with this one, which writes no elements
    return node.target._schema.is_mutable and str(node.target) != "aten.detach_.default"


class _Functional:
    def __init__(self, graph: fx.Graph) -> None:
        self.old = graph
        self.new = fx.Graph(graph.owning_module)
        self.names: dict[fx.Node, _Name] = {}
        self.written: dict[fx.Node, int] = {}  # how often the memory of a root was written to
        self.unclear: set[fx.Node] = set()  # roots whose memory may have other names
        self.owners: dict[int, fx.Node] = {}  # the root of each memory

    def made(self) -> fx.Graph:
        for node in self.old.nodes:
            if writes(node):
                self._write(node)
            else:
                self._copy(node)
        return self.new

    # -- reading

    def _value(self, node: fx.Node) -> fx.Node:
        """What a node of the program is now."""
        name = self.names[node]
        now = self.written.get(name.root, 0)
        if name.of is not None and name.seen != now:
            name.value = self._value(name.of) if name.same else self.new.node_copy(node, self._value)
            name.seen = now
        return name.value

    def _copy(self, node: fx.Node) -> None:
        if str(node.target) in _OPAQUE:
            raise _Unclear
        value = self.new.node_copy(node, self._value)
        of, same = _viewed(node), _handed_on(node)
        if of is not None or same:
            of = of or node.all_input_nodes[0]
            root = self.names[of].root
            self.names[node] = _Name(value, root, of, self.written.get(root, 0), same)
            return
        self.names[node] = _Name(value, node)
        if str(node.target) in _FRESH:
            return
        for memory in _memory(node):
            other = self.owners.setdefault(memory, node)
            if other is not node:
                self.unclear |= {node, other}
        if torch.Tag.maybe_aliasing_or_mutating in getattr(node.target, "tags", ()):
            self.unclear |= {node, *(self.names[n].root for n in node.all_input_nodes)}

    # -- writing

    def _write(self, node: fx.Node) -> None:
        given = _given(node)
        root = self.names[given].root
        if root.op != "call_function" or root in self.unclear or _memory(node) != _memory(given):
            raise _Unclear
        twin = _twin(node)
        made = self.new.node_copy(node, self._value)
        made.target, made.meta = twin, dict(node.meta)
        self._put(given, made)
        self.names[node] = _Name(made, root, given, self.written[root], same=True)

    def _put(self, node: fx.Node, made: fx.Node) -> None:
        """``made`` is what a node holds from now on, in what it is a view of too."""
        name = self.names[node]
        if name.of is None:
            self.written[node] = self.written.get(node, 0) + 1
        elif name.same or _alike(node, name.of):
            self._put(name.of, made)
        elif node.target is operator.getitem:
            self._put_part(node, name.of, made)
        else:
            self._put(name.of, self._back(node, name.of, made))
        name.value, name.seen = made, self.written[name.root]

    def _put_part(self, node: fx.Node, parts: fx.Node, made: fx.Node) -> None:
        """A part of what was split."""
        whole = self.names[parts].of
        if str(parts.target) not in _PARTS or whole is None:
            raise _Unclear
        i, found = int(node.args[1]), parts.meta["val"]  # type: ignore[arg-type]
        given = parts.kwargs.get("dim", parts.args[2] if len(parts.args) > 2 else 0)
        dim = int(given) % whole.meta["val"].ndim  # type: ignore[arg-type, call-overload]
        start = sum(v.shape[dim] for v in found[:i])
        more = dim, start, start + found[i].shape[dim]
        scatter = _aten.slice_scatter.default
        if not all(isinstance(n, int) for n in more):
            raise _Unclear
        self._put(whole, self._call(scatter, whole, self._value(whole), made, *more))

    def _back(self, node: fx.Node, whole: fx.Node, made: fx.Node) -> fx.Node:
        """What a view is of, with ``made`` in its place."""
        what, more = str(node.target), node.args[1:]
        if node.kwargs or node.meta["val"].dtype != whole.meta["val"].dtype:
            raise _Unclear
        if what in _SHAPES:
            return self._call(_aten.view_as.default, whole, made, self._value(whole))
        if what in _TURNED:
            return self._call(node.target, whole, made, *more)
        if what == "aten.permute.default":
            order = [d % len(more[0]) for d in more[0]]  # type: ignore[arg-type, union-attr, operator]
            return self._call(_aten.permute.default, whole, made, [order.index(d) for d in range(len(order))])
        if what in _SCATTERS:
            places = fx.node.map_arg(more, self._value)
            return self._call(_SCATTERS[what], whole, self._value(whole), made, *places)
        raise _Unclear

    def _call(self, target: Any, like: fx.Node, *args: Any) -> fx.Node:
        made = self.new.call_function(target, args)
        made.meta = dict(like.meta)
        return made


def _memory(node: fx.Node) -> list[int]:
    """Where the tensors of a node lie."""
    val = node.meta.get("val")
    listed = val if isinstance(val, list | tuple) else [val]
    return [v.untyped_storage()._cdata for v in listed if isinstance(v, torch.Tensor)]


def _viewed(node: fx.Node) -> fx.Node | None:
    """What a node reads that lies in the same memory."""
    own = _memory(node)
    if node.op != "call_function" or str(node.target) in _FRESH or not own:
        return None
    return next((n for n in node.all_input_nodes if not set(own).isdisjoint(_memory(n))), None)


def _handed_on(node: fx.Node) -> bool:
    """Whether torch hands on what an operator is given, of which fake tensors make a copy."""
    return str(node.target) in _DROPS and len(node.args) == 3 and node.args[2] is False


def _alike(a: fx.Node, b: fx.Node) -> bool:
    """Whether two names of a memory are of the same elements."""
    x, y = a.meta["val"], b.meta["val"]
    if isinstance(y, list | tuple) or x.dtype != y.dtype or x.ndim != y.ndim:
        return False
    return all(
        _plain(n) == _plain(m)
        for n, m in zip(
            (*x.shape, *x.stride(), x.storage_offset()),
            (*y.shape, *y.stride(), y.storage_offset()),
            strict=True,
        )
    )


def _plain(n: Any) -> Any:
    """A size to compare, of which torch is to note nothing."""
    return n if isinstance(n, int) else n.node.expr


def _given(node: fx.Node) -> fx.Node:
    """What an operator writes to."""
    schema, first = node.target._schema, node.args[0] if node.args else None  # type: ignore[union-attr]
    written = [p for p in schema.arguments if p.alias_info is not None and p.alias_info.is_write]
    plain = len(written) == 1 and written[0].name == schema.arguments[0].name
    shape = torch.Tag.inplace_view in node.target.tags  # type: ignore[union-attr]
    if not plain or shape or len(schema.returns) != 1 or not isinstance(first, fx.Node):
        raise _Unclear
    if not isinstance(first.meta.get("val"), torch.Tensor):
        raise _Unclear
    return first


def _twin(node: fx.Node) -> Any:
    """The operator that makes what another one writes."""
    target: Any = node.target
    namespace, name = target._schema.name.split("::")
    found = _TWINS.get(str(target))
    if found is None and namespace == "aten" and name.endswith("_") and hasattr(_aten, name[:-1]):
        found = getattr(getattr(_aten, name[:-1]), target._overloadname, None)
    if found is None or found._schema.is_mutable:
        raise _Unclear
    ours, theirs = ([p.name for p in op._schema.arguments] for op in (target, found))
    if ours != theirs:
        raise _Unclear
    return found
