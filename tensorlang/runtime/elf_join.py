"""Several object files as one, without a linker: their sections side by side under one table of symbols.
Knows ELF of 64 bits and little endian, and nothing of what the code does.

What a linker does with a relocatable output (``ld -r``), for the objects that LLVM writes here: no groups, no
relocations without addends. What one object defines and another refers to becomes one symbol. Of what is
defined only the names in ``exports`` and weak functions stay visible, so two such files can be linked into
one program.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..errors import TensorLangError
from .elf import HEADER, MAGIC, SECTION, SYMBOL, SYMTAB, section_headers, text_at

_RELA = struct.Struct("<QQq")
_NULL, _PROGBITS, _STRTAB, _RELA_KIND, _NOBITS = 0, 1, 3, 4, 8
_REL, _GROUP, _INDEX = 9, 17, 18
_ALLOC, _INFO_LINK = 2, 0x40
_LOCAL, _GLOBAL, _WEAK = 0, 1, 2
_SECTION_SYMBOL, _FILE_SYMBOL, _OBJECT = 3, 4, 1
_RESERVED = 0xFF00
_ALIGN = 64


class _Section(NamedTuple):
    name: bytes
    kind: int
    flags: int
    align: int
    entry: int
    data: bytes
    size: int
    link: int
    info: int


class _Symbol(NamedTuple):
    name: bytes
    info: int
    other: int
    section: int
    value: int
    size: int

    @property
    def binding(self) -> int:
        return self.info >> 4


def joined(
    objects: Sequence[bytes], exports: Collection[str], data: tuple[str, bytes] | None = None
) -> bytes:
    """One object of these. ``data`` is a symbol and read-only bytes that it names, on a cache line.

    Raises TensorLangError for what is not object code of this kind.
    """
    try:
        return _Join(objects, {e.encode() for e in exports}, data).written()
    except (struct.error, IndexError, ValueError) as error:
        raise TensorLangError("machine code cannot be joined", because=f"{error}") from None


class _Join:
    def __init__(self, objects: Sequence[bytes], exports: set[bytes], data: tuple[str, bytes] | None) -> None:
        self.head = HEADER.unpack_from(objects[0])
        self.sections: list[_Section] = []
        self.symbols: list[_Symbol] = []  # of all objects, their sections renumbered
        self.numbers: list[list[int]] = []  # for each object the places of its symbols in ``symbols``
        self.relocations: list[tuple[_Section, int, int]] = []  # with the object and the new section
        for n, o in enumerate(objects):
            self._take(n, o)
        if data is not None:
            name, content = data
            self.sections.append(
                _Section(b".rodata", _PROGBITS, _ALLOC, _ALIGN, 0, content, len(content), 0, 0)
            )
            place = len(self.sections)
            self.symbols.append(_Symbol(name.encode(), _GLOBAL << 4 | _OBJECT, 0, place, 0, len(content)))
        self._resolve(exports)

    def _take(self, number: int, o: bytes) -> None:
        """The sections and symbols of an object."""
        head = HEADER.unpack_from(o)
        kind = 1, self.head[2], self.head[7]
        if not o.startswith(MAGIC) or (head[1], head[2], head[7]) != kind:
            raise ValueError("it is no ELF object code of one kind")
        rows = section_headers(o)
        names = rows[head[13]]
        found = [
            _Section(
                text_at(o, names[4] + r[0]),
                r[1],
                r[2],
                r[8],
                r[9],
                b"" if r[1] == _NOBITS else o[r[4] : r[4] + r[5]],
                r[5],
                r[6],
                r[7],
            )
            for r in rows
        ]
        places: dict[int, int] = {}
        for i, s in enumerate(found):
            if s.kind in (_REL, _GROUP, _INDEX):
                raise ValueError(f"a section {s.name.decode()} of kind {s.kind}")
            if s.kind in (_NULL, SYMTAB, _STRTAB, _RELA_KIND):
                continue
            if s.name == b".note.GNU-stack" and any(t.name == s.name for t in self.sections):
                continue
            self.sections.append(s._replace(link=0, info=0))
            places[i] = len(self.sections)  # 0 is the section of nothing
        table = next(s for s in found if s.kind == SYMTAB)
        strings = found[table.link].data
        own: list[int] = []
        for name, info, other, section, value, size in SYMBOL.iter_unpack(table.data):
            where = places.get(section, 0) if section < _RESERVED else section
            own.append(len(self.symbols))
            self.symbols.append(_Symbol(text_at(strings, name), info, other, where, value, size))
        self.numbers.append(own)
        self.relocations += [
            (s, number, places[s.info]) for s in found if s.kind == _RELA_KIND and s.info in places
        ]

    def _resolve(self, exports: set[bytes]) -> None:
        """Which symbol stands for each: one for a name that is not local. Local ones come first."""
        chosen: dict[bytes, _Symbol] = {}
        for s in self.symbols:
            if s.binding != _LOCAL:
                chosen[s.name] = _stronger(chosen.get(s.name), s)
        inside = {n for n, s in chosen.items() if s.section and n not in exports and s.binding != _WEAK}
        self.table = [_Symbol(b"", 0, 0, 0, 0, 0)]
        self.places: list[int] = []
        for s in self.symbols:
            real = s.binding == _LOCAL and s.info & 15 != _FILE_SYMBOL and (s.name or s.section)
            self.places.append(len(self.table) if real else 0)
            if real:
                self.table.append(s)
        self.table += [chosen[n]._replace(info=chosen[n].info & 15, other=0) for n in sorted(inside)]
        self.first = len(self.table)  # that is not local
        self.table += [s for n, s in chosen.items() if n not in inside]
        named = {s.name: i for i, s in enumerate(self.table) if s.name in inside or i >= self.first}
        for i, s in enumerate(self.symbols):
            if s.binding != _LOCAL:
                self.places[i] = named[s.name]

    def written(self) -> bytes:
        """The object file."""
        names, strings = _Strings(), _Strings()
        out = bytearray(HEADER.size)
        rows = [SECTION.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)]
        symtab = 1 + len(self.sections) + len(self.relocations)

        def add(s: _Section) -> None:
            out.extend(bytes(-len(out) % max(1, s.align)))
            where = names.at(s.name), s.kind, s.flags, 0, len(out)
            rows.append(SECTION.pack(*where, s.size, s.link, s.info, s.align, s.entry))
            out.extend(s.data)

        for s in self.sections:
            add(s)
        for s, number, place in self.relocations:
            data = b"".join(self._moved(number, *r) for r in _RELA.iter_unpack(s.data))
            add(s._replace(data=data, size=len(data), link=symtab, info=place, flags=_INFO_LINK))
        table = b"".join(SYMBOL.pack(strings.at(s.name), *s[1:]) for s in self.table)
        sized = len(table), symtab + 1, self.first
        add(_Section(b".symtab", SYMTAB, 0, 8, SYMBOL.size, table, *sized))
        add(_Section(b".strtab", _STRTAB, 0, 1, 0, bytes(strings.text), len(strings.text), 0, 0))
        names.at(b".shstrtab")
        add(_Section(b".shstrtab", _STRTAB, 0, 1, 0, bytes(names.text), len(names.text), 0, 0))
        if len(rows) >= _RESERVED:
            raise ValueError(f"{len(rows)} sections")
        out.extend(bytes(-len(out) % 8))
        head = list(self.head)
        head[6], head[12], head[13] = len(out), len(rows), len(rows) - 1
        out[: HEADER.size] = HEADER.pack(*head)
        return bytes(out) + b"".join(rows)

    def _moved(self, number: int, offset: int, info: int, addend: int) -> bytes:
        """A relocation with the symbol's new number."""
        symbol = self.places[self.numbers[number][info >> 32]]
        return _RELA.pack(offset, symbol << 32 | info & 0xFFFFFFFF, addend)


class _Strings:
    """A table of names."""

    def __init__(self) -> None:
        self.text = bytearray(1)
        self._known: dict[bytes, int] = {b"": 0}

    def at(self, name: bytes) -> int:
        if name not in self._known:
            self._known[name] = len(self.text)
            self.text += name + b"\0"
        return self._known[name]


def _stronger(a: _Symbol | None, b: _Symbol) -> _Symbol:
    """The one of two symbols of a name that stands for both: what is defined, before what is weak."""
    if a is None or (b.section and (not a.section or a.binding == _WEAK)):
        return b
    if b.section and b.binding != _WEAK:
        raise ValueError(f"{b.name.decode()} is defined twice")
    return a
