"""LLVM text under construction: modules, functions, basic blocks. Knows nothing of what the text computes.

Blocks keep their terminator apart from their instructions, so that a value can still be placed at the end of
a block after the branch that leaves it was written: that is how loop-invariant values land in front of loops.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ...core.names import NameSupply
from ...interface.signature import Check
from ...target import Target


class Block:
    """A basic block: ``label``, instructions, and the terminator once it is known."""

    __slots__ = ("end", "label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []
        self.end: str | None = None


class Function:
    """One function definition. ``head`` is everything up to the opening brace."""

    def __init__(self, head: str) -> None:
        self.head = head
        self.blocks: list[Block] = []
        self._count = 0
        self.entry = self.block("entry")

    def block(self, hint: str) -> Block:
        """A new, empty block."""
        self._count += 1
        new = Block(f"{hint}{self._count}" if self.blocks else hint)
        self.blocks.append(new)
        return new

    def fresh(self) -> str:
        """A new value name."""
        self._count += 1
        return f"%v{self._count}"

    def text(self) -> str:
        lines = [self.head + " {"]
        for b in self.blocks:
            lines.append(f"{b.label}:")
            lines.extend(b.lines)
            lines.append(b.end or "  unreachable")
        lines.append("}")
        return "\n".join(lines)


class Module:
    """One module: function texts and the external functions they call."""

    def __init__(self, target: Target, lines: Mapping[int, int] | None = None, *, fuses: bool = True) -> None:
        self.target = target
        self.fuses = fuses  # a product and the sum it feeds may be rounded once
        self.lines = lines  # of a text of the kernel, by the id of the statement that each shows
        self.functions: list[Function] = []
        self._declared: dict[str, str] = {}
        self._names = NameSupply(separator=".")
        self._constants: dict[str, str] = {}
        self._notes: dict[str, str] = {}
        self.records: dict[str, str] = {}  # definitions of globals by name
        self.recording = ""  # the record of the kernel being written
        self.numbers: dict[Check, int] = {}  # its checks
        self.configurations: dict[object, int] = {}  # of the tiles of a matrix unit

    def declare(self, name: str, result: str, args: str, attributes: str = "") -> str:
        """``@name``, declared on its first use."""
        if name not in self._declared:
            self._declared[name] = f"declare {result} @{name}({args}){' ' + attributes if attributes else ''}"
        return f"@{name}"

    def data(self, name: str) -> str:
        """``@name``, memory that whoever loads the code provides."""
        self._declared.setdefault(name, f"@{name} = external global i8, align 64")
        return f"@{name}"

    def declares(self, name: str) -> bool:
        """Whether the code so far expects a function of that name from elsewhere."""
        return name in self._declared

    def provide(self, name: str, definition: str) -> None:
        """Define here what the code so far expects from elsewhere; nothing when it does not."""
        if name in self._declared:
            self._declared[name] = definition

    def unique(self, preferred: str) -> str:
        """A function name that is not taken."""
        return self._names.fresh(preferred)

    def constant(self, kind: str, value: str) -> str:
        """The address of an aligned value of type ``kind`` in memory, which LLVM does not know to be
        constant."""
        text = f"internal global {kind} {value}, align 64"
        return self._constants.setdefault(text, f"@tensorlang.constant.{len(self._constants)}")

    def note(self, text: str) -> str:
        """The number of a node of metadata."""
        return self.node(f"!{{{text}}}")

    def node(self, text: str) -> str:
        """The same for a node that is written in full."""
        return self._notes.setdefault(text, f"!{len(self._notes)}")

    @functools.cached_property
    def _unit(self) -> tuple[str, str]:
        """The nodes that say that locations are lines of one text: the unit, and that it has a version."""
        file = self.node('!DIFile(filename: "loops", directory: "")')
        return self.node(
            f"distinct !DICompileUnit(language: DW_LANG_C, file: {file}, isOptimized: true, "
            "emissionKind: LineTablesOnly)"
        ), self.node('!{i32 2, !"Debug Info Version", i32 3}')

    def _named(self) -> str:
        """What tells LLVM of these nodes."""
        unit, version = self._unit
        return f"!llvm.dbg.cu = !{{{unit}}}\n!llvm.module.flags = !{{{version}}}"

    def located(self, function: Function) -> str:
        """The node that locations in a function name; nothing where lines are not asked for."""
        if self.lines is None:
            return ""
        unit, _ = self._unit
        name = function.head.partition("@")[2].partition("(")[0]
        scope = self.node(
            f'distinct !DISubprogram(name: "{name}", unit: {unit}, spFlags: DISPFlagDefinition, '
            f"type: {self.node('!DISubroutineType(types: ' + self.node('!{}') + ')')})"
        )
        function.head += f" !dbg {scope}"
        return scope

    def claim(self, name: str) -> bool:
        """Take a function name; False when it is taken already: the function is there."""
        return self._names.claim(name)

    def add(self, function: Function) -> None:
        self.functions.append(function)

    def text(self) -> str:
        bits = self.target.vector_bits
        # rsp is aligned to 16 bytes only: else spilled vectors cross cache lines under some callers and not
        # under others (measured: 1.4 times slower)
        wide = (
            f' "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}" "stackrealign"'
            if self.target.arch == "x86_64"
            else ""
        )
        # each page of the stack is written once: a vector is microcode where lanes that a mask leaves out lie
        # in a page that nobody has used, for they bring none. Measured (Zen 5): an open softmax of 1000 rows
        # of 150 took 200 to 360 instead of 42 µs in 3 of 64 new threads
        attributes = (
            'attributes #0 = { nounwind mustprogress "no-trapping-math"="true" "probe-stack"="inline-asm"'
            f"{wide} }}"
        )
        parts = [
            f'target triple = "{self.target.triple}"',
            *self.records.values(),
            *(f.text() for f in self.functions),
            "\n".join(self._declared.values()),
            "\n".join(f"{name} = {text}" for text, name in self._constants.items()),
            "\n".join(f"{name} = {text}" for text, name in self._notes.items()),
            self._named() if self.lines else "",
            attributes,
        ]
        return "\n\n".join(p for p in parts if p) + "\n"
