"""Mistakes with open sizes: profiles that make no sense or fit no declaration, kernels and trees that fit no
dispatcher."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensorlang as tl
from autosched import DynamicKernel, SearchTask, ShapeProfile, specialise, tune_dynamic
from tensorlang import te

from .scene import Scene


def _twice(m: Any) -> list[te.Tensor]:
    a = te.placeholder((m, 4), name="A")
    return [a, te.compute((m, 4), lambda i, j: a[i, j] * 2.0, name="B")]


def _added(m: Any) -> list[te.Tensor]:
    a, b = (te.placeholder((m, 4), name=n) for n in "AB")
    return [a, b, te.compute((m, 4), lambda i, j: a[i, j] + b[i, j], name="C")]


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
    return tune_dynamic(
        SearchTask(_twice, (te.dim("m", 0, 64),)),
        {"m": (1, 8)},
        constants={"W": np.ones(4, np.float32)},
        cache=False,
    )


def publish_a_kernel_of_another_shape(t: Scene) -> Any:
    kernel = tl.compile(_twice(te.dim("m", 0, 64)), name="twice")
    dispatcher = tl.Dispatcher(kernel, [kernel])
    return dispatcher.publish((7,), tl.compile(_twice(8), name="twice_of_8"))


def a_tree_that_names_no_slot(t: Scene) -> Any:
    kernel = tl.compile(_twice(te.dim("m", 0, 64)), name="twice")
    return tl.Dispatcher(kernel, [kernel], ("m", 8, 0, 1))


def profile_that_is_no_dict(t: Scene) -> Any:
    return tune_dynamic(SearchTask(_twice, (te.dim("m", 0, 64),)), 64, cache=False)


def profile_without_a_multiple(t: Scene) -> Any:
    return tune_dynamic(
        SearchTask(_twice, (te.dim("m", 0, 64, multiple_of=16),)), {"m": (1, 2, 8)}, cache=False
    )


def weights_that_are_text(t: Scene) -> Any:
    return ShapeProfile({"m": (1, 8)}, weights="m")  # type: ignore[arg-type]


def task_that_is_a_function(t: Scene) -> Any:
    return tune_dynamic(_twice, {"m": (1, 8)}, cache=False)  # type: ignore[arg-type]


def constants_in_a_list(t: Scene) -> Any:
    return tune_dynamic(
        SearchTask(_twice, (te.dim("m", 0, 64),)), {"m": (1, 8)}, constants=[1.0], cache=False
    )  # type: ignore[arg-type]


def measuring_for_less_than_nothing(t: Scene) -> Any:
    return tune_dynamic(SearchTask(_twice, (te.dim("m", 0, 64),)), {"m": (1, 8)}, seconds=-1, cache=False)


def save_where_nothing_is(t: Scene) -> Any:
    return _made().save("/nowhere/twice.dyn")


def load_what_is_not_there(t: Scene) -> Any:
    return DynamicKernel.load("/nowhere/twice.dyn")


def specialise_by_another_task(t: Scene) -> Any:
    return specialise(_made(), SearchTask(_added, (te.dim("m", 0, 64),), name="other"))


def specialise_what_is_no_dynamic_kernel(t: Scene) -> Any:
    return specialise(_made().dispatcher, SearchTask(_twice, (te.dim("m", 0, 64),)))  # type: ignore[arg-type]


def specialise_to_an_unknown_tier(t: Scene) -> Any:
    return specialise(_made(), SearchTask(_twice, (te.dim("m", 0, 64),)), highest=4)


def _made() -> DynamicKernel:
    return tune_dynamic(SearchTask(_twice, (te.dim("m", 0, 64),)), {"m": (1, 8)}, seconds=0.0, cache=False)
