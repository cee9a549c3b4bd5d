"""This machine: CPU name, features, processors this process may use, cache sizes. The only file of the room
that asks LLVM. Knows no target strings: it answers with plain values."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys

import llvmlite.binding as llvm

from . import x86


@functools.cache
def triple() -> str:
    """The triple LLVM uses for this process."""
    return str(llvm.get_process_triple())


@functools.cache
def object_format(of: str) -> str:
    """The format of object files for a triple: ``ELF``, ``COFF``, ``MachO`` and others."""
    return str(llvm.get_object_format(of))


@functools.cache
def cpu_name() -> str:
    """LLVM's name for this CPU, or for one with more of its features where the number is an older one's."""
    name = str(llvm.get_host_cpu_name())
    return x86.truer_name(name, {feature for feature, on in features().items() if on})


@functools.cache
def features() -> dict[str, bool]:
    """What this CPU (and the hypervisor and the system above it) offers, by LLVM's feature names; empty where
    LLVM cannot tell."""
    try:
        found = dict(llvm.get_host_cpu_features())
    except RuntimeError:
        return {}
    if found.get("amx-tile") and not _tiles_allowed():
        found |= {name: False for name in found if name.startswith("amx-")}
    return found


def _tiles_allowed() -> bool:
    """Whether the system lets this process use the registers of AMX, which Linux gives to a process that asks
    for them."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        return ctypes.CDLL(None).syscall(*x86.ASK_FOR_TILES) == 0  # type: ignore[no-any-return]
    except (OSError, AttributeError):
        return False


@functools.cache
def feature_string() -> str:
    """All features as LLVM wants them, so that code for this machine uses nothing that a hypervisor hides."""
    return ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(features().items()))


def num_cores() -> int:
    """Processors this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@functools.cache
def caches(root: str = "/sys/devices/system/cpu/cpu0/cache") -> dict[str, int]:
    """Bytes of the data caches: ``l1_bytes``, ``l2_bytes``, ``l3_bytes``, ``cache_line``; what is not
    reported is left out."""
    result: dict[str, int] = {}
    try:
        indices = sorted(d for d in os.listdir(root) if d.startswith("index"))
    except OSError:
        return result

    def read(index: str, name: str) -> str:
        try:
            with open(os.path.join(root, index, name), encoding="utf-8") as f:
                return f.read().strip()
        except OSError:
            return ""

    for index in indices:
        size = re.fullmatch(r"(\d+)([KMG]?)", read(index, "size"))
        # level 1 has two entries, one of data and one of instructions
        if size is None or read(index, "type") == "Instruction":
            continue
        level = read(index, "level")
        if level in ("1", "2", "3"):
            result[f"l{level}_bytes"] = int(size[1]) * _UNITS[size[2]]
        line = read(index, "coherency_line_size")
        if line.isdigit() and int(line) > 0:
            result["cache_line"] = int(line)
    return result
