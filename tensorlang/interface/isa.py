"""Which features of a processor matter to compiled kernels: the instruction sets LLVM may use for arithmetic,
loads and stores.

The rest of what LLVM calls features is tuning (``fast-…``, ``slow-…``, ``prefer-…``) or instructions that
code made from loops never holds (``rdseed``, ``sgx``, ``cldemote``). The runtime compares these at load, the
targets name them; both must mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_X86 = """sse3 ssse3 sse4.1 sse4.2 sse4a popcnt lzcnt movbe bmi bmi2 tbm xop fma4 avx avx2 fma f16c prfchw
gfni avx512f avx512cd avx512bw avx512dq avx512vl avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq
avx512vnni avx512ifma avx512bf16 avx512fp16 avxvnni avxvnniint8 avxvnniint16 avxneconvert avxifma
avx512vp2intersect amx-tile amx-int8 avx10.1 avx10.1-512 avx10.2 avx10.2-512
egpr ndd nf ccmp cf zu ppx push2pop2"""
_AARCH64 = """neon fp-armv8 fullfp16 fp16fml dotprod bf16 i8mm lse lse2 lse128 rdm complxnum jsconv rcpc
rcpc-immo rcpc3 sha3 flagm cssc mops sve sve2 sve2p1 sve2p2 sme sme2 f32mm f64mm faminmax fp8 hbc"""
_RISCV64 = """m a f d c v b zmmul zaamo zalrsc zabha zacas zba zbb zbs zbc zbkb zbkx zicond zfa zfh zfhmin
zfbfmin zvfh zvfhmin zvfbfmin zvfbfwma zvbb zvkb zvbc zca zcb zcd zcf zcmp zcmt zve32x zve32f zve64x zve64f
zve64d zvl64b zvl128b zvl256b zvl512b zvl1024b zicbop"""
SETS: dict[str, frozenset[str]] = {
    "x86_64": frozenset(_X86.split()),
    "aarch64": frozenset(_AARCH64.split()),
    "riscv64": frozenset(_RISCV64.split()),
}


def platform(triple: str) -> tuple[str, str]:
    """Architecture and system of a triple: what must agree for one machine to run code made for the other."""
    parts = triple.split("-")
    system = next((s for s in ("linux", "darwin", "windows") if s in triple), parts[-1])
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(parts[0], parts[0]), system


def used(
    arch: str, present: Mapping[str, bool] | Iterable[str], mattr: Iterable[str] = ()
) -> tuple[str, ...]:
    """The instruction sets among the features that are ``present``, after the flags ``+x`` and ``-x``,
    sorted."""
    found = {f for f, on in present.items() if on} if isinstance(present, Mapping) else set(present)
    for flag in mattr:
        if flag.startswith("+"):
            found.add(flag[1:])
        else:
            found.discard(flag[1:])
    sets = SETS.get(arch)
    return tuple(sorted(found if sets is None else found & sets))
