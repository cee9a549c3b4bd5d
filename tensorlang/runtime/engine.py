"""A program that runs: ``y = engine(x)``. Knows programs, machine code and arrays; no graphs and no compiler.

What a call accepts is what a kernel accepts: the same rules, by position or name, ``out=``, ``out_like=``,
arrays of others by DLPack. A program that is one row of kernels is called by the native entry of kernels; the
others, which have functions of arrays or sizes that are known late in between, step by step.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .. import options, signposts
from ..boundary import short
from ..core.names import identifier
from ..entries import public
from ..errors import CallError, TensorLangError
from ..interface.signature import Param, Signature
from ..protocols import Listed, Results, Row
from . import files, hosts
from .arguments import Binder
from .arrays import in_kind_of, meet
from .bound import Bound
from .call import native_entry
from .codes import KernelCode
from .counted import Counted, counts
from .engine_export import c_engine
from .engine_file import pack, read
from .engine_page import notebook, page
from .engine_parts import contents_of, engine_of
from .engine_profile import EngineProfile, profiled, table_of
from .export import export
from .one_call import Whole
from .overrides import Overrides
from .program import Host, Kernel, Program, Rest, differences, later_key
from .returned import placed
from .run import MAX_PLANS, Arenas, Form
from .steps import Arrays, Direct, Loaded, Run, checked_out, inputs_of
from .timing import Timing, checked_seconds, measure

MAX_LATER = 64  # programs that follow, each for what was known when it was needed
Watch = Callable[[Any, Any, Arrays, dict[str, int], Mapping[int, Any]], None]


class Source(Protocol):
    """What only whoever compiled a program can make of it."""

    def explain(self) -> str:
        """Why each kernel is what it is."""

    def later(self, value: Any, dims: Mapping[str, int]) -> Engine:
        """The engine of the rest, for this value of the pivot or these dims."""

    def otherwise(self, apart: Sequence[int], dims: Mapping[str, int]) -> Engine:
        """The engine for these dims, where the assumptions of these numbers do not hold."""


@public(CallError, "Engine", signposts.ENGINE, made=signposts.MAKES_ENGINES)
class Engine:
    """A compiled graph: ``y = engine(x)``.

    Made by ``model.compile()`` or ``Engine.load``. Inputs are given in their order or by name, as numpy
    arrays or what DLPack hands over (those that do not lie in C order are copied); one output comes back as
    an array, several as a tuple. ``out=`` gives the arrays to write to, ``out_like=x`` asks for arrays of the
    library of ``x``. One that was compiled for another ``target`` is there to be saved and exported.
    """

    def __init__(
        self,
        program: Program,
        codes: Sequence[KernelCode],
        constants: Sequence[np.ndarray],
        source: Source | None = None,
        loaded: Loaded | None = None,
        target: str | None = None,
    ) -> None:
        self.program = program
        self.codes = tuple(codes)
        self.constants = Row("engine.constants", constants)
        self.source = source
        self.later: dict[Any, Engine] = {}
        self.output_names = Listed("engine.output_names", program.output_names)
        self.target = target  # None: this processor
        self._loaded = loaded or Loaded(self.codes)
        self.arenas = Arenas()
        self.apart = differences(program)
        self.steps: list[Run | Host] = []
        for i, step in enumerate(program.steps):
            self.steps.append(step if isinstance(step, Host) else self._run(i, step))
        self._lock = threading.Lock()
        self._inputs = [v for v in program.inputs if program.values[v].dtype]
        self._binder = Binder(self._signature(self._inputs))
        # whether shapes that were met before tell all that a glance at an array does not
        rest = {rule.name for s in self._binder.slots for rule in s.rest}
        self._quick = len(self._inputs) == len(program.inputs) and rest <= {"sizes"}
        self._met: dict[tuple[tuple[int, ...], ...], dict[str, int]] = {}  # dims by the shapes of inputs
        self._by_arrays = {v for step in program.steps if isinstance(step, Host) for v in step.outputs}
        self._counts = counts(program)
        self._direct = self._native()
        self._whole: Whole | None = None
        self.overrides: Overrides | None = None  # constants that a call may give

    def taking(self, named: Mapping[str, Any]) -> tuple[Engine, Any]:
        """The engine that takes these arguments by name, and those with the defaults it needs."""
        return (self, named) if self.overrides is None else self.overrides.taking(self, named)

    def _run(self, i: int, numbers: Sequence[int]) -> Run:
        read = self.program.read_after(i)
        return Run(self.program, numbers, read, self._loaded, self.constants, self.arenas)

    @property
    def kernels(self) -> list[Kernel]:
        """The calls of kernels, in order; several may have one code. ``len(engine.kernels)`` counts them."""
        return Listed("engine.kernels", self.program.kernels)

    # -- calls

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for these inputs. Raises CallError for inputs that do not fit, before anything is
        written."""
        try:
            if named and self.overrides is not None:
                taker, named = self.taking(named)
                if taker is not self:
                    return taker(*args, **named)
            return (self._direct or self.portable)(*args, **named)
        except TensorLangError as e:
            raise short(e) from e.__cause__

    def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name from inputs by name. Raises CallError for inputs that do not fit.

        >>> g = tl.Graph("g")
        >>> g.output(g.call(ops.relu, g.input(("n", 4), name="x")), "y")
        >>> e = g.compile(cache=False)
        >>> e.run({"x": np.ones((2, 4), "float32")})["y"].shape
        (2, 4)
        """
        return self.called(inputs, {})

    def explain(self) -> str:
        """Why each kernel is what it is: the operators in it, what they have in common, and why what it reads
        is computed by another. Raises CallError for an engine that was loaded from a file.

        >>> g = tl.Graph("g")
        >>> g.output(g.call(ops.relu, g.input(("n", 4), name="x")), "y")
        >>> e = g.compile(cache=False)
        >>> print(e.explain())
        g: 1 operator
        kernel 0: relu gives relu
        """
        if self.source is None:
            raise CallError(
                f"{self.program.name}: which operators its kernels compute is not known",
                because="the engine was loaded, and a file holds no graph",
                try_="model.compile().explain()",
            )
        return self.source.explain()

    def called(self, inputs: Mapping[str, Any], outs: Mapping[str, Any]) -> dict[str, Any]:
        """Outputs by name from inputs by name; those among ``outs`` are written there."""
        return Results(zip(self.output_names, self._called(inputs, outs), strict=True))

    def _called(self, inputs: Mapping[str, Any], outs: Mapping[str, Any]) -> Sequence[Any]:
        taker, inputs = self.taking(inputs)
        if taker is not self:
            return taker._called(inputs, outs)
        direct = self._direct
        args = None if direct is None else placed(self.program.input_names, (), inputs)
        if direct is not None and args is not None:
            if self._whole is None:
                made = direct(**inputs, **outs) if outs else direct(*args)
                return made if len(self.output_names) > 1 else (made,)
            made = self._whole.filled(args, self._numbered(outs))
            if made is not None:
                return made
        arrays, dims = self.arguments((), inputs)
        return self._served(arrays, dims, self._numbered(outs))

    def _numbered(self, outs: Mapping[str, Any]) -> dict[int, Any]:
        """Arrays to write to, by the number of the output."""
        return {self.output_names.index(n): a for n, a in outs.items()}

    def bind(self, pairs: Mapping[str, str] | None = None, **named: str) -> Bound:
        """Feed outputs back: ``engine.bind(stateN="state")`` is called without ``state`` and keeps what
        ``stateN`` was for the next call, without a copy. Names that are not words go into a mapping. Raises
        CallError for names that there are not."""
        return Bound(self, {**(pairs or {}), **named})

    def benchmark(self, *args: Any, seconds: float = 0.5, **named: Any) -> Timing:
        """Time whole calls on these inputs for about ``seconds``, or a few for 0; each makes its outputs.
        Raises CallError for inputs that do not fit.

        >>> g = tl.Graph("g")
        >>> g.output(g.call(ops.relu, g.input(("n", 4), name="x")), "y")
        >>> e = g.compile(cache=False)
        >>> e.benchmark(np.ones((2, 4), "float32"), seconds=0.01).median > 0
        True
        """
        return measure(lambda n: [self(*args, **named) for _ in range(n)], seconds=seconds)

    def profile(self, *args: Any, seconds: float = 0.3, **named: Any) -> EngineProfile:
        """Where the time of a call goes, kernel by kernel, on these inputs: each is timed alone in a row of
        calls that takes about ``seconds``. Prints as a table."""
        checked_seconds("profile", seconds)
        taker, named = self.taking(named)
        return profiled(taker, *taker.arguments(args, named), seconds)

    def report(self, path: str | Path, *args: Any, seconds: float = 0.3, **named: Any) -> None:
        """Write a page of HTML: the kernels with what flows between them, bytes, the arena over time. With
        inputs, as for a call, also where its time goes, as ``profile`` measures it in some ``seconds``, and
        the arena at their sizes. Raises TensorLangError when it cannot be written, CallError for inputs that
        do not fit."""
        taker, named = self.taking(named)
        if taker is not self:
            return taker.report(path, *args, seconds=seconds, **named)
        place = files.named(path, "report")
        profile = None
        checked_seconds("report", seconds)
        dims = {d.name: d.typical for d in self.program.dims}
        if args or named:
            arrays, dims = self.arguments(args, named)
            profile = profiled(self, arrays, dims, seconds)
        reasons = "" if self.source is None else self.source.explain()
        files.write({place: page(self, profile, dims, reasons).encode()}, f"report {self.program.name}")

    def _repr_html_(self) -> str:
        return notebook(self)

    def __str__(self) -> str:
        return table_of(self)

    def __repr__(self) -> str:
        p = self.program
        many = "1 kernel" if len(p.kernels) == 1 else f"{len(p.kernels)} kernels, {len(self.codes)} distinct"
        return f"<engine {p.name}({p.forms(p.inputs)}): {many}>"

    def _signature(self, values: Sequence[int], outputs: Sequence[int] = ()) -> Signature:
        """A signature of these inputs and outputs, which have the form of sizes."""
        p = self.program
        shapes = dict(zip(p.inputs, p.input_shapes, strict=True))
        params = [self._param(v, p.values[v].name, shapes[v], False) for v in values]
        params += [
            self._param(v, n, p.values[v].shape, True)
            for v, n in zip(outputs, p.output_names, strict=bool(outputs))
        ]
        return Signature(identifier(p.name), tuple(params), p.dims)

    def _param(self, v: int, name: str, rows: Sequence[int], output: bool) -> Param:
        shape = tuple(self.program.sizes.size(n) for n in rows)
        return Param(name, "buffer", self.program.values[v].dtype, shape, output)

    def _native(self) -> Any:
        """The native entry, for a program that is one row of kernels with sizes that a call tells at once."""
        p = self.program
        if len(self.steps) != 1 or p.rest is not None or p.assumed or not isinstance(self.steps[0], Run):
            return None
        run = self.steps[0]
        sizes = [p.sizes.size(n) for v in p.outputs for n in p.values[v].shape]
        names = [*p.input_names, *p.output_names]
        if (
            len(set(p.outputs)) != len(p.outputs)
            or not set(p.outputs) <= set(run.made)
            or None in sizes
            or len(set(names)) != len(names)
            or len(self._inputs) != len(p.inputs)
            or not set(run.dims) <= {d.name for d in p.dims}
        ):
            return None
        run.serves(p.inputs, p.outputs, [d.name for d in p.dims])
        direct = Direct(run, self._signature(p.inputs, p.outputs))
        quick = native_entry(direct) if options.native_calls() else None
        return quick or direct.portable

    # -- files

    def save(self, path: str | Path) -> None:
        """Write the engine to one file, which ``Engine.load`` reads without the model and the compiler.

        What was compiled for values, sizes or overrides met so far is in it. It holds machine code for
        processors like this one. Raises TensorLangError when it cannot be written, and for a model that calls
        Python.

        >>> import pathlib, tempfile
        >>> g = tl.Graph("g")
        >>> g.output(g.call(ops.relu, g.input(("n", 4), name="x")), "y")
        >>> e = g.compile(cache=False)
        >>> with tempfile.TemporaryDirectory() as at:
        ...     e.save(pathlib.Path(at, "g.engine"))
        ...     tl.Engine.load(pathlib.Path(at, "g.engine"))
        <engine g(x: float32[n, 4]): 1 kernel>
        """
        place = files.named(path, "save")
        files.write({place: pack(contents_of(self))}, f"save {self.program.name}")

    def export(self, path: str | Path, *, name: str | None = None, cc: str | None = None) -> None:
        """Write the engine for other programs: ``model.o`` (object file) or ``model.so`` (shared library, by
        the C compiler ``cc``), with the header ``model.h`` beside it, or ``model.h`` alone.

        The C function ``name`` (the model's own unless given) takes pointers to inputs and outputs, the open
        sizes, and memory of ``name_arena(sizes)`` bytes or NULL; ``name_shapes`` tells the shapes of outputs.
        Weights are in the file. It needs the C library only. Raises TensorLangError for a model that calls
        Python, or of which parts are compiled when a call shows a value, without a C compiler, and when
        nothing can be written; then nothing is.
        """
        signature = self._signature(self.program.inputs, self.program.outputs)
        export(path, lambda: c_engine(self, signature, name or signature.name), None, cc)

    @property
    def bodies(self) -> list[Engine]:
        """The engines of the graphs that functions of arrays run; empty where no step between kernels has
        one."""
        return Listed(
            "engine.bodies", [b for s in self.program.steps if isinstance(s, Host) for b in s.stored.bodies]
        )

    @staticmethod
    def load(path: str | Path, *, verify: bool = False, mine: bool = False) -> Engine:
        """The engine of a file that ``save`` wrote; its weights stay in the file, which is mapped.

        The file holds machine code: load only what you would run. ``verify`` also compares the hash of the
        weights, ``mine`` is as for ``tl.load``. Raises TargetError when it is for another machine,
        TensorLangError when it is torn, changed, no engine, or not to be trusted.
        """
        return engine_of(read(path, verify, mine), Engine)

    # -- step by step

    def portable(self, *args: Any, out: Any = None, out_like: Any = None, **named: Any) -> Any:
        """A call with all its checks in Python: what a native call falls back on. Raises CallError."""
        count, every = len(self.program.inputs), len(self.program.inputs) + len(self.output_names)
        listed = len(args) == every > count and not named and out is None
        if listed:
            args, out = args[:count], args[count:]
        arrays, dims = self.arguments(args, named)
        results = self._served(arrays, dims, self._outs(out))
        if listed:
            return None
        if out_like is not None:
            results = [in_kind_of(out_like, a, f"{self.program.name}: what is returned") for a in results]
        return results[0] if len(results) == 1 else tuple(results)

    def _served(self, arrays: Arrays, dims: dict[str, int], outs: dict[int, Any]) -> list[Any]:
        """The outputs for inputs that were checked: by the native call, where one is known for them."""
        if outs:
            self._distinct(arrays, outs)
        given = [arrays[v] for v in self.program.inputs]
        if self._whole is not None:
            made = self._whole.served(given, [dims[d.name] for d in self.program.dims], outs)
            if made is not None:
                return list(made)
        results = self.work(dict(arrays), dict(dims), outs)
        self._learn(given, dims, results)
        return results

    def plan_of(self, inputs: Sequence[Any]) -> tuple[int, bytes, Sequence[Any], Sequence[Form]] | None:
        """The plans that native calls are looked up in, the sizes for calls like this one, its inputs,
        checked, and shapes and types of what it gives; None where there is no plan for them."""
        if self._direct is None:
            return None
        arrays, dims = self.arguments(inputs, {})
        given, key = [arrays[v] for v in self.program.inputs], [dims[d.name] for d in self.program.dims]
        if self._whole is None:
            run = self.steps[0]
            assert isinstance(run, Run)
            plans, forms = run.plans, run.forms(key)
        else:
            met = self._whole.forms(given)
            if met is None:
                return None
            plans, forms = self._whole.plans, met
            key += [n for shape, _ in forms for n in shape]
        if plans.get(tuple(key)) is None:
            return None
        return plans.address, struct.pack(f"={len(key)}q", *key), given, forms

    def fail(self, status: int) -> None:
        """Raise what a nonzero status of a native call means."""
        (self._whole or self.steps[0]).fail(status)  # type: ignore[union-attr]

    def _learn(self, given: Sequence[Any], dims: Mapping[str, int], results: Sequence[Any]) -> None:
        """Have a native call for inputs like these."""
        if self._by_arrays and not self._counts:
            return
        signature, kind = self._binder.signature, Counted if self._counts else Whole
        if not kind.possible(self, results, signature, self._counts):
            return
        with self._lock:
            if self._whole is None and self._direct is None:
                self._whole = kind(self, results, signature)
                self._direct = self._whole.call
            if self._whole is not None:
                self._whole.learn(given, dims, results)

    def _distinct(self, arrays: Arrays, outs: Mapping[int, Any]) -> None:
        """That no array to write to shares memory with an input or another one. Raises CallError."""
        named = {self.program.values[v].name: a for v, a in arrays.items()}
        for i, out in outs.items():
            for name, a in named.items():
                if isinstance(out, np.ndarray) and isinstance(a, np.ndarray) and meet(out, a):
                    raise CallError(
                        f"{self.program.name}: the array for {self.output_names[i]} overlaps {name}",
                        because="what an engine writes may share no memory with another argument",
                        try_=f"a separate array for {self.output_names[i]}",
                    )
            named[self.output_names[i]] = out

    def arguments(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Arrays, dict[str, int]]:
        """The inputs of a call, checked, by the numbers of their values, and the dims they tell. Raises
        CallError."""
        given = self._plain(args, named)
        if given is None:
            return self._checked(args, named)
        shapes = tuple([a.shape for a in given])
        dims = self._met.get(shapes)
        if dims is None:
            _, dims = self._checked(args, named)
            while len(self._met) >= MAX_PLANS:
                self._met.pop(next(iter(self._met)), None)
            self._met[shapes] = dims
        return dict(zip(self._inputs, given, strict=True)), dict(dims)

    def _plain(self, args: Sequence[Any], named: Mapping[str, Any]) -> Sequence[Any] | None:
        """The inputs of a call, where they are all given in one way, and each can be taken as it is."""
        slots = self._binder.slots
        if not self._quick or len(args) + len(named) != len(slots) or (args and named):
            return None
        given = args or placed([s.param.name for s in slots], (), named)
        return given if given is not None and self._binder.glance(given)[1] else None

    def _checked(self, args: Sequence[Any], named: Mapping[str, Any]) -> tuple[Arrays, dict[str, int]]:
        """As ``arguments``, by the rules one after the other."""
        p, other = self.program, {}
        if len(self._inputs) != len(p.inputs):  # some are not arrays, which have no rules
            given = dict(zip(p.input_names, args, strict=False)) | dict(named)
            names = {p.values[v].name: v for v in p.inputs if v not in self._inputs}
            missing = [n for n in names if n not in given]
            if missing or len(args) > len(p.inputs):
                raise CallError(
                    f"{p.name}: input {missing[0] if missing else len(args)} is not what it takes"
                )
            other = {v: given.pop(n) for n, v in names.items()}
            args, named = (), given
        bound = self._binder.bind(*inputs_of(self._binder.signature, args, named))
        arrays = dict(zip(self._inputs, bound.keep, strict=True))
        sizes = struct.unpack(f"={len(p.dims)}q", bound.scalars)
        return {**arrays, **other}, {d.name: n for d, n in zip(p.dims, sizes, strict=True)}

    def _outs(self, out: Any) -> dict[int, Any]:
        """The arrays to write to, by the number of the output."""
        if out is None:
            return {}
        outs = out if isinstance(out, tuple | list) else (out,)
        if len(outs) != len(self.output_names):
            raise CallError(
                f"{self.program.name}: out= gives {len(outs)} of {len(self.output_names)} outputs",
                because=f"they are {', '.join(self.output_names)}",
            )
        return dict(enumerate(outs))

    def work(
        self, arrays: Arrays, dims: dict[str, int], outs: dict[int, Any], watch: Watch | None = None
    ) -> list[Any]:
        """The outputs, from the inputs by their numbers. ``watch`` runs each step in place of the engine.
        Raises CallError for sizes that it is not for."""
        p = self.program
        apart = self.apart(dims)
        if apart:
            rest, engine = self._otherwise(apart, dims)
            return engine._work_of(rest, arrays, dims, outs, watch)
        for v, c in p.constants.items():
            arrays[v] = self.constants[c]
        wanted = {} if p.rest is not None else {v: outs[i] for i, v in enumerate(p.outputs) if i in outs}
        for step in self.steps:
            (watch or Engine.take)(self, step, arrays, dims, wanted)
        if p.rest is not None:
            return self._continued(p.rest, arrays, dims)._work_of(p.rest, arrays, dims, outs, watch)
        return self._results(arrays, outs)

    def take(self, step: Run | Host, arrays: Arrays, dims: dict[str, int], outs: Mapping[int, Any]) -> None:
        """Run one step."""
        if isinstance(step, Run):
            step.call(arrays, dims, outs)
        else:
            hosts.run(self.program, step, arrays, dims)

    def _results(self, arrays: Arrays, outs: Mapping[int, Any]) -> list[Any]:
        """The outputs, each an array of its own that is not an input or a constant."""
        p = self.program
        results: list[Any] = []
        mine = {*p.inputs, *p.constants}
        for i, v in enumerate(p.outputs):
            a = arrays[v]
            if i in outs and outs[i] is not a:
                np.copyto(checked_out(p, v, a.shape, outs[i]), a)
                a = outs[i]
            elif i not in outs and isinstance(a, np.ndarray):
                # a function of arrays may hand on what it was given, or a part of it
                others = (*(arrays[w] for w in mine), *results) if v in self._by_arrays else ()
                if v in mine or any(np.may_share_memory(a, b) for o in others for b in _leaves(o)):
                    a = a.copy()
            mine.add(v)
            results.append(a)
        return results

    def key_of_rest(self, value: Any, dims: Mapping[str, int]) -> Any:
        """What tells which program follows, for this value of the pivot."""
        assert self.program.rest is not None
        return later_key((), value, [dims[d] for d in self.program.rest.dims])

    def _continued(self, rest: Rest, arrays: Arrays, dims: Mapping[str, int]) -> Engine:
        """What follows once some values are numbers."""
        value = None if rest.pivot is None else np.asarray(arrays[rest.pivot])
        known = {d: dims[d] for d in rest.dims}
        what = [f"{d}={n}" for d, n in known.items()]
        if value is not None and rest.pivot is not None:
            what.append(f"{self.program.values[rest.pivot].name} = {np.array2string(value, threshold=8)}")
        return self._later(self.key_of_rest(value, dims), lambda s: s.later(value, known), ", ".join(what))

    def key_otherwise(self, apart: Sequence[int], dims: Mapping[str, int]) -> Any:
        """What tells which program is run where the assumptions of these numbers do not hold: conditions are
        taken the other way, else it is one for these very sizes."""
        p = self.program
        turned = tuple(i for i in apart if p.assumed[i][2])
        known = () if p.otherwise is None or turned else [dims[d] for d in p.otherwise.dims]
        return later_key(turned or (-1,), None, known)

    def _otherwise(self, apart: tuple[int, ...], dims: Mapping[str, int]) -> tuple[Rest, Engine]:
        """What is run where assumptions do not hold."""
        p = self.program
        if p.otherwise is None:
            a, b, _ = p.assumed[apart[0]]
            raise CallError(
                f"{p.name}: this part of a graph is for sizes that are equal",
                because=f"{p.shown(a)} is not {p.shown(b)}",
                try_="the whole graph, which serves others too",
            )
        known = {d: dims[d] for d in p.otherwise.dims}
        what = ", ".join(f"{d}={n}" for d, n in known.items())
        make = self._later(self.key_otherwise(apart, dims), lambda s: s.otherwise(apart, known), what)
        return p.otherwise, make

    def _work_of(
        self, rest: Rest, arrays: Arrays, dims: dict[str, int], outs: dict[int, Any], watch: Watch | None
    ) -> list[Any]:
        """The outputs for values of the program that this one is the rest of."""
        given = {new: arrays[old] for new, old in zip(self.program.inputs, rest.live, strict=True)}
        return self.work(given, dims, outs, watch)

    def _later(self, key: Any, make: Callable[[Source], Engine], what: str) -> Engine:
        """The engine of that key, compiled when it is met for the first time."""
        engine = self.later.get(key)
        if engine is not None:
            return engine
        with self._lock:
            engine = self.later.get(key)
            if engine is None:
                if self.source is None:
                    raise CallError(
                        f"{self.program.name}: this engine was saved before it met {what}",
                        because="a part of the model is compiled for each of these, which needs the model",
                        try_="call the engine once with such inputs where it is compiled, then save it",
                    )
                engine = make(self.source)
                while len(self.later) >= MAX_LATER:
                    del self.later[next(iter(self.later))]
                self.later[key] = engine
            return engine


def _leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a value, which may be a sequence of them."""
    if isinstance(value, list | tuple):
        return [a for x in value for a in _leaves(x)]
    return [value] if isinstance(value, np.ndarray) else []
