"""Programs that ``torch.export`` made, as graphs. Knows the importer; no kernels."""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils._sympy.value_ranges import ValueRanges

from ...errors import TensorLangError, counted
from ...graph import Graph
from .backend import decompositions, spelled
from .functional import functional, writes
from .importer import Importer, Refused, in_table, name_of, needed_of, returned, unsupported

_IN_TORCH = (
    "torch.compile(module, backend='tensorlang') runs what is not supported in torch, and the rest here"
)
_ROUNDS = 4  # an operator may be said by one that is said by others itself


def load_torch(program: Any) -> Graph:
    """The graph of an exported program: ``tl.load_torch(torch.export.export(module, args))``.

    Sizes that were exported as dynamic stay open, and are one where an operator needs that; parameters and
    buffers become constants. Complex numbers are pairs of floats, of inputs and outputs too: arrays
    ``[…, 2]``, as ``torch.view_as_real`` has them. Arguments and results that were no tensors when the
    program was exported, as a mask of None, are neither inputs nor outputs; a size that is returned is an
    int64 of no dimension.

    Raises TensorLangError for what is no such program, for modules that change their buffers, and for
    operators that are not supported, all of them at once.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise TensorLangError(
            f"load_torch: {type(program).__name__} is given",
            because="an exported program is needed",
            try_="tl.load_torch(torch.export.export(module, args))",
        )
    # torch traces a program once more, which takes it longer than all that is done here, only where it must
    plain = functional(program.graph) if any(map(writes, program.graph.nodes)) else program.graph
    if plain is not None and all(map(_taken, needed_of(plain))):
        try:
            return _graph(program, plain)
        except Refused:
            pass  # an operator may be taken where torch says it by others
    program = _taken_apart(program)
    _unchanged(program.graph_signature)
    _supported(program.graph)
    try:
        return _graph(program, program.graph)
    except Refused as error:
        graph = _by_others(program, error)
        if graph is not None:
            return graph
        name, what = error.node.name, name_of(error.node)
        raise TensorLangError(
            f"load_torch: {name if name == what else f'{what} ({name})'} cannot be imported",
            because=error.reason,
            try_=_IN_TORCH,
        ) from None


def _by_others(program: Any, error: Refused) -> Graph | None:
    """The graph with operators that are in the table and were refused as they stand said by others, as an
    LSTM whose states are projected is by its steps; None where torch does not say how, or those are refused
    too."""
    tried = set()
    while True:
        op: Any = error.node.target
        way = None if op in tried or not _is_operator(error.node) else spelled().get(op) or _way(op)
        if way is None:
            return None
        tried.add(op)
        try:
            program = _taken_apart(program.run_decompositions({op: way}))
            _supported(program.graph)
            return _graph(program, program.graph)
        except Refused as another:
            error = another
        except Exception:  # torch's own, of many kinds; what was refused first says more
            return None


def _taken(node: Any) -> bool:
    if node.op != "call_function":
        return node.op in ("placeholder", "get_attr", "output")
    if _is_operator(node):
        return not unsupported(node, pairs=True)
    # arithmetic on sizes, and one of several results
    return node.target is operator.getitem or isinstance(node.meta.get("val"), torch.SymInt)


def _graph(program: Any, graph: Any) -> Graph:
    """The graph of a program, whose operators are those of ``graph`` and in the table. Raises Refused."""
    signature = program.graph_signature
    constants: dict[str, torch.Tensor] = {}
    for spec in signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            own = program.constants if spec.target in program.constants else program.state_dict
            constants[spec.arg.name] = own[spec.target]
    count = len(returned(graph.output_node().args[0]))
    names = [f"output{i}" for i in range(count)] if count > 1 else ["output"]
    same: dict[Any, Any] = {}
    while True:
        importer = Importer(_name(program), constants, _ranges(program), same=same)
        try:
            return importer.load(graph, names)
        except Refused as error:
            # sizes that torch keeps apart and an operator must have equal, as those of cached keys and
            # values: one dim, which a call checks
            found = {} if error.apart is None else importer.sizes.equal(*error.apart)
            if not found:
                raise
            same |= found


def _ranges(program: Any) -> dict[Any, Any]:
    """The least and the largest of each size. That a size is 2 or more torch notes of every size that it was
    not told of, since it traces with no other; its own program takes 1."""
    return {s: ValueRanges(1, r.upper) if r.lower == 2 else r for s, r in program.range_constraints.items()}


def _taken_apart(program: Any) -> Any:
    """The program without operators that write to what they are given, in which those that are not in the
    table are said by others, where torch says how."""
    _known_sizes(program)
    for turn in range(_ROUNDS + 1):
        # only what has to be taken apart is, and operators stay as models write them. Those that write are
        # replaced by torch itself
        missing = [
            n.target
            for n in program.graph.nodes
            if _is_operator(n) and not in_table(str(n.target)) and not n.target._schema.is_mutable
        ]
        table = {op: way for op in missing if (way := decompositions().get(op) or _way(op)) is not None}
        # each turn traces the program anew, which takes torch longer than all that is done here
        if turn and not table:
            break
        try:
            program = program.run_decompositions(table)
        except Exception as error:  # torch's own, of many kinds: what it cannot trace a second time
            which = ", ".join(sorted({str(op) for op in missing})[:4]) or "the program"
            said = str(error).strip().partition("\n")[0]
            raise TensorLangError(
                f"load_torch: torch cannot take {which} apart", because=f"{type(error).__name__}: {said}"
            ) from error
    return program


def _known_sizes(program: Any) -> None:
    """Leave sizes alone among those that torch knows the ranges of. ``torch.export.load`` notes those of
    expressions too (of a height that is ``8 * n``), and torch fails when it traces such a program anew."""
    for node in program.graph.nodes:
        for n in getattr(node.meta.get("val"), "shape", ()):
            if isinstance(n, torch.SymInt):
                ranges = getattr(n.node.shape_env, "var_to_range", {})
                for e in [e for e in ranges if not e.is_Symbol]:
                    del ranges[e]
                return


def _way(op: Any) -> Any:
    """How torch says an operator by others that is composite by nature, None for any other."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return None
    # its own kernel: ``op.decompose`` asks first for what stands in its place while a program is taken apart
    return functools.partial(op._op_dk, key)


def _is_operator(node: Any) -> bool:
    """Whether a node is an operator on tensors; arithmetic on sizes the importer does by itself."""
    return (
        node.op == "call_function"
        and isinstance(node.target, torch._ops.OpOverload)
        and not isinstance(node.meta.get("val"), torch.SymInt)
    )


def _name(program: Any) -> str:
    """The class of the module, where its nodes tell it."""
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if not path and isinstance(kind, str | type):
                return str(kind).rsplit(".", 1)[-1].strip("'>")
    return "model"


def _unchanged(signature: Any) -> None:
    # a token orders what only tests values
    harmless = (OutputKind.USER_OUTPUT, OutputKind.TOKEN)
    changed = [s.target for s in signature.output_specs if s.kind not in harmless]
    if changed:
        raise TensorLangError(
            f"load_torch: the module changes {', '.join(map(str, changed[:4]))}",
            because="an engine has no state",
            try_="a module that takes its state as an argument and returns the new one, with engine.bind(…)",
        )


def _supported(graph: Any) -> None:
    """Raises TensorLangError for operators that are not in the table."""
    missing: dict[str, list[str]] = {}
    needed = needed_of(graph)
    for node in graph.nodes:
        if _is_operator(node) and node in needed:
            reason = unsupported(node, pairs=True)
            if reason:
                missing.setdefault(f"{name_of(node)}: {reason}", []).append(node.name)
    if missing:
        raise TensorLangError(
            f"load_torch: {counted(len(missing), 'operator is', 'operators are')} not supported",
            because="\n".join(f"{what} ({', '.join(names[:4])})" for what, names in missing.items()),
            try_=_IN_TORCH,
        )
