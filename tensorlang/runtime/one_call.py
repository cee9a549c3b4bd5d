"""An engine of several programs as one native call: which of them follows is looked up by the sizes of the
call when its plan is made, and by the values met on the way when it runs. Knows engines, plans and the native
entry; compiles nothing.

What the outputs are like is not known before a first call has gone step by step, for it may be another
program that makes them. So their sizes are dims of the entry that the arrays to write to tell, and a plan is
for the sizes of inputs and outputs. Where a value leads to what no plan has, or to outputs of other sizes,
the call goes step by step, and the plan is made anew.
"""

from __future__ import annotations

import itertools
import struct
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import options
from ..core.dtype import dtype
from ..errors import CallError
from ..interface.signature import Dim, Param, Signature
from ..native.engine import ARENA, CONSTANT, GIVEN, UNPLANNED
from .arena import rounded
from .arguments import Binder
from .arrays import address_of, empty
from .call import native_entry
from .program import Host
from .returned import placed
from .run import MAX_PLANS, Copy, Form, Jump, Miss, Place, Planned, Plans, Shape, functions
from .steps import Loaded, Run

if TYPE_CHECKING:
    from .engine import Engine

_WRONG = (AttributeError, KeyError, TypeError)


class _Piece(NamedTuple):
    """The steps from a program on, the end of what they use of the arena, the most work they can be."""

    steps: list[Any]
    end: int
    work: float


class Entry:
    """What the native entry sees of a ``Whole`` (see ``module.Plan``)."""

    def __init__(self, whole: Whole, portable: Any) -> None:
        self.signature, self.binder = whole.signature, whole.binder
        self.address, self.context = functions()["address"], whole.plans.address
        self.fail, self.portable = whole.fail, portable


class Whole:
    """The native call of an engine, for outputs like these ``results``. ``call`` takes the inputs, and
    perhaps the outputs, by position; it is None where the native entry cannot take them."""

    def __init__(
        self,
        engine: Engine,
        results: Sequence[np.ndarray],
        signature: Signature,
        labels: Sequence[str] | None = None,
    ) -> None:
        self._engine = weakref.ref(engine)  # it holds this
        self._names = [p.name for p in signature.params]
        self._forms = [(a.ndim, a.dtype) for a in results]
        labels = engine.output_names if labels is None else labels
        dims = [Dim(f"{n} {d}") for n, a in zip(labels, results, strict=True) for d in range(a.ndim)]
        names = iter(d.name for d in dims)
        outputs = [  # given by position: they may be called as inputs are
            Param(f"{n} out", "buffer", str(dtype(a.dtype)), tuple(itertools.islice(names, a.ndim)), True)
            for n, a in zip(labels, results, strict=True)
        ]
        params, every = (*signature.params, *outputs), (*signature.dims, *dims)
        self.signature = Signature(signature.name, params, every)
        self.binder = Binder(self.signature)
        self.plans = Plans(len(every), engine.arenas)
        self._pack = struct.Struct(f"={len(params)}q").pack
        self._key = struct.Struct(f"={len(every)}q").pack
        self._made: dict[tuple[Shape, ...], list[Form]] = {}  # what came of inputs of these shapes
        self._numbers: dict[tuple[int, int], int] = {}  # of kernels, as ``fail`` gets them
        self._calls: list[tuple[Loaded, int]] = []
        self.call = self._try = None
        if options.native_calls():
            own = weakref.ref(self)  # a cycle would keep the code until the collector comes by
            self.call = self._entry(lambda *args, **named: own()._without_outputs(*args, **named))  # type: ignore[union-attr]
            self._try = self._entry(lambda *_: NotImplemented)

    def _entry(self, portable: Any) -> Any:
        return native_entry(Entry(self, portable), portable)

    @staticmethod
    def possible(engine: Engine, results: Sequence[Any], signature: Signature, between: bool) -> bool:
        """Whether there can be a native call: everything an array, each with a name of its own, no function
        of arrays on any way that was met, but ``between`` kernels of one that counts."""
        names = [p.name for p in signature.params]
        return (
            len(signature.params) == len(engine.program.inputs)
            and len(set(names)) == len(names)
            and None not in (n for p in signature.params for n in p.shape)
            and all(type(a) is np.ndarray for a in results)
            and (between or not any(isinstance(s, Host) for e in _tree(engine) for s in e.steps))
        )

    # -- calls

    def _without_outputs(self, *args: Any, **named: Any) -> Any:
        """What the native entry does not take: calls that leave the outputs out, and all others step by
        step."""
        given = placed(self._names, args, named)
        if given is not None:
            made = self.filled(given, {})
            if made is not None:
                return made[0] if len(made) == 1 else tuple(made)
        engine = self._engine()
        assert engine is not None
        return engine.portable(*args, **named)

    def filled(self, args: Sequence[Any], outs: Mapping[int, Any]) -> list[Any] | None:
        """The outputs, those given by their numbers written to; None for what must go step by step."""
        try:
            forms = self._made[tuple([a.shape for a in args])]
        except _WRONG:
            return None
        made = [outs[i] if i in outs else empty(*f) for i, f in enumerate(forms)]
        return made if self._try is not None and self._try(*args, *made) is None else None

    def forms(self, inputs: Sequence[np.ndarray]) -> list[Form] | None:
        """Of the outputs for inputs like these, where such were met."""
        return self._made.get(tuple([a.shape for a in inputs]))

    def served(self, inputs: Sequence[np.ndarray], dims: Sequence[int], outs: Mapping[int, Any]) -> Any:
        """The outputs for inputs that were checked; None for what must go step by step."""
        forms = self.forms(inputs)
        if forms is None or outs:
            return None
        made = [empty(*f) for f in forms]
        addresses = map(address_of, (*inputs, *made))
        status = self.plans.once(self._pack(*addresses), self._key(*dims, *(n for s, _ in forms for n in s)))
        if status not in (0, UNPLANNED):
            self.fail(status)
        return made if status == 0 else None

    def fail(self, status: int) -> None:
        """Raise what a nonzero status means."""
        if status < 256:
            raise MemoryError(f"{self.signature.name}: no memory for its temporary values")
        loaded, code = self._calls[status // 256 - 1]
        loaded.fail(code, status % 256)

    # -- plans

    def learn(
        self, inputs: Sequence[np.ndarray], dims: Mapping[str, int], results: Sequence[np.ndarray]
    ) -> None:
        """Have a plan for calls like this one, which went step by step."""
        engine = self._engine()
        if engine is None or [(a.ndim, a.dtype) for a in results] != self._forms:
            return
        shapes = [a.shape for a in results]
        while len(self._made) >= MAX_PLANS:
            self._made.pop(next(iter(self._made)), None)
        self._made[tuple(a.shape for a in inputs)] = [(a.shape, a.dtype) for a in results]
        names = [d.name for d in engine.program.dims]
        key = (*(dims[n] for n in names), *(n for s in shapes for n in s))
        parts = tuple(_tree(engine))[1:]
        before = self.plans.get(key)
        if before is None or before.keep != parts:
            where = {v: (GIVEN + i, 0) for i, v in enumerate(engine.program.inputs)}
            steps, end, work = self._piece(engine, dims, shapes, where, 0)
            self.plans.renew(key, Planned(steps, end, work, parts))

    def _piece(
        self, e: Engine, dims: Mapping[str, int], outs: Sequence[Shape], where: dict[int, Place], base: int
    ) -> _Piece:
        """What runs for these dims from a program on, whose values so far lie there; the arena is in use up
        to ``base``."""
        p = e.program
        where = {**where, **{v: (CONSTANT, address_of(e.constants[c])) for v, c in p.constants.items()}}
        apart = e.apart(dims)
        if apart:
            key = e.key_otherwise(apart, dims)
            return self._next(e.later.get(key), p.otherwise, dims, outs, where, base)
        first = GIVEN + len(self._names)
        steps, end, work = list[Any](), base, 0.0
        if e.steps:
            (run,) = e.steps
            assert isinstance(run, Run)
            try:
                slots, shapes = run.sized([dims[d] for d in run.dims])
            except CallError:
                return _Piece([Miss()], base, 0.0)
            for i, v in enumerate(p.outputs):
                if v not in where and shapes.get(v) == outs[i]:
                    where[v] = (first + i, 0)
            sizes = run.bytes(shapes)
            for v in run.kept:
                if v not in where:
                    where[v] = (ARENA, base)
                    base += rounded(sizes[v])
            inner = [v for v in run.made if v not in where]
            offsets, more = run.placed(inner, shapes)
            where |= {v: (ARENA, base + at) for v, at in zip(inner, offsets, strict=True)}
            end, work = base + more, run.work(slots)
            steps += run.laid(slots, where, [self._number(run.loaded, k.code) for k in run.kernels])
        if p.rest is None:
            return _Piece(steps + self._end(e, dims, outs, where, first), end, work)
        after = self._after(e, dims, outs, where, base)
        return _Piece(steps + after.steps, max(end, after.end), work + after.work)

    def _after(
        self, e: Engine, dims: Mapping[str, int], outs: Sequence[Shape], where: dict[int, Place], base: int
    ) -> _Piece:
        """What follows a program."""
        rest = e.program.rest
        assert rest is not None
        known = tuple(dims[d] for d in rest.dims)
        if rest.pivot is None:
            return self._next(e.later.get(e.key_of_rest(None, dims)), rest, dims, outs, where, base)
        shape, cases = self._shape(e, rest.pivot, dims), list[tuple[bytes, Any]]()
        end, work = base, 0.0
        for (_, value, sizes), engine in list(e.later.items()):
            if value is not None and value[1] == shape and sizes == known:
                piece = self._next(engine, rest, dims, outs, where, base)
                cases.append((value[2], piece.steps))
                end, work = max(end, piece.end), max(work, piece.work)
        return _Piece([Jump(where[rest.pivot], cases)], end, work)

    def _next(
        self,
        e: Engine | None,
        rest: Any,
        dims: Mapping[str, int],
        outs: Sequence[Shape],
        where: Mapping[int, Place],
        base: int,
    ) -> _Piece:
        if e is None:
            return _Piece([Miss()], base, 0.0)
        given = {new: where[old] for new, old in zip(e.program.inputs, rest.live, strict=True)}
        return self._piece(e, dims, outs, given, base)

    def _end(
        self, e: Engine, dims: Mapping[str, int], outs: Sequence[Shape], where: dict[int, Place], first: int
    ) -> list[Any]:
        """The steps that bring outputs to where they are wanted; a miss when they are others."""
        values, steps = e.program.values, list[Any]()
        for i, v in enumerate(e.program.outputs):
            kind = dtype(values[v].dtype).to_numpy() if values[v].dtype else None
            if kind != self._forms[i][1] or self._shape(e, v, dims) != outs[i]:
                return [Miss()]
            if where[v] != (first + i, 0):
                size = int(np.prod(outs[i], dtype=np.int64)) * kind.itemsize
                steps.append(Copy(size, where[v], (first + i, 0)))
        return steps

    def _shape(self, e: Engine, v: int, dims: Mapping[str, int]) -> Shape:
        rows = e.program.values[v].shape
        names = e.program.sizes.dims(rows)
        return e.program.sizes.function(rows, names)(*(dims[n] for n in names))

    def _number(self, loaded: Loaded, code: int) -> int:
        found = self._numbers.get((id(loaded), code))
        if found is None:
            found = self._numbers[id(loaded), code] = len(self._calls)
            self._calls.append((loaded, code))
        return found


def _tree(e: Engine) -> Iterator[Engine]:
    """The engine and all that follow it, as far as they were met."""
    yield e
    for after in list(e.later.values()):
        yield from _tree(after)
