"""What a compiled kernel takes: plain data shared by the code generator, the runtime and saved files.

A size is an int, the name of a dim, or a nested tuple ``(op, size, size)`` with op one of ``+ - * // % min max``.

The machine-code entry of a kernel ``name`` is ``i32 name(ptr buffers, ptr scalars)``: ``buffers`` points to one data pointer
for each buffer parameter in order; ``scalars`` to 8-byte slots, first the dims in order as i64, then the scalar parameters in order
(integers sign-extended to i64, floats as the bits of a float64). It returns 0, or the code of a failed run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .names import identifier

Size = Any  # int | str | tuple


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel in call order. ``kind`` is ``buffer`` or ``scalar``; ``shape`` only for buffers, and ``strides``, which
    count elements and may be zero or negative; None: compact in C order. An ``output`` may be left out of a call, one that is ``updated`` is an
    input that the call changes."""

    name: str
    kind: str
    dtype: str
    shape: tuple[Size, ...] = ()
    output: bool = False
    strides: tuple[Size, ...] | None = None
    updated: bool = False

    @property
    def written(self) -> bool:
        """Whether a call changes the array."""
        return self.output or self.updated


@dataclass(frozen=True)
class Dim:
    """A symbolic size solved from the shapes and strides of the arguments: inclusive bounds (None: open) and a known divisor."""

    name: str
    lo: int | None = None
    hi: int | None = None
    multiple_of: int = 1


@dataclass(frozen=True)
class Extern:
    """A registered Python function a kernel calls: ``args`` are (kind, dtype, rank) with kind ``buffer``, ``view``, ``int`` or ``float``."""

    name: str
    args: tuple[tuple[str, str, int], ...]

    @property
    def symbol(self) -> str:
        """The symbol of the callback; it spells out how the arguments are to be read."""
        shape = "_".join(f"{kind[0]}{t}{rank or ''}" for kind, t, rank in self.args)
        return f"tensorlang_packed_{identifier(self.name)}_{shape}"


@dataclass(frozen=True)
class Check:
    """An access whose index ``dim`` the kernel checks while it runs; ``loops`` names those around it. A kernel with checks that ends with
    ``OUT_OF_BOUNDS`` has a record, which ``void name.report(ptr)`` takes out: the number of the check plus 1 (0: nothing recorded),
    the index, the extent, and the values of the loops, as i64."""

    access: str
    dim: int
    loops: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """Memory a kernel comes with: ``symbol`` is where its code expects compact row-major data, aligned to 64 bytes."""

    symbol: str
    dtype: str
    shape: tuple[int, ...]


OUT_OF_BOUNDS = 4  # the status of a kernel that found an index outside its tensor
REFUSED = 5  # the status of a kernel whose sizes are none it is for: nothing is written


@dataclass(frozen=True)
class Signature:
    """``params`` in call order, outputs marked; ``dims`` in the order of their scalar slots; ``externs`` what it calls in Python;
    ``checks`` the accesses it checks; ``constants`` the data its code refers to; ``work`` about how many statements a call runs, as a sum
    of (factor, the scalar slots it is multiplied with); ``needs`` what sizes must be like beyond the facts of dims, as text."""

    name: str
    params: tuple[Param, ...]
    dims: tuple[Dim, ...] = ()
    externs: tuple[Extern, ...] = ()
    checks: tuple[Check, ...] = ()
    constants: tuple[Constant, ...] = ()
    work: tuple[tuple[float, tuple[int, ...]], ...] = ()
    needs: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name,
                "params": [[p.name, p.kind, p.dtype, list(p.shape), "updated" if p.updated else p.output,
                            *([] if p.strides is None else [list(p.strides)])]
                           for p in self.params],
                "dims": [[d.name, d.lo, d.hi, d.multiple_of] for d in self.dims],
                "externs": [[e.name, [list(a) for a in e.args]] for e in self.externs],
                "checks": [[c.access, c.dim, list(c.loops)] for c in self.checks],
                "constants": [[c.symbol, c.dtype, list(c.shape)] for c in self.constants],
                "work": [[c, list(slots)] for c, slots in self.work],
                **({"needs": list(self.needs)} if self.needs else {})}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Signature:
        """The signature that ``to_json`` told. Raises ValueError, KeyError or TypeError for what it never tells."""
        def size(x: Any) -> Size:
            return tuple(size(y) for y in x) if isinstance(x, list) else x

        params = tuple(Param(n, k, t, size(shape), out is True, size(strides[0]) if strides else None, out == "updated")
                       for n, k, t, shape, out, *strides in data["params"])
        externs = tuple(Extern(n, tuple((k, t, r) for k, t, r in args)) for n, args in data.get("externs", ()))
        checks = tuple(Check(access, dim, tuple(loops)) for access, dim, loops in data.get("checks", ()))
        constants = tuple(Constant(symbol, t, tuple(shape)) for symbol, t, shape in data.get("constants", ()))
        work = tuple((float(c), tuple(slots)) for c, slots in data.get("work", ()))
        made = Signature(data["name"], params, tuple(Dim(*d) for d in data["dims"]), externs, checks, constants, work, tuple(data.get("needs", ())))
        slots = len(made.dims) + sum(p.kind == "scalar" for p in params)
        sizes = [size for p in params for size in (*p.shape, *(p.strides or ()))]
        if not (isinstance(made.name, str) and identifier(made.name) == made.name and all(map(_is_size, sizes))
                and all(isinstance(p.name, str) and p.kind in ("buffer", "scalar") for p in params)
                and all(isinstance(d.name, str) and isinstance(d.multiple_of, int) and d.multiple_of > 0 for d in made.dims)
                and all(isinstance(bound, int | None) for d in made.dims for bound in (d.lo, d.hi))
                and all(isinstance(n, int) and n >= 0 for c in constants for n in c.shape)
                and all(isinstance(why, str) for why in made.needs)
                and all(isinstance(i, int) and 0 <= i < slots for _, at in work for i in at)):
            raise ValueError(f"no signature: {data}")
        return made


def _is_size(x: Any) -> bool:
    if isinstance(x, tuple):
        return len(x) == 3 and x[0] in _OPS and _is_size(x[1]) and _is_size(x[2])
    return isinstance(x, int | str)


_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "//": lambda a, b: a // b, "%": lambda a, b: a % b,
    "min": min, "max": max}


def evaluate(size: Size, dims: Mapping[str, int]) -> int:
    """The value of a size under values of the dims."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return dims[size]
    op, a, b = size
    return _OPS[op](evaluate(a, dims), evaluate(b, dims))


def show(size: Size) -> str:
    """A size as text."""
    if isinstance(size, tuple):
        op, a, b = size
        return f"{op}({show(a)}, {show(b)})" if op in ("min", "max") else f"({show(a)} {op} {show(b)})"
    return str(size)


def names_in(size: Size) -> list[str]:
    """The dims a size mentions."""
    if isinstance(size, tuple):
        return names_in(size[1]) + names_in(size[2])
    return [size] if isinstance(size, str) else []
