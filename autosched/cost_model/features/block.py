"""The form of a feature block. Knows analysis only."""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import Target
from tensorlang.analysis import Expr, Statement

Block = Callable[[Statement, Target], dict[str, Expr]]
