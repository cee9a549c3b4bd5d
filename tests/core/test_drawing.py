"""Drawings are read in light and in dark, on the hottest box too."""

from __future__ import annotations

import re

import pytest

from tensorlang.core.drawing import FULL, STYLE, Box, Flow


def colours(part: str) -> dict[str, tuple[float, ...]]:
    """The colours that a part of the style sets, each in linear light."""
    found = {}
    for name, digits in re.findall(r"--(\w+):#([0-9a-f]{3,6})", part):
        full = digits if len(digits) == 6 else "".join(2 * d for d in digits)
        found[name] = tuple(int(full[i : i + 2], 16) / 255 for i in (0, 2, 4))
    return found


def luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("part", STYLE.split("@media"), ids=["light", "dark"])
def test_text_is_read_on_every_ground(part):
    """As the accessibility guidelines ask: 4.5 to 1."""
    c = colours(part)
    hottest = tuple(FULL * h + (1 - FULL) * b for h, b in zip(c["hot"], c["box"], strict=True))
    assert contrast(c["ink"], hottest) >= 4.5
    for text in ("ink", "soft"):
        for ground in ("bg", "box"):
            assert contrast(c[text], c[ground]) >= 4.5, (text, ground)


def test_soft_text_is_not_put_on_a_hot_box():
    flow = Flow()
    flow.add(Box("conv", ("float32[1, 8]",), heat=1.0), {}, [1])
    flow.add(Box("relu", ("float32[1, 8]",)), {1: "x"}, [2])
    hot, cold = flow.svg(False).split("</g>")[-3:-1]
    assert 'class="soft"' not in hot
    assert 'class="soft"' in cold
