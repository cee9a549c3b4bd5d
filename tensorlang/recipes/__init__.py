"""Schedules made of public primitives only: what a careful hand would write without knowing more than the
shapes."""

from __future__ import annotations

from .default_schedule import default_schedule

__all__ = ["default_schedule"]
