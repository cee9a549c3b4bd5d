"""Kernels of engines as plain data: object code whose weights are parameters, and how weights are packed for
it. What a cache keeps, a worker sends and an engine's file holds. Knows signatures and bytes, no compilers.

The bytes: the SHA-256 of all that follows, a line of JSON, the object codes.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.dtype import dtype
from ..interface.signature import Signature
from . import constants as memory
from .module import Module

FORMAT = 1
MAX_PACKERS = 256  # loaded packing functions

Form = tuple[tuple[int, ...], str]  # shape and dtype


@dataclass(frozen=True)
class Packer:
    """What is computed of weights once: ``sources`` are numbers of the region's constants, ``forms`` shapes
    and dtypes of the results. Without ``code`` the result is the source as it is. What it reads may lack
    the last dimensions of size 1 of a constant."""

    sources: tuple[int, ...]
    forms: tuple[Form, ...]
    object_code: bytes = b""
    signature: Signature | None = None

    def packed(self, sources: Sequence[Any]) -> list[np.ndarray]:
        """The results for these arrays; those that another kernel still reads are there once."""
        forms, signature = [(shape, dtype(kind).to_numpy()) for shape, kind in self.forms], self.signature
        if signature is None:
            return memory.shared_of(
                "", sources, forms, lambda copy: np.copyto(copy, sources[0].reshape(copy.shape))
            )
        # copies of int32 and of float32 are the same code
        key = hashlib.sha256(self.object_code + repr((self.signature, self.forms)).encode()).hexdigest()

        def fill(*made: Any) -> None:
            shapes = [p.shape for p in signature.params]
            read = [np.asarray(a, order="C").reshape(n) for a, n in zip(sources, shapes, strict=False)]
            _loaded(key, self)(*read, *made)

        return memory.shared_of(key, sources, forms, fill)


@dataclass(frozen=True)
class KernelCode:
    """A kernel: its buffers are inputs, outputs, then what the ``packers`` give; ``places`` tells for each of
    its slots the number of the region's dim. ``features`` are what it may use of the processor."""

    object_code: bytes
    signature: Signature
    places: tuple[int, ...]
    features: tuple[str, ...] = ()
    packers: tuple[Packer, ...] = ()

    @property
    def symbol(self) -> str:
        """The name of its entry, its own among all kernels."""
        return self.signature.name

    def packed(self, values: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays that stand for constants of these values; equal ones are one array."""
        return [a for p in self.packers for a in p.packed([values[i] for i in p.sources])]


_packers: dict[str, Module] = {}
_lock = threading.Lock()


def _loaded(key: str, p: Packer) -> Module:
    """The packing function in this process; equal ones are loaded once, for layers differ in their weights
    alone."""
    with _lock:
        found = _packers.get(key)
        if found is None:
            assert p.signature is not None
            while len(_packers) >= MAX_PACKERS:
                del _packers[next(iter(_packers))]
            found = _packers[key] = Module(p.object_code, p.signature)
    return found


def to_bytes(code: KernelCode) -> bytes:
    """The kernel as bytes."""
    blobs = [code.object_code, *(p.object_code for p in code.packers)]
    head = {
        "format": FORMAT,
        "signature": code.signature.to_json(),
        "places": code.places,
        "features": code.features,
        "packers": [
            [p.sources, p.forms, None if p.signature is None else p.signature.to_json()] for p in code.packers
        ],
        "sizes": [len(b) for b in blobs],
    }
    body = b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", *blobs])
    return hashlib.sha256(body).digest() + body


def from_bytes(data: bytes) -> KernelCode:
    """The kernel of such bytes. Raises ValueError for others."""
    digest, body = data[:32], data[32:]
    if hashlib.sha256(body).digest() != digest:
        raise ValueError("its contents do not match its hash")
    line, _, rest = body.partition(b"\n")
    try:
        head = json.loads(line)
        if head["format"] != FORMAT:
            raise ValueError("its format is another")
        blobs, at = [], 0
        for n in head["sizes"]:
            blobs.append(rest[at : at + n])
            at += n
        packers = tuple(
            Packer(
                tuple(sources),
                tuple((tuple(shape), kind) for shape, kind in forms),
                blob,
                None if signature is None else Signature.from_json(signature),
            )
            for (sources, forms, signature), blob in zip(head["packers"], blobs[1:], strict=True)
        )
        return KernelCode(
            blobs[0],
            Signature.from_json(head["signature"]),
            tuple(head["places"]),
            tuple(head["features"]),
            packers,
        )
    except (KeyError, TypeError, IndexError, AttributeError) as e:
        raise ValueError(f"its header makes no sense: {e}") from None
