"""Schedules made of public primitives only: what a careful hand would write without knowing more than the
shapes."""

from __future__ import annotations

from .default_schedule import default_schedule
from .gemm import Product, product_of

__all__ = ["Product", "default_schedule", "product_of"]
