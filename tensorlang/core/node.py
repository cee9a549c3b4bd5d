"""Immutable, interned nodes: the one way every tree of the project is built. Knows nothing of what the trees mean.

A class declares its fields in ``__slots__`` and is built by :func:`intern`, which returns the node that already stands
for the same class and fields. Structural equality is therefore identity: ``a is b``, and nodes are dictionary keys at
the price of an ``id``. The table holds weak references, so a tuner that builds millions of nodes leaks none.

Never iterate over a ``set`` of nodes where the order can be seen: hashes are addresses. Use dicts, which keep order.
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
    node = build()
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
    return intern_as(key, lambda: cls(*fields))


def interned_count() -> int:
    """How many nodes are alive (for leak tests)."""
    return len(_table)
