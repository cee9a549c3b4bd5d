"""The x86-64 CPUs that LLVM knows, by the instruction sets its code for them may use (those of
``interface.isa``).

The table was made by compiling one small function for each instruction set and every CPU name of LLVM 22 and
reading the assembly; a test does so again. Knows no target strings.
"""

from __future__ import annotations

from collections.abc import Collection

from .machine import Core, apply_features

_CORE2 = "sse3 ssse3"
_ATOM = f"{_CORE2} movbe"
_PENRYN = f"{_CORE2} sse4.1"
_NEHALEM = f"{_PENRYN} sse4.2 popcnt"
_SILVERMONT = f"{_NEHALEM} movbe prfchw"
_SANDYBRIDGE = f"{_NEHALEM} avx"
_IVYBRIDGE = f"{_SANDYBRIDGE} f16c"
_HASWELL = f"{_IVYBRIDGE} avx2 fma bmi bmi2 lzcnt movbe"
_BROADWELL = f"{_HASWELL} prfchw"
_ALDERLAKE = f"{_BROADWELL} avxvnni gfni"
_V4 = f"{_HASWELL} avx512f avx512cd avx512bw avx512dq avx512vl"
_SKYLAKE512 = f"{_V4} prfchw"
_CANNONLAKE = f"{_SKYLAKE512} avx512vbmi avx512ifma"
_CASCADELAKE = f"{_SKYLAKE512} avx512vnni"
_ICELAKE = f"{_CANNONLAKE} avx512vnni avx512vbmi2 avx512bitalg avx512vpopcntdq gfni"
_SAPPHIRERAPIDS = f"{_ICELAKE} avx512bf16 avx512fp16 avxvnni"
_K10 = "sse3 sse4a lzcnt popcnt prfchw"
_BULLDOZER = f"{_K10} ssse3 sse4.1 sse4.2 avx xop fma4"
_PILEDRIVER = f"{_BULLDOZER} fma f16c bmi tbm"
_ZEN = f"{_BROADWELL} sse4a"

_ROWS: tuple[tuple[str, str], ...] = (
    ("generic x86-64", ""),
    ("k8 athlon64 athlon-fx opteron", "prfchw"),
    ("k8-sse3 athlon64-sse3 opteron-sse3", "sse3 prfchw"),
    ("nocona", "sse3"),
    ("core2 core_2_duo_ssse3", _CORE2),
    ("atom bonnell", _ATOM),
    ("penryn core_2_duo_sse4_1", _PENRYN),
    ("nehalem corei7 core_i7_sse4_2 westmere core_aes_pclmulqdq x86-64-v2", _NEHALEM),
    ("silvermont slm atom_sse4_2 atom_sse4_2_movbe goldmont goldmont-plus goldmont_plus", _SILVERMONT),
    ("tremont", f"{_SILVERMONT} gfni"),
    ("sandybridge corei7-avx core_2nd_gen_avx", _SANDYBRIDGE),
    ("ivybridge core-avx-i core_3rd_gen_avx", _IVYBRIDGE),
    ("haswell core-avx2 core_4th_gen_avx core_4th_gen_avx_tsx x86-64-v3", _HASWELL),
    ("broadwell core_5th_gen_avx core_5th_gen_avx_tsx skylake", _BROADWELL),
    ("alderlake gracemont meteorlake raptorlake", _ALDERLAKE),
    (
        "arrowlake arrowlake-s arrowlake_s clearwaterforest grandridge lunarlake pantherlake sierraforest "
        "wildcatlake",
        f"{_ALDERLAKE} avxneconvert avxifma avxvnniint8",
    ),
    ("knl mic_avx512", f"{_BROADWELL} avx512f avx512cd"),
    ("knm", f"{_BROADWELL} avx512f avx512cd avx512vpopcntdq"),
    ("x86-64-v4", _V4),
    ("skylake-avx512 skylake_avx512 skx", _SKYLAKE512),
    ("cascadelake", _CASCADELAKE),
    ("cooperlake", f"{_CASCADELAKE} avx512bf16"),
    ("cannonlake", _CANNONLAKE),
    ("icelake-client icelake_client icelake-server icelake_server rocketlake tigerlake", _ICELAKE),
    ("sapphirerapids emeraldrapids graniterapids graniterapids-d graniterapids_d", _SAPPHIRERAPIDS),
    (
        "diamondrapids novalake",
        f"{_SAPPHIRERAPIDS} avxneconvert avxifma avxvnniint8 avxvnniint16 avx10.1 avx10.2 egpr ndd nf ccmp "
        "zu ppx push2pop2",
    ),
    ("amdfam10 barcelona", _K10),
    ("btver1", f"{_K10} ssse3"),
    ("btver2", f"{_K10} ssse3 sse4.1 sse4.2 avx f16c bmi movbe"),
    ("bdver1", _BULLDOZER),
    ("bdver2 bdver3", _PILEDRIVER),
    ("bdver4", f"{_PILEDRIVER} avx2 bmi2 movbe"),
    ("znver1 znver2 znver3", _ZEN),
    ("znver4", f"{_ZEN} {_ICELAKE} avx512bf16"),
    ("znver5", f"{_ZEN} {_ICELAKE} avx512bf16 avxvnni"),
)
CPUS: dict[str, frozenset[str]] = {
    name: frozenset(sets.split()) for names, sets in _ROWS for name in names.split()
}
# what a name of some CPU promises
_NAMED = frozenset().union(*CPUS.values())

_IMPLIES = {
    "ssse3": ("sse3",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "sse4a": ("sse3",),
    "avx": ("sse4.2",),
    "avx2": ("avx",),
    "fma": ("avx",),
    "f16c": ("avx",),
    "fma4": ("avx", "sse4a"),
    "xop": ("fma4",),
    "avx512f": ("avx2", "fma", "f16c"),
    "avx512cd": ("avx512f",),
    "avx512bw": ("avx512f",),
    "avx512dq": ("avx512f",),
    "avx512vl": ("avx512f",),
    "avx512ifma": ("avx512f",),
    "avx512vnni": ("avx512f",),
    "avx512vpopcntdq": ("avx512f",),
    "avx512vbmi": ("avx512bw",),
    "avx512vbmi2": ("avx512bw",),
    "avx512bitalg": ("avx512bw",),
    "avx512bf16": ("avx512bw",),
    "avx512fp16": ("avx512bw", "avx512vl", "avx512dq"),
    "avxvnni": ("avx2",),
    "avxneconvert": ("avx2",),
    "avxifma": ("avx2",),
    "avxvnniint8": ("avx2",),
    "avxvnniint16": ("avx2",),
    "gfni": (),
    "amx-int8": ("amx-tile",),
    "avx10.1": (
        "avx512fp16",
        "avx512bf16",
        "avx512vnni",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512bitalg",
        "avx512vpopcntdq",
        "avx512ifma",
        "avx512cd",
    ),
    "avx10.2": ("avx10.1",),
    "avx10.1-512": ("avx10.1",),
    "avx10.2-512": ("avx10.2",),
    "avx512vp2intersect": ("avx512f",),
    "vaes": ("avx2",),
    "vpclmulqdq": ("avx",),
    "sha512": ("avx2",),
    "sm3": ("avx",),
    "sm4": ("avx2",),
}

# KiB of the second cache of a core, where it is not 512
_L2: dict[str, int] = {
    name: size
    for names, size in (
        ("skylake-avx512 skylake_avx512 skx cascadelake cooperlake znver4 znver5 x86-64-v4", 1024),
        ("icelake-server icelake_server", 1280),
        ("sapphirerapids emeraldrapids graniterapids graniterapids-d graniterapids_d", 2048),
    )
    for name in names.split()
}


# Bits of the vectors in which one instruction sums products of neighbours, with the instruction set that has
# it, the widest first: two of 16 bits (pmaddwd, which SSE2 has and so all of x86-64), or four of uint8 and
# int8 (vpdpbusd). Others that sum four saturate between (pmaddubsw) or take other types (avxvnniint8).
_SUMMED: dict[int, tuple[tuple[str, int], ...]] = {
    2: (("avx512bw", 512), ("avx2", 256), ("", 128)),
    4: (("avx512vnni", 512), ("avx512vnni", 256), ("avxvnni", 256), ("avx512vnni", 128), ("avxvnni", 128)),
}


# What asks Linux for the registers of AMX: arch_prctl(2), ARCH_REQ_XCOMP_PERM, and the number of their state
ASK_FOR_TILES = (158, 0x1023, 18)


def summed(count: int, sets: Collection[str]) -> tuple[int, ...]:
    """The bits of the vectors in which code with these instruction sets sums the products of so many
    neighbours at once, the widest first."""
    return tuple(dict.fromkeys(b for needed, b in _SUMMED[count] if not needed or needed in sets))


def truer_name(name: str, present: Collection[str]) -> str:
    """The CPU that a processor of these features is, where they go beyond those of the one it is named.

    Hypervisors let a processor give the model number of an older one. The name decides costs and LLVM's
    tables of latencies, so the one that promises most of what is there serves better; the first name of a
    row stands for all of it.

    >>> truer_name("rocketlake", CPUS["emeraldrapids"]), truer_name("haswell", CPUS["haswell"])
    ('sapphirerapids', 'haswell')
    """
    promised = CPUS.get(name)
    if promised is None or not promised <= set(present) or not (set(present) & _NAMED) - promised:
        return name
    better = [n for n, sets in CPUS.items() if promised < sets <= set(present)]
    return max(better, key=lambda n: len(CPUS[n]), default=name)


def features(mcpu: str, mattr: tuple[str, ...]) -> set[str]:
    """The instruction sets of the CPU of that (known) name after these flags."""
    return apply_features(set(CPUS[mcpu]), mattr, _IMPLIES)


def core(mcpu: str, mattr: tuple[str, ...]) -> Core:
    """The facts of the CPU of that (known) name with these feature flags."""
    have = features(mcpu, mattr)
    bits = 512 if "avx512f" in have else 256 if "avx" in have else 128
    return Core(
        bits,
        32 if bits == 512 else 16,
        bool(have & {"fma", "fma4"}),
        "f16c" in have,
        l2_bytes=_L2.get(mcpu, 512) << 10,
        l3_bytes=32 << 20,
    )
