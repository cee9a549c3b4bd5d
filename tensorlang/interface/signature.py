"""What a compiled kernel takes: plain data shared by the code generator, the runtime and saved files.

A size is an int, the name of a dim, or a nested tuple ``(op, size, size)`` with op one of ``+ - * // % min
max``.

The machine-code entry of a kernel ``name`` is ``i32 name(ptr buffers, ptr scalars)``: ``buffers`` points to
one data pointer for each buffer parameter in order; ``scalars`` to 8-byte slots, first the dims in order as
i64, then the scalar parameters in order (integers sign-extended to i64, floats as the bits of a float64). It
returns 0, or the code of a failed run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..boundary import answer
from ..core.dtype import dtype
from ..core.names import identifier
from ..errors import DeclareError
from ..protocols import name_answers

Size = Any  # int | str | tuple
USUAL = 128  # a size of which nothing is known


@dataclass(frozen=True)
class Param:
    """One parameter of a kernel in call order. ``kind`` is ``buffer`` or ``scalar``; ``shape`` only for
    buffers, and ``strides``, which count elements and may be zero or negative; None: compact in C order. An
    ``output`` may be left out of a call, one that is ``updated`` is an input that the call changes."""

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
    """A symbolic size solved from the shapes and strides of the arguments: inclusive bounds (None: open) and
    a known divisor."""

    name: str
    lo: int | None = None
    hi: int | None = None
    multiple_of: int = 1

    @property
    def typical(self) -> int:
        """A value that may well come."""
        most = USUAL if self.hi is None else min(USUAL, self.hi)
        return max(0, self.lo or 0, most // self.multiple_of * self.multiple_of)


@dataclass(frozen=True)
class Extern:
    """A registered Python function a kernel calls: ``args`` are (kind, dtype, rank) with kind ``buffer``,
    ``view``, ``int`` or ``float``."""

    name: str
    args: tuple[tuple[str, str, int], ...]

    @property
    def symbol(self) -> str:
        """The symbol of the callback; it spells out how the arguments are to be read."""
        shape = "_".join(f"{kind[0]}{t}{rank or ''}" for kind, t, rank in self.args)
        return f"tensorlang_packed_{identifier(self.name)}_{shape}"


@dataclass(frozen=True)
class Check:
    """An access whose index ``dim`` the kernel checks while it runs (``DIVISION``: a division, of which the
    index is the divisor and the extent the dividend); ``loops`` names those around it. A
    kernel with checks that ends with ``OUT_OF_BOUNDS`` has a record, which ``void name.report(ptr)`` takes
    out: the number of the check plus 1 (0: nothing recorded), the index, the extent, and the values of the
    loops, as i64."""

    access: str
    dim: int
    loops: tuple[str, ...]


@dataclass(frozen=True)
class Constant:
    """Memory a kernel comes with: ``symbol`` is where its code expects compact row-major data, aligned to 64
    bytes."""

    symbol: str
    dtype: str
    shape: tuple[int, ...]


DIVISION = -1  # a check's ``dim`` where no index is checked, but that a divisor is not zero
OUT_OF_BOUNDS = 4  # the status of a kernel that found an index outside its tensor
REFUSED = 5  # the status of a kernel whose sizes are none it is for: nothing is written


@dataclass(frozen=True)
class Signature:
    """``params`` in call order, outputs marked; ``dims`` in the order of their scalar slots; ``externs`` what
    it calls in Python; ``checks`` the accesses it checks; ``constants`` the data its code refers to; ``work``
    about how many statements a call runs, as a sum of (factor, the scalar slots it is multiplied with);
    ``needs`` what sizes must be like beyond the facts of dims, as text."""

    name: str
    params: tuple[Param, ...]
    dims: tuple[Dim, ...] = ()
    externs: tuple[Extern, ...] = ()
    checks: tuple[Check, ...] = ()
    constants: tuple[Constant, ...] = ()
    work: tuple[tuple[float, tuple[int, ...]], ...] = ()
    needs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        name_answers(self, "f.signature", "params", "dims", "externs", "constants")

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "params": [
                [
                    p.name,
                    p.kind,
                    p.dtype,
                    list(p.shape),
                    "updated" if p.updated else p.output,
                    *([] if p.strides is None else [list(p.strides)]),
                ]
                for p in self.params
            ],
            "dims": [[d.name, d.lo, d.hi, d.multiple_of] for d in self.dims],
            "externs": [[e.name, [list(a) for a in e.args]] for e in self.externs],
            "checks": [[c.access, c.dim, list(c.loops)] for c in self.checks],
            "constants": [[c.symbol, c.dtype, list(c.shape)] for c in self.constants],
            "work": [[c, list(slots)] for c, slots in self.work],
            **({"needs": list(self.needs)} if self.needs else {}),
        }

    def __str__(self) -> str:
        return form(self)

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Signature:
        """The signature that ``to_json`` wrote, each value of it checked: it comes from a file, and code is
        made of it. Raises ValueError, KeyError or TypeError for what it never tells."""
        dims = tuple(
            Dim(_text(name), _bound(lo), _bound(hi), _whole(step, 1)) for name, lo, hi, step in data["dims"]
        )
        params = tuple(_param({d.name for d in dims}, *row) for row in data["params"])
        externs = tuple(
            Extern(
                _text(n),
                tuple((_one_of(k, _ARGUMENTS), _type(t), _whole(r, 0, MAX_RANK)) for k, t, r in args),
            )
            for n, args in data.get("externs", ())
        )
        checks = tuple(
            Check(_text(access), _whole(dim, 0, MAX_RANK), tuple(map(_text, loops)))
            for access, dim, loops in data.get("checks", ())
        )
        constants = tuple(
            Constant(_symbol(symbol), _type(t), tuple(_whole(n, 0) for n in shape))
            for symbol, t, shape in data.get("constants", ())
        )
        slots = len(dims) + sum(p.kind == "scalar" for p in params)
        work = tuple(
            (_number(c), tuple(_whole(at, 0, slots - 1) for at in places))
            for c, places in data.get("work", ())
        )
        for what in ([d.name for d in dims], [c.symbol for c in constants]):
            if len(set(what)) != len(what):
                raise ValueError(f"a name is there twice: {what}")
        needs = tuple(map(_text, data.get("needs", ())))
        if identifier(_text(data["name"])) != data["name"]:
            raise ValueError("the name is not a symbol")
        return Signature(data["name"], params, dims, externs, checks, constants, work, needs)


# of what a file may say: numpy's own limit, and that of schedules
MAX_RANK, MAX_LANES = 64, 1024
_KINDS, _ARGUMENTS = ("buffer", "scalar"), ("buffer", "view", "int", "float")
_LARGEST = (1 << 63) - 1
_DEEPEST = 64  # operations in one another in a size


def _param(
    dims: set[str], name: Any, kind: Any, dtype_: Any, shape: Any, output: Any, *strides: Any
) -> Param:
    updated = output == "updated"
    if (
        not (updated or type(output) is bool)
        or len(strides) > 1
        or (kind == "scalar" and (shape or strides or output))
    ):
        raise ValueError(f"{name} is not a parameter")
    sizes, steps = [tuple(_size(n, dims) for n in many) for many in (shape, *strides)], len(strides)
    if (
        len(sizes[0]) > MAX_RANK
        or (steps and len(sizes[1]) != len(sizes[0]))
        or any(type(n) is int and n < 0 for n in sizes[0])
    ):
        raise ValueError(f"{name} has no such shape")
    return Param(
        _text(name),
        _one_of(kind, _KINDS),
        _type(dtype_),
        sizes[0],
        output is True,
        sizes[1] if steps else None,
        updated,
    )


def _size(x: Any, dims: set[str], depth: int = 0) -> Size:
    if isinstance(x, list | tuple):
        op, a, b = x
        if depth > _DEEPEST or (op in ("//", "%") and type(b) is int and b <= 0):
            raise ValueError("no size")
        return (_one_of(op, _OPS), _size(a, dims, depth + 1), _size(b, dims, depth + 1))
    return _one_of(x, dims) if isinstance(x, str) else _whole(x, -_LARGEST)


def _text(x: Any) -> str:
    if not isinstance(x, str):
        raise ValueError(f"{type(x).__name__} is not text")
    return x


def _symbol(x: Any) -> str:
    if identifier(_text(x).replace(".", "_")) != x.replace(".", "_"):
        raise ValueError(f"{x[:40]!r} is not a symbol")
    return str(x)


def _one_of(x: Any, known: Container[str]) -> str:
    if _text(x) not in known:
        raise ValueError(f"{x[:40]!r} is not known")
    return str(x)


def _type(x: Any) -> str:
    try:
        known = dtype(_text(x))
    except DeclareError as e:
        raise ValueError(str(e.what)) from None
    if known.lanes > MAX_LANES:
        raise ValueError(f"{x} has too many lanes")
    return str(x)


def _whole(x: Any, least: int, most: int = _LARGEST) -> int:
    if type(x) is not int or not least <= x <= most:
        raise ValueError(f"{str(x)[:40]} is not a whole number from {least} to {most}")
    return x


def _bound(x: Any) -> int | None:
    return None if x is None else _whole(x, -_LARGEST)


def _number(x: Any) -> float:
    if type(x) not in (int, float) or not math.isfinite(x):
        raise ValueError(f"{str(x)[:40]} is not a number")
    return float(x)


_OPS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def evaluate(size: Size, dims: Mapping[str, int]) -> int:
    """The value of a size under values of the dims."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return dims[size]
    op, a, b = size
    return _OPS[op](evaluate(a, dims), evaluate(b, dims))


def evaluator(sizes: Sequence[Size], names: Mapping[str, str], given: str) -> Callable[..., tuple[int, ...]]:
    """A function of ``given`` that gives the values of these sizes, each dim being what ``names`` says, in a
    tenth of the time of ``evaluate``."""
    text = "".join(f"{show(size, names)}, " for size in sizes)
    # operators from the table above, numbers, and what the caller names
    return eval(f"lambda {given}: ({text})", {"min": min, "max": max})  # type: ignore[no-any-return]


def show(size: Size, names: Mapping[str, str] | None = None) -> str:
    """A size as text, with these names of the dims or their own."""
    if isinstance(size, tuple):
        op, a, b = size[0], show(size[1], names), show(size[2], names)
        return f"{op}({a}, {b})" if op in ("min", "max") else f"({a} {op} {b})"
    return names[size] if names is not None and isinstance(size, str) else str(size)


def names_in(size: Size) -> list[str]:
    """The dims a size mentions."""
    if isinstance(size, tuple):
        return names_in(size[1]) + names_in(size[2])
    return [size] if isinstance(size, str) else []


def solved(size: Size, value: int, dims: Mapping[str, int]) -> tuple[str, int] | None:
    """The one dim in ``size`` that is not among ``dims``, and its value where ``size`` is ``value``: of ``n +
    1`` or ``2 * m + 3``. None when there is no such dim, when the size is not a multiple of it plus a number,
    and when the value is not a whole number."""
    found = _linear(size, dims)
    if found is None:
        return None
    name, factor, rest = found
    if name is None or not factor or (value - rest) % factor:
        return None
    return name, (value - rest) // factor


def _linear(size: Size, dims: Mapping[str, int]) -> tuple[str | None, int, int] | None:
    """``(dim, factor, rest)`` of a size that is ``factor * dim + rest`` where the other dims are known."""
    if all(n in dims for n in names_in(size)):
        return None, 0, evaluate(size, dims)
    if isinstance(size, str):
        return size, 1, 0
    op, x, y = size  # type: ignore[misc]
    a, b = _linear(x, dims), _linear(y, dims)
    if a is None or b is None or op not in ("+", "-", "*"):
        return None
    if op == "*":
        (name, factor, rest), (other, _, times) = (b, a) if a[0] is None else (a, b)
        return None if other is not None else (name, factor * times, rest * times)
    if a[0] is not None and b[0] is not None and a[0] != b[0]:
        return None
    sign = 1 if op == "+" else -1
    return a[0] or b[0], a[1] + sign * b[1], a[2] + sign * b[2]


def form(signature: Signature) -> str:
    """How the kernel is called: ``matmul(A: float32[n, 4], alpha: float32, C: float32[n] out)``."""

    def one(p: Param) -> str:
        shape = f"[{', '.join(show(s) for s in p.shape)}]" if p.kind == "buffer" else ""
        strides = "" if p.strides is None else f" strides [{', '.join(show(s) for s in p.strides)}]"
        return f"{p.name}: {p.dtype}{shape}{strides}{' out' if p.output else ' updated' if p.updated else ''}"

    return f"{signature.name}({', '.join(one(p) for p in signature.params)})"


answer(Signature, "signature", {})
