"""THE list of passes, read top to bottom. Adding a pass: a file, a line here, a test."""

from __future__ import annotations

from .auto_unroll import auto_unroll
from .base import Pass, PassPipeline
from .calls_ahead import calls_ahead
from .check_bounds import check_bounds
from .copies_late import copies_late
from .copies_once import copies_once
from .cse import cse
from .dead_code import dead_code
from .double_buffer import double_buffer
from .hoist_guards import hoist_guards
from .join_loops import join_loops
from .live_lanes import live_lanes
from .one_end import one_end
from .pad_rows import pad_rows
from .partition import partition
from .peel import peel
from .reuse_storage import reuse_storage
from .rows import rows
from .rows_in_outputs import rows_in_outputs
from .side_by_side import side_by_side
from .simplify import simplify, simplify_versions
from .split_lanes import split_lanes
from .tighten import tighten
from .unroll import unroll
from .vectorize import vectorize

_ANY = ("serial", "parallel", "vectorized", "unrolled")
_EXPANDED = ("serial", "parallel", "unrolled")
_PLAIN = ("serial", "parallel")

PIPELINE = PassPipeline(
    (
        # reads what the schedule noted at its loops, which is gone once these are rewritten
        Pass("double buffer", double_buffer, "computes what an iteration reads in the iteration before"),
        Pass(
            "simplify", simplify, "folds expressions and tests that the ranges of loops decide", settles=True
        ),
        # while the nest that writes a row is one, and its tails are guards
        Pass("rows in outputs", rows_in_outputs, "a row that is kept lies where its result will"),
        # while a split's loop still carries the note of its tail, and before its guards become bounds
        Pass("peel", peel, "the last iterations of tail='peel' become a loop of their own"),
        Pass("rows", rows, "loops over rows of data end where data says"),
        # before masks and versions are made of guards
        Pass("one end", one_end, "two guards that end the same iterations of a tile become one"),
        # a bound costs nothing in the loop, so it comes before the passes that copy loops for the sake of
        # guards
        Pass("tighten", tighten, "guards become bounds of the loops around them"),
        # needs a nest of each stage that stands once, with its bounds settled
        Pass("join loops", join_loops, "loops the schedule marks run as one with the next"),
        # the four that move nests and memory come before partition and unrolling: each nest of a stage still
        # stands once. Equal copies become one first, for then there is less to move and to share
        Pass("copies once", copies_once, "equal copies of an operand become one"),
        Pass("copies late", copies_late, "moves a copy in front of its first reader"),
        Pass("side by side", side_by_side, "recurrences that need nothing of each other are parallel"),
        Pass("reuse storage", reuse_storage, "buffers that do not live at the same time share memory"),
        Pass("auto unroll", auto_unroll, "unrolls the loops that a pragma asks for"),
        # before vectors are made: a guard that is gone needs no mask
        Pass("partition", partition, "a copy without guards for the iterations that need none"),
        # before unrolling, so that each iteration of a tile is widened once
        Pass("vectorize", vectorize, "vectorized loops become vector code and masks", _ANY, _EXPANDED),
        # before masks are cut into pieces
        Pass("pad rows", pad_rows, "rows of own buffers end where masked vectors end", _EXPANDED, _EXPANDED),
        # of vectors as the schedule has them, still in one copy
        Pass("split lanes", split_lanes, "lengths of vectors become powers of two", _EXPANDED, _EXPANDED),
        Pass("unroll", unroll, "writes unrolled loops out", _EXPANDED, _PLAIN),
        Pass(
            # each copy has numbers in the place of the unrolled variables, which decide most of its guards
            "simplify again",
            simplify,
            "folds what unrolled iterations decide",
            _PLAIN,
            _PLAIN,
            settles=True,
        ),
        Pass("dead code", dead_code, "removes what nobody reads", _PLAIN, _PLAIN, settles=True),
        # only what is left is worth versions of a tile
        Pass("hoist guards", hoist_guards, "moves guards out of inner loops", _PLAIN, _PLAIN),
        Pass(
            "simplify versions",
            simplify_versions,
            "folds what the hoisted guards decide",
            _PLAIN,
            _PLAIN,
            settles=True,
        ),
        # versions of rows tell which tile of columns is the last; what its other lanes were made of is dead
        Pass("live lanes", live_lanes, "masked stores have no more lanes than can be on", _PLAIN, _PLAIN),
        Pass(
            "dead code again", dead_code, "removes what a version does not read", _PLAIN, _PLAIN, settles=True
        ),
        Pass(
            "calls ahead",
            calls_ahead,
            "calls functions in front of loops that do not change them",
            _PLAIN,
            _PLAIN,
        ),
        Pass("cse", cse, "gives a name to masks that several accesses share", _PLAIN, _PLAIN),
    )
)

CHECKED = PassPipeline(
    (Pass("check bounds", check_bounds, "tests indices and divisors (bounds_check=True)"), *PIPELINE.passes)
)
