"""A function over tensors takes arrays: tuned once for each shape, remembered on disk, and right whatever
happens."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched
from autosched.autotune import AutotuneWarning, cache_directory
from autosched.records import load
from tensorlang import te
from tensorlang.errors import TensorLangError

from .workloads import Pretend


def product(a, b, scale=1.0):  # type: ignore[no-untyped-def]
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j] * scale, axis=k), name="out"
    )


def _arrays(m: int, n: int, k: int, dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(m)
    return rng.integers(-4, 5, (m, k)).astype(dtype), rng.integers(-4, 5, (k, n)).astype(dtype)


def test_tunes_once_for_each_shape_and_dtype(tmp_path: Path) -> None:
    m = Pretend()
    f = autosched.autotune(trials=6, model="random", cache=tmp_path, measurer=m)(product)
    a, b = _arrays(12, 20, 8)
    assert (f(a, b) == a @ b).all() and len(set(m.traces)) == 6
    before = len(m.traces)
    assert (f(a + 1, b) == (a + 1) @ b).all() and len(m.traces) == before
    assert f.kernel(a, b) is f.kernel(a * 2, b)
    assert (f(a, b, 2.0) == a @ b * 2).all() and len(
        m.traces
    ) > before  # another number is another computation
    before = len(m.traces)
    c, d = _arrays(12, 20, 8, np.float64)
    assert f(c, d).dtype == np.float64 and (f(c, d) == c @ d).all() and len(m.traces) > before
    assert f.__name__ == "product" and f.task(a, b).name == "product(12×8, 8×20)"
    assert (f(a[:, ::-1], b) == a[:, ::-1] @ b).all()  # any strides


def test_the_cache_outlives_the_process(tmp_path: Path) -> None:
    a, b = _arrays(12, 20, 8)
    m, again = Pretend(), Pretend()
    autosched.autotune(product, trials=4, model="random", cache=tmp_path, measurer=m)(a, b)
    f = autosched.autotune(product, trials=4, model="random", cache=tmp_path, measurer=again)
    assert (f(a, b) == a @ b).all() and m.traces and not again.traces
    (file,) = tmp_path.glob("*.jsonl")
    assert len(load(file)[0]) >= 4
    f.cache_clear()
    assert (f(a, b) == a @ b).all() and not again.traces


def test_a_tune_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    class Stopped(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            for n, o in enumerate(super().run(jobs)):
                if n == 3:
                    raise KeyboardInterrupt
                yield o

    a, b = _arrays(12, 20, 8)
    first, second, third = Stopped(), Pretend(), Pretend()
    f = autosched.autotune(product, trials=6, model="random", cache=tmp_path, measurer=first)
    with pytest.raises(KeyboardInterrupt):
        f(a, b)
    (file,) = tmp_path.glob("*.jsonl")
    assert len(load(file)[0]) == 3
    f = autosched.autotune(product, trials=6, model="random", cache=tmp_path, measurer=second)
    assert (f(a, b) == a @ b).all()
    steps = [r.steps for r in load(file)[0]]
    assert len(set(steps)) == 6 and not set(steps[:3]) & set(second.traces[:3])
    g = autosched.autotune(product, trials=9, model="random", cache=tmp_path, measurer=third)
    assert (g(a, b) == a @ b).all() and len(
        {r.steps for r in load(file)[0]}
    ) == 9  # more trials: only the rest is measured


def test_a_space_that_is_exhausted_is_not_searched_again(tmp_path: Path) -> None:
    def double(x):  # type: ignore[no-untyped-def]
        return te.compute(x.shape, lambda i: x[i] * 2, name="y")

    x = np.arange(40, dtype=np.float32)
    m, again = Pretend(), Pretend()
    assert (
        autosched.autotune(double, trials=500, model="random", cache=tmp_path, measurer=m)(x) == x * 2
    ).all() and len(set(m.traces)) < 500
    autosched.autotune(double, trials=500, model="random", cache=tmp_path, measurer=again)(x)
    assert not again.traces


def test_two_threads_tune_once(tmp_path: Path) -> None:
    a, b = _arrays(12, 20, 8)
    m = Pretend()
    f = autosched.autotune(product, trials=4, model="random", cache=tmp_path, measurer=m)
    threads = [threading.Thread(target=f, args=(a, b)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(m.traces)) == 4


def test_falls_back_when_nothing_works(tmp_path: Path) -> None:
    class Nothing(Pretend):
        def run(self, jobs):  # type: ignore[no-untyped-def]
            for o in super().run(jobs):
                yield type(o)(o.id, "crash", "the worker died of SIGSEGV")

    a, b = _arrays(6, 7, 5)
    f = autosched.autotune(product, trials=4, model="random", cache=tmp_path, measurer=Nothing())
    with pytest.warns(AutotuneWarning, match="4 × crash"):
        assert (f(a, b) == a @ b).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (f(a, b) == a @ b).all()  # told once
    (tmp_path / "file").write_text("")
    g = autosched.autotune(
        product, trials=4, model="random", cache=tmp_path / "file" / "x", measurer=Pretend()
    )
    with pytest.warns(AutotuneWarning, match="untuned"):
        assert (g(a, b) == a @ b).all()


def test_several_outputs_and_bad_arguments(tmp_path: Path) -> None:
    @autosched.autotune(trials=2, model="random", cache=tmp_path, measurer=Pretend())
    def both(x):  # type: ignore[no-untyped-def]
        y = te.compute(x.shape, lambda i: x[i] * 2, name="y")
        return y, te.compute(x.shape, lambda i: y[i] + 1, name="z")

    x = np.arange(40, dtype=np.float32)
    y, z = both(x)
    assert (y == x * 2).all() and (z == x * 2 + 1).all()
    with pytest.raises(TensorLangError, match="argument x is of type list"):
        both([1, 2])
    with pytest.raises(TensorLangError, match="not a function"):
        autosched.autotune(3)
    with pytest.raises(TensorLangError, match="one of its inputs"):
        autosched.autotune(lambda x: x, cache=tmp_path)(x)
    assert cache_directory().name == "autosched"


def test_numbers_and_arrays_without_elements(tmp_path: Path) -> None:
    """A number stays an array of no axis, and a batch of nothing is no error."""
    m = Pretend()
    double = autosched.autotune(
        lambda x: te.compute(x.shape, lambda *i: x(*i) * 2, name="y"), trials=2, cache=tmp_path, measurer=m
    )
    y = double(np.array(3.0))
    assert y.shape == () and y == 6 and len(m.traces) == 1  # its default schedule
    f = autosched.autotune(product, trials=2, cache=tmp_path, measurer=m)
    for sizes in ((0, 5, 3), (4, 0, 3), (4, 5, 0)):
        a, b = _arrays(*sizes)
        out = f(a, b)
        assert out.shape == (a @ b).shape and (out == a @ b).all()
    assert len(m.traces) == 1
    with pytest.raises(TensorLangError, match="missing a required argument"):
        f(a)


def test_functions_without_a_name_of_their_own(tmp_path: Path) -> None:
    class Scaled:
        def __call__(self, x: te.Tensor) -> te.Tensor:
            return te.compute(x.shape, lambda i: x[i] * 2, name="y")

    x = np.arange(40, dtype=np.float32)
    for func in (lambda x: Scaled()(x), Scaled(), functools.partial(Scaled.__call__, Scaled())):
        f = autosched.autotune(func, trials=2, model="random", cache=tmp_path, measurer=Pretend())
        assert (f(x) == x * 2).all() and f.word in repr(f)


def test_a_script_without_a_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import autosched, numpy as np\nfrom tensorlang import te\n"
        f"@autosched.autotune(trials=3, model='random', cache={str(tmp_path / 'cache')!r})\n"
        "def double(x):\n    return te.compute(x.shape, lambda i: x[i] * 2, name='y')\n"
        "print(double(np.arange(100, dtype=np.float32)).sum())\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONPATH": "."},
    )
    assert done.stdout == "9900.0\n", done.stderr
