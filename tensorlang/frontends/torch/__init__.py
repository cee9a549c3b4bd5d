"""Torch's graphs as graphs of ours. The only room that knows torch; it knows graphs, and nothing of kernels.

``table`` lists the operators, one function and a line each, in files by family; ``importer`` walks a graph of
ATen operators, ``export`` takes a program that ``torch.export`` made.
"""

from __future__ import annotations

from . import version

version.check()

from . import (  # noqa: E402, F401  they fill the table
    activation,
    attention,
    backend,
    backward,
    bags,
    chance,
    complex_numbers,
    composites,
    counted,
    custom,
    elementwise,
    explain,
    index,
    matrices,
    norms,
    products,
    quantized,
    recurrent,
    reduce,
    shape,
    special,
    spectral,
    windows,
)
from .export import load_torch  # noqa: E402
from .table import OPERATORS  # noqa: E402
from .traced import prepare  # noqa: E402

prepare()

__all__ = ["OPERATORS", "load_torch"]
