"""Loops of one iteration are no loops in a kernel: what is computed of their variables is known outside."""

from __future__ import annotations

import numpy as np

import tensorlang as tl
from tensorlang import te


def test_copies_of_a_loop_of_one_iteration_have_values_of_their_own() -> None:
    """The last column of a padded window read its image by the address of the first one, in whose copy of
    the loop the only iteration is another (found by drawn schedules: family windows, seed 143)."""
    a, b = te.placeholder((2, 4, 4), name="a"), te.placeholder((8, 2, 2, 2), name="b")
    c, y, x = (te.reduce_axis((0, 2), n) for n in "cyx")

    def term(o: te.IterVar, i: te.IterVar, j: te.IterVar) -> te.Expr:
        inside = te.all(i + y >= 1, i + y < 5, j + x >= 1, j + x < 5)
        return te.if_then_else(inside, a[c, i + y - 1, j + x - 1], 0.0) * b[o, c, y, x]

    out = te.compute((8, 5, 5), lambda o, i, j: te.sum(term(o, i, j), axis=[c, y, x]), name="out")
    s = te.create_schedule(out.op)
    near = s[s.cache_read(a, "local", [out])]
    near.compute_at(s[out], s[out].loop("c"))
    rng = np.random.default_rng(0)
    image, weight = rng.integers(-4, 5, (2, 4, 4)), rng.integers(-4, 5, (8, 2, 2, 2))
    padded, want = np.pad(image, ((0, 0), (1, 1), (1, 1))), np.zeros((8, 5, 5))
    for at in np.ndindex(2, 2, 2):
        want += weight[:, *at, None, None] * padded[at[0], at[1] : at[1] + 5, at[2] : at[2] + 5]
    got = tl.build(s, [a, b, out])(image.astype("float32"), weight.astype("float32"))
    assert np.array_equal(got, want)
