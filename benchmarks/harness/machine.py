"""The machine a result was measured on, as data: processor, caches, what may disturb a measurement, versions
of what was compared."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import re
from pathlib import Path

FLAGS = (
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_int8",
    "amx_bf16",
    "asimd",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "hypervisor",
)


def describe() -> dict[str, object]:
    """Everything that is known without root."""
    info = _cpuinfo()
    flags = set(info.get("flags", info.get("Features", "")).split())
    return {
        "cpu": info.get("model name", platform.processor() or platform.machine()),
        "family": {
            key: info.get(field, "")
            for key, field in (("vendor", "vendor_id"), ("family", "cpu family"), ("model", "model"))
        },
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "mhz": float(info.get("cpu MHz", 0) or 0),
        "flags": [f for f in FLAGS if f in flags],
        "caches": caches(),
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "huge_pages": _chosen("/sys/kernel/mm/transparent_hugepage/enabled"),
        "load": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def version(package: str) -> str:
    """Of an installed distribution; the empty string when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def caches() -> dict[str, int]:
    """Bytes of L1d and L2 of the first processor, and of its L3 with whom it may share it."""
    found: dict[str, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
        if kind != "Instruction" and (number := re.fullmatch(r"(\d+)([KM]?)", size)):
            found[f"L{level}{'d' if kind == 'Data' and level == '1' else ''}"] = (
                int(number[1]) << {"": 0, "K": 10, "M": 20}[number[2]]
            )
    return found


def _cpuinfo() -> dict[str, str]:
    first = _text(Path("/proc/cpuinfo")).split("\n\n")[0]
    return {
        key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())
    }


def _chosen(path: str) -> str:
    """The word in brackets of a setting of the kernel."""
    found = re.search(r"\[(\w+)\]", _text(Path(path)))
    return found[1] if found else ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
