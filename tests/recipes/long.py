"""Marks of cases that prove the same on more sizes: run by ``make fuzz`` only. Knows no recipe."""

from __future__ import annotations

import os

import pytest

LONG = (pytest.mark.fuzz, pytest.mark.skipif("TENSORLANG_FUZZ_ROUNDS" not in os.environ, reason="make fuzz"))
