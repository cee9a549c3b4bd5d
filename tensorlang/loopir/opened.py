"""Which buffers a block of statements opens within its items. Knows statements; nothing of what is done with
the block."""

from __future__ import annotations

from collections.abc import Sequence

from .stmt import Alloc, Buffer, Stmt, preorder


class OpenedWithin:
    """The buffers that the items of a block open within themselves. The copies of a loop all open the same:
    opened for the whole block, that of the last would stand for those of the others too."""

    def __init__(self) -> None:
        self._seen = 0
        self._buffers: set[Buffer] = set()

    def have(self, b: Buffer, items: Sequence[Stmt]) -> bool:
        """Whether one of the items opens ``b``. Each item is looked through once."""
        for item in items[self._seen :]:
            self._buffers.update(s.buffer for s in preorder(item) if isinstance(s, Alloc))
        self._seen = len(items)
        return b in self._buffers
