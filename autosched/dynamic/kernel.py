"""The kernel of all shapes that the user holds. Knows the dispatcher and how to talk of what it chose; makes
and measures nothing, and runs where there is no compiler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import tensorlang as tl
from tensorlang.entries import public
from tensorlang.errors import counted

from ..signposts import GONE_OF_DYNAMIC
from ..tiers.serves import GENERIC, SPECIALISED, TABLE, TIERS
from .plan import Plans, plans_of
from .size_profile import ShapeProfile
from .stats import KernelStats

if TYPE_CHECKING:
    from ..tiers import Tiers


@dataclass(frozen=True)
class Account:
    """How a DynamicKernel came to be, for readers: the family, what was compiled, how good the tree is by the
    model."""

    name: str
    family: str
    kernels: int
    seconds: float
    leaves: int
    shapes: int
    exhaustive: bool
    mean_loss: float
    worst_loss: float
    worst_shape: tuple[int, ...]
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(data: Mapping[str, Any]) -> Account:
        """That of plain data. Raises ValueError, KeyError or TypeError for anything else."""
        given = {**data, "worst_shape": tuple(data["worst_shape"]), "notes": tuple(data["notes"])}
        for f in fields(Account):
            value = given[f.name]
            kinds = {
                "str": (str,),
                "int": (int,),
                "float": (int, float),
                "bool": (bool,),
                "tuple[int, ...]": (tuple,),
                "tuple[str, ...]": (tuple,),
            }
            # by type, not isinstance: a bool is an int, and `true` in a file is no number
            if type(value) not in kinds[str(f.type)]:
                raise TypeError(f"{f.name} is of type {type(value).__name__}")
        if not {*map(type, given["worst_shape"])} <= {int} or not {*map(type, given["notes"])} <= {str}:
            raise TypeError("worst_shape or notes")
        return Account(**given)

    def __str__(self) -> str:
        seen = f"{'all' if self.exhaustive else 'of'} {self.shapes} shapes"
        lines = [
            f"{self.name}: family {self.family}, {self.kernels} kernels, {self.leaves} leaves, made in "
            f"{self.seconds:.1f} s",
            f"  the tree loses {self.mean_loss:.2%} on average and {self.worst_loss:.1%} at worst "
            f"({self.worst_shape}) by the model, {seen}",
        ]
        return "\n".join([*lines, *(f"  {n}" for n in self.notes)])


@dataclass(frozen=True)
class Explanation:
    """Why a shape runs as it does. ``alternatives`` are (name, predicted seconds or None, what it does), the
    chosen one first; ``tier`` is one of ``"generic"``, ``"table"``, ``"specialised"`` and ``"tuned"``;
    ``costs`` says by which table of costs the plans were made, and its digest."""

    shape: dict[str, int]
    chosen: str
    alternatives: tuple[tuple[str, float | None, str], ...]
    reason: str
    tier: str
    costs: str = ""

    def __str__(self) -> str:
        lines = [f"{', '.join(f'{d}={n}' for d, n in self.shape.items())}: {self.reason} (tier {self.tier})"]
        width = max((len(name) for name, _, _ in self.alternatives), default=0)
        for i, (name, seconds, what) in enumerate(self.alternatives):
            predicted = "" if seconds is None else f"{seconds * 1e6:10.2f} µs"
            lines.append(f"  {'→' if i == 0 else ' '} {name:<{width}}  {predicted:>13}  {what}".rstrip())
        return "\n".join([*lines, *([f"  {self.costs}"] if self.costs else [])])


@public(
    tl.TensorLangError,
    "DynamicKernel",
    GONE_OF_DYNAMIC,
    page="autosched.reporting.objects:dynamic_page",
    made="autosched.tune_dynamic(task, profile)",
)
class DynamicKernel:
    """A kernel of every shape in its profiles, made by ``tune_dynamic``.

    Call it on arrays like any kernel: ``f(x, y)`` writes the outputs, ``y = f(x)`` makes them.
    ``explain(m=17)`` says what runs and what else could, ``stats()`` what ran.
    """

    def __init__(
        self, dispatcher: tl.Dispatcher, profiles: Sequence[ShapeProfile], account: Account, plans: Plans
    ) -> None:
        self.dispatcher, self.profiles, self.account, self._plans = (
            dispatcher,
            tuple(profiles),
            account,
            plans,
        )
        self._call = dispatcher.entry
        self.tiers: Tiers | None = None  # who looks after it, see ``specialise``

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run it; arguments may have names, ``f(x=a, out=y)``. Raises CallError for arguments it cannot take
        and, unless the profile says ``generic``, for sizes outside all profiles."""
        try:
            return self._call(*args, **named)
        except tl.CallError as e:
            # the check is machine code that knows dims and no profiles: that a size was at fault is seen from
            # its words
            of_range = str(e.because).startswith(tuple(f"{d} is declared at" for d in self.dims))
            if of_range and e.try_ is None and self.profiles[0].out_of_range == "error":
                e.try_ = (
                    f"a profile that holds it (it is {' or '.join(map(_sizes, self.profiles))}), or "
                    'out_of_range="generic"'
                )
            raise

    @property
    def entry(self) -> Any:
        """The function behind ``f(...)``: a loop that counts nanoseconds may keep and call it."""
        return self._call

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the open sizes, in the order of shapes: ``f.explain((17,))`` means the first."""
        return self.dispatcher.dims

    def __repr__(self) -> str:
        return (
            f"<dynamic kernel {self.account.name} of {', '.join(self.dims)}: {self.account.family}, "
            f"{self.account.kernels} kernels>"
        )

    def benchmark(self, *args: Any, seconds: float = 0.5) -> tl.Timing:
        """Time it on these arrays for some ``seconds``, dispatch included, call from Python not."""
        return self.dispatcher.benchmark(*args, seconds=seconds)

    def explain(self, shape: Any = None, **sizes: int) -> Explanation:
        """What runs for a shape, ``explain((17,))``, ``explain({"m": 17})`` or ``explain(m=17)``: the plan,
        the alternatives, predicted seconds.

        Raises CallError for what is not a shape of this kernel.
        """
        named = self._named(shape, sizes)
        values = tuple(named[d] for d in self.dims)
        predicted = self._plans.cost(np.array([values]))
        times = [None] * len(self._plans.names) if predicted is None else [float(s) for s in predicted[0]]
        rows = [(name, times[i], self._plans.describe(i, values)) for i, name in enumerate(self._plans.names)]
        slot = self.dispatcher.slot(values)
        published = self.dispatcher.published.get(values)
        costs = next((n for n in self.account.notes if n.startswith("costs ")), "")
        inside = any(p.holds(named) for p in self.profiles)
        chosen = rows.pop(slot)
        rest = sorted(rows, key=lambda r: r[1] if r[1] is not None else 0.0)
        if published is not None:
            special = (published.name, None, "a kernel of this exact shape")
            tier = SPECIALISED if self.tiers is None else self.tiers.manager.tier(values)
            return Explanation(
                named,
                special[0],
                (special, chosen, *rest),
                "code of its own was published for it",
                TIERS[max(tier, SPECIALISED)],
                costs,
            )
        beyond = self._beyond(named)
        reason = (
            f"a call is refused: {beyond}"
            if beyond
            else f"the tree picks {chosen[0]}"
            if inside
            else f"{'outside' if self.profiles[0].out_of_range == 'generic' else 'between'} all profiles: "
            f"{chosen[0]}"
        )
        return Explanation(named, chosen[0], (chosen, *rest), reason, TIERS[self.base], costs)

    def _beyond(self, named: Mapping[str, int]) -> str:
        """Why a call with these sizes is refused; empty when it is not. The dispatcher checks the same
        facts."""
        for d in self.dispatcher.signature.dims:
            n, lo = named[d.name], d.lo or 0
            if n < lo or (d.hi is not None and n > d.hi):
                return f"{d.name} runs from {lo} to {'any' if d.hi is None else d.hi}"
            if n % d.multiple_of:
                return f"{d.name} is a multiple of {d.multiple_of}"
        return ""

    @property
    def base(self) -> int:
        """The tier that serves what has no code of its own: its plans, its dispatcher."""
        return GENERIC if self.account.family == "generic" else TABLE

    def stats(self) -> KernelStats:
        """Calls so far and, of those the dispatcher remembers, how many there were of each shape and by each
        route; with the tiers' own figures when they look after it. Printed, it is a table."""
        # by identity: what was published for exact shapes meanwhile is a route too, and no plan names it
        names = {id(r): n for r, n in zip(self.dispatcher.routes, self._plans.names, strict=True)}
        calls, rows = self.dispatcher.since(0)
        # a row holds the route's number, processor cycles, and then the sizes
        shapes = Counter(tuple(int(n) for n in row[2:]) for row in rows)
        numbers = Counter(int(n) for n in rows[:, 0])
        routes: Counter[str] = Counter()
        for number, n in numbers.items():
            route = self.dispatcher.route_of(number)
            routes["retired" if route is None else names.get(id(route), "published")] += n
        return KernelStats(
            self.account.name, calls, shapes, routes, None if self.tiers is None else self.tiers.stats()
        )

    def save(self, path: str | Path) -> None:
        """Write it to one file that ``load`` reads back without the compiler. Kernels published for exact
        shapes stay behind.

        Raises TensorLangError when nothing can be written.
        """
        note = {
            "kind": "dynamic kernel",
            "profiles": [p.to_json() for p in self.profiles],
            "account": asdict(self.account),
            "plans": self._plans.to_json(),
        }
        self.dispatcher.save(path, note)

    @staticmethod
    def load(path: str | Path) -> DynamicKernel:
        """A kernel that ``save`` wrote. Raises TargetError for one of another machine, TensorLangError for a
        file that is torn or something else. The file holds machine code: load only what you would run."""
        dispatcher, note = tl.Dispatcher.load(path)
        try:
            if note["kind"] != "dynamic kernel":
                raise ValueError(note["kind"])
            account, plans = Account.of(note["account"]), plans_of(note["plans"])
            profiles = [ShapeProfile.from_json(p) for p in note["profiles"]]
            if (
                len(plans.names) != len(dispatcher.routes)
                or not profiles
                or any(sorted(p.dims) != sorted(dispatcher.dims) for p in profiles)
            ):
                raise ValueError("the parts do not fit together")
            return DynamicKernel(dispatcher, profiles, account, plans)
        except (
            KeyError,
            TypeError,
            ValueError,
            AttributeError,
            IndexError,
            OverflowError,
            tl.TensorLangError,
        ):
            raise tl.TensorLangError(
                f"cannot load {path}",
                because="it is a dispatcher, but no DynamicKernel",
                try_="tl.Dispatcher.load",
            ) from None

    def _named(self, shape: Any, sizes: Mapping[str, int]) -> dict[str, int]:
        how = f"explain({', '.join(f'{d}=…' for d in self.dims)})"
        if shape is not None and not isinstance(shape, Mapping) and len(_tuple(shape)) != len(self.dims):
            raise tl.CallError(
                f"explain: {counted(len(_tuple(shape)), 'size')}",
                because=f"the dims are {', '.join(self.dims)}",
                try_=how,
            )
        given = (
            dict(shape)
            if isinstance(shape, Mapping)
            else {}
            if shape is None
            else dict(zip(self.dims, _tuple(shape), strict=True))
        )
        given.update(sizes)
        if set(given) != set(self.dims):
            raise tl.CallError(
                f"explain: sizes of {', '.join(map(str, given)) or 'nothing'}",
                because=f"the dims are {', '.join(self.dims)}",
                try_=how,
            )
        for d, n in given.items():
            if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
                raise tl.CallError(
                    f"explain: {d} = {n!r}", because="a size is a whole number, 0 or more", try_=how
                )
        return {d: int(given[d]) for d in self.dims}


def _sizes(profile: ShapeProfile) -> str:
    return ", ".join(f"{d}: {s.least} … {s.most}" for d, s in profile.dims.items())


def _tuple(shape: Any) -> tuple[Any, ...]:
    return tuple(shape) if isinstance(shape, list | tuple) else (shape,)
