"""What real models are called with: three sizes for each, batches of one and three. Knows numpy only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import light

Inputs = dict[str, Any]


def pictures(*sizes: tuple[int, int, int]) -> Callable[[], Iterator[Inputs]]:
    """Dark bars on light ground with some noise, (batch, height, width): what a reader of text might see."""

    def cases() -> Iterator[Inputs]:
        rng = np.random.default_rng(0)
        for b, h, w in sizes:
            y, x = np.mgrid[0:h, 0:w]
            ink = ((x // 5 + y // 9) % 3 == 0) & (y % 24 > 6) & (x % 31 < 24)
            light = np.where(ink, -0.8, 0.7) + 0.05 * rng.standard_normal((b, 3, h, w))
            yield {"x": light.astype("float32")}

    return cases


def tokens() -> Iterator[Inputs]:
    """Sentences of several lengths, some of a batch shorter than others."""
    rng = np.random.default_rng(0)
    for b, n in ((1, 128), (3, 17), (3, 50)):
        mask = np.ones((b, n), "int64")
        if b > 1:
            mask[1, n // 2 :] = 0
        ids = rng.integers(1, 30000, (b, n))
        yield {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros((b, n), "int64")}


def files() -> Iterator[Inputs]:
    """Bytes; 256 stands for none."""
    rng = np.random.default_rng(0)
    for b in (1, 3, 7):
        yield {"bytes": rng.integers(0, 257, (b, 2048)).astype("int32")}


def sound(*rates: int) -> Callable[[], Iterator[Inputs]]:
    """Chunks of noise at these rates, with a state of an earlier one."""

    def cases() -> Iterator[Inputs]:
        rng = np.random.default_rng(0)
        for rate in rates:
            for b in (1, 3):
                chunk = 0.1 * rng.standard_normal((b, rate * 576 // 16000))
                state = 0.1 * rng.standard_normal((2, b, 128))
                yield {
                    "input": chunk.astype("float32"),
                    "state": state.astype("float32"),
                    "sr": np.array(rate),
                }

    return cases


def noise() -> Iterator[Inputs]:
    """One picture of noise, whatever the input is called: the files have one size."""
    yield {"": np.random.default_rng(0).standard_normal((1, 3, light.SIZE, light.SIZE)).astype("float32")}


CASES: dict[str, Callable[[], Iterator[Inputs]]] = {
    "silero": sound(16000, 8000),
    "silero-16k": sound(16000),
    "silero-half": sound(16000, 8000),
    "magika": files,
    "minilm": tokens,
    "ocr-classifier": pictures((1, 48, 192), (3, 48, 192)),
    "ocr-recogniser": pictures((1, 48, 320), (3, 48, 160), (1, 48, 77)),
    "ocr-detector": pictures((1, 320, 320), (3, 64, 96), (1, 160, 224)),
    **dict.fromkeys(light.MODELS, noise),
}


def inputs_of(model: str, graph: Any) -> list[Inputs]:
    """What a model is called with: of each case what is an input of its graph; files of a family differ."""
    names = {v.name for v in graph.inputs}
    only = min(names)  # where a case names none
    return [{k or only: a for k, a in case.items() if (k or only) in names} for case in CASES[model]()]
