"""What is proved of a kernel: accesses in bounds, outputs covered, written once, temporaries written where
they are read.

Each question is a set of counterexamples that must be empty; one that is not yields a point of it as a
witness, with the values of sizes and loops. isl may give up on a large question: that is reported as unknown,
never as proved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import islpy as isl

from tensorlang.loopir.stmt import Buffer, Func

from .polyhedra import Access, NotAffine, Reader

EFFORT = 1_500_000  # isl's own count of operations for one question


@dataclass
class Report:
    """How many questions of each kind were proved, and the witnesses against the others."""

    proved: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def prove(
    func: Func, written_once: tuple[Buffer, ...] = (), covered: tuple[Buffer, ...] | None = None
) -> Report:
    """All questions about a kernel. ``written_once``: the outputs that are not reductions; ``covered``: the
    outputs, unless given."""
    report = Report()
    try:
        reader = Reader(func)
    except NotAffine:
        report.unknown["kernel"] += 1
        return report
    for a in reader.accesses:
        for d in range(len(a.indices)):
            _ask(
                report,
                "in bounds",
                lambda a=a, d=d: _outside(reader, a, d),
                f"{'store' if a.is_store else 'load'} {a.text}, index {d}",
            )
    for b in func.outputs if covered is None else covered:
        if b not in reader.opaque:
            _ask(
                report,
                "covered",
                lambda b=b: _unwritten(reader, b),
                f"element of {b.name} that nothing writes",
            )
    for b in written_once:
        if b not in reader.opaque:
            _ask(
                report,
                "written once",
                lambda b=b: _twice(reader, b),
                f"element of {b.name} written by two iterations",
            )
    arguments = set(func.buffers())
    for b in dict.fromkeys(
        a.buffer for a in reader.accesses if a.buffer not in arguments and a.buffer not in reader.opaque
    ):
        _ask(
            report,
            "read where written",
            lambda b=b: _undefined(reader, b),
            f"element of {b.name} that is read and not written",
        )
    return report


def _ask(report: Report, kind: str, counterexamples: Any, what: str) -> None:
    context = isl.DEFAULT_CONTEXT
    try:
        context.set_max_operations(EFFORT)
        found = counterexamples()
        if found is None or found.is_empty():
            report.proved[kind] += 1
        else:
            report.wrong.append(f"{kind}: {what}, at {witness(found)}")
    except NotAffine:
        report.unknown[kind] += 1
    except isl.Error as e:
        if "max" not in str(e).lower() and "operations" not in str(e).lower():
            raise
        report.unknown[kind] += 1
    finally:
        context.set_max_operations(0)
        context.reset_operations()


def witness(found: Any) -> str:
    """A point of a set or relation as text: sizes and loops by name."""
    wrapped = found.wrap() if isinstance(found, isl.Map) else found
    return str(wrapped.sample_point())


def _box(reader: Reader, b: Buffer) -> Any:
    places = [f"e{d}" for d in range(len(b.shape))]
    inside = [f"0 <= {p} < {reader.affine(extent)}" for p, extent in zip(places, b.shape, strict=True)]
    return isl.Set(
        f"[{reader.parameters}] -> {{ B[{', '.join(places)}] : {' and '.join([*inside, *reader.context]) or '0 = 0'} }}"
    )


def _outside(reader: Reader, a: Access, d: int) -> Any:
    index = a.indices[d]
    if index is None:
        raise NotAffine(a.text)
    extent = reader.affine(a.buffer.shape[d])
    found = isl.Set(
        f"[{reader.parameters}] -> {{ S[{', '.join(a.loops)}] : ({a.condition}) and ({index} < 0 or {index} >= {extent}) }}"
    )
    if not a.exact and not found.is_empty():
        raise NotAffine("a condition")  # the iteration may never happen
    return found


def _union(relations: list[Any]) -> Any:
    total = relations[0]
    for r in relations[1:]:
        total = total.union(r)
    return total


def _writes(reader: Reader, b: Buffer) -> list[Access]:
    found = [a for a in reader.accesses if a.is_store and a.buffer is b]
    if any(not a.exact or None in a.indices for a in found):
        raise NotAffine(b.name)
    return found


def _unwritten(reader: Reader, b: Buffer) -> Any:
    box = _box(reader, b)
    writes = [a.relation(reader.parameters, 0).range() for a in _writes(reader, b)]
    return box.subtract(_union(writes)) if writes else box


def _twice(reader: Reader, b: Buffer) -> Any:
    relations = [a.relation(reader.parameters, k) for k, a in enumerate(_writes(reader, b))]
    for k, r in enumerate(relations):
        if not r.is_injective():
            both = r.apply_range(r.reverse())
            return both.subtract(isl.Map.identity(both.get_space()))
        for q in relations[:k]:
            common = r.range().intersect(q.range())
            if not common.is_empty():
                return common
    return None


def _undefined(reader: Reader, b: Buffer) -> Any:
    missing = None
    for life in dict.fromkeys(a.life for a in reader.accesses if a.buffer is b):
        reads = [a for a in reader.accesses if not a.is_store and a.buffer is b and a.life == life]
        if any(None in a.indices for a in reads):
            raise NotAffine(b.name)
        if not reads:
            continue
        writes = [a.by_life(reader.parameters) for a in _writes(reader, b) if a.life == life]
        asked = _union([a.by_life(reader.parameters) for a in reads])
        missing = asked.subtract(_union(writes)) if writes else asked
        if missing.is_empty():
            continue
        if not all(a.exact for a in reads):
            raise NotAffine("a condition")
        break
    return missing
