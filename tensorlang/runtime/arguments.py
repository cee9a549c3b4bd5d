"""Arguments of a call: put in order, checked, in the form of the machine-code entry. Knows signatures and
numpy arrays, nothing of machine code.

What is right stands in ``rules`` and ``sizes``; here is the order in which it is checked. The native entry
(``call``) asks the same of most calls and hands on what it does not know: subclasses of ndarray, arrays of
other libraries, equal but not identical dtypes, numbers of numpy, computed sizes, arguments by name, and
everything that is wrong.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import CallError, counted
from ..interface.signature import Signature, evaluate
from .arrays import address_of, empty, in_kind_of, meet, span
from .rules import Number, Slot, shown
from .sizes import Sizes, where

_MISSING: Any = object()


class Bound(NamedTuple):
    """Values of a call as the entry wants them. ``keep`` holds the arrays alive; ``outputs`` are what the
    call returns."""

    buffers: bytes
    scalars: bytes
    keep: Sequence[Any]
    outputs: tuple[Any, ...] = ()


_bound: Callable[[tuple[Any, ...]], Bound] = functools.partial(
    tuple.__new__, Bound
)  # half the time of Bound(…)


class Binder:
    """The checks of one signature, prepared once. Raises TensorLangError for a dim that no argument gives."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        params, name = signature.params, signature.name
        self.count = len(params)
        self.slots = tuple(Slot(name, i, p) for i, p in enumerate(params) if p.kind == "buffer")
        self.numbers = tuple(Number(name, i, p) for i, p in enumerate(params) if p.kind == "scalar")
        self.sizes = Sizes(signature, self.slots, self.numbers)
        self.given = tuple(
            i for i, p in enumerate(params) if not p.output
        )  # of a call that leaves outputs out
        self.outputs = tuple(i for i, p in enumerate(params) if p.output)
        self.made = tuple((k, s) for k, s in enumerate(self.slots) if s.output)
        self.dims = tuple(d.name for d in signature.dims)
        self.names = {p.name: i for i, p in enumerate(params)}
        # for a glance at arrays: unpacking a tuple costs less than reading as many attributes
        self.looks = tuple((s.index, s.dtype, s.ndim, s.flags, s.constant) for s in self.slots)
        self.closer = any(s.rest for s in self.slots)
        self.whole = all(s.strides is None for s in self.slots)
        # what is written, and each other argument; of two that are written one of them
        self.pairs = tuple(
            (k, j)
            for k, s in enumerate(self.slots)
            for j, other in enumerate(self.slots)
            if s.written and (j > k or (j < k and not other.written))
        )
        self._pack_buffers = struct.Struct(f"={len(self.slots)}q").pack
        self._pack_scalars = struct.Struct(
            "=" + "q" * len(signature.dims) + "".join(n.code for n in self.numbers)
        ).pack

    def bind(self, args: Sequence[Any], named: Mapping[str, Any] | None = None) -> Bound:
        """The arguments in machine form, outputs that are left out made. Raises CallError; touches no
        array."""
        like = None
        returned = () if len(args) == self.count else self.outputs
        if named:
            args, returned, like = self._by_name(args, dict(named))
        elif len(args) != self.count:
            args = self._without_outputs(args)
        arrays, plain = self.glance(args)
        if self.closer or not plain:
            # filled as it goes: what is taken from other libraries must outlive an error on its way
            for k, s in enumerate(self.slots):
                if arrays[k] is None:
                    if args[s.index] is not _MISSING:
                        arrays[k] = s.taken(args[s.index])
                elif s.rest:
                    s.check(arrays[k], s.rest)
        numbers = [n.taken(args[n.index]) for n in self.numbers] if self.numbers else self.numbers
        dims = self.sizes.solve(arrays, numbers)
        outputs: Sequence[Any] = ()
        if returned:
            outputs = self._returned(args, arrays, dims, returned)
        # after all checks of shapes: an error says what is wrong with the argument, not that two overlap
        starts = list(map(address_of, arrays))
        self._apart(arrays, starts)
        scalars = self._pack_scalars(*map(dims.__getitem__, self.dims), *numbers)
        if like is not None:
            outputs = [in_kind_of(like, a, f"{self.signature.name}: what is returned") for a in outputs]
        return _bound((self._pack_buffers(*starts), scalars, arrays, tuple(outputs)))

    def glance(self, args: Sequence[Any]) -> tuple[list[Any], bool]:
        """The arrays that hold most of the rules, all at once as the native entry looks, a fifth of the
        time of one by one; None for those that need a closer look and for outputs that are left out. Whether
        there are none of the former."""
        arrays: list[Any] = []
        plain = True
        # exact types and dtypes only, by identity, as the native entry has it: equal ones are looked at more
        # closely
        for index, kind, ndim, flags, shape in self.looks:
            a = args[index]
            if (
                type(a) is np.ndarray
                and a.dtype is kind
                and (a.ndim == ndim if shape is None else a.shape == shape)
                and a.flags.num & flags == flags
            ):
                arrays.append(a)
            else:
                arrays.append(None)
                plain = plain and a is _MISSING
        return arrays, plain

    # -- which argument is which

    def _without_outputs(self, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(self.given):
            takes = counted(self.count, "argument")
            if self.outputs:
                takes += f" ({len(self.given)} when the outputs are left out)"
            raise CallError(
                f"{self.signature.name} takes {takes}, {len(args)} given", because=str(self.signature)
            )
        values = [_MISSING] * self.count
        for k, index in enumerate(self.given):
            values[index] = args[k]
        return values

    def _by_name(self, args: Sequence[Any], named: dict[str, Any]) -> tuple[list[Any], tuple[int, ...], Any]:
        """All arguments in order, the outputs that the call returns, which are all but those given by
        position, and what array they are to be like. Positions go to the parameters that have no name in the
        call, without outputs when they are not enough for them."""
        kernel = self.signature.name
        # a parameter of that very name is meant first
        like = named.pop("out_like", None) if "out_like" not in self.names else None
        if "out" not in self.names and named.pop("out", out := named.get("out")) is not None:
            named.update(
                self._out(out, [p.name for p in self.signature.params if p.output and p.name not in named])
            )
        values = [_MISSING] * self.count
        for name, value in named.items():
            if name not in self.names:
                raise CallError(
                    f"{kernel} has no argument {name}",
                    because=str(self.signature),
                    try_=f"one of {', '.join(self.names)}; out= for the outputs, out_like= for the kind of "
                    "array that comes back",
                )
            values[self.names[name]] = value
        # f(a, b, A=a) would write to b: what is by position reaches an output past no input that has a name
        past = len(args) > len([i for i in self.given if values[i] is _MISSING])
        if twice := [n for n in named if self.names[n] < len(args) and past]:
            raise CallError(
                f"{kernel}: {' and '.join(twice)} {'is' if len(twice) == 1 else 'are'} given twice",
                because=f"by name and, as one of the first {len(args)}, by position: {self.signature}",
                try_="one of the two; out= for an output",
            )
        free = [i for i in range(self.count) if values[i] is _MISSING]
        if len(args) == len(free) and args:
            returned = tuple(i for i in self.outputs if i not in free)
        else:
            returned = self.outputs
            free = [i for i in free if i not in self.outputs]
        if len(args) > len(free):
            raise CallError(
                f"{kernel}: {counted(len(args), 'argument')} by position and "
                f"{', '.join(named) or 'out_like'} by name are too many",
                because=str(self.signature),
            )
        if len(args) < len(free):
            missing = self.signature.params[free[len(args)]].name
            raise CallError(
                f"{kernel}: argument {free[len(args)] + 1}, {missing}, is missing",
                because=str(self.signature),
            )
        for index, value in zip(free, args, strict=True):
            values[index] = value
        return values, returned, like

    def _out(self, out: Any, names: Sequence[str]) -> dict[str, Any]:
        """The outputs by name."""
        outs = out if isinstance(out, (tuple, list)) else (out,)
        if len(outs) != len(names):
            raise CallError(
                f"{self.signature.name}: out= gives {len(outs)} of {len(names)} outputs",
                because=str(self.signature),
                try_=f"out=({', '.join(names)}{',' if len(names) == 1 else ''})"
                if names
                else "the outputs are given already",
            )
        return dict(zip(names, outs, strict=True))

    # -- memory

    def _returned(
        self, args: Sequence[Any], arrays: list[Any], dims: Mapping[str, int], wanted: Sequence[int]
    ) -> list[Any]:
        """The outputs that a call returns, those that were left out made."""
        outputs = []
        for k, s in self.made:
            if arrays[k] is None:
                arrays[k] = self._made(s, dims)
            if s.index in wanted:
                outputs.append(arrays[k] if args[s.index] is _MISSING else args[s.index])
        return outputs

    def _made(self, slot: Slot, dims: Mapping[str, int]) -> Any:
        """A new array for an output."""
        shape = slot.constant or tuple(
            [dims[x] if x.__class__ is str else evaluate(x, dims) for x in slot.shape]  # type: ignore[index]
        )
        if shape and min(shape) < 0:
            raise CallError(
                f"{slot.title} cannot be allocated",
                because=f"its shape {shown(slot.shape)} would be {shape}{where(list(dims), dims)}",
            )
        try:
            made = empty(shape, slot.dtype)
        except (MemoryError, ValueError):  # the second for more than an address can tell
            raise CallError(
                f"{slot.title} cannot be allocated",
                because=f"its shape {shape} takes {math.prod(shape) * slot.dtype.itemsize} bytes",
            ) from None
        if slot.strides is not None and made.size:
            lies = [evaluate(s, dims) * made.itemsize for s in slot.strides]
            if any(n > 1 and s != t for n, s, t in zip(shape, lies, made.strides, strict=True)):
                because = (
                    f"its declared strides {shown(slot.strides)} are not those of a compact "
                    f"array{where(list(dims), dims)}"
                )
                raise CallError(
                    f"{slot.title} cannot be allocated", because=because, try_=f"pass {slot.param.name}"
                )
        return made

    def _apart(self, arrays: Sequence[Any], starts: Sequence[int]) -> None:
        """An output may share no byte with any other argument: the machine code reads and writes in an order
        of its own."""
        if self.whole:  # the lower one reaches the other, unless one is empty
            for k, j in self.pairs:
                gap = starts[j] - starts[k]
                if (gap < arrays[k].nbytes if gap >= 0 else -gap < arrays[j].nbytes) and (
                    arrays[k].size and arrays[j].size
                ):
                    raise self._overlap(k, j)
            return
        spans = [span(a, at) for a, at in zip(arrays, starts, strict=True)]
        for k, j in self.pairs:
            (low, high), (down, up) = spans[k], spans[j]
            if low < up and down < high and down < up and low < high and meet(arrays[k], arrays[j]):
                raise self._overlap(k, j)

    def _overlap(self, k: int, j: int) -> CallError:
        slot = self.slots[k]
        return CallError(
            f"{slot.title} overlaps {self.slots[j].param.name}",
            because="what a kernel writes may share no memory with another argument",
            try_=f"pass a separate array for {slot.param.name}",
        )
