"""Saved kernels and dispatchers whose values were changed under a right hash: what runs, talks and is saved
again, or one error of ours."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import te

VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    3,
    10**9,
    2**31,
    2**63,
    10**30,
    1.5,
    float("inf"),
    float("nan"),
    "",
    "m",
    "x",
    "a b",
    "\x00",
    "float32",
    "int8x16",
    "float32x100000",
    '"}\n@evil = global i32 0',
    [],
    [[]],
    {},
    [1, 2],
    ["//", "m", 0],
    ["+", "m", "m"],
    {"a": 1},
]


def dense(m: Any, n: int, k: int) -> list[te.Tensor]:
    x, W = te.placeholder((m, k), name="x"), te.placeholder((k, n), name="W")
    r = te.reduce_axis((0, k), name="r")
    return [x, W, te.compute((m, n), lambda i, j: te.sum(x[i, r] * W[r, j], axis=r), name="y")]


def softmax(m: Any, n: Any) -> list[te.Tensor]:
    x = te.placeholder((m, n), name="x")
    return [x, tl.ops.softmax(x)]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The bytes of a good file of each kind."""
    place = tmp_path_factory.mktemp("good")
    w = np.ones((8, 20), "float32")
    task = autosched.SearchTask(dense, (te.dim("m", 0, 8), 20, 8))
    autosched.tune_dynamic(task, {"m": (1, 2, 8)}, constants={"W": w}, seconds=0, cache=False).save(
        place / "rows.dyn"
    )
    task = autosched.SearchTask(softmax, (te.dim("m", 1, 8), te.dim("n", 1, 8)))
    autosched.tune_dynamic(task, {"m": (1, 2, 8), "n": (1, 2, 8)}, seconds=0, cache=False).save(
        place / "measured.dyn"
    )
    tensors = dense(te.var("m"), 20, 8)
    tl.compile([tensors[0], tensors[2]], constants={tensors[1]: w}).save(place / "kernel.tl", sources=True)
    return {p.name: p.read_bytes() for p in place.iterdir()}


def paths(x: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every value of a document stands."""
    if path:
        yield path
    for key in x if isinstance(x, dict) else range(len(x)) if isinstance(x, list) else ():
        yield from paths(x[key], (*path, key))


def changed(rng: random.Random, data: bytes) -> bytes:
    """The file with one to three values of its header changed, and a right hash."""
    first, _, body = data.split(b"\n", 2)
    line, _, content = body.partition(b"\n")
    header = copy.deepcopy(json.loads(line))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        *way, last = rng.choice(list(paths(header)))
        place = header
        for key in way:
            place = place[key]
        old, kind = place[last], rng.randrange(6)
        if kind == 0:
            del place[last]
        elif kind == 1 and isinstance(place, list):
            place.insert(last, copy.deepcopy(old))
        elif kind == 2 and type(old) is int:
            place[last] = old + rng.choice([-1, 1, 7, 2**32, 2**62])
        elif kind == 2 and isinstance(old, list):
            rng.shuffle(old)
        else:
            place[last] = copy.deepcopy(rng.choice(VALUES))
    body = json.dumps(header).encode() + b"\n" + content
    return b"\n".join([first, hashlib.sha256(body).hexdigest().encode(), body])


def used(path: Path, again: Path) -> None:
    """Everything one may do with a file, short of running its code."""
    f: Any
    if path.suffix == ".dyn":
        f = autosched.DynamicKernel.load(path)
        for n in (1, 7):
            str(f.explain((n,) * len(f.dims)))
        assert str(f.account) and str(f.stats())
    else:
        f = tl.load(path)
        assert isinstance(f.get_source("ir"), str) and str(f.signature)  # a text may be replaced by none
    f.save(again, **({} if path.suffix == ".dyn" else {"sources": True}))
    with pytest.raises(
        tl.CallError
    ):  # no kernel takes that; a call without arguments would run the code, were all of them outputs now
        f(np.zeros(3, "complex64"))


def loaded_or_refused(seeds: dict[str, bytes], rounds: int, tmp_path: Path) -> None:
    rng, taken = random.Random(11), 0
    for _ in range(rounds):
        name = rng.choice(sorted(seeds))
        (tmp_path / name).write_bytes(changed(rng, seeds[name]))
        try:
            used(tmp_path / name, tmp_path / "again")
            taken += 1
        except tl.TensorLangError as e:
            assert str(e)
    assert 0 < taken < rounds / 2


def test_what_was_not_changed_is_taken(seeds: dict[str, bytes], tmp_path: Path) -> None:
    for name, data in seeds.items():
        (tmp_path / name).write_bytes(data)
        used(tmp_path / name, tmp_path / f"again-{name}")
        used(tmp_path / f"again-{name}", tmp_path / "again")


def test_values_under_a_right_hash_are_refused_or_harmless(seeds: dict[str, bytes], tmp_path: Path) -> None:
    loaded_or_refused(seeds, 300, tmp_path)


@pytest.mark.fuzz
@pytest.mark.skipif("TENSORLANG_FUZZ_ROUNDS" not in os.environ, reason="make fuzz")
def test_many_values_under_a_right_hash(seeds: dict[str, bytes], tmp_path: Path) -> None:
    loaded_or_refused(seeds, 10_000, tmp_path)


def test_a_header_of_endless_lists_is_refused(seeds: dict[str, bytes], tmp_path: Path) -> None:
    for name, data in seeds.items():
        first, _, body = data.split(b"\n", 2)
        body = b"[" * 100_000 + body
        (tmp_path / name).write_bytes(b"\n".join([first, hashlib.sha256(body).hexdigest().encode(), body]))
        with pytest.raises(tl.TensorLangError, match="makes no sense"):
            used(tmp_path / name, tmp_path / "again")
