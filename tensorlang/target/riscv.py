"""The 64-bit RISC-V CPUs that LLVM knows. Without the vector extension a "vector" is one 64-bit register.
With it the least length the standard promises (128 bits) is assumed. Knows no target strings."""

from __future__ import annotations

from .machine import Core, apply_features

_SCALAR_NAMES = """andes-ax25 andes-ax45 andes-ax45mpv andes-nx45 generic generic-ooo generic-rv64
mips-p8700 rocket rocket-rv64 sifive-p450 sifive-p550 sifive-s21 sifive-s51 sifive-s54 sifive-s76
sifive-u54 sifive-u74 syntacore-scr3-rv64 syntacore-scr4-rv64 syntacore-scr5-rv64 syntacore-scr7
xiangshan-nanhu"""
_VECTOR_NAMES = """sifive-p470 sifive-p670 sifive-p870 sifive-x280 sifive-x390 spacemit-x60 tt-ascalon-d8
veyron-v1 xiangshan-kunminghu"""
_SCALAR = frozenset(_SCALAR_NAMES.split())
_VECTOR = frozenset(_VECTOR_NAMES.split())
CPUS = _SCALAR | _VECTOR

_IMPLIES = {"v": ("d", "f"), "zvfh": ("v", "zfhmin"), "zfh": ("zfhmin",), "zfhmin": ("f",), "d": ("f",)}


def core(mcpu: str, mattr: tuple[str, ...]) -> Core:
    """The facts of the CPU of that (known) name with these feature flags."""
    features = apply_features({"v", "d", "f"} if mcpu in _VECTOR else {"d", "f"}, mattr, _IMPLIES)
    vector = "v" in features
    return Core(128 if vector else 64, 32, True, "zfhmin" in features, l2_bytes=1 << 20, l3_bytes=4 << 20)
