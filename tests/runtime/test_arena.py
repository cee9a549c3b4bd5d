"""Offsets in an arena: nothing that lives at once overlaps, and little is wasted."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tensorlang.runtime.arena import LINE, Life, bound, place, rounded

LIVES = st.lists(
    st.builds(
        lambda n, a, b: Life(n, min(a, b), max(a, b)),
        st.integers(0, 5000),
        st.integers(0, 20),
        st.integers(0, 20),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=200)
@given(LIVES)
def test_what_lives_at_once_lies_apart(lives):
    offsets, total = place(lives)
    spans = [(o, o + rounded(v.size), v) for o, v in zip(offsets, lives, strict=True)]
    for i, (a, b, v) in enumerate(spans):
        assert a % LINE == 0 and b <= total
        for c, d, w in spans[:i]:
            assert b <= c or d <= a or v.last < w.first or w.last < v.first
    assert total >= bound(lives)


def test_a_chain_takes_two_places():
    lives = [Life(6400, i, i + 1) for i in range(10)]
    assert place(lives)[1] == bound(lives) == 12800


def test_what_lies_within_another_moves_with_it():
    lives = [Life(640, 0, 3), Life(256, 0, 3), Life(384, 0, 3), Life(6400, 1, 2)]
    offsets, total = place(lives, {1: (0, 0), 2: (0, 256)})
    assert offsets[1:3] == [offsets[0], offsets[0] + 256]
    assert total == bound([lives[0], lives[3]]) == 7040
