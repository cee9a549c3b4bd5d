"""``tl.interpret``: a schedule executed step by step, for people who want to see what it does. Knows lowering
and the interpreter; draws with the room of pictures."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .boundary import shown
from .build import lower
from .display import box, details, escape, page
from .entries import public
from .errors import CallError, counted
from .loopir.stmt import Buffer, Func
from .protocols import Entries, Listed
from .runtime import files
from .schedule.schedule import Schedule

if TYPE_CHECKING:
    from .loopir.watch import Access

KEPT = 100_000  # accesses that are remembered
CELLS, TITLED = 4096, 1024  # elements of a buffer that is drawn, and whose cells say their number
_HUES = {"read": "47,127,209", "write": "200,100,27"}


class _Stop(Exception):
    """``until`` was met."""


@public(CallError, "Run")
@dataclass
class Run:
    """What an interpretation did: ``arrays`` by name (outputs as far as they were written), ``accesses`` in
    order, and whether it was ``stopped`` by ``until``. Prints the last accesses; a notebook shows when each
    element was first touched."""

    func: Func
    arrays: dict[str, np.ndarray]
    accesses: list[Access] = field(default_factory=list)
    stopped: bool = False

    @property
    def writes(self) -> list[Access]:
        """The accesses that write."""
        return Listed("run.writes", [a for a in self.accesses if a.kind == "write"])

    def order(self, buffer: str) -> np.ndarray:
        """For each element of an argument the number of its first access, -1 where there is none. Raises
        CallError for a name of none."""
        if buffer not in self.arrays:
            raise CallError(f"order({buffer!r}): no such argument", legal=", ".join(self.arrays))
        first = np.full(self.arrays[buffer].shape, -1, np.int64)
        for a in reversed(self.accesses):
            if a.buffer == buffer:
                first[a.index] = a.number
        return first

    def save(self, path: str | Path) -> None:
        """Write what a notebook shows as a page. Raises TensorLangError when it cannot be written."""
        made = page(f"{self.func.name}, step by step", self._repr_html_())
        files.write({files.named(path, "save"): made.encode()}, "save the run")

    def __str__(self) -> str:
        end = ", stopped" if self.stopped else ""
        made = counted(len(self.accesses), "access", "accesses")
        head = f"{self.func.name}: {made}, {len(self.writes)} of them writes{end}"
        return "\n".join([head, *map(str, self.accesses[-10:])])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        pictures = "".join(self._picture(name) for name in self.arrays)
        last = f"<pre>{escape(chr(10).join(map(str, self.accesses[-200:])))}</pre>"
        legend = "the stronger the colour, the later the first access; numbers count accesses, a dash is none"
        return box(
            str(self).splitlines()[0], f"<div>{legend}</div>{pictures}", details("the last accesses", last)
        )

    def _picture(self, name: str) -> str:
        """The elements of an argument as cells, shaded by when they were first touched."""
        order = self.order(name)
        if not 0 < order.size <= CELLS:
            return f"<div>{escape(name)}: {counted(order.size, 'element')}, too many to draw</div>"
        grid = order.reshape(-1, order.shape[-1]) if order.ndim else order.reshape(1, 1)
        kind = "write" if any(a.buffer == name and a.kind == "write" for a in self.accesses) else "read"
        most = max(1, len(self.accesses))
        wide = grid.shape[1] <= 20
        w, h = (34, 18) if wide else (8, 8)
        cells = []
        for (r, c), n in np.ndenumerate(grid):
            if n >= 0 or wide:  # large arrays are drawn where they were touched
                shade = 0.0 if n < 0 else 0.15 + 0.75 * n / most
                cells.append(
                    f'<rect x="{c * w}" y="{r * h}" width="{w - 1}" height="{h - 1}" '
                    f'fill-opacity="{shade:.2f}"'
                    + ("/>" if wide or order.size > TITLED else f"><title>{n}</title></rect>")
                )
            if wide:
                cells.append(
                    f'<text x="{c * w + w / 2}" y="{r * h + 13}" text-anchor="middle" font-size="10" '
                    f'fill="currentColor" fill-opacity="1" stroke="none">{n if n >= 0 else "–"}</text>'
                )
        width, height = grid.shape[1] * w, grid.shape[0] * h
        return (
            f"<div><b>{escape(name)}</b> ({kind})</div>"
            f'<svg role="img" aria-label="when {escape(name)} is touched" '
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'fill="rgb({_HUES[kind]})" stroke="currentColor" stroke-opacity=".2">'
            f'<rect width="{width}" height="{height}" fill="none"/>{"".join(cells)}</svg>'
        )


def interpret(
    schedule: Schedule | Func,
    args: Sequence[Any] | None = None,
    arrays: Sequence[Any] | Mapping[Any, Any] = (),
    *,
    on_write: Callable[[Access], Any] | None = None,
    on_read: Callable[[Access], Any] | None = None,
    until: int | Callable[[Access], Any] | None = None,
    simple: bool = True,
) -> Run:
    """Execute a schedule with numpy, slowly, and watch it: ``tl.interpret(s, [A, B], [a], on_write=print)``.

    ``arrays`` are the arguments in order, or by their names or tensors; outputs may be left out. ``on_write``
    and ``on_read`` are called with each access (``buffer``, ``index``, ``value``, ``loops``, ``number``).
    ``until`` ends it: after so many writes, or when the function returns true for a write; what was computed
    until then is in the result. ``simple=False`` takes the loops after the compiler's passes instead of those
    of the schedule. The result has the arrays, the first 100,000 accesses, and in a notebook a picture of
    their order, which ``run.save("run.html")`` writes. Raises CallError for arrays that do not fit and for
    what the interpreter checks: accesses out of bounds, reads of what nobody wrote, races of parallel loops.

        run = tl.interpret(s, [A, B], [np.arange(8, dtype="float32")], until=3)
        print(run, run.arrays["B"])

    >>> A = te.placeholder((3,), name="A")
    >>> B = te.compute((3,), lambda i: A[i] + 1, name="B")
    >>> run = tl.interpret(te.create_schedule(B.op), [A, B], [np.arange(3, dtype="float32")], until=2)
    >>> run.arrays["B"][:2].tolist()
    [1.0, 2.0]
    """
    for word, f in (("on_write", on_write), ("on_read", on_read), ("until", until)):
        if f is not None and not (word == "until" and isinstance(f, int)):
            _check_watcher(word, f)
    engine, watch = _loaded("interpret"), _loaded("watch")
    if isinstance(until, bool) or (isinstance(until, int) and until < 1):
        raise CallError(f"interpret(until={until})", because="it is a number of writes, or a function of one")
    func = schedule if isinstance(schedule, Func) else lower(schedule, args or (), simple=simple)
    run = Run(func, {})
    writes = 0

    def see(a: Access) -> None:
        nonlocal writes
        if len(run.accesses) < KEPT:
            run.accesses.append(a)
        callback = on_write if a.kind == "write" else on_read
        if callback is not None:
            callback(a)
        if a.kind == "write":
            writes += 1
            if writes == until or (callable(until) and until(a)):
                raise _Stop

    try:
        given = _arguments(func, arrays)
        buffers = {p.name: x for p, x in zip(func.params, given) if isinstance(p, Buffer)}
        run.arrays = Entries("run.arrays", buffers)
        engine.Program(
            func, translator=lambda f, races: watch.WatchedTranslator(f, races, watch.Watch(see))
        ).run(*given)
    except _Stop:
        run.stopped = True
    except engine.InterpretError as e:
        raise CallError(
            f"interpret: {str(e).splitlines()[0]}", because="\n".join(str(e).splitlines()[1:])
        ) from None
    return run


def _check_watcher(word: str, f: Any) -> None:
    """Raises CallError for what cannot be called with one access."""
    try:
        inspect.signature(f).bind(None)
    except TypeError as e:
        why = "it is called with one argument" if callable(f) else "not a function"
        raise CallError(
            f"interpret({word}={shown(f)}): {why}",
            because=str(e) if callable(f) else None,
            try_=f"{word}=lambda access: print(access.buffer, access.index, access.value)",
        ) from None
    except ValueError:  # print, in some versions of Python, says nothing of what it takes
        return


def _loaded(name: str) -> Any:
    """A module of the interpreter: it makes its functions of text, 40 ms that only who watches needs."""
    return importlib.import_module(f"{__package__}.loopir.{name}")


def _in_order(func: Func, arrays: Mapping[Any, Any]) -> list[Any]:
    """Arrays by names or tensors, as the arguments are listed: outputs at the end may be left out."""
    named = {k if isinstance(k, str) else getattr(k, "name", k): x for k, x in arrays.items()}
    names = [p.name for p in func.params]
    given = [n for n in names if n in named]
    foreign = [n for n in named if n not in names]
    if foreign or given != names[: len(given)]:
        lacks = next((n for n in names if n not in named), None)
        raise CallError(
            f"interpret: there is no argument {shown(foreign[0])}"
            if foreign
            else f"interpret: no array for {lacks}",
            legal=", ".join(names),
            try_=f"tl.interpret(s, args, {{{', '.join(f'{n!r}: array' for n in names[:2])}, …}})",
        )
    return [named[n] for n in given]


def _arguments(func: Func, arrays: Sequence[Any] | Mapping[Any, Any]) -> list[Any]:
    """The arrays, with new ones of zeros for the outputs that are left out."""
    given = _in_order(func, arrays) if isinstance(arrays, Mapping) else list(arrays)
    if not 0 <= len(func.params) - len(given) <= len(func.outputs):
        raise CallError(
            f"interpret: {func.name} takes {counted(len(func.params), 'array')}, {len(given)} given",
            because=", ".join(p.name for p in func.params),
        )
    given = [x if not isinstance(p, Buffer) else np.asarray(x) for p, x in zip(func.params, given)]
    known = {p: a for p, a in zip(func.params, given) if isinstance(p, Buffer)}
    missing = func.params[len(given) :]
    engine = _loaded("interpret")
    sizes = engine.solve(func, known, {}) if missing else {}
    for p in missing:
        assert isinstance(p, Buffer)
        given.append(np.zeros([engine.value_of(n, sizes) for n in p.shape], p.dtype.to_numpy()))
    return given
