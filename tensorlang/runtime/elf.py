"""The symbols of ELF object code: which it defines, where, and which it leaves to the linker. Knows the
format and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"\x7fELF\x02\x01"  # of 64 bits, little endian
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
SYMTAB = 2
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
        return list(_symbols(object_code)) if object_code.startswith(MAGIC) else []
    except (struct.error, IndexError, ValueError):
        return []


def _symbols(object_code: bytes) -> Iterator[Symbol]:
    headers = section_headers(object_code)
    for _, kind, _, _, at, size, link, *_ in headers:
        if kind != SYMTAB:
            continue
        strings = headers[link][4]
        for name, info, _, section, value, length in SYMBOL.iter_unpack(object_code[at : at + size]):
            if name:
                text = text_at(object_code, strings + name).decode("ascii", "replace")
                yield Symbol(text, info & 15 == _FUNC, section, value, length)


def section_headers(object_code: bytes) -> list[tuple[int, ...]]:
    """The headers of all sections. Raises struct.error for bytes that are too few."""
    head = HEADER.unpack_from(object_code)
    return [SECTION.unpack_from(object_code, head[6] + head[11] * i) for i in range(head[12])]


def text_at(data: bytes, at: int) -> bytes:
    """What ends with a zero."""
    return data[at : data.index(b"\0", at)]


def undefined_symbols(object_code: bytes) -> list[str]:
    """Names that the object code leaves to the linker."""
    return [s.name for s in symbols(object_code) if s.section == 0]
