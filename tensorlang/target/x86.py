"""The x86-64 CPUs that LLVM knows, by what matters to a kernel: vector width, fused multiply-add, float16 conversion.

The lists were made by compiling one vector addition, one fma and one conversion for every CPU name of LLVM 22 and reading
the assembly. Knows no target strings.
"""

from __future__ import annotations

from .machine import Core, apply_features

_SSE = """amdfam10 athlon64 athlon64-sse3 athlon-fx atom atom_sse4_2 atom_sse4_2_movbe barcelona bonnell btver1 core2
core_2_duo_sse4_1 core_2_duo_ssse3 core_aes_pclmulqdq core_i7_sse4_2 corei7 generic goldmont goldmont-plus goldmont_plus k8 k8-sse3
nehalem nocona opteron opteron-sse3 penryn silvermont slm tremont westmere x86-64 x86-64-v2"""
_AVX = "core_2nd_gen_avx corei7-avx sandybridge"
_AVX_HALF = "btver2 core-avx-i core_3rd_gen_avx ivybridge"
_AVX_FMA = "bdver1"
_AVX2 = """alderlake arrowlake arrowlake-s arrowlake_s broadwell clearwaterforest core-avx2
core_4th_gen_avx core_4th_gen_avx_tsx core_5th_gen_avx core_5th_gen_avx_tsx gracemont grandridge haswell lunarlake meteorlake
pantherlake raptorlake sierraforest skylake wildcatlake x86-64-v3 znver1 znver2 znver3 bdver4"""
_AVX_FMA_HALF = "bdver2 bdver3"
_AVX512 = """cannonlake cascadelake cooperlake diamondrapids emeraldrapids graniterapids graniterapids-d graniterapids_d
icelake-client icelake-server icelake_client icelake_server knl knm mic_avx512 novalake rocketlake sapphirerapids skx skylake-avx512
skylake_avx512 tigerlake x86-64-v4 znver4 znver5"""

_LEVELS: tuple[tuple[str, set[str]], ...] = (
    (_SSE, {"sse2"}),
    (_AVX, {"sse2", "avx"}),
    (_AVX_HALF, {"sse2", "avx", "f16c"}),
    (_AVX_FMA, {"sse2", "avx", "fma"}),
    (_AVX_FMA_HALF, {"sse2", "avx", "fma", "f16c"}),
    (_AVX2, {"sse2", "avx", "avx2", "fma", "f16c"}),
    (_AVX512, {"sse2", "avx", "avx2", "fma", "f16c", "avx512f"}),
)
CPUS: dict[str, frozenset[str]] = {name: frozenset(features) for names, features in _LEVELS for name in names.split()}

_IMPLIES = {"avx": ("sse2",), "avx2": ("avx",), "fma": ("avx",), "f16c": ("avx",), "avx512f": ("avx2", "fma", "f16c"),
            "avx512bw": ("avx512f",), "avx512dq": ("avx512f",), "avx512vl": ("avx512f",), "avx512cd": ("avx512f",),
            "avx512bf16": ("avx512bw",), "avx512fp16": ("avx512bw", "avx512vl"), "avx512vnni": ("avx512f",)}
WATCHED = ("avx", "avx2", "fma", "f16c", "avx512f")

_BIG_L2 = ("skylake-avx512", "skylake_avx512", "skx", "cascadelake", "cooperlake", "znver4", "znver5", "x86-64-v4")


def core(mcpu: str, mattr: tuple[str, ...]) -> Core:
    """The facts of the CPU of that (known) name with these feature flags."""
    features = apply_features(set(CPUS[mcpu]), mattr, _IMPLIES)
    bits = 512 if "avx512f" in features else 256 if "avx" in features else 128
    return Core(bits, 32 if bits == 512 else 16, "fma" in features, "f16c" in features,
                l2_bytes=(1 << 20) if mcpu in _BIG_L2 else (512 << 10), l3_bytes=32 << 20)
