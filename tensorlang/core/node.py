"""Immutable, interned nodes: the one way every tree of the project is built. Knows nothing of what the trees
mean.

A class declares its fields in ``__slots__`` and is built by :func:`intern`, which returns the node that
already stands for the same class and fields. Structural equality is therefore identity: ``a is b``, and nodes
are dictionary keys at the price of an ``id``. The table holds weak references, so a tuner that builds
millions of nodes leaks none.

Never iterate over a ``set`` of nodes where the order can be seen: hashes are addresses. Use dicts, which keep
order.

Chosen by ``python -m benchmarks.decide_nodes`` (Python 3.11, 2.5 GHz; a tree of 8191 nodes):

=======================  ===========  =============  =============  ============  ==========
built as                 new µs/node  again µs/node  equal µs/tree  hash µs/tree  bytes/node
=======================  ===========  =============  =============  ============  ==========
slotted                         0.27           0.26           1000          1120          79
slotted, cached hash            0.46           0.43           1230          0.09         123
dataclass frozen, slots         0.56           0.54           1300          1040          79
interned (this file)            1.05           0.52           0.09          0.04         323
=======================  ===========  =============  =============  ============  ==========

One run of several; the machine is shared, and the first columns vary by half. A node costs four times as much
to make when it is new and twice when it is known, and four times the memory; for that, comparing trees or
finding one in a table of results, which every pass does for every node, costs nothing. In five runs a visit
through a table from type to function took 0.50 to 0.77 µs a node, methods 0.31 to 0.52, ``match`` over 16
classes 0.74 to 1.51, ``singledispatch`` 0.80 to 1.49; the table leaves nodes ignorant of who visits them. A
matmul kernel of 28 accumulators is written as text in 0.30 ms and parsed in 1.4; llvmlite's objects take 8.2
and 2.0.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar


class Node:
    """Base of all interned nodes. Fields are the slots named in ``_fields``; assigning to them is a bug."""

    __slots__ = ("__weakref__",)
    _fields: ClassVar[tuple[str, ...]] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return intern, (type(self), *[getattr(self, f) for f in self._fields])

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Node:
        return self


N = TypeVar("N", bound=Node)


class _Ref(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("key",)
    key: tuple[Any, ...]


_table: dict[tuple[Any, ...], _Ref] = {}


def _forget(ref: _Ref) -> None:
    # Another thread may already have put a new node under the same key: remove only our own entry.
    if _table.get(ref.key) is ref:
        del _table[ref.key]


def intern_as(key: tuple[Any, ...], build: Callable[[], N]) -> N:
    """The node known under ``key``, or the one ``build()`` makes now."""
    ref = _table.get(key)
    if ref is not None:
        node = ref()
        if node is not None:
            return node  # type: ignore[no-any-return]
    return _added(key, build())


def _added(key: tuple[Any, ...], node: N) -> N:
    """``node`` under ``key``, or what another thread has put there meanwhile."""
    while True:
        new = _Ref(node, _forget)
        new.key = key
        found = _table.setdefault(key, new)
        if found is new:
            return node
        other = found()
        if other is not None:  # another thread was faster
            return other  # type: ignore[no-any-return]
        _forget(found)


def intern(cls: type[N], *fields: Any) -> N:
    """The one node of class ``cls`` with these field values, built with ``cls.__init__`` when it is new."""
    key = (cls, fields)
    ref = _table.get(key)
    if ref is not None:
        node = ref()
        if node is not None:
            return node  # type: ignore[no-any-return]
    return _added(key, cls(*fields))


def interned_count() -> int:
    """How many nodes are alive (for leak tests)."""
    return len(_table)
