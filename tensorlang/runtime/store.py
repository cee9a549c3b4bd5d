"""One kernel, one file: a header, object code, constants and texts under one hash. Knows no compiler;
compares machines at load.

Layout: the line ``tensorlang kernel 2``, the line of the SHA-256 of all that follows, a line of JSON, the
object code, the bytes of the constants in the order of the signature. Exported objects and libraries carry
the same behind their last byte, then a line ``tensorlang kernel behind`` with its length and the SHA-256 of
the bytes before it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np

from ..core.dtype import dtype
from ..errors import TargetError, TensorLangError
from ..interface import isa
from ..interface.signature import Signature
from . import constants as memory
from . import files

_MAGIC = b"tensorlang kernel "
# How the other files of ours begin, and what reads them
_OTHERS = {
    b"tensorlang engine ": "tl.Engine.load(path), for it is an engine",
    b"tensorlang dispatcher ": "autosched.DynamicKernel.load(path), for it holds kernels of several sizes",
}
_BEHIND = re.compile(rb"\ntensorlang kernel behind ([0-9a-f]{16}) ([0-9a-f]{64})\n\Z")
_TRAILER = 1 + len("tensorlang kernel behind ") + 16 + 1 + 64 + 1
VERSION = 2
_AGAIN = "build and save the kernel again"


class Saved(NamedTuple):
    """What a file holds. ``features`` are those of the processor that the code may use."""

    object_code: bytes
    signature: Signature
    target: str | None
    texts: dict[str, str]
    constants: dict[str, Any]
    features: tuple[str, ...]


def machine(target: str | None, features: Sequence[str] | None) -> dict[str, Any]:
    """What a processor must be to run code of this target string: triple, cpu, and the instruction sets the
    code may use. Without ``features``: those of this processor, or those the string names for another one."""
    options = dict(re.findall(r"-(mtriple|mcpu|mattr)=(\S+)", target or ""))
    host_cpu, host_triple = llvm.get_host_cpu_name(), llvm.get_process_triple()
    triple, cpu = options.get("mtriple", host_triple), options.get("mcpu", host_cpu)
    # what the target string allows, and on this very processor what it has
    if features is None:
        here = cpu == host_cpu and isa.platform(triple) == isa.platform(host_triple)
        features = isa.used(
            isa.platform(triple)[0],
            llvm.get_host_cpu_features() if here else {},
            options.get("mattr", "").split(","),
        )
    return {"triple": triple, "cpu": cpu, "features": sorted(features)}


def pack(
    object_code: bytes,
    signature: Signature,
    target: str | None,
    features: Sequence[str] | None,
    texts: Mapping[str, str],
    constants: Mapping[str, Any],
) -> bytes:
    """The bytes of a saved kernel."""
    header = {
        "signature": signature.to_json(),
        "target": target,
        "machine": machine(target, features),
        "size": len(object_code),
        "sources": dict(texts),
    }
    data = [np.ascontiguousarray(constants[c.symbol]).tobytes() for c in signature.constants]
    body = b"".join([json.dumps(header, ensure_ascii=True).encode(), b"\n", object_code, *data])
    return files.sealed(_MAGIC, VERSION, body)


def behind(image: bytes, saved: bytes) -> bytes:
    """An object file or library with a saved kernel behind it."""
    return (
        image
        + saved
        + f"\ntensorlang kernel behind {len(saved):016x} {hashlib.sha256(image).hexdigest()}\n".encode()
    )


def read(path: str | Path, mine: bool = False) -> Saved:
    """The kernel in a file (``mine``: see ``files.read``). Raises TensorLangError or TargetError."""
    path = files.named(path, "load")
    data = files.read(path, mine)
    # a library or an object file, which carries its kernel behind itself
    if data[:4] == b"\x7fELF":
        data = _carried(path, data)
    body = files.unsealed(path, data, _MAGIC, VERSION, what="kernel", again=_AGAIN, others=_OTHERS)
    line, _, content = body.partition(b"\n")
    try:
        header = json.loads(line)
        signature = Signature.from_json(header["signature"])
        needs, target, texts, size = (
            header["machine"],
            header["target"],
            dict(header["sources"]),
            header["size"],
        )
        forms = [(tuple(c.shape), dtype(c.dtype).to_numpy()) for c in signature.constants]
        names = str(needs["triple"]), str(needs["cpu"]), tuple(str(f) for f in needs["features"])
        whole = type(size) is int and 0 <= size == len(content) - sum(
            math.prod(shape) * kind.itemsize for shape, kind in forms
        )
        whole = (
            whole
            and isinstance(target, str | None)
            and all(isinstance(t, str) for t in (*texts, *texts.values()))
        )
    # the file has its checksum, but may have been written by anybody: a header that lies is refused like one
    # that is torn
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, TensorLangError):
        whole = False
    if not whole:
        raise TensorLangError(f"cannot load {path}", because="its header makes no sense", try_=_AGAIN)
    check_machine(path, signature.name, *names)
    constants = _constants(signature, forms, memoryview(content)[size:])
    return Saved(content[:size], signature, target, texts, constants, names[2])


def _carried(path: str | Path, data: bytes) -> bytes:
    """The saved kernel behind an object file or library."""
    found = _BEHIND.match(data[-_TRAILER:])
    if found is None:
        raise TensorLangError(
            f"cannot load {path}",
            because="it is an object file or library with no tensorlang kernel behind it: "
            "not exported here, stripped, or truncated",
            try_="export the kernel again",
        )
    end = len(data) - _TRAILER
    start = end - int(found[1], 16)
    # the machine code in front belongs to the kernel: one that was exchanged would be loaded instead
    if start < 0 or hashlib.sha256(data[:start]).hexdigest().encode() != found[2]:
        raise files.changed(path, _AGAIN)
    return data[start:end]


def _constants(
    signature: Signature, forms: Sequence[tuple[tuple[int, ...], Any]], content: memoryview
) -> dict[str, Any]:
    """The constants as arrays the code can use; kernels that hold the same data share them."""
    made, at = {}, 0
    for c, (shape, kind) in zip(signature.constants, forms, strict=True):
        size = math.prod(shape) * kind.itemsize
        array = np.frombuffer(content[at : at + size], kind).reshape(shape)

        def copy(out: Any, source: Any = array) -> None:
            np.copyto(out, source)

        made[c.symbol] = memory.shared(memory.digest(array), [(shape, kind)], copy)[0]
        at += size
    return made


@functools.cache
def _here() -> tuple[str, Mapping[str, bool]]:
    """This process's triple, and the features of the processor: asking takes as long as reading a kernel."""
    return llvm.get_process_triple(), llvm.get_host_cpu_features()


def check_machine(path: str | Path, name: str, triple: str, cpu: str, features: Sequence[str]) -> None:
    """Raises TargetError when this processor cannot run code that needs such a machine."""
    here, have = _here()
    if isa.platform(triple) != isa.platform(here):
        raise TargetError(f"cannot load {path}", because=f"{name} was compiled for {triple}, this is {here}")
    # before its code is mapped: an unknown instruction ends the process
    missing = [f for f in features if not have.get(f)]
    if missing:
        raise TargetError(
            f"cannot load {path}",
            because=f"{name} was compiled for {cpu} and may use {', '.join(missing)}, which this processor "
            f"({llvm.get_host_cpu_name()}) has not",
            try_="build it for this processor",
        )
