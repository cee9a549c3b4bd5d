"""What work takes on a processor: the one table that default schedules, the search and dynamic plans ask.
Knows nothing of schedules, and measures nothing; which table counts where is said in ``cost_tables``.

Numbers are cycles of one core, bytes a cycle, and iterations of a loop's body. The form is the roofline of
Williams, Waterman and Patterson (CACM 52, 2009) with the latency of a chain of sums (Fog, "Instruction
tables"). What a target knows of itself (registers, lanes, caches, cores) stands in the target.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..errors import TensorLangError


@dataclass(frozen=True)
class Cost:
    """The table of a kind of processor. The defaults are those of a present-day core."""

    per_cycle: int = 2  # vector operations, and also loads, that begin in one cycle
    whole_per_cycle: int = 2  # the same of whole vectors, for which units may be half as wide
    latency: int = 4  # cycles from one sum to the next that needs it
    # loads wait for each other more often than multiply-adds do: measured, a column of one vector reaches 85
    # of 95 GFLOP/s
    load: float = 1.1
    panel_load: float = 1.1  # the same where a panel comes from the second cache meanwhile
    division: int = 4  # vector operations that one counts as
    call: int = 16  # the same for an intrinsic
    spill: int = 2  # cycles to write a vector to memory and read it again
    turn: int = 1  # cycles of a loop around a tile
    # cycles for a vector of elements of Winograd's transforms, before and behind. Measured (Emerald Rapids)
    # at 16 × 112 × 112 to 256 × 14 × 14
    transform: int = 16
    # the same of a weight that is transformed in the call, and twice as many beyond the second cache.
    # Measured (Zen 4) at 64 × 64 to 512 × 512
    transformed: float = 15.0
    # times a weight of either sums takes that is requested beside them, and not hidden by them, of what the
    # third cache brings. Measured (Granite Rapids), 20 convolutions of 7 × 7 to 56 × 56 whose weights come in
    # turn, on one and two threads: with it the choice takes 1.01 times as long as the best of direct sums and
    # both tiles. Of 88 drawn ones (Zen 4) whose weights stay in the third cache, 1.04 and 1.03; packed at the
    # call 1.03 and 1.02
    requested: float = 1.5
    start: int = 8000  # cycles to begin and end a parallel loop
    # bytes that come in a cycle from behind the first, second and third cache, most of them ahead of their
    # use. Half as many order the candidates of 17 tasks worse (Zen 5: 84 of 100 pairs instead of 86)
    l1_rate: int = 64
    l2_rate: int = 32
    l3_rate: int = 12
    thread: int = 3 << 13  # iterations of a body of which a second thread takes a share with profit
    # columns of a product's right operand that are read again for each block of rows. Measured (Zen 3, 512
    # KiB of L2): blocks of about 256 are as good as any from k = 256 to 3072, though from k = 1024 on they
    # live in the third cache. Smaller ones read the left operand too often, larger ones lose up to 6 %
    block_columns: int = 256
    # bytes that a block of them may take where the second cache is large and the third one far; else no limit
    block_bytes: int = 1 << 30
    # the same of a block that is packed ahead: what stays in the second cache beside the rest need not come
    # from the third one, which all cores ask at once. In the call it must first be copied, in whole lines
    near_bytes: int = 1 << 30
    # bytes of a panel of which all tiles of a block of rows sum a part before the next, where their rows of a
    # long sum do not stay in the first cache; else the panel is summed at once
    panel_bytes: int = 1 << 30
    # bytes of an image with channels pages apart, up to which looking for the pages hides behind the sums
    hidden_pages: int = 1
    # the same up to which tiles of single pixels × outputs read a line of each channel where it lies
    hidden_lines: int = 1
    # of the time of direct sums of a convolution, at most, that of the products of each pixel with all taps
    # and their sums, where those are taken (a thousandth or less: nowhere)
    by_tap: float = 1e-3
    # rows up to which a product reads a right operand where it lies, because what a tile computes hides how
    # far apart its lines are (1: nothing hides it), the last cache that may hold such a one, and the rows up
    # to which its lines are read one by one instead
    in_place_rows: int = 1
    in_place_cache: int = 2
    by_line_rows: int = 3
    ahead_lines: int = 1  # a tile asks for the line so many behind the one that it reads; 1: for none
    ahead_terms: int = 1  # the same of its rows, which are far, in terms of the sum
    # rows up to which tiles of a product of bytes mix lines of the right operand in registers; 1: none
    mixed_rows: int = 1
    transposition: float = 0.35  # cycles of an element of an operand that is copied in transposed panels
    # the same of an image, a weight or a result of windows of several taps, whose sums are long beside it
    beside: float = 0.35
    # bytes of what another core has just written that come in a cycle, and cycles for a byte of an image that
    # gets a margin, which is cold. Known of Granite Rapids alone: two cores of a virtual machine took as long
    # as one for the sums of 128 to 32 channels of 14 × 14, where one of them had made the image. Not
    # calibrated: which thread takes which part is chance, and a margin made again and again is warm (0.05)
    remote_rate: float = 1.25
    copied: float = 0.2
    # of the time in which a weight comes from behind the second cache what the sums beside it do not hide
    exposed: float = 0.5
    # cycles of a tap of a convolution where those of a row stay a loop. Measured on Granite Rapids: 128 to 32
    # channels of 28 × 28 and of 14 × 14 take 1.17 to 1.22 times as long in tiles of 7 and 14 pixels
    rolled: float = 2.0
    # times as long takes a tile of a convolution that reads a few pixels of every channel in pages far apart,
    # or from behind the second cache. Measured (Zen 5): 64 channels of 56 × 56, 128 of 28 × 28
    spread: float = 1.2
    # bytes that come in a cycle of a weight larger than the second cache whose elements are used one by one
    element_rate: float = 1e6
    # cycles of an element that a vector gathers. One by one an element takes a load and a store, a cycle
    gathered: float = 0.5
    crossing: float = 1.08  # times as long takes a tile whose vectors cross lines of the cache
    # bytes of what a reduction reads in plain rows from which on, behind the third cache, their lines come
    # sooner where they are asked for ahead; 1 << 39 where a processor sees such rows coming and it costs time
    asked_bytes: int = 1
    # bytes before its use that rows which are reduced along memory, each by itself, are asked for though a
    # processor sees plain rows coming: it is busy adding up lanes meanwhile. 1: as ``asked_bytes`` says
    rows_ahead: int = 1
    # rows of a block of attention from which on it has no more than have their scores in the first cache
    few_rows: int = 16
    equal: float = 1.0  # times the least time of a register tile that counts as the same
    # vectors of a head of attention of which tiles have all, and as many of keys; 1: as of other products
    head_vectors: int = 1
    product: float = 8.0  # iterations of a register tile in the time of one elsewhere

    @property
    def of_panels(self) -> Cost:
        """The table for tiles that read panels of a product behind the second cache."""
        return replace(self, load=self.panel_load)

    @property
    def of_whole(self) -> Cost:
        """The table for tiles of whole vectors, beside others whose vectors are half empty."""
        return replace(self, per_cycle=self.whole_per_cycle)

    @property
    def digest(self) -> str:
        """A name for these numbers: other numbers, another name."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """As text, which :meth:`from_json` reads."""
        return json.dumps(asdict(self), indent=1)

    @staticmethod
    def from_json(text: str, where: str = "a table of costs") -> Cost:
        """The table that a text holds; numbers that it does not name are those of the defaults. Raises
        TensorLangError for any text that is none."""
        kinds: dict[str, type] = {n: type(v) for n, v in asdict(ROOFLINE).items()}
        try:
            found: Any = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        known = isinstance(found, dict)
        bad = [n for n, v in found.items() if not _fits(v, kinds.get(n))] if known else ["its form"]
        if bad:
            raise TensorLangError(
                f"{where}: {bad[0]} makes no sense",
                because="a table of costs is a JSON object of positive numbers",
                try_="python -m tensorlang calibrate, which writes one",
            )
        return Cost(**{n: kinds[n](v) for n, v in found.items()})

    @property
    def chains(self) -> int:
        """Multiply-adds under way that keep the units busy."""
        return self.latency * self.per_cycle

    def shared(self, iterations: int) -> bool:
        """Whether this many iterations of a body are worth a second thread."""
        return iterations >= self.thread

    def perhaps_shared(self, iterations: int) -> bool:
        """Whether they may be, so that a search tries both."""
        return iterations >= self.thread // 4

    def fold(self, lanes: int) -> float:
        """Cycles to add up the lanes of one sum: halves to halves, each after a move."""
        return 2 * (lanes.bit_length() - 1) / self.per_cycle + 1

    def fold_of_four(self, lanes: int) -> float:
        """The same of each of four sums that are neighbours, where lanes move as x86 moves them: three times
        two vectors are mixed and added, and then halves of one are."""
        return ((9 + 3 * max(0, lanes.bit_length() - 3)) / self.per_cycle + 1) / 4

    def fold_of_two(self, lanes: int) -> float:
        """The same of each of two: two vectors are mixed and added once, and then halves of one are."""
        return ((3 + 3 * max(0, lanes.bit_length() - 2)) / self.per_cycle + 1) / 2

    def tile(self, rows: int, vectors: float) -> float:
        """Cycles of an iteration of the reduction in a register tile of ``rows × vectors``: multiply-adds,
        loads, latency, and a little for what goes round."""
        busy = max(rows * vectors, self.load * (rows + vectors), self.chains) / self.per_cycle
        return busy + 0.04 * (rows + 3 * vectors)


def _fits(value: Any, kind: type | None) -> bool:
    """Whether a number of a text may stand for one of that kind: a whole one for any other too."""
    taken = (int, float) if kind is float else (kind,)
    return type(value) in taken and 0 < value < 1 << 40


ROOFLINE = Cost()
