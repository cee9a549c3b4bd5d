"""Programs that ``torch.export`` made, as graphs. Knows the importer; no kernels."""

from __future__ import annotations

from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from ...errors import TensorLangError
from ...graph import Graph
from .importer import Importer, Refused, name_of, unsupported


def load_torch(program: Any) -> Graph:
    """The graph of an exported program: ``tl.load_torch(torch.export.export(module, args))``.

    Sizes that were exported as dynamic stay open; parameters and buffers become constants. Raises
    TensorLangError for what is no such program, for modules that change their buffers, and for operators
    that are not supported, all of them at once.
    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise TensorLangError(
            f"load_torch: {type(program).__name__} is given",
            because="an exported program is needed",
            try_="tl.load_torch(torch.export.export(module, args))",
        )
    # an empty table: only what has to be taken apart is, and operators stay as models write them
    program = program.run_decompositions({})
    signature = program.graph_signature
    _unchanged(signature)
    _supported(program.graph)
    constants: dict[str, torch.Tensor] = {}
    for spec in signature.input_specs:
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            own = program.constants if spec.target in program.constants else program.state_dict
            constants[spec.arg.name] = own[spec.target]
    importer = Importer(_name(program), constants, program.range_constraints)
    count = len(signature.user_outputs)
    names = [f"output{i}" for i in range(count)] if count > 1 else ["output"]
    try:
        return importer.load(program.graph, names)
    except Refused as error:
        where = f"load_torch: {error.node.name} cannot be imported"
        raise TensorLangError(where, because=str(error)) from None


def _name(program: Any) -> str:
    """The class of the module, where its nodes tell it."""
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if not path and isinstance(kind, str | type):
                return str(kind).rsplit(".", 1)[-1].strip("'>")
    return "model"


def _unchanged(signature: Any) -> None:
    changed = [s.target for s in signature.output_specs if s.kind is not OutputKind.USER_OUTPUT]
    if changed:
        raise TensorLangError(
            f"load_torch: the module changes {', '.join(map(str, changed[:4]))}",
            because="an engine has no state",
            try_="a module that takes its state as an argument and returns the new one, with engine.bind(…)",
        )


def _supported(graph: Any) -> None:
    """Raises TensorLangError for operators that are not in the table."""
    missing: dict[str, list[str]] = {}
    for node in graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            # arithmetic on sizes, which the importer does by itself
            if isinstance(node.meta.get("val"), torch.SymInt):
                continue
            reason = unsupported(node)
            if reason:
                missing.setdefault(f"{name_of(node)}: {reason}", []).append(node.name)
    if missing:
        raise TensorLangError(
            f"load_torch: {len(missing)} operators are not supported",
            because="\n".join(f"{what} ({', '.join(names[:4])})" for what, names in missing.items()),
            try_="torch.compile(module, backend='tensorlang') runs these in torch, and the rest here",
        )
