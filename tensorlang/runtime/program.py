"""What an engine does, as plain data: values with their sizes, kernels, and the order in which they run.
Knows no code, no arrays, no graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..interface.signature import Dim, show
from .arena import Life
from .size_table import SizeTable


class Value(NamedTuple):
    """``shape`` are numbers of rows in the program's table of sizes; ``dtype`` is empty for what is no
    array."""

    name: str
    dtype: str
    shape: tuple[int, ...]


class Kernel(NamedTuple):
    """A call of a kernel: the number of its code, of the values it reads and writes, of its constants, and
    the rows that are its sizes."""

    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[int, ...]
    slots: tuple[int, ...]


Joined = Mapping[int, tuple[int, ...]]


def lives(kernels: Sequence[Kernel], sizes: Mapping[int, int], joined: Joined) -> list[Life]:
    """Between which of these kernels, which run in this order, values of so many bytes live; those that are
    ``joined`` as long as the whole of them."""
    spans = {v: [n, 0, 0] for v, n in sizes.items()}
    for i, k in enumerate(kernels):
        for v in k.outputs:
            if v in spans:
                spans[v][1:] = i, i
        for v in k.inputs:
            if v in spans:
                # the last reader: from then on its memory may be another's
                spans[v][2] = i
    whole = [(spans[v], [spans[p] for p in parts]) for v, parts in joined.items() if v in spans]
    for span, parts in whole:
        span[1:] = min(first for _, first, _ in parts), max(span[2], *(last for _, _, last in parts))
    for span, parts in reversed(whole):
        for part in parts:
            part[1:] = span[1:]
    return [Life(*span) for span in spans.values()]


def made_by(kernels: Sequence[Kernel], joined: Joined) -> list[int]:
    """The values that these kernels make, and those that lie there as soon as their parts are made."""
    found = dict.fromkeys(v for k in kernels for v in k.outputs)
    for v, parts in joined.items():
        if found.keys() >= set(parts):
            found[v] = None
    return list(found)


def inside(values: Sequence[int], sizes: Mapping[int, int], joined: Joined) -> dict[int, tuple[int, int]]:
    """Those of ``values``, by their place among them, that are parts of others: the place of the outermost
    whole, and the bytes before them in it."""
    places = {v: i for i, v in enumerate(values)}
    found: dict[int, tuple[int, int]] = {}
    for v, parts in reversed(list(joined.items())):
        if v in places:
            whole, before = found.get(places[v], (places[v], 0))
            for part in parts:
                found[places[part]] = whole, before
                before += sizes[part]
    return found


class Row(NamedTuple):
    """A size in an attribute: the number of a row."""

    number: int


@dataclass
class Stored:
    """A function of arrays as plain data: its name, empty for one that no file knows, its attributes, and
    the engines of the graphs it runs."""

    function: str
    attrs: Mapping[str, Any]
    bodies: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Host:
    """A function of arrays that runs between kernels: ``call(arrays, dims)``; None among the inputs is one
    that is left out. ``stored`` is what a file has of it."""

    name: str
    call: Callable[[Sequence[Any], dict[str, int]], tuple[Any, ...]]
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    stored: Stored


class Rest(NamedTuple):
    """What follows once a value, or some dims, are known: another program for each of what they can be. Its
    inputs are the values ``live``."""

    pivot: int | None
    dims: tuple[str, ...]
    live: tuple[int, ...]


@dataclass
class Program:
    """``dims`` are the sizes that follow from the inputs, with their facts; ``constants`` has the numbers of
    the arrays that some values are. ``input_shapes`` are as declared: sizes that are ``assumed`` to be equal
    are one in the shapes of values, and where they differ at a call, ``otherwise`` is run instead. ``steps``
    are numbers of kernels in a row, or functions of arrays. ``most`` has the bytes of values at their
    largest, where a profile tells. ``joined`` has values of known sizes that are no more than others one
    behind the other, which are written where they lie in it; parts that are wholes themselves come before."""

    name: str
    dims: tuple[Dim, ...]
    sizes: SizeTable
    values: list[Value]
    inputs: tuple[int, ...]
    input_shapes: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    output_names: tuple[str, ...]
    assumed: tuple[tuple[int, int, bool], ...] = ()
    constants: dict[int, int] = field(default_factory=dict)
    kernels: list[Kernel] = field(default_factory=list)
    steps: list[tuple[int, ...] | Host] = field(default_factory=list)
    rest: Rest | None = None
    otherwise: Rest | None = None
    most: dict[int, int] = field(default_factory=dict)
    joined: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def input_names(self) -> list[str]:
        return [self.values[v].name for v in self.inputs]

    def forms(self, values: Iterable[int]) -> str:
        """Values as people read them: ``x: float32[n, 64]``; ``?`` is a size without a short form."""
        return ", ".join(map(self._form, values))

    def _form(self, v: int) -> str:
        value = self.values[v]
        return f"{value.name}: {value.dtype}[{', '.join(self.shown(n, '?') for n in value.shape)}]"

    def shown(self, row: int, otherwise: str = "a size") -> str:
        """A size as people read it; ``otherwise`` for one without a short form."""
        size = self.sizes.size(row)
        return otherwise if size is None else show(size)

    def read_after(self, step: int) -> set[int]:
        """The values that somebody reads after a step: later steps, the caller, what follows."""
        found = set(self.outputs)
        if self.rest is not None:
            found.update(self.rest.live)
            if self.rest.pivot is not None:
                found.add(self.rest.pivot)
        for s in self.steps[step + 1 :]:
            if isinstance(s, Host):
                found.update(v for v in s.inputs if v is not None)
            else:
                found.update(v for k in s for v in self.kernels[k].inputs)
        return found


def later_key(turned: tuple[int, ...], value: Any, sizes: Iterable[int]) -> Any:
    """What tells one rest of a program from another."""
    # by its bytes: an array is no key
    what = None if value is None else (str(value.dtype), value.shape, value.tobytes())
    return turned, what, tuple(sizes)


def differences(p: Program) -> Callable[[Mapping[str, int]], tuple[int, ...]]:
    """Tells for values of the dims the numbers of the assumptions that do not hold."""
    if not p.assumed:
        return lambda dims: ()
    rows = [n for a, b, _ in p.assumed for n in (a, b)]
    # one function for all assumptions, which share most of their arithmetic
    names = p.sizes.dims(rows)
    sides = p.sizes.function(rows, names)

    def apart(dims: Mapping[str, int]) -> tuple[int, ...]:
        numbers = sides(*(dims[d] for d in names))
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return tuple(i for i, (a, b) in enumerate(pairs) if a != b)

    return apart
