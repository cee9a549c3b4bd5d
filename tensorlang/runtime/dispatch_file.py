"""A Dispatcher in one file: its kernels, each array of constants once, the tree, and a note of whoever made
it. Knows no compiler.

Layout as of a kernel's file (``store``): the line ``tensorlang dispatcher 1``, the line of the SHA-256 of all
that follows, a line of JSON, the object codes, the constants. Kernels published for exact shapes are not part
of it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..errors import TensorLangError
from ..interface.signature import Signature
from . import constants as memory
from . import files, store
from .module import Module
from .routes import Route, Rows

_MAGIC = b"tensorlang dispatcher "
VERSION = 1
_AGAIN = "make and save it again"


Parts = tuple[Signature, list[Route], Any, Any]  # signature, routes, tree, note


def read(path: str | Path) -> Parts:
    """What a file holds. Raises TargetError or TensorLangError."""
    data = files.read(files.named(path, "load"))
    body = files.unsealed(path, data, _MAGIC, VERSION, what="dispatcher", again=_AGAIN)
    line, _, content = body.partition(b"\n")
    try:
        return _unpacked(path, json.loads(line), content)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        raise TensorLangError(
            f"cannot load {path}", because="its header makes no sense", try_=_AGAIN
        ) from None


def pack(signature: Signature, routes: Sequence[Route], tree: Any, note: Any) -> bytes:
    """The bytes of the file."""
    kernels: list[Module] = []
    arrays: dict[int, tuple[int, Any]] = {}  # by identity: (number, array)

    def number(module: Module) -> int:
        if not any(module is k for k in kernels):
            kernels.append(module)
        return next(i for i, k in enumerate(kernels) if k is module)

    listed_routes = [
        {"rows": r.dim, "kernels": {str(h): number(m) for h, m in sorted(r.kernels.items())}}
        if isinstance(r, Rows)
        else number(r)
        for r in routes
    ]
    listed_kernels = []
    for k in kernels:
        held = [
            arrays.setdefault(id(a), (len(arrays), a))[0]
            for c in k.signature.constants
            for a in [k.constants[c.symbol]]
        ]
        listed_kernels.append(
            {
                "signature": k.signature.to_json(),
                "target": k.target,
                "machine": store.machine(k.target, k.features),
                "size": len(k.object_code),
                "constants": held,
            }
        )
    listed = [a for _, a in arrays.values()]
    header = {
        "signature": signature.to_json(),
        "tree": tree,
        "routes": listed_routes,
        "kernels": listed_kernels,
        "note": note,
        "arrays": [[str(a.dtype), list(a.shape)] for a in listed],
    }
    body = b"".join(
        [
            json.dumps(header, ensure_ascii=True).encode(),
            b"\n",
            *(k.object_code for k in kernels),
            *(np.ascontiguousarray(a).tobytes() for a in listed),
        ]
    )
    return files.sealed(_MAGIC, VERSION, body)


def _unpacked(path: str | Path, header: Any, content: bytes) -> Parts:
    at = 0
    codes = []
    for k in header["kernels"]:
        codes.append(content[at : at + _count(k["size"])])
        at += k["size"]
    arrays = []
    for kind, shape in header["arrays"]:
        found = dtype(str(kind)).to_numpy()
        size = math.prod(map(_count, shape)) * found.itemsize
        if at + size > len(content):
            raise ValueError("sizes")
        source = np.frombuffer(memoryview(content)[at : at + size], found).reshape(shape)
        arrays.append(
            memory.shared(
                memory.digest(source),
                [(tuple(shape), found)],
                lambda copy, source=source: np.copyto(copy, source),
            )[0]
        )
        at += size
    if at != len(content):
        raise ValueError("sizes")
    kernels = []
    for k, code in zip(header["kernels"], codes, strict=True):
        signature, needs = Signature.from_json(k["signature"]), k["machine"]
        features = tuple(str(f) for f in needs["features"])
        store.check_machine(path, signature.name, str(needs["triple"]), str(needs["cpu"]), features)
        held = {c.symbol: arrays[_count(i)] for c, i in zip(signature.constants, k["constants"], strict=True)}
        if any(
            held[c.symbol].shape != c.shape or held[c.symbol].dtype != dtype(c.dtype).to_numpy()
            for c in signature.constants
        ):
            raise ValueError("constants")
        if not isinstance(k["target"], str | None):
            raise ValueError("target")
        kernels.append(Module(code, signature, {}, k["target"], constants=held, features=features))
    routes: list[Route] = [
        Rows(str(r["rows"]), {int(h): kernels[_count(i)] for h, i in r["kernels"].items()})
        if isinstance(r, dict)
        else kernels[_count(r)]
        for r in header["routes"]
    ]
    if not routes or any(isinstance(r, Rows) and not r.kernels for r in routes):
        raise ValueError("routes")
    return Signature.from_json(header["signature"]), routes, header["tree"], header["note"]


def _count(x: Any) -> int:
    """A number of things, or the place of one. Raises ValueError for anything else."""
    if type(x) is not int or x < 0:
        raise ValueError(f"{str(x)[:40]} is not a count")
    return x
