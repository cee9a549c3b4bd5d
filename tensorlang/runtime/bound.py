"""An engine that keeps state: outputs of one call are inputs of the next, without a copy. Knows engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dtype import dtype
from ..errors import CallError, counted

if TYPE_CHECKING:
    from .engine import Engine


class Bound:
    """Calls of an engine that share state; made by ``Engine.bind``. Not for several threads at once.

    A call takes the other inputs, and returns the other outputs. ``state`` holds the arrays that the next
    call will read, by the names of inputs; they are valid until the call after it. Two arrays take turns.
    """

    def __repr__(self) -> str:
        pairs = ", ".join(f"{o} → {n}" for o, n in self._pairs.items())
        return f"<engine {self._program.name}, bound: {pairs}>"

    def __init__(self, engine: Engine, pairs: Mapping[str, str]) -> None:
        for out, name in pairs.items():
            if not isinstance(name, str):
                raise CallError(
                    f"bind({out}=…): an input is named by text, not {type(name).__name__}",
                    try_="engine.bind(state_out='state_in') for an output that the next call reads",
                )
        p = self._program = engine.taking(dict.fromkeys(pairs.values()))[0].program
        inputs = {p.values[v].name: v for v in p.inputs}
        for out, name in pairs.items():
            where = f"bind({out}={name!r})"
            if out not in p.output_names:
                raise CallError(f"{where}: no output {out}", because=f"they are {', '.join(p.output_names)}")
            if name not in inputs:
                raise CallError(f"{where}: no input {name}", because=f"they are {', '.join(inputs)}")
            value = p.values[p.outputs[p.output_names.index(out)]] if p.outputs else p.values[inputs[name]]
            mine = p.values[inputs[name]]
            if (value.dtype, len(value.shape)) != (mine.dtype, len(mine.shape)):
                raise CallError(
                    f"{where}: an output of {value.dtype} of {counted(len(value.shape), 'dimension')}",
                    because=f"the input is {mine.dtype} of {len(mine.shape)}",
                )
        if not pairs:
            raise CallError(
                "bind(): no output is bound to an input",
                try_="engine.bind(state_out='state_in') for an output that the next call reads",
            )
        if len(set(pairs.values())) != len(pairs):
            raise CallError("bind: an input is given by two outputs")
        self._engine = engine
        self._pairs = dict(pairs)
        self._free = [n for n in inputs if n not in set(pairs.values())]
        known = {d.name for d in p.dims}
        shapes = dict(zip(p.output_names, (p.values[v].shape for v in p.outputs), strict=False))
        self._turning = [o for o in pairs if o in shapes and known.issuperset(p.sizes.dims(shapes[o]))]
        self._spare: dict[str, Any] = {}  # by name of an output: what the next call may write to
        self._shapes: dict[str, Any] = {}  # of the inputs of the last call
        self.state: dict[str, Any] = {}

    def reset(self, **state: Any) -> None:
        """Begin anew with these arrays, which are copied; inputs that are left out begin with
        their default, else zeros. Raises
        CallError for a name that is not state."""
        unknown = [n for n in state if n not in self._pairs.values()]
        if unknown:
            raise CallError(
                f"reset: {unknown[0]} is not state", because=f"it has {', '.join(self._pairs.values())}"
            )
        self.state = {n: np.array(a, order="C") for n, a in state.items()}
        self._spare = {}

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs that are not state, one or a tuple, for the inputs that are none. Raises CallError as
        the engine does; then the state is what it was."""
        engine = self._engine
        if len(args) > len(self._free):
            raise CallError(
                f"{engine.program.name}: {len(args)} inputs given, {len(self._free)} are not state",
                because=f"they are {', '.join(self._free)}",
            )
        given = {**dict(zip(self._free, args, strict=False)), **named}
        state = {n: self.state[n] if n in self.state else self._zeros(n, given) for n in self._pairs.values()}
        read = {**given, **state}
        shapes = {n: getattr(a, "shape", None) for n, a in read.items()}
        made = engine.called(read, self._spare if shapes == self._shapes else {})
        self._spare = {}
        for out, name in self._pairs.items():
            before, now = state[name], made.pop(out)
            self.state[name] = now
            if out in self._turning and before.shape == now.shape and before.flags.writeable:
                self._spare[out] = before
        self._shapes = shapes
        results = tuple(made.values())
        return results[0] if len(results) == 1 else results

    def _zeros(self, name: str, given: Mapping[str, Any]) -> np.ndarray:
        """The first state: its default, else zeros, in the sizes that the file or the other inputs tell."""
        p, overrides = self._program, self._engine.overrides
        if overrides is not None and name in overrides.defaults:
            return np.array(overrides.defaults[name], order="C")
        sizes: dict[Any, int] = {}
        shapes = dict(zip((p.values[v].name for v in p.inputs), p.input_shapes, strict=True))
        for other, a in given.items():
            for n, have in zip(shapes.get(other, ()), getattr(a, "shape", ()), strict=False):
                sizes.setdefault(p.sizes.rows[n], have)
        rows = [p.sizes.rows[n] for n in shapes[name]]
        shape = [r if isinstance(r, int) else sizes.get(r) for r in rows]
        if None in shape:
            raise CallError(
                f"{p.name}: the first {name} is not given, and its sizes are not known",
                try_=f"reset({name}=…)",
            )
        kind = next(p.values[v].dtype for v in p.inputs if p.values[v].name == name)
        return np.zeros([n or 0 for n in shape], dtype(kind).to_numpy())
