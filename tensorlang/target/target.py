"""Target strings in TVM's form (``llvm -mcpu=skylake-avx512 -num-cores=2``) and the machine facts behind them.

``llvm`` alone means this machine; with ``-mtriple`` of another machine and no ``-mcpu`` it means that architecture's
generic CPU. A target is a plain value: equal strings make equal targets. Knows no expressions and emits no code.
"""

from __future__ import annotations

import difflib
import functools
import re
import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ..core.dtype import DType, dtype
from ..errors import TargetError
from . import aarch64, host, riscv, x86
from .machine import Core

_OPTIONS = ("-mtriple", "-mcpu", "-mattr", "-num-cores")
_ARCHES: dict[str, tuple[Collection[str], Callable[[str, tuple[str, ...]], Core]]] = {
    "x86_64": (x86.CPUS, x86.core), "aarch64": (aarch64.CPUS, aarch64.core), "riscv64": (riscv.CPUS, riscv.core)}
_ALIASES = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Target:
    """What machine code is made for. Build with :meth:`parse` or :meth:`host`.

    ``mattr`` are feature flags beyond those of ``mcpu``. The rest are facts for whoever picks tile sizes.
    """

    kind: str
    triple: str
    mcpu: str
    mattr: tuple[str, ...]
    num_cores: int
    vector_bits: int
    vector_registers: int
    has_fma: bool
    has_half: bool
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cache_line: int

    @staticmethod
    def parse(text: str) -> Target:
        """The target that ``text`` speaks of. Raises TargetError for a kind, option, triple or CPU that means nothing."""
        return _parse(text)

    @staticmethod
    def host() -> Target:
        """This machine."""
        return _host()

    def __str__(self) -> str:
        parts = [self.kind]
        if self.triple != host.triple():
            parts.append(f"-mtriple={self.triple}")
        parts.append(f"-mcpu={self.mcpu}")
        if self.mattr:
            parts.append(f"-mattr={','.join(self.mattr)}")
        parts.append(f"-num-cores={self.num_cores}")
        return " ".join(parts)

    @property
    def arch(self) -> str:
        """``x86_64``, ``aarch64`` or ``riscv64``."""
        return arch_of(self.triple)

    @property
    def is_host(self) -> bool:
        """Whether this is the machine (triple and CPU) the process runs on."""
        return self.triple == host.triple() and self.mcpu == host.cpu_name()

    def why_not_here(self) -> str | None:
        """Why this process cannot run code made for the target; None when it can, as far as features and vector widths tell."""
        if self.is_host and not self.mattr:
            return None
        here = _host()
        if self.arch != here.arch or ("linux" in self.triple and "linux" not in here.triple):
            return f"it is for {self.triple}, this is {here.triple}"
        if self.vector_bits > here.vector_bits:
            return f"{self.mcpu} has vectors of {self.vector_bits} bits, this processor ({here.mcpu}) of {here.vector_bits}"
        have = host.features()
        missing = [f[1:] for f in self.mattr if f.startswith("+") and not have.get(f[1:])]
        return f"this processor ({here.mcpu}) has not {', '.join(missing)}" if missing else None

    def vector_lanes(self, element: str | DType) -> int:
        """How many elements of that type one vector register holds (at least 1)."""
        return max(1, self.vector_bits // (8 * dtype(element).bytes))


def arch_of(triple: str) -> str:
    """The architecture of a triple. Raises TargetError for one that no table knows."""
    first = triple.split("-", 1)[0].lower()
    arch = _ALIASES.get(first, first)
    if arch not in _ARCHES:
        raise TargetError(f"unknown triple {triple!r}", because=f"no rules for the architecture {first!r}",
                          try_=f"one beginning with {', '.join(_ARCHES)}")
    return arch


def _make(triple: str, mcpu: str, mattr: tuple[str, ...], num_cores: int) -> Target:
    arch = arch_of(triple)
    if re.fullmatch(r"[A-Za-z0-9_]+(-[A-Za-z0-9_.]+){1,4}", triple) is None:
        raise TargetError(f"unknown triple {triple!r}", try_="a form such as x86_64-unknown-linux-gnu")
    known, core_of = _ARCHES[arch]
    here = triple == host.triple() and mcpu == host.cpu_name()
    if mcpu not in known and not here:
        raise TargetError(f"unknown CPU {mcpu!r} for {arch}", try_=_nearest(mcpu, known))
    flags = mattr
    name = mcpu if mcpu in known else "generic"
    if here:  # what the machine says of itself counts for more than the table's row
        told = sorted((f, on) for f, on in host.features().items() if f in x86.WATCHED or f == "v")
        flags = tuple(f"{'+' if on else '-'}{f}" for f, on in told) + mattr
    core = core_of(name, flags)
    facts = {"l1_bytes": core.l1_bytes, "l2_bytes": core.l2_bytes, "l3_bytes": core.l3_bytes, "cache_line": core.cache_line}
    if here:
        facts.update(host.caches())
    return Target("llvm", triple, mcpu, mattr, num_cores, core.vector_bits, core.vector_registers, core.has_fma, core.has_half,
                  **facts)


def _nearest(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=4, cutoff=0.5)
    return ", ".join(close) if close else f"one of {', '.join(sorted(known)[:12])}, ..."


@functools.cache
def _host() -> Target:
    return _make(host.triple(), host.cpu_name(), (), host.num_cores())


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Target:
    words = shlex.split(text)
    if not words or words[0] != "llvm":
        raise TargetError(f"unknown target {text!r}", because=f"the kind is {words[0]!r}" if words else "it is empty",
                          try_="llvm, with options such as -mcpu=skylake-avx512")
    options: dict[str, str] = {}
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        key, eq, value = word.partition("=")
        if key.startswith("--"):
            key = key[1:]
        if key not in _OPTIONS:
            raise TargetError(f"unknown option {word!r} in target {text!r}", try_=", ".join(f"{o}=..." for o in _OPTIONS))
        if not eq:
            if not rest:
                raise TargetError(f"option {key} has no value in target {text!r}", try_=f"{key}=...")
            value = rest.pop(0)
        options[key] = value
    triple = options.get("-mtriple", host.triple())
    same = arch_of(triple) == arch_of(host.triple())
    mcpu = options.get("-mcpu", host.cpu_name() if same and triple == host.triple() else "generic")
    if mcpu in ("native", "host"):
        if not same:
            raise TargetError(f"-mcpu={mcpu} with the triple of another machine: {triple}", try_="the name of a CPU")
        mcpu = host.cpu_name()
    mattr = tuple(f.strip() for f in options.get("-mattr", "").split(",") if f.strip())
    for flag in mattr:
        if re.fullmatch(r"[+-][A-Za-z0-9_.-]+", flag) is None:
            raise TargetError(f"bad feature {flag!r} in target {text!r}", try_=f"+{flag.lstrip('+-')} or -{flag.lstrip('+-')}")
    cores = options.get("-num-cores", str(host.num_cores()))
    if not cores.isdigit() or int(cores) < 1:
        raise TargetError(f"bad -num-cores={cores} in target {text!r}", try_="a positive number")
    return _make(triple, mcpu, mattr, int(cores))


def as_target(target: str | Target | None) -> Target:
    """``None`` is this machine, a string is parsed."""
    if target is None:
        return Target.host()
    return target if isinstance(target, Target) else Target.parse(target)
