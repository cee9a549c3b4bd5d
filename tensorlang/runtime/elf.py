"""The symbols of ELF object code: which it defines, where, and which it leaves to the linker. Knows the
format and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_SYMTAB = 2
_FUNC = 2


class Symbol(NamedTuple):
    """One entry of the symbol table; ``section`` 0 is undefined, ``value`` counts bytes from the beginning of
    the section."""

    name: str
    is_function: bool
    section: int
    value: int
    size: int


def symbols(object_code: bytes) -> list[Symbol]:
    """The named symbols of 64-bit little-endian ELF object code; none for any other bytes."""
    try:
        return list(_symbols(object_code)) if object_code[:6] == b"\x7fELF\x02\x01" else []
    except (struct.error, IndexError, ValueError):
        return []


def _symbols(object_code: bytes) -> Iterator[Symbol]:
    (sections,), (width, count) = (
        struct.unpack_from("<Q", object_code, 40),
        struct.unpack_from("<HH", object_code, 58),
    )
    headers = [struct.unpack_from("<IIQQQQIIQQ", object_code, sections + width * i) for i in range(count)]
    for _, kind, _, _, at, size, link, *_ in headers:
        if kind != _SYMTAB:
            continue
        strings = headers[link][4]
        for name, info, _, section, value, length in struct.iter_unpack(
            "<IBBHQQ", object_code[at : at + size]
        ):
            if name:
                start = strings + name
                text = object_code[start : object_code.index(b"\0", start)].decode("ascii", "replace")
                yield Symbol(text, info & 15 == _FUNC, section, value, length)


def undefined_symbols(object_code: bytes) -> list[str]:
    """Names that the object code leaves to the linker."""
    return [s.name for s in symbols(object_code) if s.section == 0]
