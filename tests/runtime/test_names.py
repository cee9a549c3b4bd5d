"""Arguments by name, ``out=`` and ``out_like=``: on the native and the portable path; and sizes that the
native entry computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorlang.errors import CallError
from tensorlang.interface.signature import Dim, Param, Signature
from tensorlang.runtime import Module
from tensorlang.runtime.arguments import Binder

from . import kernels
from .test_call import arrays, path

pytestmark = pytest.mark.usefixtures("path")


def names(f: Module) -> list[str]:
    return [p.name for p in f.signature.params]


def test_arguments_by_name() -> None:
    f = kernels.add()
    a, b, c = arrays(5)
    first, second, output = names(f)
    np.testing.assert_array_equal(f(**{second: b, first: a}), a + b)
    np.testing.assert_array_equal(f(b, **{first: a}), a + b)
    assert f(a, b, **{output: c}) is c and (c == a + b).all()
    g = kernels.scale()
    np.testing.assert_array_equal(g(a, **{names(g)[1]: 0.5, names(g)[2]: 3}), a / 2 + 3)


def test_out_is_written_and_returned() -> None:
    f = kernels.add()
    a, b, c = arrays(5)
    assert f(a, b, out=c) is c and (c == a + b).all()
    c[:] = 0
    assert f(a, b, out=(c,)) is c and (c == a + b).all()
    np.testing.assert_array_equal(f(a, b, out=None), a + b)


def test_names_are_put_in_order_for_the_native_entry(monkeypatch: pytest.MonkeyPatch, path: str) -> None:  # noqa: F811
    """Ten times as fast as the rules in Python, which words what is wrong once the entry has refused it."""
    f = kernels.add()
    a, b, c = arrays(5)
    first, second, _ = names(f)
    bound: list[int] = []
    bind = Binder.bind
    monkeypatch.setattr(Binder, "bind", lambda self, *args: bound.append(1) or bind(self, *args))
    for call in (
        lambda: f(**{second: b, first: a}),
        lambda: f(a, **{second: b}),
        lambda: f(**{second: b, first: a}, out=c),
    ):
        np.testing.assert_array_equal(call(), a + b)
        assert not bound or path == "0"
    with pytest.raises(CallError, match=f"argument 2, {second}, has dtype"):
        f(**{first: a, second: b.astype("f8")}, out=c)
    assert bound


class Library:
    """The namespace of arrays of another library."""

    @staticmethod
    def from_dlpack(x: Any) -> Theirs:
        return Theirs(np.from_dlpack(x))


class Theirs:
    def __init__(self, array: Any) -> None:
        self.array = array

    def __array_namespace__(self) -> type[Library]:
        return Library

    def __dlpack__(self, **kw: Any) -> Any:
        return self.array.__dlpack__(**kw)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def test_out_like_gives_arrays_of_that_library() -> None:
    f = kernels.add()
    a, b, c = arrays(5)
    mine = Theirs(a)
    made = f(mine, b, out_like=mine)
    assert type(made) is Theirs and (made.array == a + b).all()
    assert type(f(mine, b)) is np.ndarray and type(f(a, b, out_like=a)) is np.ndarray
    assert f(a, b, c, out_like=mine) is None and (c == a + b).all()


def test_mistakes_by_name_touch_nothing() -> None:
    f = kernels.add()
    a, b, c = arrays(5)
    first, second, _ = names(f)
    cases: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("no argument zz", (a, b), {"zz": c}),
        (f"argument 2, {second}, is missing", (), {first: a}),
        (f"{first} is given twice", (a, c), {first: a}),
        (f"{first} is given twice", (a, c), {first: a, "out": b}),
        (f"{first} is given twice", (c,), {first: a, second: b}),
        (f"{first} is given twice", (a, b, c), {first: a}),
        ("is given twice", (a, b, c), {"out": c}),
        ("are too many", (a, b, c, c), {"out_like": a}),
        (r"out= gives 2 of 1 outputs", (a, b), {"out": (c, c)}),
        (f"argument 1, {first}, has dtype", (), {first: a.astype("f8"), second: b, "out": c}),
        ("argument 3, .*, is read-only", (a, b), {"out": np.broadcast_to(np.float32(1), 5)}),
        ("cannot be given as int", (a, b), {"out_like": 3}),
    ]
    for why, args, named in cases:
        with pytest.raises(CallError, match=why):
            f(*args, **named)
    assert (c == -1).all()


def computed() -> Module:
    """A kernel that is never entered: its status stands for having been."""
    params = (
        Param("x", "buffer", "float32", ("m", "n")),
        Param("y", "buffer", "float32", (("//", ("-", "m", 3), 2), ("min", ("*", "m", "n"), ("%", "n", 4)))),
    )
    return Module(kernels.object_code(kernels.STATUS), Signature("status", params, (Dim("m"), Dim("n"))))


def test_computed_sizes(monkeypatch: pytest.MonkeyPatch, path: str) -> None:  # noqa: F811
    """What the native entry takes is what the portable path takes; it takes what is right but where Python's
    division of negative numbers is another than C's."""
    f = computed()
    checked = []
    bind = Binder.bind
    monkeypatch.setattr(Binder, "bind", lambda self, *args: checked.append(1) or bind(self, *args))
    for m in (0, 1, 2, 3, 6, 9):  # the status is m; 4 and 5 mean more
        for n in range(6):
            sizes = (m - 3) // 2, min(m * n, n % 4)
            for wrong in (0, 1):
                checked.clear()
                y = np.zeros((max(0, sizes[0]), sizes[1] + wrong), np.float32)
                if wrong or sizes[0] < 0:
                    with pytest.raises(CallError, match="argument 2, y, has shape"):
                        f(np.zeros((m, n), np.float32), y)
                else:
                    with pytest.raises((CallError, MemoryError), match="status"):
                        f(np.zeros((m, n), np.float32), y)
                    assert not checked or path == "0"
