"""What a family of CPUs must tell a target: the plain record that the tables in ``x86``, ``aarch64`` and
``riscv`` fill in. Knows no target strings and no compiler."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Core:
    """Facts of one CPU model that follow from its name and features: vector width and number of vector
    registers, fused multiply-add, native conversion between float16 and float32, the caches of a typical
    part."""

    vector_bits: int
    vector_registers: int
    has_fma: bool
    has_half: bool
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    l3_bytes: int = 16 << 20
    cache_line: int = 64


def apply_features(
    present: set[str], mattr: tuple[str, ...], implies: dict[str, tuple[str, ...]]
) -> set[str]:
    """The features after ``+x`` and ``-x`` in order: adding one adds what it implies, removing one removes
    what implies it."""
    features = set(present)
    for flag in mattr:
        name = flag[1:]
        if flag.startswith("+"):
            pending = [name]
            while pending:
                one = pending.pop()
                features.add(one)
                pending.extend(implies.get(one, ()))
        else:
            gone = {name}
            while True:
                more = {f for f in features if f not in gone and gone & set(implies.get(f, ()))}
                if not more:
                    break
                gone |= more
            features -= gone
    return features
