"""Shares trials out among several tasks, so that their weighted sum of times falls fastest. Knows sessions by
their progress only.

A policy chooses the task of the next batch. Adding one: a file, a line in ``POLICIES``, a test.
"""

from __future__ import annotations

from tensorlang.entries import share

from .gradient import Gradient
from .policies import POLICIES
from .progress import Policy, Progress
from .round_robin import RoundRobin
from .tune_tasks import TasksResult, tune_tasks

__all__ = ["POLICIES", "Gradient", "Policy", "Progress", "RoundRobin", "TasksResult", "tune_tasks"]

share(__name__)
