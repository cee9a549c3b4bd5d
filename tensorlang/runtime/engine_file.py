"""One engine, one file: a header, machine code, weights. Knows programs and bytes; nothing is executed to
read it, and no number in it is used before it is checked.

Layout: a line ``tensorlang engine 2``; a line with the SHA-256 of what follows up to the weights, then the
lengths of header and code, where the weights begin, their length and their SHA-256; the header, one document
of JSON; the object codes of kernels, and those of helpers that a process would compile to run them; from the
next page on the weights, each on a cache line. The weights are mapped, not read, and hashed only when that is
asked for.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.dtype import dtype
from ..errors import TensorLangError
from ..interface.signature import Dim, Signature
from . import files, hosts, store
from .codes import KernelCode
from .program import Host, Kernel, Program, Rest, Stored, Value
from .size_table import SizeTable

MAGIC = b"tensorlang engine "
VERSION = 2
PAGE, LINE = 4096, 64
_LARGEST = (1 << 63) - 1
_TABLE = 64 + 4 * 17 + 1 + 64  # characters of the second line


class Part(NamedTuple):
    """A program, and by what was known the numbers of the parts that follow it."""

    program: Program
    later: dict[Any, int]


class Given(NamedTuple):
    """Constants that a call may give, and by those that are given the numbers of parts that take them, with
    the numbers of the constants that these ``defaults`` are."""

    names: tuple[str, ...]
    defaults: dict[str, int]
    engines: dict[tuple[str, ...], int]


class Contents(NamedTuple):
    """What a file holds; the first part is the engine itself. ``target`` is that of another processor than
    this one."""

    parts: list[Part]
    codes: list[KernelCode]
    constants: list[np.ndarray]
    target: str | None = None
    helpers: Mapping[str, bytes] = {}  # of the runtime, see ``native.object_code``
    given: Given = Given((), {}, {})


# -- writing


def pack(contents: Contents) -> bytes:
    """The bytes of a file. Raises TensorLangError for a program that calls Python."""
    name = contents.parts[0].program.name
    steps = [s for p in contents.parts for s in p.program.steps if isinstance(s, Host)]
    host = sorted({s.name for s in steps if not s.stored.function})
    if host:
        raise TensorLangError(
            f"{name} cannot be saved", because=f"it calls functions of Python: {', '.join(host)}"
        )
    places, at = [], 0
    for a in contents.constants:
        # large constants begin on pages, so that a page that is read in for one is not half another's; small
        # ones would waste more than they gain
        step = PAGE if a.nbytes >= 16 * PAGE else LINE
        places.append(-(-at // step) * step)
        at = places[-1] + a.nbytes
    weights = bytearray(at)
    for a, place in zip(contents.constants, places, strict=True):
        weights[place : place + a.nbytes] = np.ascontiguousarray(a).reshape(-1).view(np.uint8).data
    features = sorted({f for c in contents.codes for f in c.features})
    header = {
        "machine": store.machine(contents.target, features),
        "codes": [[c.signature.to_json(), len(c.object_code), c.features] for c in contents.codes],
        "helpers": [[name, len(c)] for name, c in contents.helpers.items()],
        "constants": [
            [_dtype(a), a.shape, place] for a, place in zip(contents.constants, places, strict=True)
        ],
        "parts": [
            [_written(p.program), [[_key_out(k), n] for k, n in p.later.items()]] for p in contents.parts
        ],
        "given": [
            contents.given.names,
            list(contents.given.defaults.items()),
            list(contents.given.engines.items()),
        ],
    }
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=True).encode()
    code = b"".join([*(c.object_code for c in contents.codes), *contents.helpers.values()])
    return assembled(text, code, weights)


def assembled(header: bytes, code: bytes, weights: bytes | bytearray) -> bytes:
    """The file of these three."""
    first = MAGIC + str(VERSION).encode() + b"\n"
    begin = len(first) + _TABLE + 1 + len(header) + len(code)
    # the weights begin on a page of the file: only then do their places in memory have the alignment that
    # they have in it
    start = -(-begin // PAGE) * PAGE
    # of fixed width, so that the table's own length is known before its contents
    lengths = (len(header), len(code), start, len(weights))
    rest = b"".join(b" %016x" % n for n in lengths) + b" " + hashlib.sha256(weights).hexdigest().encode()
    digest = hashlib.sha256(rest + b"\n" + header + code).hexdigest().encode()
    return b"".join([first, digest, rest, b"\n", header, code, bytes(start - begin), weights])


def _dtype(a: np.ndarray) -> str:
    return str(dtype(a.dtype))


def _written(p: Program) -> dict[str, Any]:
    return {
        "name": p.name,
        "dims": [[d.name, d.lo, d.hi, d.multiple_of] for d in p.dims],
        "sizes": p.sizes.to_json(),
        "values": p.values,
        "inputs": p.inputs,
        "input_shapes": p.input_shapes,
        "outputs": p.outputs,
        "output_names": p.output_names,
        "assumed": p.assumed,
        "constants": list(p.constants.items()),
        "kernels": p.kernels,
        "steps": [_step(s) for s in p.steps],
        "rest": p.rest,
        "otherwise": p.otherwise,
        "most": list(p.most.items()),
        "joined": list(p.joined.items()),
    }


def _step(s: tuple[int, ...] | Host) -> Any:
    if not isinstance(s, Host):
        return s
    attrs = {k: hosts.to_json(x) for k, x in s.stored.attrs.items()}
    return [s.name, s.stored.function, s.inputs, s.outputs, attrs, s.stored.bodies]


def _key_out(key: Any) -> Any:
    turned, value, sizes = key
    if value is not None:
        kind, shape, data = value
        value = [kind, shape, data.hex()]
    return [turned, value, sizes]


# -- reading


def read(path: str | Path, verify: bool = False, mine: bool = False) -> Contents:
    """What a file holds, the weights mapped; ``verify`` also compares their hash. Raises TensorLangError,
    TargetError."""
    path = files.named(path, "Engine.load")
    with files.opened(path, mine) as file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise _refused(path, "it is empty")
        try:
            # mapped and not read: several processes share the pages, and a weight that no call touches is
            # never loaded
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as e:
            raise _refused(path, str(e)) from None
    line = data[: data.find(b"\n") + 1]
    if not line.startswith(MAGIC):
        raise _refused(
            path, "it is not a saved engine", "engine.save(path) writes one; tl.load takes kernels"
        )
    if line != MAGIC + b"%d\n" % VERSION:
        raise _refused(path, f"its format is version {line[len(MAGIC) : -1][:20].decode('ascii', 'replace')}")
    text, code, weights = _sections(path, data, len(line), verify)
    try:
        header = json.loads(text)
        needs = header["machine"]
        found = _contents(header, code, weights)
        machine = str(needs["triple"]), str(needs["cpu"]), [str(f) for f in needs["features"]]
    except (
        ValueError,
        KeyError,
        TypeError,
        IndexError,
        AttributeError,
        OverflowError,
        RecursionError,
        TensorLangError,
    ) as e:
        said = f"{e}".partition("\n")[0][:80] or type(e).__name__
        raise _refused(path, f"its header makes no sense: {said}") from None
    store.check_machine(path, found.parts[0].program.name, *machine)
    return found


def _refused(path: Path, because: str, try_: str = "compile and save the model again") -> TensorLangError:
    return TensorLangError(f"cannot load {path}", because=because, try_=try_)


def _sections(path: Path, data: mmap.mmap, at: int, verify: bool) -> tuple[bytes, bytes, memoryview]:
    """Header, code and weights, each within the file."""
    table = data[at : at + _TABLE + 1]
    begin = at + _TABLE + 1
    try:
        digest, *numbers, weights_digest = table[:-1].split(b" ")
        header, code, start, weights = (int(n, 16) for n in numbers)
        whole = table[-1:] == b"\n" and len(table) == _TABLE + 1
        whole = whole and begin + header + code <= start and start % PAGE == 0 and min(header, code) >= 0
        whole = whole and weights >= 0 and start + weights == len(data)
    except ValueError:
        whole = False
    if not whole:
        raise _refused(path, "it is torn: its parts are not as long as it says")
    # without the weights, unless asked for: hashing gigabytes would read them all
    hashed = hashlib.sha256(table[64:])
    hashed.update(data[begin : begin + header + code])
    if hashed.hexdigest().encode() != digest:
        raise _refused(path, "its contents do not match its hash: the file is torn or was changed")
    mapped = memoryview(data)[start : start + weights]
    if verify and hashlib.sha256(mapped).hexdigest().encode() != weights_digest:
        raise _refused(path, "its weights do not match their hash: the file is torn or was changed")
    return data[begin : begin + header], data[begin + header : begin + header + code], mapped


def _contents(header: Mapping[str, Any], code: bytes, weights: memoryview) -> Contents:
    codes, at = [], 0
    for signature, length, features in header["codes"]:
        _index(length, len(code) - at + 1)
        made = Signature.from_json(signature)
        codes.append(KernelCode(code[at : at + length], made, (), tuple(map(_text, features))))
        at += length
    # one loader holds them all, where a name stands for one function
    if len({c.symbol for c in codes}) != len(codes):
        raise ValueError("two kernels have one name")
    helpers = {}
    for name, length in header.get("helpers", ()):
        _index(length, len(code) - at + 1)
        helpers[_text(name)] = code[at : at + length]
        at += length
    constants = [_constant(row, weights) for row in header["constants"]]
    count = len(header["parts"])
    parts = [_part(row, codes, constants, range(n + 1, count)) for n, row in enumerate(header["parts"])]
    if not parts:
        raise ValueError("there is no program")
    given = _given(header.get("given", ((), (), ())), parts, constants)
    return Contents(parts, codes, constants, None, helpers, given)


def _given(row: Any, parts: Sequence[Part], constants: Sequence[np.ndarray]) -> Given:
    names, defaults, engines = row
    found = Given(
        tuple(map(_text, names)),
        {_text(n): _index(c, len(constants)) for n, c in defaults},
        {tuple(map(_text, given)): 1 + _index(n - 1, len(parts) - 1) for given, n in engines},
    )
    for given, n in found.engines.items():
        own = parts[n].program
        if not set(given) <= set(found.names) & set(found.defaults) & set(own.input_names):
            raise ValueError("overrides without a default or an input")
        if own.output_names != parts[0].program.output_names:
            raise ValueError("overrides have other outputs")
    return found


def _constant(row: Any, weights: memoryview) -> np.ndarray:
    kind, shape, place = row
    form = dtype(_text(kind)).to_numpy()
    shape = tuple(_index(n, _LARGEST) for n in shape)
    size = math.prod(shape) * form.itemsize
    # kernels assume the alignment, and read as much as the shape says: both are checked here, once
    if place % LINE or not 0 <= place <= place + size <= len(weights):
        raise ValueError("a constant lies outside")
    return np.frombuffer(weights[place : place + size], form).reshape(shape)


@dataclass(frozen=True, slots=True)
class _Reader:
    """The pieces of a program, with every number in them checked against what the program has. Raises
    ValueError."""

    sizes: SizeTable
    values: int  # how many there are
    kernels: int
    behind: range

    def value(self, n: Any) -> int:
        return _index(n, self.values)

    def known(self, many: Any) -> tuple[int, ...]:
        return tuple(self.value(n) for n in many)

    def rows(self, many: Any) -> tuple[int, ...]:
        return tuple(_index(n, len(self.sizes.rows)) for n in many)

    def rest(self, x: Any) -> Rest | None:
        if x is None:
            return None
        pivot, needed, live = x
        which = None if pivot is None else self.value(pivot)
        return Rest(which, tuple(map(_text, needed)), self.known(live))

    def step(self, x: Any) -> tuple[int, ...] | Host:
        """Numbers of kernels in a row, or a function of arrays."""
        if all(isinstance(k, int) for k in x):
            return tuple(_index(k, self.kernels) for k in x)
        name, function, given, made, attrs, bodies = x
        inputs = tuple(None if v is None else self.value(v) for v in given)
        own = {_text(k): hosts.from_json(a, len(self.sizes.rows)) for k, a in attrs.items()}
        # parts run only parts behind them, so that no file can make an engine that runs in circles
        parts = [self.behind[_index(n - self.behind.start, len(self.behind))] for n in bodies]
        stored = Stored(_text(function), own, parts)
        hosts.check(stored, inputs)
        call = hosts.caller(hosts.FUNCTIONS[function][0], stored, self.sizes)
        return Host(_text(name), call, inputs, self.known(made), stored)


def _part(row: Any, codes: Sequence[KernelCode], constants: Sequence[np.ndarray], behind: range) -> Part:
    """A program; ``behind`` are the numbers of the parts that it may run."""
    data, later = row
    dims = tuple(Dim(_text(n), _bound(lo), _bound(hi), _index(m, _LARGEST)) for n, lo, hi, m in data["dims"])
    if len({d.name for d in dims}) != len(dims) or any(d.multiple_of < 1 for d in dims):
        raise ValueError("the dims are not dims")
    names = [_text(r) for r in data["sizes"] if isinstance(r, str)]
    sizes = SizeTable.from_json(data["sizes"], names)
    read = _Reader(sizes, len(data["values"]), len(data["kernels"]), behind)
    program = Program(
        _text(data["name"]),
        dims,
        sizes,
        [
            Value(_text(n), str(dtype(_text(t))) if t else "", read.rows(shape))
            for n, t, shape in data["values"]
        ],
        read.known(data["inputs"]),
        tuple(read.rows(shape) for shape in data["input_shapes"]),
        read.known(data["outputs"]),
        tuple(map(_text, data["output_names"])),
        tuple((*read.rows((a, b)), bool(c)) for a, b, c in data["assumed"]),  # type: ignore[misc]
        {read.value(v): _index(c, len(constants)) for v, c in data["constants"]},
        [
            Kernel(
                _index(c, len(codes)),
                read.known(inputs),
                read.known(outputs),
                tuple(_index(n, len(constants)) for n in held),
                read.rows(slots),
            )
            for c, inputs, outputs, held, slots in data["kernels"]
        ],
        [read.step(s) for s in data["steps"]],
        read.rest(data["rest"]),
        read.rest(data["otherwise"]),
        {read.value(v): _index(n, _LARGEST) for v, n in data["most"]},
        {read.value(v): read.known(parts) for v, parts in data["joined"]},
    )
    _check(program, codes, constants)
    return Part(program, {_key_in(k): _index(n, behind.stop) for k, n in later})


def _check(p: Program, codes: Sequence[KernelCode], constants: Sequence[np.ndarray]) -> None:
    """That the parts of a program go together. Raises ValueError."""
    if len(p.input_shapes) != len(p.inputs) or any(
        len(shape) != len(p.values[v].shape) for v, shape in zip(p.inputs, p.input_shapes, strict=True)
    ):
        raise ValueError("the inputs have no such shapes")
    if p.rest is None and len(p.outputs) != len(p.output_names):
        raise ValueError("the outputs have no such names")
    if p.rest is None and not p.outputs:
        raise ValueError("it does not end")
    for v, c in p.constants.items():
        fixed = tuple(p.sizes.rows[n] for n in p.values[v].shape)
        if p.values[v].dtype != _dtype(constants[c]) or fixed != constants[c].shape:
            raise ValueError("a constant has another form")
    # a file is not trusted to be one that we wrote: every value is made before it is read, by one step
    ready = {*p.inputs, *p.constants}
    waiting = _check_joined(p)
    for step in p.steps:
        if isinstance(step, Host):
            if not ready.issuperset(v for v in step.inputs if v is not None) or ready & {*step.outputs}:
                raise ValueError("a value is read before it is made")
            ready.update(step.outputs)
            continue
        for k in step:
            _check_kernel(p, p.kernels[k], codes, constants)
            if not ready.issuperset(p.kernels[k].inputs) or not ready.isdisjoint(p.kernels[k].outputs):
                raise ValueError("a value is read before it is made")
            if not waiting.keys().isdisjoint(p.kernels[k].outputs):
                raise ValueError("a value is made twice")
            ready.update(p.kernels[k].outputs)
            for v, parts in waiting.items():
                if ready.issuperset(parts):
                    ready.add(v)
    wanted = set(p.outputs)
    for r in (p.rest, p.otherwise):
        wanted.update(() if r is None else r.live)
    if p.rest is not None and p.rest.pivot is not None:
        wanted.add(p.rest.pivot)
    if not ready.issuperset(wanted):
        raise ValueError("an output is made by nothing")


def _check_joined(p: Program) -> dict[int, tuple[int, ...]]:
    """The values that are others one behind the other: of known sizes, in whole cache lines, each of them
    made by one run of kernels, and part of one. Raises ValueError."""

    def size(v: int) -> int:
        shape = [p.sizes.rows[n] for n in p.values[v].shape]
        if not all(isinstance(n, int) and n > 0 for n in shape):
            raise ValueError("a part has no known size")
        return math.prod(shape) * dtype(p.values[v].dtype).bytes  # type: ignore[arg-type]

    apart = {*p.inputs, *p.constants, *p.outputs}
    parts = [v for row in p.joined.values() for v in row]
    if p.joined and (len(p.steps) != 1 or p.rest is not None or p.otherwise is not None):
        raise ValueError("values are joined across steps")
    if len(set(parts)) != len(parts) or not apart.isdisjoint([*parts, *p.joined]):
        raise ValueError("a part has several places")
    before: set[int] = set()
    for v, row in p.joined.items():
        if sum(map(size, row)) != size(v) or any(size(part) % LINE for part in row):
            raise ValueError("parts do not make up a whole")
        if not before.issuperset(p.joined.keys() & set(row)):
            raise ValueError("a part is joined after its whole")
        before.add(v)
    return p.joined


def _check_kernel(
    p: Program, k: Kernel, codes: Sequence[KernelCode], constants: Sequence[np.ndarray]
) -> None:
    signature = codes[k.code].signature
    buffers = [q for q in signature.params if q.kind == "buffer"]
    values = [p.values[v] for v in (*k.inputs, *k.outputs)]
    forms = [(v.dtype, len(v.shape)) for v in values]
    forms += [(_dtype(constants[c]), constants[c].ndim) for c in k.constants]
    scalars = len(signature.params) - len(buffers)
    counts = len(k.inputs), len(k.outputs), len(k.constants)
    written = [kind for kind, n in zip((False, True, False), counts, strict=True) for _ in range(n)]
    if (
        [(q.dtype, len(q.shape)) for q in buffers] != forms
        or len(k.slots) != len(signature.dims) + scalars
        or [q.written for q in buffers] != written
        or any(q.strides is not None for q in buffers)
        or signature.constants
    ):
        raise ValueError(f"{signature.name} takes other arguments")


def _key_in(key: Any) -> Any:
    turned, value, sizes = key
    if value is not None:
        kind, shape, data = value
        value = _text(kind), tuple(_index(n, _LARGEST) for n in shape), bytes.fromhex(data)
    return tuple(int(i) for i in turned), value, tuple(int(n) for n in sizes)


def _index(x: Any, count: int) -> int:
    # a bool is an int to isinstance
    if type(x) is not int or not 0 <= x < count:
        raise ValueError(f"{str(x)[:40]} is not a number below {count}")
    return x


def _bound(x: Any) -> int | None:
    if x is None or (type(x) is int and abs(x) <= _LARGEST):
        return x
    raise ValueError(f"{str(x)[:40]} is not a bound")


def _text(x: Any) -> str:
    if not isinstance(x, str):
        raise ValueError(f"{type(x).__name__} is not text")
    return x
