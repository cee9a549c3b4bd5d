"""What can be tried: variants (a schedule with its structural decisions made) whose candidates are rows of an
integer matrix.

Knows tensorlang's schedules and their analysis, and the feature blocks; nothing of search, models or
measurement. Structural choices (sketches, derived by ``rules``; the places a template samples) give several
variants for one task.
"""

from __future__ import annotations

from tensorlang.entries import share

from .template import Variants, variants_of
from .variant import Domain, Variant

__all__ = ["Domain", "Variant", "Variants", "variants_of"]

share(__name__)
