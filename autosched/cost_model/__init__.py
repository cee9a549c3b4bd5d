"""Models that guess how fast a candidate is from its features. Know matrices of numbers; nothing of
schedules, search or measurement.

``model`` is the protocol; a model of one's own needs two methods. Adding one: a file, a line in ``MODELS``, a
test.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang.entries import share

from .metrics import pairwise_accuracy, top_share
from .model import CostModel, Explains, Informed
from .random import RandomModel
from .xgb import XGBModel

MODELS: dict[str, Callable[[int], CostModel]] = {"xgb": XGBModel, "random": RandomModel}

__all__ = [
    "MODELS",
    "CostModel",
    "Explains",
    "Informed",
    "RandomModel",
    "XGBModel",
    "pairwise_accuracy",
    "top_share",
]

share(__name__)
