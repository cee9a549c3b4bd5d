"""The dims of a call: solved from shapes, strides and numbers of its arguments, and what they must be. Knows
signatures and numpy arrays.

``Sizes`` is prepared once for a signature; ``solve`` goes over the arrays of a call in the order of the
parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CallError, TensorLangError
from ..interface.signature import Signature, Size, evaluate, names_in, show, solved
from .rules import DIMS, Number, Slot, shape_of

_LEAST, _MOST = -(1 << 64), 1 << 64  # beyond every size, stride and number
Steps = list[tuple[int, int, Size, int]]  # slot, axis, declared stride, the array's in elements
Arrays = Sequence[Any]  # by slot; None for an output that is to be allocated


class Sizes:
    """Where the dims of a signature come from. Raises TensorLangError for one that no argument gives."""

    def __init__(self, signature: Signature, slots: Sequence[Slot], numbers: Sequence[Number]) -> None:
        self.kernel, self.dims, self.slots, self.numbers = signature.name, signature.dims, slots, numbers
        named = {n.param.name for n in numbers if n.limits is not None}
        of_shapes = {name for s in slots for size in s.shape for name in names_in(size)}
        of_strides = {name for s in slots for size in s.strides or () for name in names_in(size)}
        dims = {d.name for d in self.dims}
        self.derived = (*self._derive(False, named), *self._derive(True, named))
        axes = [(k, axis, size) for k, s in enumerate(slots) for axis, size in s.axes]
        self.plain = tuple((k, axis, size) for k, axis, size in axes if isinstance(size, str))
        self.computed = tuple((k, axis, size) for k, axis, size in axes if isinstance(size, tuple))
        self.strided = tuple(
            (k, axis, size) for k, s in enumerate(slots) for axis, size in enumerate(s.strides or ())
        )
        self._check_declared(named)
        # what a glance compares, as the native entry does; the rules then say what is wrong
        self.bounds = tuple(
            (d.name, _LEAST if d.lo is None else d.lo, _MOST if d.hi is None else d.hi, d.multiple_of)
            for d in self.dims
            if (d.lo, d.hi, d.multiple_of) != (None, None, 1)
        )
        self.named = named & (of_shapes | of_strides | dims)  # sizes that a number of their name gives
        self.lying = dims - of_shapes - named  # dims that only strides tell
        # whether shapes tell all dims, and nothing else is to agree with them
        self.simple = not (self.derived or self.computed or self.strided)

    def _check_declared(self, named: set[str]) -> None:
        """Every dim has a size that gives it, and every size has dims that are there."""
        bare = {size for *_, size in (*self.plain, *self.strided) if isinstance(size, str)}
        bare |= named | {name for *_, name in self.derived}
        for dim in self.dims:
            if dim.name not in bare:
                raise TensorLangError(
                    f"kernel {self.kernel}: dim {dim.name} cannot be solved from the arguments",
                    because=f"no argument has an axis of size {dim.name}",
                    try_=f"add an argument with such an axis, or a scalar argument named {dim.name}",
                )
        known = {d.name for d in self.dims} | named
        for s in self.slots:
            for name in (name for size in (*s.shape, *(s.strides or ())) for name in names_in(size)):
                if name not in known:
                    raise TensorLangError(f"kernel {self.kernel}: {s.param.name} has the unknown dim {name}")

    def _derive(self, outputs: bool, named: set[str]) -> list[tuple[int, int, Size, str]]:
        """(slot, axis, size, dim) for each dim that only a computed size determines, in an order in which it
        does; of a call that leaves its outputs out, or of one that passes them."""
        sizes = [
            (k, axis, size)
            for k, s in enumerate(self.slots)
            if outputs or not s.output
            for axis, size in s.axes
        ]
        known = dict.fromkeys(
            {size for *_, size in sizes if isinstance(size, str)} | named, 2
        )  # any number will do here
        result: list[tuple[int, int, Size, str]] = []
        more = True
        while more:
            more = False
            for k, axis, size in sizes:
                dim = _alone(size, known) if isinstance(size, tuple) else None
                if dim is not None:
                    result.append((k, axis, size, dim))
                    known[dim] = 2
                    more = True
        return result

    def solve(self, arrays: Arrays, numbers: Sequence[Any]) -> dict[str, int]:
        """Values of the dims, checked against every size and their declared bounds. Raises CallError."""
        dims: dict[str, int] = {}
        if self.named:
            named = ((n.param.name, value) for n, value in zip(self.numbers, numbers, strict=True))
            dims.update((name, int(value)) for name, value in named if name in self.named)
        for k, axis, size in self.plain:
            a = arrays[k]
            if a is not None and dims.setdefault(size, n := a.shape[axis]) != n:
                raise self._unequal(k, axis, size, arrays, dims)
        steps = [] if self.simple and len(dims) == len(self.dims) else self._rest(arrays, dims)
        for name, lo, hi, multiple in self.bounds:
            if not lo <= dims[name] <= hi or dims[name] % multiple:
                raise self._outside(name, arrays, dims)
        if steps or self.computed:
            self._agree(steps, arrays, dims)
        return dims

    def _rest(self, arrays: Arrays, dims: dict[str, int]) -> Steps:
        """The dims that no axis has for its size, and the strides to be checked."""
        if self.derived:
            self._derived(arrays, dims)
        if len(dims) < len(self.dims):
            self._all_known(dims)
        steps = self._steps(arrays) if self.strided else []
        if steps:
            self._strides(steps, arrays, dims)
        if len(dims) < len(self.dims):
            self._free(arrays, dims)
        return steps

    def _agree(self, steps: Steps, arrays: Arrays, dims: dict[str, int]) -> None:
        """Computed sizes and strides are those of the arrays."""
        for k, axis, size in self.computed:
            if arrays[k] is not None and evaluate(size, dims) != arrays[k].shape[axis]:
                because = (
                    f"axis {axis} is {arrays[k].shape[axis]}, not {show(size)} = "
                    f"{evaluate(size, dims)}{where(size, dims)}"
                )
                raise CallError(
                    f"{self.slots[k].title} {shape_of(self.slots[k], arrays[k])}", because=because
                )
        for k, axis, size, step in steps:
            if evaluate(size, dims) != step:
                now = (
                    f", which is {evaluate(size, dims)}{where(size, dims)}" if isinstance(size, tuple) else ""
                )
                raise CallError(
                    f"{self.slots[k].title} has stride {step} along axis {axis}, declared {show(size)}{now}",
                    because="strides count elements: neighbours along an axis lie that far apart",
                )

    def _unequal(self, k: int, axis: int, size: str, arrays: Arrays, dims: Mapping[str, int]) -> CallError:
        """Two axes of one size differ."""
        slot, a = self.slots[k], arrays[k]
        because = (
            f"{size} is {dims[size]} by {self._source(size, arrays, dims)}, and "
            f"{a.shape[axis]} by axis {axis} of {slot.param.name}"
        )
        return CallError(f"{slot.title} {shape_of(slot, a)}", because=because)

    def _derived(self, arrays: Arrays, dims: dict[str, int]) -> None:
        for k, axis, size, name in self.derived:
            a = arrays[k]
            if name in dims or a is None or any(n not in dims and n != name for n in names_in(size)):
                continue
            solution = solved(size, a.shape[axis], dims)
            if solution is None:
                known = where([n for n in names_in(size) if n in dims], dims)
                because = (
                    f"axis {axis} is {a.shape[axis]}, which {show(size)} is for no whole number {name}{known}"
                )
                raise CallError(f"{self.slots[k].title} {shape_of(self.slots[k], a)}", because=because)
            dims[name] = solution[1]

    def _all_known(self, dims: dict[str, int]) -> None:
        """Only an output that is to be allocated has a dim that no argument gives."""
        for dim in self.dims:
            if dim.name not in dims and dim.name not in self.lying:
                holder = next(
                    s.param.name for s in self.slots if any(dim.name in names_in(size) for size in s.shape)
                )
                raise CallError(
                    f"{self.kernel}: {holder} cannot be allocated",
                    because=f"no other argument gives its size {dim.name}",
                    try_=f"pass {holder}",
                )

    def _steps(self, arrays: Arrays) -> Steps:
        """The strides that matter, in elements."""
        return [
            (k, axis, size, arrays[k].strides[axis] // arrays[k].itemsize)
            for k, axis, size in self.strided
            if arrays[k] is not None and arrays[k].size and arrays[k].shape[axis] > 1
        ]

    def _strides(self, steps: Steps, arrays: Arrays, dims: dict[str, int]) -> None:
        first: dict[str, str] = {}
        for k, axis, size, step in steps:
            if isinstance(size, str):
                here = f"stride {axis} of {self.slots[k].param.name}"
                if dims.setdefault(size, step) != step:
                    by = first.get(size) or self._source(size, arrays, dims)
                    because = f"{size} is {dims[size]} by {by}, and {step} by {here}, in elements"
                    raise CallError(
                        f"{self.slots[k].title} has stride {step} along axis {axis}, declared {size}",
                        because=because,
                    )
                first.setdefault(size, here)

    def _free(self, arrays: Arrays, dims: dict[str, int]) -> None:
        """Strides that nothing determines: of arrays to be allocated compact, else, along axes of one
        element, any."""
        for k, axis, size in self.strided:
            if arrays[k] is None and isinstance(size, str) and size not in dims:
                dims[size] = math.prod(max(1, evaluate(n, dims)) for n in self.slots[k].shape[axis + 1 :])
        for dim in self.dims:
            dims.setdefault(dim.name, -(-max(0, dim.lo or 0) // dim.multiple_of) * dim.multiple_of)

    def _outside(self, name: str, arrays: Arrays, dims: dict[str, int]) -> CallError:
        """A dim is not what it is declared to be."""
        dim = next(d for d in self.dims if d.name == name)
        rule = next(rule for rule in DIMS if rule.concerns(dim) and not rule.holds(dim, dims[name]))
        what, because, try_ = rule.says(dim)
        source = self._source(dim.name, arrays, dims)
        return CallError(
            f"{self.kernel}: {dim.name} = {dims[dim.name]} {what}",
            because=f"{dim.name} {because} ({dim.name} is {source})",
            try_=try_,
        )

    def _source(self, name: str, arrays: Arrays, dims: Mapping[str, int]) -> str:
        """What determines a dim."""
        for number in self.numbers:
            if name in self.named and number.param.name == name:
                return f"argument {number.index + 1}"
        for k, axis, size in self.plain:
            if size == name and arrays[k] is not None:
                return f"axis {axis} of {self.slots[k].param.name}"
        for k, axis, size, dim in self.derived:
            if dim == name and arrays[k] is not None:
                return (
                    f"such that {show(size)} is {arrays[k].shape[axis]}, axis {axis} of "
                    f"{self.slots[k].param.name}"
                )
        for k, axis, size in self.strided:
            if size == name and (arrays[k] is None or (arrays[k].size and arrays[k].shape[axis] > 1)):
                return f"stride {axis} of {self.slots[k].param.name}"
        return "free here"


def _alone(size: Size, known: Mapping[str, int]) -> str | None:
    """The one dim of a size that is not known, when the value of the size determines it."""
    unknown = [n for n in dict.fromkeys(names_in(size)) if n not in known]
    if len(unknown) != 1:
        return None
    solution = solved(size, evaluate(size, {**known, unknown[0]: 2}), known)
    return None if solution is None else solution[0]


def where(of: Any, dims: Mapping[str, int]) -> str:
    """The values of the dims in a size, or of those named."""
    names = dict.fromkeys(of if isinstance(of, list) else names_in(of))
    return f" where {', '.join(f'{n} = {dims[n]}' for n in names)}" if names else ""
