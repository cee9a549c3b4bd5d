"""THE list of passes, read top to bottom. Adding a pass: a file, a line here, a test."""

from __future__ import annotations

from .auto_unroll import auto_unroll
from .base import Pass, PassPipeline
from .check_bounds import check_bounds
from .copies_late import copies_late
from .copies_once import copies_once
from .cse import cse
from .dead_code import dead_code
from .double_buffer import double_buffer
from .hoist_guards import hoist_guards
from .partition import partition
from .peel import peel
from .reuse_storage import reuse_storage
from .rows import rows
from .simplify import simplify
from .split_lanes import split_lanes
from .tighten import tighten
from .unroll import unroll
from .vectorize import vectorize

_EXPANDED = ("serial", "parallel", "unrolled")
_PLAIN = ("serial", "parallel")

PIPELINE = PassPipeline(
    (
        Pass("double buffer", double_buffer),  # what a turn reads is computed in the turn before
        Pass("simplify", simplify),  # fold what the ranges of loops decide
        Pass("peel", peel),  # tail="peel": the last turns by themselves
        Pass("rows", rows),  # loops over rows of data end where data says
        Pass("tighten", tighten),  # guards of plain loops become their bounds
        Pass("copies once", copies_once),  # equal copies of an operand are one
        Pass("copies late", copies_late),  # a copy stands in front of its first reader
        Pass("reuse storage", reuse_storage),  # workspace no longer read becomes the next one's
        Pass("auto unroll", auto_unroll),  # what the pragma asks for
        Pass("partition", partition),  # a guard-free copy for the turns that need no guard
        Pass("vectorize", vectorize, produces=_EXPANDED),  # vector loops become vector expressions and masks
        Pass(
            "split lanes", split_lanes, accepts=_EXPANDED, produces=_EXPANDED
        ),  # odd vectors become powers of two
        Pass("unroll", unroll, accepts=_EXPANDED, produces=_PLAIN),  # unrolled loops are written out
        Pass(
            "simplify again", simplify, accepts=_PLAIN, produces=_PLAIN
        ),  # what constants of unrolled turns decide
        Pass("dead code", dead_code, accepts=_PLAIN, produces=_PLAIN),  # what nobody reads is not computed
        Pass(
            "hoist guards", hoist_guards, accepts=_PLAIN, produces=_PLAIN
        ),  # a tile of fewer rows is a loop without tests
        Pass(
            "simplify versions", simplify, accepts=_PLAIN, produces=_PLAIN
        ),  # what the answers to hoisted guards decide
        Pass(
            "dead code again", dead_code, accepts=_PLAIN, produces=_PLAIN
        ),  # nor what a tile of fewer rows does not read
        Pass("cse", cse, accepts=_PLAIN, produces=_PLAIN),  # masks that many accesses share get a name
    )
)

CHECKED = PassPipeline((Pass("check bounds", check_bounds), *PIPELINE.passes))  # bounds_check=True
