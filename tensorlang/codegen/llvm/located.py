"""Which instruction is of which line of the loop IR: the code that ``emit`` and ``compile_ll`` make, with a
location on each instruction, read back from the assembly.

The lines are those of the loop IR as it is translated, with accumulators in registers. LLVM keeps locations
through its passes, and they change no instruction (AArch64 saves registers in another order); one that
stands for several keeps one of them or none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ...loopir.printer import lines_of
from ...loopir.stmt import Func
from ...target import Target
from .compile import commented_assembly
from .function import as_translated, entry_of, kernel
from .text import Module

_LOC = re.compile(r"\s*\.loc\s+\d+\s+(\d+)")
_SPILL = re.compile(r"\d+-byte (?:Folded )?(Spill|Reload)")
_COMMENT = re.compile(r"\s*(?:#|//|@\s).*$")
_KEPT = re.compile(r"\s*\.(?:[1248]?byte|short|long|quad|zero|x?word|hword|asci[iz]|space)\b")


@dataclass(frozen=True)
class Instruction:
    """A line of assembly: a label, a datum, or an instruction with the ``line`` of the loop IR that it is of
    (from 1; 0 for none). ``moved``: ``spill`` or ``reload`` of a register."""

    text: str
    line: int = 0
    moved: str = ""

    @property
    def is_label(self) -> bool:
        return not self.text.startswith("\t")


@dataclass(frozen=True)
class Located:
    """``lines`` of the loop IR, indented, and the ``code`` of the kernel."""

    lines: tuple[str, ...]
    code: tuple[Instruction, ...]


def located(func: Func, target: Target, math: str = "default") -> Located:
    """The loop IR of a kernel as it is translated, and its assembly by lines of that."""
    promoted = as_translated(func, target)
    text = lines_of(promoted)
    numbers = {id(s): n for n, (_, _, s) in enumerate(text, 1) if s is not None}
    module = Module(target, numbers)
    kernel(module, promoted, math, entry_of)
    code = tuple(_read(commented_assembly(module.text(), target)))
    return Located(tuple("    " * depth + line for depth, line, _ in text), code)


def _read(asm: str) -> Iterator[Instruction]:
    """The instructions, labels and data of an assembly; what only debuggers read is left out."""
    line, kept = 0, True
    for text in asm.splitlines():
        words = text.split()
        if not words:
            continue
        if words[0] == ".section":
            kept = not words[1].startswith(".debug")
        elif words[0] in (".text", ".data", ".bss"):
            kept = True
        found = _LOC.match(text)
        if found is not None:
            line = int(found[1])
        if not kept or (words[0].startswith(".") and not words[0].endswith(":") and not _KEPT.match(text)):
            continue
        bare = _COMMENT.sub("", text)
        if re.match(r"\.L(?:tmp|func|debug|line|info|sec)\w*:", bare) or not bare.strip():
            continue
        if words[0].endswith(":"):
            # a label of a block goes on with the line before it; one of a function begins anew
            line = line if bare.startswith(".L") else 0
            yield Instruction(bare)
        else:
            spill = _SPILL.search(text)
            data = _KEPT.match(text) is not None
            # tables of constants have no place in the program
            yield Instruction(bare, 0 if data else line, spill[1].lower() if spill else "")
