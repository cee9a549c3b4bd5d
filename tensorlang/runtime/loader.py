"""Machine code into this process and out again, through LLVM's JIT linker. Knows nothing of signatures or
arrays.

Each kernel has a linker (LLJIT with JITLink) of its own, disposed when its Code dies. Measured over 1000
load-call-drop cycles: one linker for all kernels 0.3 ms and 10 kB of growth each (libraries are never freed),
one LLJIT a kernel 0.7 to 1.0 ms and no growth, one MCJIT engine a kernel 0.9 ms and no growth. JITLink
reports an undefined symbol where MCJIT ends the process.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from ..errors import TensorLangError
from ..native.object_code import compiled, compiled_once
from ..native.translate import module_text, named
from . import perf_map
from .elf import undefined_symbols

_lock = threading.Lock()
_prepared = False
_exiting = False


@atexit.register
def _at_exit() -> None:
    # Daemon threads may still run kernels while the interpreter goes down: from here on nothing is unloaded.
    global _exiting
    _exiting = True


class Code:
    """Loaded machine code: ``address`` by exported name. Unloaded when the object dies, so whoever calls must
    hold it."""

    __slots__ = ("_linker", "_tracker", "address")

    def __init__(self, linker: Any, tracker: Any, names: Sequence[str]) -> None:
        self._linker = linker
        self._tracker = tracker
        self.address: dict[str, int] = {name: tracker[name] for name in names}

    def keep(self) -> Code:
        """Never unload this code: threads that nobody joins run in it."""
        self._tracker.detach()
        self._linker.detach()
        return self

    def __del__(self) -> None:
        if _exiting is False:  # the library before its linker
            self._tracker.close()
            self._linker.close()
        else:  # None, when this module has been taken apart already
            self.keep()


def _ready() -> None:
    """Prepare LLVM and the process for loading, once."""
    global _prepared
    if not _prepared:
        with _lock:
            if not _prepared:
                llvm.initialize_native_target()
                llvm.initialize_native_asmprinter()
                for library in (
                    "libm.so.6",
                    "libgcc_s.so.1",
                ):  # the latter converts half precision for old processors
                    try:
                        llvm.load_library_permanently(library)
                    except RuntimeError:
                        # the system has it under another name; a kernel that needs it fails to link and says
                        # so
                        continue
                if hasattr(os, "register_at_fork"):
                    # A fork must find LLVM at rest: hold llvmlite's own lock across it.
                    held = ffi.lib._lock._lock
                    os.register_at_fork(
                        before=held.acquire, after_in_parent=held.release, after_in_child=held.release
                    )
                _prepared = True


def load_object(object_code: bytes, exports: Sequence[str], imports: Mapping[str, int]) -> Code:
    """Link relocatable object code into the process.

    ``imports`` gives addresses for undefined symbols; the rest (libm, memcpy) comes from the process. Raises
    TensorLangError when the code cannot be linked.
    """
    return load_objects([object_code], exports, imports)


def load_objects(objects: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]) -> Code:
    """Several objects by one linker, as ``load_object``."""
    builder = llvm.JITLibraryBuilder().add_current_process()
    for object_code in objects:
        builder.add_object_img(object_code)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    _ready()
    linker = llvm.create_lljit_compiler(None, use_jit_link=True, suppress_errors=True)
    try:
        tracker = builder.link(linker, "kernel")
    except RuntimeError as error:
        linker.close()
        unknown = [
            s
            for object_code in objects
            for s in undefined_symbols(object_code)
            if s not in imports and not llvm.address_of_symbol(s) and not _in_process(s)
        ]
        because = f"nothing here defines {', '.join(unknown)}" if unknown else str(error).strip()
        raise TensorLangError(
            f"machine code of {', '.join(exports)} cannot be loaded",
            because=because,
            try_=f"tl.register_symbol({unknown[0]!r}, ctypes.CDLL(path).{unknown[0]})" if unknown else None,
        ) from None
    code = Code(linker, tracker, exports)
    for object_code in objects:
        perf_map.register(object_code, code.address)
    return code


def _in_process(symbol: str) -> bool:
    return hasattr(ctypes.CDLL(None), symbol) if os.name == "posix" else False


def compile_text(text: str, exports: Sequence[str], imports: Mapping[str, int], *, opt: int = 0) -> Code:
    """LLVM text as code of this process."""
    return load_object(compiled(text, opt), exports, imports)


def load_functions(
    exports: Mapping[str, Any], imports: Mapping[str, int] | None = None, *, opt: int = 0, once: bool = False
) -> Code:
    """Native functions and their globals, by the symbols they are to have, as code of this process. ``once``:
    of those that each process has one of, which hold nothing but what their files say."""
    if once:
        names = " ".join(f"{symbol}={named(x)}" for symbol, x in exports.items())
        code = compiled_once(names, lambda: module_text(exports), opt)
    else:
        code = compiled(module_text(exports), opt)
    return load_object(code, list(exports), imports or {})
