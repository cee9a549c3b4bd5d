"""The primitives, one file each, and THE table of them. Adding one: a file, a line here, a test.

A primitive is a frozen dataclass of plain data (names of stages and loops, numbers, names of knobs): that is
what the trace stores. ``check`` answers without changing anything, ``apply`` gives the new state and the
results in the user's terms.
"""

from __future__ import annotations

from .base import Primitive
from .cache_read import CacheRead
from .cache_windows import CacheWindows
from .cache_write import CacheWrite
from .compute_at import ComputeAt, ComputeRoot
from .compute_inline import ComputeInline
from .decompose_reduction import DecomposeReduction
from .double_buffer import DoubleBuffer
from .fuse import Fuse
from .kind import Parallel, Unroll, Vectorize
from .pragma import Pragma
from .precompute import Precompute
from .prefetch import Prefetch
from .reorder import Reorder
from .reorder_reduction import ReorderReduction
from .reverse_compute_at import ReverseComputeAt
from .reverse_compute_inline import ReverseComputeInline
from .rfactor import Rfactor
from .sample_categorical import SampleCategorical
from .sample_location import SampleLocation
from .sample_tile import SampleTile
from .separate import Separate
from .set_scope import SetScope
from .split import Split
from .split_choice import SplitChoice
from .split_sum import SplitSum
from .storage_align import StorageAlign
from .store_at import StoreAt
from .tensorize import Tensorize
from .transform_layout import TransformLayout
from .turn_sign import TurnSign
from .unroll_and_jam import UnrollAndJam
from .winograd import Winograd

TABLE: tuple[type[Primitive], ...] = (
    Split,
    Fuse,
    Reorder,
    Vectorize,
    Unroll,
    Parallel,
    ComputeAt,
    ComputeRoot,
    ComputeInline,
    ReverseComputeAt,
    ReverseComputeInline,
    CacheRead,
    CacheWrite,
    Rfactor,
    ReorderReduction,
    Separate,
    Precompute,
    CacheWindows,
    SplitSum,
    SplitChoice,
    TurnSign,
    Winograd,
    SetScope,
    StoreAt,
    StorageAlign,
    TransformLayout,
    Tensorize,
    DecomposeReduction,
    Pragma,
    Prefetch,
    DoubleBuffer,
    UnrollAndJam,
    SampleTile,
    SampleCategorical,
    SampleLocation,
)
BY_NAME: dict[str, type[Primitive]] = {p.name: p for p in TABLE}
