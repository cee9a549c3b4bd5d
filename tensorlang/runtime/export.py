"""Kernels for other programs: object file and C header, or a shared library made by a C compiler. Knows files
and signatures, no code generators: the object code for C is handed in.

Behind the last byte of an ``.o`` or ``.so``, where linkers and loaders do not look, stands the kernel as
``save`` writes it (``store``). So ``load`` takes these files like saved ones, with all checks, the thread
pool and the texts, and without ``dlopen``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..core.text import type_of
from ..errors import TensorLangError
from ..interface import c_header
from ..interface.signature import Signature
from . import files, store
from .elf import undefined_symbols

SUFFIXES = (".o", ".so", ".h")


@dataclass(frozen=True)
class CFunction:
    """A kernel or a model as a C function: object code that needs the C library only, its signature under
    the function's name, and its header."""

    object_code: bytes
    signature: Signature
    triple: str
    foreign: bool  # for another machine than this one
    header: str


def export(
    path: str | Path, make: Callable[[], CFunction], saved: Callable[[], bytes] | None, cc: str | None
) -> None:
    """Write what the suffix of ``path`` says: ``.o`` and ``.so`` with the header beside it, or ``.h`` alone.
    All or nothing. What is ``saved`` stands behind the machine code, for ``load``.

    Raises TensorLangError for another suffix, for a file that cannot be written, and where a C compiler is
    missing or fails.
    """
    if cc is not None and not isinstance(cc, str):
        raise TensorLangError(
            f"export: cc is {type_of(cc)}", because="a C compiler is named by one string", try_="cc='gcc'"
        )
    path = files.named(path, "export")
    if path.suffix not in SUFFIXES:
        raise TensorLangError(
            f"export: {path} has no known suffix",
            try_="file.o (object file and header), file.so (shared library and header) or file.h (header)",
        )
    made = make()
    out: dict[str | Path, bytes] = {path.with_suffix(".h"): made.header.encode()}
    if path.suffix != ".h":
        image = made.object_code if path.suffix == ".o" else _library(made, path, cc)
        out = {path: image if saved is None else store.behind(image, saved()), **out}
    files.write(out, f"export {made.signature.name}")


def kernel_header(object_code: bytes, signature: Signature, target: str) -> str:
    """The header of a kernel."""
    parallel = b"tensorlang_parallel" in object_code
    return c_header.header(signature, target, parallel, needed_symbols(object_code))


def needed_symbols(object_code: bytes) -> tuple[str, ...]:
    """The functions that the code calls and that are not of the C library."""
    called = undefined_symbols(object_code)
    return tuple(sorted(s for s in called if s not in c_header.LIBRARY and not s.startswith("_")))


def _library(made: CFunction, path: Path, cc: str | None) -> bytes:
    command = _compiler(made, cc)
    with tempfile.TemporaryDirectory(prefix="tensorlang-") as work:
        source, library = os.path.join(work, "kernel.o"), os.path.join(work, "kernel.so")
        Path(source).write_bytes(made.object_code)
        run = [command, "-shared", "-o", library, source, "-lm", f"-Wl,-soname,{path.name}"]
        try:
            done = subprocess.run(
                run, capture_output=True, text=True, errors="replace", timeout=300, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TensorLangError(f"export: {command} cannot be run", because=str(error)) from None
        if done.returncode:
            raise TensorLangError(
                f"export: {command} did not make {path}",
                because=done.stderr.strip() or f"it ended with {done.returncode}",
                try_="export an object file (.o) and link it where it is used",
            )
        if not os.path.exists(library):
            raise TensorLangError(
                f"export: {command} did not make {path}",
                because="it ended without an error and wrote nothing",
                try_="cc=… with a C compiler",
            )
        return Path(library).read_bytes()


def _compiler(made: CFunction, cc: str | None) -> str:
    """The C compiler: the given one, else that of the target's triple, else the system's."""
    wanted = (
        [cc]
        if cc
        else [f"{_debian(made.triple)}-gcc", f"{made.triple}-gcc"]
        if made.foreign
        else ["cc", "gcc", "clang"]
    )
    for name in wanted:
        result = shutil.which(name)
        if result:
            return result
    raise TensorLangError(
        f"export: a shared library needs a C compiler, and there is no {' or '.join(dict.fromkeys(wanted))}",
        try_="install one (Debian: apt install "
        f"{f'gcc-{_debian(made.triple)}' if made.foreign else 'gcc'}), name one with cc=…, or export an "
        "object file (.o)",
    )


def _debian(triple: str) -> str:
    """``aarch64-unknown-linux-gnu`` as Debian says it: ``aarch64-linux-gnu``."""
    parts = triple.split("-")
    return "-".join([parts[0], *parts[2:]]) if len(parts) > 3 else triple
