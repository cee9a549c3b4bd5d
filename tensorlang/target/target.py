"""Target strings in TVM's form (``llvm -mcpu=skylake-avx512 -num-cores=2``) and the machine facts behind
them.

``llvm`` alone means this machine; with ``-mtriple`` of another machine and no ``-mcpu`` it means that
architecture's generic CPU. A target is a plain value: equal strings make equal targets. Knows no expressions
and emits no code.
"""

from __future__ import annotations

import difflib
import functools
import re
import shlex
from collections.abc import Callable, Collection, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from .. import signposts
from ..boundary import guard, missing
from ..core.dtype import DType, dtype
from ..core.text import type_of
from ..entries import public
from ..errors import TargetError
from ..interface import isa
from ..protocols import Row
from . import aarch64, features, host, riscv, x86
from .machine import Core

_OPTIONS = ("-mtriple", "-mcpu", "-mattr", "-num-cores")
_ARCHES: dict[str, tuple[Collection[str], Callable[[str, tuple[str, ...]], Core]]] = {
    "x86_64": (x86.CPUS, x86.core),
    "aarch64": (aarch64.CPUS, aarch64.core),
    "riscv64": (riscv.CPUS, riscv.core),
}
_ALIASES = {"amd64": "x86_64", "arm64": "aarch64"}


class Kind(str):
    """What generates the code, as text that also has TVM's ``target.kind.name``."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The text itself."""
        return str(self)


# the targets of ``with`` blocks, in each thread and task of its own
_within: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())


class _Named(type):
    """``Target("llvm")`` and TVM's ``Target(target="llvm", host="llvm")`` are what :meth:`Target.parse` makes
    of the text."""

    def __call__(cls, *args: Any, host: Any = None, **facts: Any) -> Any:
        text = (
            facts.pop("target", None)
            if set(facts) == {"target"}
            else args[0]
            if len(args) == 1 and not facts
            else None
        )
        if text is None:
            return super().__call__(*args, **facts)
        as_target(host)  # who calls a kernel runs on the CPU that it is for
        return as_target(text)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise missing("tl.Target", name, cls, signposts.TARGET)


guard(_Named, ("__call__",), "", TargetError)


@public(TargetError, "Target", signposts.TARGET, text="plain", page="target")
@dataclass(frozen=True)
class Target(metaclass=_Named):
    """What machine code is made for. Build with :meth:`parse` or :meth:`host`, or as ``Target("llvm
    -mcpu=…")``.

    ``mattr`` are feature flags beyond those of ``mcpu``. The rest are facts for choosing tile sizes.
    """

    kind: Kind
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
        """The target that ``text`` speaks of. Raises TargetError for a kind, option, triple or CPU that means
        nothing.

        >>> tl.Target.parse("llvm -mcpu=skylake-avx512 -num-cores=4").vector_lanes("float32")
        16
        """
        if not isinstance(text, str):  # shlex would read what the user types
            raise TargetError(
                f"Target.parse of {type(text).__name__}",
                because="a target is text",
                try_='"llvm -mcpu=skylake"',
            )
        return _parse(text)

    @staticmethod
    def current() -> Target:
        """The target of the innermost ``with tl.Target(…):``, which builds in its block take when they name
        none; otherwise this machine.

        >>> with tl.Target("llvm -mcpu=haswell"):
        ...     tl.Target.current().mcpu
        'haswell'
        """
        within = _within.get()
        return within[-1] if within else Target.host()

    def __enter__(self) -> Target:
        _within.set((*_within.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _within.set(_within.get()[:-1])

    @staticmethod
    def host() -> Target:
        """This machine: its triple, CPU and cores, as ``tl.build`` takes them when no target is given.

        >>> tl.Target.host().is_host
        True
        """
        return _host()

    def for_threads(self, count: int) -> Target:
        """This machine with no more cores than so many threads use; another target as it is.

        >>> tl.Target.host().for_threads(1).num_cores
        1
        """
        return replace(self, num_cores=min(count, self.num_cores)) if self == _host() else self

    def __str__(self) -> str:
        parts = [str(self.kind)]
        # the triple only where it says something: records of one machine stay readable by another of its kind
        if self.triple != host.triple():
            parts.append(f"-mtriple={self.triple}")
        parts.append(f"-mcpu={self.mcpu}")
        if self.mattr:
            parts.append(f"-mattr={','.join(self.mattr)}")
        parts.append(f"-num-cores={self.num_cores}")
        return " ".join(parts)

    @property
    def arch(self) -> str:
        """The architecture of the triple: ``x86_64``, ``aarch64`` or ``riscv64``.

        >>> tl.Target.parse("llvm -mtriple=aarch64-linux-gnu").arch
        'aarch64'
        """
        known: str | None = self.__dict__.get("_arch")
        if known is None:
            known = self.__dict__["_arch"] = arch_of(self.triple)
        return known

    @property
    def instruction_sets(self) -> tuple[str, ...]:
        """What code for the target may use of a processor, by LLVM's names (those of ``interface.isa``),
        sorted. Of CPUs of other machines than x86-64 only what ``mattr`` names and every such CPU has is
        known."""
        # asked for with most accesses to memory, as whether there are masks is
        known: tuple[str, ...] | None = self.__dict__.get("_sets")
        if known is None:
            sets = _instruction_sets(self.arch, self.mcpu, self.mattr, self.is_host)
            known = self.__dict__["_sets"] = Row("target.instruction_sets", sets)
        return known

    def __getstate__(self) -> dict[str, Any]:
        """What it was made of: what is known of it here may be otherwise where it is read."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    @property
    def llvm_features(self) -> str:
        """The feature flags for LLVM beyond the CPU's name. On this machine all of them, so that nothing is
        used that a hypervisor hides."""
        base = host.feature_string() if self.is_host else ",".join(f"+{f}" for f in _BASE.get(self.arch, ()))
        return ",".join(f for f in (base, *self.mattr) if f)

    @property
    def is_host(self) -> bool:
        """Whether this is the machine (triple and CPU) the process runs on."""
        return self.triple == host.triple() and self.mcpu == host.cpu_name()

    def why_not_here(self) -> str | None:
        """Why this process cannot run code made for the target; None when it can, as far as features and
        vector widths tell."""
        # its own features, as the host reported them
        if self.is_host and not self.mattr:
            return None
        here = _host()
        if isa.platform(self.triple) != isa.platform(here.triple):
            return f"it is for {self.triple}, this is {here.triple}"
        if self.vector_bits > here.vector_bits:
            return (
                f"{self.mcpu} has vectors of {self.vector_bits} bits, this processor ({here.mcpu}) of "
                f"{here.vector_bits}"
            )
        have = host.features()
        missing = [f for f in self.instruction_sets if not have.get(f)]
        return f"this processor ({here.mcpu}) has not {', '.join(missing)}" if missing else None

    @property
    def has_masks(self) -> bool:
        """Whether masks are registers of their own, which cost loads, stores and arithmetic nothing.

        >>> [tl.Target.parse(f"llvm -mcpu={name}").has_masks for name in ("haswell", "skylake-avx512")]
        [False, True]
        """
        return self.arch == "x86_64" and "avx512vl" in self.instruction_sets

    @property
    def computes_half(self) -> bool:
        """Whether there is arithmetic for float16, and not only conversions.

        >>> name = "llvm -mcpu="
        >>> [tl.Target.parse(name + cpu).computes_half for cpu in ("znver4", "sapphirerapids")]
        [False, True]
        """
        return self.has_half and any(
            name in self.instruction_sets for name in ("avx512fp16", "fullfp16", "zvfh")
        )

    @property
    def moves_halves(self) -> bool:
        """Whether a vector of the full width goes to memory, and is computed, in two halves: it is no faster
        than two of half the width, and slower where it crosses lines (AMD, Software Optimization Guide for
        the Zen4 Microarchitecture, 2.11).

        >>> [tl.Target.parse(f"llvm -mcpu={name}").moves_halves for name in ("znver4", "icelake-server")]
        [True, False]
        """
        return self.mcpu == "znver4"

    @property
    def moves_runs(self) -> bool:
        """Whether the instruction that copies a run of bytes is quicker than vectors are where lines come
        from behind the first cache, as it brings none that it writes. Not asked of other processors than a
        Zen 5.

        >>> [tl.Target.parse(f"llvm -mcpu={name}").moves_runs for name in ("znver4", "znver5")]
        [False, True]
        """
        return self.mcpu == "znver5"

    @property
    def scales_floats(self) -> bool:
        """Whether an instruction multiplies floats by powers of two whose exponents are floats, in the time
        of two additions: less than to shift an integer and to add it where it waits for units that additions
        need. And whether lanes are looked up in a register of 16 as quickly as they are multiplied. Not
        asked of other processors than a Zen 5.

        >>> [tl.Target.parse(f"llvm -mcpu={name}").scales_floats for name in ("znver4", "znver5")]
        [False, True]
        """
        return self.has_masks and self.mcpu == "znver5"

    @property
    def fixes_floats(self) -> bool:
        """Whether an instruction that puts NaN in the place of other floats is better than a mask that tells
        where: as quick, and it needs none of the registers of masks, whose number is what limits how much is
        under way. Not asked of other processors than a Zen 5.

        >>> [tl.Target.parse(f"llvm -mcpu={name}").fixes_floats for name in ("znver4", "znver5")]
        [False, True]
        """
        return self.has_masks and self.mcpu == "znver5"

    @property
    def has_tiles(self) -> bool:
        """Whether 8-bit integers are multiplied in the tiles of a matrix unit. The name of a processor does
        not promise that: the system must let a process use them.

        >>> name = "llvm -mcpu=icelake-server"
        >>> [tl.Target.parse(name + more).has_tiles for more in ("", " -mattr=+amx-int8")]
        [False, True]
        """
        return self.arch == "x86_64" and "linux" in self.triple and "amx-int8" in self.instruction_sets

    def summed(self, count: int) -> tuple[int, ...]:
        """The bits of the vectors in which one instruction sums the products of ``count`` neighbours exactly,
        two of 16-bit integers or four of uint8 and int8, into 32 bits; the widest first, none where no
        instruction does.

        >>> tl.Target.parse("llvm -mcpu=haswell").summed(2), tl.Target.parse("llvm -mcpu=haswell").summed(4)
        ((256, 128), ())
        """
        return x86.summed(count, self.instruction_sets) if self.arch == "x86_64" else ()

    @property
    def mixes_bytes(self) -> bool:
        """Whether an instruction picks any bytes of two vectors, of the widest there are.

        >>> [tl.Target.parse(f"llvm -mcpu={cpu}").mixes_bytes for cpu in ("znver4", "skylake-avx512")]
        [True, False]
        """
        return self.arch == "x86_64" and self.vector_bits == 512 and "avx512vbmi" in self.instruction_sets

    @property
    def sums_bfloat16(self) -> bool:
        """Whether an instruction multiplies two pairs of bfloat16 and adds both products to a float32, in
        each lane of a vector: as two additions that round to nearest, of which a result below the normal
        numbers is zero.

        >>> [tl.Target.parse(f"llvm -mcpu={cpu}").sums_bfloat16 for cpu in ("znver4", "znver3")]
        [True, False]
        """
        return self.arch == "x86_64" and "avx512bf16" in self.instruction_sets

    @property
    def rounds_bfloat16(self) -> bool:
        """Whether an instruction rounds vectors of float32 to bfloat16, of which it takes those below the
        normal numbers for zero.

        >>> [tl.Target.parse(f"llvm -mcpu={cpu}").rounds_bfloat16 for cpu in ("znver4", "znver3")]
        [True, False]
        """
        return self.sums_bfloat16 and self.has_masks

    def vector_lanes(self, element: str | DType) -> int:
        """How many elements of that type one vector register holds (at least 1).

        >>> tl.Target.parse("llvm -mcpu=haswell").vector_lanes("float64")
        4
        """
        return max(1, self.vector_bits // (8 * dtype(element).bytes))


def arch_of(triple: str) -> str:
    """The architecture of a triple. Raises TargetError for one that no table knows."""
    first = triple.split("-", 1)[0]
    arch = _ALIASES.get(first, first)
    if arch not in _ARCHES:
        raise TargetError(
            f"unknown triple {triple!r}",
            because=f"no rules for the architecture {first!r}",
            try_=f"one beginning with {_nearest(first, [*_ARCHES, *_ALIASES])}",
        )
    return arch


# What every Linux of the architecture asks of a processor, and LLVM's generic CPU has not.
_BASE = {"riscv64": ("m", "a", "f", "d", "c")}


@functools.lru_cache(maxsize=256)
def _instruction_sets(arch: str, mcpu: str, mattr: tuple[str, ...], here: bool) -> tuple[str, ...]:
    if here:
        return isa.used(arch, host.features(), mattr)
    if arch == "x86_64":
        return isa.used(arch, x86.features(mcpu, mattr))
    return isa.used(arch, _BASE.get(arch, ()), mattr)


def _check_triple(triple: str) -> None:
    """Raises TargetError unless kernels can be made for machines of that kind."""
    if re.fullmatch(r"[A-Za-z0-9_]+(-[A-Za-z0-9_.]+){1,4}", triple) is None:
        raise TargetError(f"unknown triple {triple!r}", try_="a form such as x86_64-unknown-linux-gnu")
    form = host.object_format(triple)
    # pointers of 64 bits are assumed everywhere, and other formats have other relocations
    if form not in ("ELF", host.object_format(host.triple())) or re.search(r"(x32|ilp32)$", triple):
        raise TargetError(
            f"no kernels can be made for the triple {triple!r}",
            because=f"its object files are {form}, not ELF" if form != "ELF" else "its pointers have 32 bits",
            try_="that of a Linux with 64 bits, such as x86_64-unknown-linux-gnu or aarch64-linux-gnu",
        )


def _check_flags(triple: str, arch: str, mattr: tuple[str, ...]) -> None:
    """Raises TargetError for a feature that LLVM does not know (it would ignore it), and for one that makes
    code of another kind."""
    for flag in mattr:
        if flag[1:] not in features.NAMES[arch]:
            raise TargetError(
                f"unknown feature {flag!r} for {arch}",
                because="LLVM has none of that name",
                try_=_nearest(flag[1:], features.NAMES[arch], isa.SETS[arch]),
            )
        if flag[1:] in features.MODES:
            raise TargetError(
                f"no kernels can be made with the feature {flag!r}",
                because="it makes another machine of this one",
                try_=f"leave it out; -mtriple=... names the machine, and here it is {triple}",
            )


def _make(triple: str, mcpu: str, mattr: tuple[str, ...], num_cores: int) -> Target:
    arch = arch_of(triple)
    _check_triple(triple)
    known, core_of = _ARCHES[arch]
    here = triple == host.triple() and mcpu == host.cpu_name()
    if mcpu not in known and not here:
        raise TargetError(f"unknown CPU {mcpu!r} for {arch}", try_=_nearest(mcpu, known))
    _check_flags(triple, arch, mattr)
    flags = mattr
    # a processor that LLVM names and no table knows: only this machine may be one
    name = mcpu if mcpu in known else "generic"
    if here:  # what the machine says of itself counts for more than the table's row
        own = sorted((f, on) for f, on in host.features().items() if f in isa.SETS[arch])
        flags = tuple(f"{'+' if on else '-'}{f}" for f, on in own) + mattr
    core = core_of(name, flags)
    facts = {
        "l1_bytes": core.l1_bytes,
        "l2_bytes": core.l2_bytes,
        "l3_bytes": core.l3_bytes,
        "cache_line": core.cache_line,
    }
    if here:
        facts.update(host.caches())
    return Target(
        Kind("llvm"),
        triple,
        mcpu,
        mattr,
        num_cores,
        core.vector_bits,
        core.vector_registers,
        core.has_fma,
        core.has_half,
        **facts,
    )


def _nearest(name: str, known: Collection[str], common: Collection[str] = ()) -> str:
    """What may have been meant: similar names, else the first of the ``common`` ones."""
    close = difflib.get_close_matches(name, sorted(known), n=4, cutoff=0.6) or difflib.get_close_matches(
        name, sorted(known), n=4, cutoff=0.4
    )
    choices = sorted(common or known)
    return (
        ", ".join(close)
        if close
        else f"one of {', '.join(choices[:12])}{', ...' if len(choices) > 12 else ''}"
    )


@functools.cache
def _host() -> Target:
    return _make(host.triple(), host.cpu_name(), (), host.num_cores())


def _options(text: str, rest: list[str]) -> dict[str, str]:
    """The options behind the kind, as ``-key=value``, ``-key value`` or with two dashes."""
    options: dict[str, str] = {}
    while rest:
        word = rest.pop(0)
        key, eq, value = word.partition("=")
        if key.startswith("--"):
            key = key[1:]
        if key not in _OPTIONS:
            raise TargetError(
                f"unknown option {word!r} in target {text!r}", try_=", ".join(f"{o}=..." for o in _OPTIONS)
            )
        if key in options:
            raise TargetError(f"option {key} is given twice in target {text!r}", try_=f"{key}=... once")
        if not eq:
            if not rest:
                raise TargetError(f"option {key} has no value in target {text!r}", try_=f"{key}=...")
            value = rest.pop(0)
        options[key] = value
    return options


def _kind(words: Sequence[str]) -> str:
    """Why the first word of a target is none of ours."""
    if not words:
        return "it is empty"
    gpu = words[0] in signposts.GPUS
    return f"kernels run on the CPU, and {words[0]} is for GPUs" if gpu else f"the kind is {words[0]!r}"


@functools.lru_cache(maxsize=256)
def _parse(text: str) -> Target:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise TargetError(
            f"unknown target {text!r}", because=str(error).lower(), try_="llvm -mcpu=skylake-avx512"
        ) from None
    if not words or words[0] != "llvm":
        raise TargetError(
            f"unknown target {text!r}",
            because=_kind(words),
            try_="llvm, with options such as -mcpu=skylake-avx512",
        )
    options = _options(text, words[1:])
    triple = options.get("-mtriple", host.triple())
    same = arch_of(triple) == arch_of(host.triple())
    # code for another system is for any processor of the architecture, unless one is named
    mcpu = options.get("-mcpu", host.cpu_name() if same and triple == host.triple() else "generic")
    if mcpu in ("native", "host"):
        if not same:
            raise TargetError(
                f"-mcpu={mcpu} with the triple of another machine: {triple}", try_="the name of a CPU"
            )
        mcpu = host.cpu_name()
    mattr = tuple(f.strip() for f in options.get("-mattr", "").split(",") if f.strip())
    for flag in mattr:
        if re.fullmatch(r"[+-][A-Za-z0-9_.-]+", flag) is None:
            raise TargetError(
                f"bad feature {flag!r} in target {text!r}",
                try_=f"+{flag.lstrip('+-')} or -{flag.lstrip('+-')}",
            )
    cores = options.get("-num-cores", str(host.num_cores()))
    if re.fullmatch(r"[0-9]{1,6}", cores) is None or int(cores) < 1:
        raise TargetError(
            f"bad -num-cores={cores} in target {text!r}", try_="a positive number, at most 999999"
        )
    return _make(triple, mcpu, mattr, int(cores))


def as_target(target: str | Target | None) -> Target:
    """``None`` is that of the ``with`` around or this machine, a string is parsed."""
    if target is None:
        return Target.current()
    if not isinstance(target, Target | str):
        raise TargetError(
            f"a target is not {type_of(target)}",
            try_='a string such as "llvm -mcpu=skylake-avx512", a Target, or None',
        )
    return target if isinstance(target, Target) else Target.parse(target)
