"""Dynamic dimensions: one declaration, a kernel for every shape in its range.

A declaration with open sizes (``declaration``) goes to the first of the ``families`` that knows it: register
tiles over one packed weight (``micro_kernel``), or default schedules of representative shapes. Their kernels
are timed (``kernel_times``), the times predict every shape of the ``size_profile`` (``plan``), a decision
tree is fitted to the predictions (``decision_tree``) and given to the runtime's dispatcher. What comes out is
a ``DynamicKernel`` (``kernel``); ``tune_dynamic`` is the way through all of it, and ``specialise`` lets
``tiers`` make code for single shapes later.
"""

from __future__ import annotations

from tensorlang.entries import share

from ..tiers import Tiers, TierStats
from .kernel import DynamicKernel, Explanation
from .size_profile import ShapeProfile
from .specialise import specialise
from .stats import KernelStats
from .tune_dynamic import tune_dynamic

__all__ = [
    "DynamicKernel",
    "Explanation",
    "KernelStats",
    "ShapeProfile",
    "TierStats",
    "Tiers",
    "specialise",
    "tune_dynamic",
]

share(__name__)
