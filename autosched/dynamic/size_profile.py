"""Which sizes a kernel is to serve, and how much each matters. Plain data; knows no kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tensorlang as tl
from tensorlang.entries import public
from tensorlang.protocols import Entries

OUT_OF_RANGE = ("error", "generic")
EXHAUSTIVE = 1 << 14  # shapes up to which all of a profile are looked at
SAMPLES = 4096  # else about as many
RESIDUES = 48  # sizes next to each other around a sample, so that every remainder by a tile's height is seen

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """The sizes of one dim: inclusive bounds and the one that is expected most."""

    least: int
    opt: int
    most: int

    def __str__(self) -> str:
        return f"{self.least} … {self.opt} … {self.most}"


@public(tl.TensorLangError, "ShapeProfile", page="autosched.reporting.objects:profile_page")
class ShapeProfile:
    """A box of sizes: ``{"m": (min, opt, max), …}``, by the names of dims or by the dims; a pair is (min,
    max), a number one size only.

    ``weights`` says how much shapes matter, 1 unless given: ``{(128,): 10.0}`` with the dims in the order of
    the profile, or a function of the shape. ``out_of_range`` is what happens below or above the sizes of all
    profiles: ``"error"``, a CallError, or ``"generic"``, the kernel that knows no profile, which also serves
    what lies between two profiles. Raises TensorLangError for bounds out of order.
    """

    def __init__(
        self,
        dims: Mapping[str, Any],
        weights: Mapping[Any, float] | Callable[[Shape], float] | None = None,
        out_of_range: str = "error",
    ) -> None:
        if not isinstance(dims, Mapping) or not dims:
            raise tl.TensorLangError(
                f"ShapeProfile: {dims!r} is not a profile",
                because="a profile is a dict with the sizes of every dim",
                try_='{"m": (1, 128, 4096)}',
            )
        if weights is not None and not callable(weights) and not isinstance(weights, Mapping):
            raise tl.TensorLangError(
                f"ShapeProfile: weights are {weights!r}",
                because="they are a dict by shape or a function of the shape",
                try_="weights={(128,): 10.0}",
            )
        if out_of_range not in OUT_OF_RANGE:
            raise tl.TensorLangError(
                f"ShapeProfile(out_of_range={out_of_range!r})", legal=", ".join(map(repr, OUT_OF_RANGE))
            )
        spans = {(name := _name(key)): _span(name, given) for key, given in dims.items()}
        self.dims = Entries("profile.dims", spans)
        self.weights = weights
        self.out_of_range = out_of_range

    @staticmethod
    def of(given: Any, out_of_range: str = "error") -> ShapeProfile:
        """The profile itself, or one of a dict: a dim's name to (least, most) or (least, usual, most).

        >>> autosched.ShapeProfile.of({"m": (1, 128, 512)})
        ShapeProfile(m: 1 … 128 … 512, out_of_range='error')
        """
        return given if isinstance(given, ShapeProfile) else ShapeProfile(given, out_of_range=out_of_range)

    def __repr__(self) -> str:
        return (
            f"ShapeProfile({', '.join(f'{d}: {s}' for d, s in self.dims.items())}, "
            f"out_of_range={self.out_of_range!r})"
        )

    def to_json(self) -> dict[str, Any]:
        """Its sizes as plain data; weights matter only while a kernel is made."""
        return {
            "dims": {d: [s.least, s.opt, s.most] for d, s in self.dims.items()},
            "out_of_range": self.out_of_range,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ShapeProfile:
        """The profile of plain data that ``to_json`` gave. Raises TensorLangError for other data.

        >>> p = autosched.ShapeProfile.of({"m": (1, 512)})
        >>> autosched.ShapeProfile.from_json(p.to_json()).size == p.size
        True
        """
        return ShapeProfile({d: tuple(s) for d, s in data["dims"].items()}, out_of_range=data["out_of_range"])

    def holds(self, shape: Mapping[str, int]) -> bool:
        """Whether all dims are inside the profile's ranges.

        >>> p = autosched.ShapeProfile.of({"m": (1, 128, 512)})
        >>> p.holds({"m": 512}), p.holds({"m": 513})
        (True, False)
        """
        return all(s.least <= shape[d] <= s.most for d, s in self.dims.items())

    def weight(self, shape: Shape) -> float:
        """How much a shape matters, its sizes in the order of the profile."""
        if self.weights is None:
            return 1.0
        if callable(self.weights):
            return float(self.weights(shape))
        # of a single dim, a bare number is a shape too
        key: Any = shape if shape in self.weights or len(shape) > 1 else shape[0]
        return float(self.weights.get(key, 1.0))

    @property
    def size(self) -> int:
        """How many shapes the profile holds: the product of its ranges.

        >>> autosched.ShapeProfile.of({"m": (1, 512), "n": (1, 4)}).size
        2048
        """
        total = 1
        for s in self.dims.values():
            total *= s.most - s.least + 1
        return total

    def samples(self, order: Sequence[str], multiples: Mapping[str, int], seed: int = 0) -> tuple[Any, bool]:
        """Shapes to look at as rows of integers, dims in ``order``, and whether these are all: else
        log-uniform ones, and beside them runs of neighbours, so that remainders of every kind are among
        them."""
        spans = [(self.dims[d], multiples.get(d, 1)) for d in order]
        if self.size <= EXHAUSTIVE:
            values = [range(-(-s.least // by) * by, s.most + 1, by) for s, by in spans]
            return np.array(list(itertools.product(*values)), dtype=np.int64).reshape(-1, len(order)), True
        rng = np.random.default_rng(seed)
        columns = []
        for s, by in spans:
            # a size may be 0, which has no logarithm: it is clipped into the span below
            low, high = np.log(max(1, s.least)), np.log(max(1, s.most))
            free = np.exp(rng.uniform(low, high, SAMPLES)).astype(np.int64)
            runs = np.exp(rng.uniform(low, high, max(1, SAMPLES // RESIDUES))).astype(np.int64)
            near = (np.sort(runs)[:, None] + np.arange(RESIDUES)).reshape(-1)
            column = np.concatenate(
                [free, near if len(spans) == 1 else rng.permutation(near), [s.least, s.opt, s.most]]
            )
            columns.append(np.clip(column // by * by, -(-s.least // by) * by, s.most // by * by))
        return np.unique(np.stack(columns, axis=1), axis=0), False


def profiles_of(given: Any, out_of_range: str = "error") -> tuple[ShapeProfile, ...]:
    """One profile or several, all of the same dims. Raises TensorLangError."""
    listed = tuple(
        ShapeProfile.of(p, out_of_range) for p in (given if isinstance(given, list | tuple) else [given])
    )
    if not listed:
        raise tl.TensorLangError("tune_dynamic: no profile", try_='profile={"m": (1, 128, 4096)}')
    names = sorted(listed[0].dims)
    for p in listed:
        if sorted(p.dims) != names:
            raise tl.TensorLangError(
                "tune_dynamic: the profiles are of other dims",
                because=f"{', '.join(names)} and {', '.join(sorted(p.dims))}",
            )
    return listed


def hull(profiles: Sequence[ShapeProfile]) -> dict[str, tuple[int, int]]:
    """The smallest box that holds all profiles."""
    return {
        d: (min(p.dims[d].least for p in profiles), max(p.dims[d].most for p in profiles))
        for d in profiles[0].dims
    }


def _name(key: Any) -> str:
    name = getattr(key, "name", key)
    if not isinstance(name, str):
        raise tl.TensorLangError(
            f"ShapeProfile: {key!r} is not a dim",
            because="sizes are by the name of their dim",
            try_='{"m": (1, 128, 4096)}',
        )
    return name


def _span(name: str, given: Any) -> Span:
    values = given if isinstance(given, list | tuple) else (given,)
    whole = list(_whole(name, values))
    if len(whole) == 1:
        whole = whole * 3
    elif len(whole) == 2:
        least, most = whole
        # the middle by ratio, not by difference: from 1 to 4096 that is 64
        whole = [least, round((max(1, least) * max(1, most)) ** 0.5), most]
    if len(whole) != 3 or not 0 <= whole[0] <= whole[1] <= whole[2]:
        raise tl.TensorLangError(
            f"ShapeProfile: {name} is {given!r}",
            because="its sizes are (min, opt, max) with 0 <= min <= opt <= max",
            try_=f'{{"{name}": (1, 128, 4096)}}',
        )
    return Span(*whole)


def _whole(name: str, values: Sequence[Any]) -> Iterator[int]:
    for v in values:
        if isinstance(v, bool) or not isinstance(v, int | np.integer):
            raise tl.TensorLangError(
                f"ShapeProfile: {name} has the size {v!r}",
                because="sizes are whole numbers",
                try_=f'{{"{name}": (1, 128, 4096)}}',
            )
        yield int(v)
