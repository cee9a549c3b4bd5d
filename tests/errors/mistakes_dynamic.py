"""Mistakes with open sizes: profiles that make no sense or fit no declaration, kernels and trees that fit no dispatcher."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from autosched import SearchTask, ShapeProfile, tune_dynamic
from tensorlang import te

from .scene import Scene


def _twice(m: Any) -> list[te.Tensor]:
    a = te.placeholder((m, 4), name="A")
    return [a, te.compute((m, 4), lambda i, j: a[i, j] * 2.0, name="B")]


def profile_bounds_out_of_order(t: Scene) -> Any:
    return ShapeProfile({"m": (8, 4, 16)})


def profile_of_a_fraction(t: Scene) -> Any:
    return ShapeProfile({"m": (1, 2.5, 16)})


def profile_out_of_range_unknown(t: Scene) -> Any:
    return ShapeProfile({"m": (1, 16)}, out_of_range="pad")


def profile_of_another_dim(t: Scene) -> Any:
    return tune_dynamic(SearchTask(_twice, (te.dim("m", 0, 64),)), {"rows": (1, 16)}, cache=False)


def profile_beyond_the_declaration(t: Scene) -> Any:
    return tune_dynamic(SearchTask(_twice, (te.dim("m", 0, 64),)), {"m": (1, 100)}, cache=False)


def no_open_size(t: Scene) -> Any:
    return tune_dynamic(SearchTask(_twice, (8,)), {"m": (1, 8)}, cache=False)


def constant_that_is_no_input(t: Scene) -> Any:
    return tune_dynamic(SearchTask(_twice, (te.dim("m", 0, 64),)), {"m": (1, 8)}, constants={"W": np.ones(4, np.float32)}, cache=False)


def publish_a_kernel_of_another_shape(t: Scene) -> Any:
    kernel = tl.compile(_twice(te.dim("m", 0, 64)), name="twice")
    dispatcher = tl.Dispatcher(kernel, [kernel])
    return dispatcher.publish((7,), tl.compile(_twice(8), name="twice_of_8"))


def a_tree_that_names_no_slot(t: Scene) -> Any:
    kernel = tl.compile(_twice(te.dim("m", 0, 64)), name="twice")
    return tl.Dispatcher(kernel, [kernel], ("m", 8, 0, 1))
