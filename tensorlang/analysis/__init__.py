"""What a tuner may read of a schedule, as expressions over its knobs: loops, accesses, touched bytes,
operations, limits.

Knows schedules and expressions; nothing of features, models, search or measurement. The law of the room:
evaluated on a row of knob values, every expression equals the number found on the schedule that is replayed
with those values.
"""

from __future__ import annotations

from ..boundary import answer
from ..core.renamed import renamed
from ..entries import share
from ..expr.columns import compile_columns
from ..expr.nodes import Expr, Var
from ..schedule.legality.filtering import filter_of
from ..schedule.state import Decision
from ..te.convolutions import Margin, Window, margin_of, window_of
from ..te.first_places import nowhere
from ..te.nudged import nudged
from ..te.patterns import (
    SIDE,
    Reads,
    arithmetic,
    axis_of_neighbours,
    constant,
    cut_at,
    divides,
    divides_places,
    divisions,
    few_operations,
    iterations_of,
    made_of_place,
    narrow_product,
    open_times,
    operations,
    own_index,
    own_place,
    period,
    reads_of,
    reducer_kind,
    repeated_along,
    rows_by_data,
    stands_for,
    step,
    told_by_data,
    told_by_ends,
    typical,
)
from ..te.products import (
    Contraction,
    Conv,
    Product,
    Windows,
    alone_in_of,
    contraction_of,
    conv_of,
    phases_of,
    product_of,
    row_among,
    sums_columns,
    windows_of,
)
from ..te.sums_apart import parts_of
from ..te.tap_products import TapProducts, gathered, tap_products_of
from ..te.terms import terms_of
from .analysis import Analysis, Limit, Limits, Storage, analyse
from .cost import ROOFLINE, Cost
from .cost_tables import cost_of, costs_text, generic, known_of, saved_at
from .digits import digits_of
from .innermost import Innermost, innermost
from .input_values import positions
from .minimal_filtering import FilterSizes, outputs_at_once
from .moves import Turned, turned_copy
from .nest import Loop
from .product_cost import bytes_of, least_for_a_thread, worth_a_thread
from .quantity import (
    absolute,
    amount,
    ceil_quotient,
    choose,
    least,
    minus,
    most,
    plus,
    quotient,
    ratio,
    times,
)
from .sizes import Sizes, limits
from .statement import Access, Statement
from .streams import (
    Transposition,
    has_calls,
    joins,
    moves_pieces,
    picks_columns,
    read_order,
    reads_lines,
    reads_neighbours,
    reduces_columns,
    reduces_rows,
    row_of,
    samples_image,
    slides,
    transposed,
    uneven_along,
)
from .ways import MOST_ALIKE, cut_within, edges_of, planes_of, read_alike, uneven_over, ways_of
from .work import Work

__all__ = [
    "MOST_ALIKE",
    "ROOFLINE",
    "SIDE",
    "Access",
    "Analysis",
    "Contraction",
    "Conv",
    "Cost",
    "Decision",
    "Expr",
    "FilterSizes",
    "Innermost",
    "Limit",
    "Limits",
    "Loop",
    "Margin",
    "Product",
    "Reads",
    "Sizes",
    "Statement",
    "Storage",
    "TapProducts",
    "Transposition",
    "Turned",
    "Var",
    "Window",
    "Windows",
    "Work",
    "absolute",
    "alone_in_of",
    "amount",
    "analyse",
    "arithmetic",
    "axis_of_neighbours",
    "bytes_of",
    "ceil_quotient",
    "choose",
    "compile_columns",
    "constant",
    "contraction_of",
    "conv_of",
    "cost_of",
    "costs_text",
    "cut_at",
    "cut_within",
    "digits_of",
    "divides",
    "divides_places",
    "divisions",
    "edges_of",
    "few_operations",
    "filter_of",
    "gathered",
    "generic",
    "has_calls",
    "innermost",
    "iterations_of",
    "joins",
    "known_of",
    "least",
    "least_for_a_thread",
    "limits",
    "made_of_place",
    "margin_of",
    "minus",
    "most",
    "moves_pieces",
    "narrow_product",
    "nowhere",
    "nudged",
    "open_times",
    "operations",
    "outputs_at_once",
    "own_index",
    "own_place",
    "parts_of",
    "period",
    "phases_of",
    "picks_columns",
    "planes_of",
    "plus",
    "positions",
    "product_of",
    "quotient",
    "ratio",
    "read_alike",
    "read_order",
    "reads_lines",
    "reads_neighbours",
    "reads_of",
    "reducer_kind",
    "reduces_columns",
    "reduces_rows",
    "repeated_along",
    "row_among",
    "row_of",
    "rows_by_data",
    "samples_image",
    "saved_at",
    "slides",
    "stands_for",
    "step",
    "sums_columns",
    "tap_products_of",
    "terms_of",
    "times",
    "told_by_data",
    "told_by_ends",
    "transposed",
    "turned_copy",
    "typical",
    "uneven_along",
    "uneven_over",
    "ways_of",
    "window_of",
    "windows_of",
    "worth_a_thread",
]

for _cls in (
    Access,
    Analysis,
    Conv,
    Cost,
    Decision,
    Innermost,
    Limit,
    Limits,
    Loop,
    Product,
    Reads,
    Statement,
    Storage,
    Work,
):
    answer(_cls, _cls.__name__, {}, often=True)
share(__name__)
__getattr__ = renamed(__name__, Turn="Transposition", turned="transposed")
