"""The slow check of a call: finds the one mistake to report, in the user's names. Writes nothing, calls
nothing.

Also the path for what the fast check does not know: subclasses of ndarray, equal but not identical dtypes,
numpy scalars, outputs to be allocated.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.dtype import dtype
from ..core.signature import Param, evaluate, names_in, show, solved
from ..errors import CallError
from . import dlpack

_FEW = 1000
_INT32 = (1 << 31) - 1

if TYPE_CHECKING:
    from .arguments import Binder, Slot


def explain(
    binder: Binder, args: Sequence[Any], allocate: Callable[[Sequence[int], Any], Any] | None = None
) -> tuple[list[Any], list[int], list[Any]]:
    """The checked arrays, values of the dims, and scalar values. Raises CallError for the first mistake.

    With ``allocate``, outputs (given as None) are made of the solved shapes.
    """
    _count(binder, args)
    make = allocate is not None
    arrays: list[Any] = []
    for slot in binder.slots:
        arrays.append(None if make and slot.output else _array(binder, slot, args[slot.index]))
    numbers = [_number(binder, index, args[index]) for index, *_ in binder.scalars]
    dims = _solve(binder, arrays, args)
    for k, slot in enumerate(binder.slots):
        if arrays[k] is None:
            shape = tuple(evaluate(size, dims) for size in slot.shape)
            if min(shape, default=0) < 0:
                raise CallError(
                    f"{_title(binder, slot.index)} cannot be allocated",
                    because=f"its shape {_shape(slot.shape)} would be {shape}" + _where(dims),
                )
            try:
                arrays[k] = allocate(shape, slot.dtype)  # type: ignore[misc]
            except (MemoryError, ValueError):  # the second for more than an address can tell
                raise CallError(
                    f"{_title(binder, slot.index)} cannot be allocated",
                    because=f"its shape {shape} takes {math.prod(shape) * slot.dtype.itemsize} bytes",
                ) from None
            lies = tuple(evaluate(s, dims) * slot.dtype.itemsize for s in slot.strides or ())
            if (
                slot.strides is not None
                and arrays[k].size
                and any(n > 1 and s != t for n, s, t in zip(shape, lies, arrays[k].strides, strict=True))
            ):
                raise CallError(
                    f"{_title(binder, slot.index)} cannot be allocated",
                    because=f"its declared strides {_shape(slot.strides)} "
                    f"are not those of a compact array{_where(dims)}",
                    try_=f"pass {slot.param.name}",
                )
    _overlap(binder, arrays)
    return arrays, [dims[d.name] for d in binder.dims], numbers


def distinct(a: Any) -> bool:
    """Whether all elements of an array are surely apart: each stride steps over all that the smaller ones
    reach, or, of a few elements, no two have one address."""
    if not a.size:
        return True
    axes = sorted((abs(s), n) for n, s in zip(a.shape, a.strides, strict=True) if n > 1)
    reach = a.itemsize
    for stride, n in axes:
        if stride < reach:
            break
        reach += stride * (n - 1)
    else:
        return True
    if axes[0][0] == 0 or a.size > _FEW:
        return False
    at = np.zeros(1, np.int64)
    for stride, n in axes:
        at = np.add.outer(at, np.arange(n) * stride).ravel()
    return len(np.unique(at)) == a.size


def form(binder: Binder) -> str:
    """How the kernel is called: ``matmul(A: float32[n, 4], alpha: float32, C: float32[n] out)``."""

    def one(p: Param) -> str:
        shape = f"[{', '.join(show(s) for s in p.shape)}]" if p.kind == "buffer" else ""
        strides = "" if p.strides is None else f" strides [{', '.join(show(s) for s in p.strides)}]"
        return f"{p.name}: {p.dtype}{shape}{strides}{' out' if p.output else ' updated' if p.updated else ''}"

    return f"{binder.signature.name}({', '.join(one(p) for p in binder.signature.params)})"


def _title(binder: Binder, index: int) -> str:
    return f"{binder.signature.name}: argument {index + 1}, {binder.signature.params[index].name},"


def _shape(shape: Sequence[Any]) -> str:
    return f"({', '.join(show(s) for s in shape)}{',' if len(shape) == 1 else ''})"


def _where(dims: dict[str, int]) -> str:
    return f" where {', '.join(f'{n} = {v}' for n, v in dims.items())}" if dims else ""


def _count(binder: Binder, args: Sequence[Any]) -> None:
    if len(args) == binder.count:
        return
    takes = f"{binder.count} argument{'' if binder.count == 1 else 's'}"
    if len(binder.given) < binder.count:
        takes += f" ({len(binder.given)} when the outputs are left out)"
    raise CallError(f"{binder.signature.name} takes {takes}, {len(args)} given", because=form(binder))


def _array(binder: Binder, slot: Slot, a: Any) -> Any:
    title = _title(binder, slot.index)
    wanted = slot.param.dtype
    foreign = not isinstance(a, np.ndarray) and dlpack.exports(a)
    if foreign:
        a = dlpack.array_of(a, title, wanted)
    if not isinstance(a, np.ndarray):
        try_ = None
        if slot.output:
            try_ = "pass an array to write to, or leave all outputs out to have them allocated"
        elif isinstance(a, (list, tuple)) or (hasattr(a, "__array__") and not isinstance(a, np.generic)):
            try_ = f"np.asarray({slot.param.name}, {_numpy_name(slot)})"
        raise CallError(
            f"{title} is no array",
            because=f"it must be an array of {wanted}, numpy's or one with __dlpack__, not {_type_name(a)}",
            try_=try_,
        )
    if isinstance(a, np.ma.MaskedArray):
        raise CallError(
            f"{title} is a masked array",
            because="a kernel would use the masked elements too",
            try_=f"pass {slot.param.name}.filled(value)",
        )
    if a.dtype != slot.dtype:
        swapped = a.dtype.newbyteorder() == slot.dtype
        got = f"{a.dtype.name} in the other byte order ({a.dtype.str})" if swapped else a.dtype.name
        if foreign:
            try_ = f"{slot.param.name} converted to {wanted}"
        elif slot.output:
            try_ = f"allocate it as np.empty(shape, {_numpy_name(slot)})"
        elif wanted.startswith("bfloat") and a.dtype == np.uint16:
            try_ = (
                f"{slot.param.name}.view({_numpy_name(slot)}) if it holds the bits of bfloat16, "
                f"{slot.param.name}.astype(…) if it holds numbers"
            )
        elif a.dtype.kind in "biufO" or a.dtype.name == "bfloat16":
            try_ = f"{slot.param.name}.astype({_numpy_name(slot)})"
        else:  # parts of it may do
            try_ = {
                "c": f"{slot.param.name}.real.astype({_numpy_name(slot)})",
                "V": f"one field: {slot.param.name}[{(a.dtype.names or ('name',))[0]!r}]",
            }.get(a.dtype.kind)
        raise CallError(f"{title} has dtype {got}, declared {wanted}", try_=try_)
    if a.ndim != slot.ndim:
        raise CallError(
            f"{title} has {a.ndim} {'axis' if a.ndim == 1 else 'axes'}, declared with {slot.ndim}",
            because=f"its shape is {a.shape}, declared {_shape(slot.shape)}",
        )
    for axis, size in slot.axes:
        if isinstance(size, int) and a.shape[axis] != size:
            raise CallError(
                f"{title} has shape {a.shape}, declared {_shape(slot.shape)}",
                because=f"axis {axis} is {a.shape[axis]}, not {size}",
            )
    if slot.written and not a.flags.writeable:
        raise CallError(
            f"{title} is read-only",
            because=f"it is {'an output of' if slot.output else 'updated by'} the kernel",
            try_="pass a writable array"
            + (", or leave the outputs out to have them allocated" if slot.output else ""),
        )
    name = slot.param.name
    if slot.strides is None and not a.flags.c_contiguous:
        try_ = (
            f"write to a compact array and copy from it, or build with binds={{{name}: "
            f"te.decl_buffer({name}.shape, {name}.dtype, "
            "strides='any')}"
            if slot.written
            else f"np.ascontiguousarray({name}), or te.placeholder(..., strides='any') for a kernel that "
            "takes strided arrays"
        )
        raise CallError(
            f"{title} is not compact in C order",
            because=f"its strides are {a.strides}, {_compact(a)} are needed",
            try_=try_,
        )
    if not a.flags.aligned and a.size:
        raise CallError(
            f"{title} is not aligned",
            because=f"elements of {a.dtype.name} start at multiples of {a.dtype.alignment} bytes"
            + (f", its strides are {a.strides}" if any(s % a.dtype.alignment for s in a.strides) else ""),
            try_=None if slot.written else f"{name}.copy()",
        )
    if slot.strides is not None and slot.written and not distinct(a):
        raise CallError(
            f"{title} has elements that share memory",
            because=f"its strides are {a.strides} bytes for the shape {a.shape}",
            try_="pass an array of separate elements, or leave the outputs out to have them allocated",
        )
    return a


def _numpy_name(slot: Slot) -> str:
    """What a user writes for the dtype of a parameter's arrays."""
    return f"{'ml_dtypes' if slot.param.dtype.startswith('bfloat') else 'np'}.{slot.dtype}"


def _compact(a: Any) -> tuple[int, ...]:
    strides = [a.itemsize]
    for n in reversed(a.shape[1:]):
        strides.append(strides[-1] * max(1, n))
    return tuple(reversed(strides))


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _number(binder: Binder, index: int, value: Any) -> Any:
    _, name, _, _, limits = binder.scalars[[s[0] for s in binder.scalars].index(index)]
    title = _title(binder, index)
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if dtype(name).is_bool and isinstance(value, (bool, np.bool_)):
        return bool(value)
    if limits is None:
        if isinstance(value, (int, float, np.integer, np.floating)):
            try:
                return float(value)
            except OverflowError:
                raise CallError(f"{title} is too large for {name}") from None
    else:
        try:
            whole = operator.index(value)
        except TypeError:
            pass
        else:
            if not limits[0] <= whole <= limits[1]:
                raise CallError(
                    f"{title} is out of the range of {name}",
                    because=f"{whole} is not in {limits[0]} … {limits[1]}",
                )
            return whole
    needed = "a number" if limits is None else "a whole number"
    raise CallError(
        f"{title} is not {needed}", because=f"it must be {needed} ({name}), not {_type_name(value)}"
    )


def _solve(binder: Binder, arrays: Sequence[Any], args: Sequence[Any]) -> dict[str, int]:
    """Values of the dims, checked against every axis and their declared bounds."""
    dims: dict[str, int] = {}
    source: dict[str, str] = {}
    for index, *_ in binder.scalars:
        name = binder.signature.params[index].name
        if name in binder.named:
            dims[name], source[name] = operator.index(args[index]), f"argument {index + 1}"
    for slot, a in zip(binder.slots, arrays, strict=True):
        if a is None:
            continue
        for axis, size in slot.axes:
            if isinstance(size, str):
                here = f"axis {axis} of {slot.param.name}"
                if size not in dims:
                    dims[size], source[size] = a.shape[axis], here
                elif dims[size] != a.shape[axis]:
                    raise CallError(
                        f"{_title(binder, slot.index)} has shape {a.shape}, declared {_shape(slot.shape)}",
                        because=f"{size} is {dims[size]} by {source[size]}, and {a.shape[axis]} by {here}",
                    )
    for k, axis, size, name in binder.derived:
        a = arrays[k]
        if name in dims or a is None or any(n not in dims and n != name for n in names_in(size)):
            continue
        solution = solved(size, a.shape[axis], dims)
        if solution is None:
            slot = binder.slots[k]
            raise CallError(
                f"{_title(binder, slot.index)} has shape {a.shape}, declared {_shape(slot.shape)}",
                because=f"axis {axis} is {a.shape[axis]}, which {show(size)} is for no whole number "
                f"{name}{_where(_known(size, dims))}",
            )
        dims[name], source[name] = (
            solution[1],
            f"such that {show(size)} is {a.shape[axis]}, axis {axis} of {binder.slots[k].param.name}",
        )
    for dim in binder.dims:
        # only an output that is to be allocated has it
        if dim.name not in dims and dim.name not in binder.lying:
            holder = next(
                s.param.name for s in binder.slots if any(dim.name in names_in(size) for size in s.shape)
            )
            raise CallError(
                f"{binder.signature.name}: {holder} cannot be allocated",
                because=f"no other argument tells its size {dim.name}",
                try_=f"pass {holder}",
            )
    strided = [
        (slot, axis, declared, a.strides[axis] // a.itemsize)
        for slot, a in zip(binder.slots, arrays, strict=True)
        if slot.strides is not None and a is not None and a.size
        for axis, declared in enumerate(slot.strides)
        if a.shape[axis] > 1
    ]
    for slot, axis, declared, stride in strided:
        if isinstance(declared, str):
            here = f"stride {axis} of {slot.param.name}"
            if dims.setdefault(declared, stride) != stride:
                raise CallError(
                    f"{_title(binder, slot.index)} has stride {stride} along axis {axis}, declared "
                    f"{declared}",
                    because=f"{declared} is {dims[declared]} by {source[declared]}, and {stride} by {here}, "
                    "in elements",
                )
            source.setdefault(declared, here)
    for slot, a in zip(binder.slots, arrays, strict=True):
        if a is None and slot.strides is not None:  # to be allocated, so compact where nothing else is said
            shape = [evaluate(size, dims) for size in slot.shape]
            for axis, declared in enumerate(slot.strides):
                if isinstance(declared, str) and declared not in dims:
                    dims[declared], source[declared] = (
                        math.prod(max(1, n) for n in shape[axis + 1 :]),
                        f"stride {axis} of {slot.param.name}",
                    )
    for dim in binder.dims:  # strides along axes of one element: any will do
        if dim.name not in dims:
            dims[dim.name] = -(-max(0, dim.lo or 0) // dim.multiple_of) * dim.multiple_of
            source[dim.name] = "free here"
    for dim in binder.dims:
        n = dims[dim.name]
        title, here = f"{binder.signature.name}: {dim.name} = {n}", f"({dim.name} is {source[dim.name]})"
        if dim.lo is not None and n < dim.lo:
            raise CallError(
                f"{title} is too small", because=f"{dim.name} is declared at least {dim.lo} {here}"
            )
        if dim.hi == _INT32 and n > dim.hi:
            raise CallError(
                f"{title} is too large",
                because=f"{dim.name} is counted in 32 bits {here}",
                try_=f"declare it te.var({dim.name!r}, 'int64')",
            )
        if dim.hi is not None and n > dim.hi:
            raise CallError(
                f"{title} is too large", because=f"{dim.name} is declared at most {dim.hi} {here}"
            )
        if n % dim.multiple_of:
            raise CallError(
                f"{title} is not a multiple of {dim.multiple_of}", because=f"{dim.name} is declared so {here}"
            )
    for slot, a in zip(binder.slots, arrays, strict=True):
        for axis, size in slot.axes:
            if a is not None and isinstance(size, tuple):
                value = evaluate(size, dims)
                if value != a.shape[axis]:
                    where = _where(_used(size, dims))
                    raise CallError(
                        f"{_title(binder, slot.index)} has shape {a.shape}, declared {_shape(slot.shape)}",
                        because=f"axis {axis} is {a.shape[axis]}, not {show(size)} = {value}{where}",
                    )
    for slot, axis, declared, stride in strided:
        if evaluate(declared, dims) != stride:
            told = (
                f", which is {evaluate(declared, dims)}{_where(_used(declared, dims))}"
                if isinstance(declared, tuple)
                else ""
            )
            raise CallError(
                f"{_title(binder, slot.index)} has stride {stride} along axis {axis}, declared "
                f"{show(declared)}{told}",
                because="strides count elements: neighbours along an axis lie that far apart",
            )
    return dims


def _known(size: Any, dims: dict[str, int]) -> dict[str, int]:
    return {n: dims[n] for n in dict.fromkeys(names_in(size)) if n in dims}


def _used(size: Any, dims: dict[str, int]) -> dict[str, int]:
    return {n: dims[n] for n in dict.fromkeys(names_in(size))}


def _overlap(binder: Binder, arrays: Sequence[Any]) -> None:
    """An output may share no byte with any other argument: the machine code reads and writes in an order of
    its own."""
    for k, slot in enumerate(binder.slots):
        if not slot.written:
            continue
        for j, other in enumerate(binder.slots):
            if j != k and _meet(arrays[k], arrays[j]):
                raise CallError(
                    f"{_title(binder, slot.index)} overlaps {other.param.name}",
                    because="what a kernel writes may share no memory with another argument",
                    try_=f"pass a separate array for {slot.param.name}",
                )


def _meet(a: Any, b: Any) -> bool:
    """Whether two arrays share a byte; also when that is too hard to tell, which it never is of compact
    ones."""
    try:
        return bool(np.shares_memory(a, b, max_work=10_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True
