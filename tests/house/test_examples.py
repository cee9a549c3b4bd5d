"""Examples in docstrings of public names run and show what they say."""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import autosched
import tensorlang as tl
from tensorlang import ops, te, topi
from tensorlang.schedule.primitives import TABLE

NAMES = {"tl": tl, "te": te, "ops": ops, "np": np, "autosched": autosched}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def public() -> Iterator[tuple[str, Any]]:
    """Every public name, once, the methods and properties of public classes, and the primitives."""
    seen: set[int] = set()
    for label, module in (("te", te), ("ops", ops), ("topi", topi), ("tl", tl), ("autosched", autosched)):
        for name in module.__all__:
            thing = getattr(module, name)
            if (inspect.isclass(thing) or inspect.isroutine(thing)) and id(thing) not in seen:
                seen.add(id(thing))
                yield f"{label}.{name}", thing
                if inspect.isclass(thing):
                    for method in vars(thing):
                        if not method.startswith("_"):
                            yield f"{label}.{name}.{method}", inspect.getattr_static(thing, method)
    for p in TABLE:
        yield f"s[T].{p.name}", p.call


EXAMPLES = {n: doctest.DocTestParser().get_examples(inspect.getdoc(x) or "") for n, x in public()}
EXAMPLES = {n: found for n, found in EXAMPLES.items() if found}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name):
    test = doctest.DocTest(EXAMPLES[name], dict(NAMES), name, None, 0, None)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        failed, _ = doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.write)
    assert not failed, said.getvalue()


def test_hundreds_of_names_have_an_example():
    assert len(EXAMPLES) > 190
    methods = [n for n in EXAMPLES if n.count(".") == 2]
    assert (
        len(methods) > 50 and "tl.Module.benchmark" in methods and "autosched.SearchTask.schedule" in methods
    )
    assert {f"s[T].{n}" for n in ("split", "reorder", "vectorize", "compute_at", "cache_write")} <= set(
        EXAMPLES
    )
