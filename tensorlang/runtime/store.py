"""One kernel, one file: a header, object code and texts under one hash. Knows no compiler; compares machines at load.

Layout: the line ``tensorlang kernel 1``, the line of the SHA-256 of all that follows, a line of JSON, the object code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from ..core.signature import Signature
from ..errors import TargetError, TensorLangError

_MAGIC = b"tensorlang kernel "
VERSION = 1


def machine(target: str | None) -> dict[str, Any]:
    """What a processor must be to run code of this target string: triple, cpu, and the features the code may use."""
    options = dict(re.findall(r"-(mtriple|mcpu|mattr)=(\S+)", target or ""))
    host_cpu, host_triple = llvm.get_host_cpu_name(), llvm.get_process_triple()
    triple, cpu = options.get("mtriple", host_triple), options.get("mcpu", host_cpu)
    features = {f[1:] for f in options.get("mattr", "").split(",") if f.startswith("+")}
    if cpu == host_cpu and _platform(triple) == _platform(host_triple):
        removed = {f[1:] for f in options.get("mattr", "").split(",") if f.startswith("-")}
        features |= {name for name, on in llvm.get_host_cpu_features().items() if on} - removed
    return {"triple": triple, "cpu": cpu, "features": sorted(features)}


def _platform(triple: str) -> tuple[str, str]:
    parts = triple.split("-")
    system = next((s for s in ("linux", "darwin", "windows") if s in triple), parts[-1])
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(parts[0], parts[0]), system


def write(path: str | Path, object_code: bytes, signature: Signature, target: str | None, texts: Mapping[str, str]) -> None:
    """Write the file aside and rename it, so that a reader sees all of it or nothing."""
    header = {"signature": signature.to_json(), "target": target, "machine": machine(target), "size": len(object_code),
              "sources": dict(texts)}
    body = json.dumps(header, ensure_ascii=True).encode() + b"\n" + object_code
    data = _MAGIC + str(VERSION).encode() + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n" + body
    path = Path(path)
    try:
        handle, aside = tempfile.mkstemp(prefix=path.name, suffix=".part", dir=path.parent)
    except OSError as error:
        raise TensorLangError(f"cannot save {signature.name} to {path}", because=error.strerror or str(error)) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(aside, 0o666 & ~umask)  # mkstemp makes it private; a saved kernel is an ordinary file
        os.replace(aside, path)
    except BaseException as error:
        os.unlink(aside)
        if isinstance(error, OSError):
            raise TensorLangError(f"cannot save {signature.name} to {path}", because=error.strerror or str(error)) from None
        raise


def read(path: str | Path) -> tuple[bytes, Signature, str | None, dict[str, str]]:
    """Object code, signature, target string and texts. Raises TensorLangError or TargetError."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise TensorLangError(f"cannot load {path}", because=error.strerror or str(error)) from None
    first, _, rest = data.partition(b"\n")
    if not first.startswith(_MAGIC):
        raise TensorLangError(f"cannot load {path}", because="it is no saved tensorlang kernel")
    version = first[len(_MAGIC):].decode("ascii", "replace")
    if version != str(VERSION):
        raise TensorLangError(f"cannot load {path}", because=f"its format is version {version[:20]}, this is version {VERSION}",
                              try_="build and save the kernel again")
    digest, _, body = rest.partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise TensorLangError(f"cannot load {path}", because="its contents do not match its hash: the file is torn or was changed",
                              try_="build and save the kernel again")
    line, _, object_code = body.partition(b"\n")
    try:
        header = json.loads(line)
        signature = Signature.from_json(header["signature"])
        needs, target, texts = header["machine"], header["target"], dict(header["sources"])
        whole = header["size"] == len(object_code)
        names = needs["triple"], needs["cpu"], list(needs["features"])
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise TensorLangError(f"cannot load {path}", because="its header makes no sense", try_="build and save the kernel again")
    _check_machine(path, signature.name, *names)
    return object_code, signature, target, texts


def _check_machine(path: str | Path, name: str, triple: str, cpu: str, features: list[str]) -> None:
    here = llvm.get_process_triple()
    if _platform(triple) != _platform(here):
        raise TargetError(f"cannot load {path}", because=f"{name} was compiled for {triple}, this is {here}")
    have = llvm.get_host_cpu_features()
    missing = [f for f in features if not have.get(f)]
    if missing:
        raise TargetError(f"cannot load {path}",
                          because=f"{name} was compiled for {cpu} and may use {', '.join(missing)}, which this processor "
                                  f"({llvm.get_host_cpu_name()}) has not",
                          try_="build it for this processor")
    if not features and cpu not in ("generic", "x86-64", llvm.get_host_cpu_name()):
        raise TargetError(f"cannot load {path}", because=f"{name} was compiled for {cpu}, this is {llvm.get_host_cpu_name()}",
                          try_="name the features it may use with -mattr=+…")
