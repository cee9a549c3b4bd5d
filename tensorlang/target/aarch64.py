"""The 64-bit ARM CPUs that LLVM knows. All have 32 NEON registers of 128 bits with fused multiply-add and
float16 conversion; longer scalable vectors are not used, because vector lengths here are constants. Knows no
target strings."""

from __future__ import annotations

from .machine import Core

_NAMES = """a64fx ampere1 ampere1a ampere1b ampere1c apple-a10 apple-a11 apple-a12 apple-a13 apple-a14
apple-a15 apple-a16 apple-a17 apple-a18 apple-a19 apple-a7 apple-a8 apple-a9 apple-m1 apple-m2 apple-m3
apple-m4 apple-m5 apple-s10 apple-s4 apple-s5 apple-s6 apple-s7 apple-s8 apple-s9 c1-nano c1-premium c1-pro
c1-ultra carmel cobalt-100 cortex-a320 cortex-a34 cortex-a35 cortex-a510 cortex-a520 cortex-a520ae
cortex-a53 cortex-a55 cortex-a57 cortex-a65 cortex-a65ae cortex-a710 cortex-a715 cortex-a72 cortex-a720
cortex-a720ae cortex-a725 cortex-a73 cortex-a75 cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae
cortex-a78c cortex-r82 cortex-r82ae cortex-x1 cortex-x1c cortex-x2 cortex-x3 cortex-x4 cortex-x925 cyclone
exynos-m3 exynos-m4 exynos-m5 falkor fujitsu-monaka gb10 generic grace kryo neoverse-512tvb neoverse-e1
neoverse-n1 neoverse-n2 neoverse-n3 neoverse-v1 neoverse-v2 neoverse-v3 neoverse-v3ae olympus oryon-1
saphira thunderx thunderx2t99 thunderx3t110 thunderxt81 thunderxt83 thunderxt88 tsv110"""
CPUS = frozenset(_NAMES.split())


def core(mcpu: str, mattr: tuple[str, ...]) -> Core:
    """The facts of the CPU of that (known) name."""
    line = 128 if mcpu.startswith("apple-m") else 256 if mcpu == "a64fx" else 64
    return Core(128, 32, True, True, l1_bytes=64 << 10, l2_bytes=1 << 20, cache_line=line)
