"""At which sizes a program of open sizes is measured. Knows tensors; measures nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tensorlang import te
from tensorlang.analysis import Sizes


def measured_at(tensors: Sequence[te.Tensor]) -> str:
    """``m=2048, n=64``: what stands for the open sizes while candidates are measured; empty when none is
    open."""
    sizes = Sizes()
    found = {n.name: str(sizes(n)) for t in tensors for n in t.shape if isinstance(n, te.Var)}
    return ", ".join(f"{name}={value}" for name, value in found.items())


def note_of(tensors: Sequence[te.Tensor]) -> list[str]:
    """What a result says of it."""
    at = measured_at(tensors)
    how = "te.dim(…, hint=…) names another size, autosched.tune_dynamic makes a kernel for many"
    return [f"measured at {at}; {how}"] if at else []
