"""What a cost model sees of a candidate: blocks of named amounts, one file each, in THE list. Adding one: a
file, a line here, a test.

A block maps one statement and the target to named expressions over the knobs. Knows tensorlang's analysis; no
schedules, no rows: the variant compiles the expressions to columns. A program has one vector of fixed length
whatever its number of statements: the blocks of its heaviest statements, then of all others added up (see
``vector_of``).
"""

from __future__ import annotations

from .block import Block
from .caches import caches
from .estimate import estimate
from .extents import extents
from .parallel import parallel
from .registers import registers
from .strides import strides
from .vector_of import PRIOR, FeatureSet, expected
from .vectors import vectors
from .work import work

BLOCKS: tuple[Block, ...] = (work, extents, caches, estimate, registers, vectors, strides, parallel)

__all__ = ["BLOCKS", "PRIOR", "Block", "FeatureSet", "expected"]
