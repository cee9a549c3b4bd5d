"""A whole engine as C functions in one object file. Knows programs, signatures and object code; no compiler
and no graphs.

Weights are read-only data of the object: one file to link, nothing to find or to read when a program starts,
and pages that processes share.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import TensorLangError
from ..interface.c_header import check_name, engine_header
from ..interface.signature import Signature
from ..native.object_code import Processor, compiled
from . import store
from .arena import LINE
from .elf import undefined_symbols
from .elf_join import joined
from .engine_text import EngineText
from .export import CFunction, needed_symbols
from .program import Host

if TYPE_CHECKING:
    from .engine import Engine

MOST_WEIGHTS = 15 << 27  # bytes; code reaches data that is less than 2 GiB away


def c_engine(engine: Engine, signature: Signature, name: str) -> CFunction:
    """The engine as a C function ``name``. Raises TensorLangError for a program that calls Python or that
    goes on only when a call shows a value, and for weights that are too large."""
    p = engine.program
    _check(engine)
    check_name(name, frozenset())
    machine = store.machine(engine.target, None)
    needs = tuple(f"{p.shown(a)} == {p.shown(b)}" for a, b, _ in p.assumed)
    signature = Signature(name, signature.params, signature.dims, needs=needs)
    weights, places = bytearray(), []
    for a in engine.constants:
        weights.extend(bytes(-len(weights) % LINE))
        places.append(len(weights))
        weights += a.tobytes()
        if len(weights) > MOST_WEIGHTS:
            raise TensorLangError(
                f"export: the weights of {p.name} take more than {MOST_WEIGHTS >> 20} MiB",
                because="the code of one object file reaches no further",
                try_="engine.save(path), which maps them",
            )
    objects = [c.object_code for c in engine.codes]
    called = {s for o in objects for s in undefined_symbols(o)}
    text = EngineText(p, engine.codes, places, signature).text(called, machine["triple"])
    features = ",".join(f"+{f}" for f in sorted({f for c in engine.codes for f in c.features}))
    glue = compiled(text, 1, Processor(machine["triple"], machine["cpu"], features))
    visible = (name, f"{name}_arena", f"{name}_shapes")
    whole = joined([glue, *objects], visible, (f"{name}.weights", bytes(weights) or bytes(LINE)))
    foreign = engine.target is not None
    symbols = needed_symbols(whole)
    check_name(name, frozenset(undefined_symbols(whole)))
    parallel = "tensorlang_parallel" in called
    header = engine_header(signature, engine.target or f"llvm -mcpu={machine['cpu']}", parallel, symbols)
    return CFunction(whole, signature, machine["triple"], foreign, header)


def _check(engine: Engine) -> None:
    p = engine.program
    host = [s.name for s in p.steps if isinstance(s, Host)]
    called = sorted({e.name for c in engine.codes for e in c.signature.externs})
    why = None
    if host or called:
        why = f"it calls functions of Python: {', '.join([*host, *called])}"
    elif p.rest is not None:
        why = "what follows is compiled when a call shows a value"
    elif any(not p.values[v].dtype for v in (*p.inputs, *p.outputs)):
        why = "an input or output is not an array"
    if why is not None:
        raise TensorLangError(
            f"export: {p.name} is not a function of C",
            because=why,
            try_="a part that is one: model.subgraph(inputs, outputs), or sizes that are known: "
            "compile(profile=…)",
        )
