"""What makes a graph simpler before it is cut into regions: one list, in the order it runs. Knows graphs and
te; no kernels.

A pass is a function from a program to a program that computes the same; the one it is given stays as it is.
One that weighs what code costs is given the target of the compile too. Values keep their identity from pass
to pass: a program is which nodes make them. Each pass is idempotent, and the list is run until nothing
changes. ``level`` says from which level on a pass runs: 1 are those whose results are the same to the bit, 2
those that may move the rounding of floats.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from ...errors import DeclareError
from ...target import Target, as_target
from ..graph import Program
from .channels_last import keep_channels_last
from .constants import fold_constants
from .dead import drop_dead
from .duplicates import merge_duplicates
from .identities import drop_identities
from .join import join_products
from .levels import keep_levels
from .name_operators import name_operators
from .one_scale import multiply_once
from .picked_bytes import pick_bytes
from .repeats import multiply_repeated_once
from .scales import scale_weights
from .seen_taps import keep_seen_taps
from .subnormals import flush_subnormals
from .whole_numbers import multiply_whole_numbers
from .winograd import fewer_multiplications

__all__ = ["PASSES", "REGIONS", "Hook", "Hooks", "Pass", "simplified"]

Hook = Callable[[str, Program, Program], None]  # the name of a pass, the graph before and after it
Hooks = Collection[Hook]
REGIONS = "regions"  # left out, each operator is computed by a kernel of its own
MOST_ROUNDS = 8


class Pass(NamedTuple):
    """A name by which it can be left out, what it does, and from which level on it runs; whether what it does
    depends on the target, which is its second argument then."""

    name: str
    function: Callable[..., Program]
    level: int
    by_target: bool = False

    def run(self, graph: Program, target: Target | None = None) -> Program:
        """The graph behind the pass, as code for ``target`` (None: this machine) wants it."""
        result: Program = self.function(graph, as_target(target)) if self.by_target else self.function(graph)
        return result


PASSES = (
    # first, so that nothing else weighs what nobody reads
    Pass("dead", drop_dead, 1),
    Pass("identities", drop_identities, 1),
    Pass("duplicates", merge_duplicates, 1),
    # before products take the bytes themselves, and leave one operand of a pair to others
    Pass("picked bytes", pick_bytes, 2),
    # while it can be seen that both operands were bytes
    Pass("whole numbers", multiply_whole_numbers, 2, by_target=True),
    # behind those sums
    Pass("one scale", multiply_once, 2),
    # before constants are folded: afterwards a quantised weight is a plain array of floats
    Pass("levels", keep_levels, 2),
    Pass("constants", fold_constants, 2),
    # once weights are constants, and before what looks for them among the inputs of a node
    Pass("seen taps", keep_seen_taps, 1),
    # a scale is written into the arrays
    Pass("scales", scale_weights, 2),
    # what scales have made of weights too
    Pass("subnormals", flush_subnormals, 2),
    # recognised by what is left, whatever the model wrote around it
    Pass("operators", name_operators, 2),
    Pass("products", join_products, 2),
    Pass("repeats", multiply_repeated_once, 2),
    # how a convolution is computed is chosen last, when it is what it will be
    Pass("winograd", fewer_multiplications, 2, by_target=True),
    Pass("channels last", keep_channels_last, 2, by_target=True),
)


def simplified(
    graph: Program,
    level: int = 2,
    without: Collection[str] = (),
    hooks: Hooks = (),
    target: Target | None = None,
) -> Program:
    """The graph as the passes of ``level`` leave it for ``target`` (None: this machine), but for those named
    in ``without``. Each hook is called with the name of a pass and the graph before and after it. Raises
    DeclareError for a name that no pass has."""
    names = [*(p.name for p in PASSES), REGIONS]
    unknown = sorted(set(without) - set(names))
    if unknown:
        raise DeclareError(f"there is no pass {unknown[0]!r}", because=f"they are {', '.join(names)}")
    left: dict[str, Program] = {}  # what each pass has given
    # one pass makes work for another: a joined product may be a constant, a folded one dead.
    for _ in range(MOST_ROUNDS):
        start = graph
        for p in PASSES:
            # what a pass has left it leaves again
            if p.level > level or p.name in without or left.get(p.name) is graph:
                continue
            before, graph = graph, p.run(graph, target)
            left[p.name] = graph
            for hook in hooks:
                hook(p.name, before, graph)
        if graph is start:
            break
    return graph
