"""One callable, many kernels: the tree, exact shapes, rows, replacement while calls run, files."""

from __future__ import annotations

import itertools
import threading
import weakref

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.native import dispatch


def marked(mark: float, m=None, name: str = "marked") -> tl.Module:
    """A kernel of ``m`` rows (any number) whose result tells which kernel ran."""
    m = te.dim("m", 0, 4096) if m is None else m
    a = te.placeholder((m, 4), name="A")
    return tl.compile([a, te.compute((m, 4), lambda i, j: a[i, j] + mark, name="B")], name=name)


@pytest.fixture(scope="module")
def marks() -> list[tl.Module]:
    return [marked(float(10**i)) for i in range(4)]


def ran(d, m: int) -> float:
    out = d(np.zeros((m, 4), "float32"))
    assert out.shape == (m, 4) and (out == out[0, 0]).all()
    return float(out[0, 0])


def test_the_tree_picks_the_kernel(marks):
    tree = ("m", 7, ("m", 3, 0, 1), ("m", 100, 2, 3))
    d = tl.Dispatcher(marks[0], marks, tree, {"m": (1, 300)})
    for m in range(1, 301):
        want = 0 if m <= 3 else 1 if m <= 7 else 2 if m <= 100 else 3
        assert d.slot((m,)) == want
        assert ran(d, m) == 10.0**want


@pytest.mark.parametrize("native", ["0", "1"])
def test_native_and_portable_calls_agree(marks, native, monkeypatch):
    monkeypatch.setenv("TENSORLANG_NATIVE_CALLS", native)
    d = tl.Dispatcher(marks[0], marks[:2], ("m", 5, 0, 1))
    assert [ran(d, m) for m in (1, 5, 6)] == [1.0, 1.0, 10.0]
    x, y = np.zeros((6, 4), "float32"), np.empty((6, 4), "float32")
    assert d(x, y) is None and (y == 10).all()


def test_sizes_outside_of_the_range_are_refused(marks):
    d = tl.Dispatcher(marks[0], marks[:1], 0, {"m": (2, 8)})
    for m in (1, 9):
        out = np.full((m, 4), 7, "float32")
        with pytest.raises(tl.CallError, match=f"m = {m}"):
            d(np.zeros((m, 4), "float32"), out)
        assert (out == 7).all()


def rows_kernels(highest: int, seen: str = "m") -> dict[int, tl.Module]:
    """Kernels of h rows that write their own height into the first column and the sum of a row into the
    second."""
    made = {}
    for h in range(1, highest + 1):
        m = te.dim(seen, 0, None, multiple_of=h)
        k = te.dim("k", 0, 64)
        a = te.placeholder((m, k), name="A")
        r = te.reduce_axis((0, k), "r")
        total = te.compute((m,), lambda i, a=a, r=r: te.sum(a[i, r], axis=r), name="total")
        made[h] = tl.compile(
            [
                a,
                te.compute(
                    (m, 2), lambda i, j, h=h, t=total: te.if_then_else(j < 1, float(h), t[i]), name="B"
                ),
            ],
            name=f"rows{h}",
        )
    return made


def test_rows_are_cut_into_balanced_blocks():
    highest = 5
    kernels = rows_kernels(highest)
    d = tl.Dispatcher(kernels[1], [tl.Rows("m", kernels)], 0)
    rng = np.random.default_rng(0)
    for m, k in itertools.product([*range(23), 100], (0, 1, 7)):
        a = rng.integers(-9, 9, (m, k)).astype("float32")
        out = d(a)
        assert (out[:, 1] == a.sum(axis=1)).all()
        if m:
            blocks = -(-m // highest)
            heights = out[:, 0].astype(int).tolist()
            high = -(-m // blocks)
            assert heights == [high] * (high * (blocks - (blocks * high - m))) + [high - 1] * (
                (high - 1) * (blocks * high - m)
            )


def test_every_height_needs_a_kernel():
    kernels = rows_kernels(3)
    with pytest.raises(tl.TensorLangError, match="each height from 1 to 3"):
        tl.Dispatcher(kernels[1], [tl.Rows("m", {1: kernels[1], 3: kernels[3]})])
    with pytest.raises(tl.TensorLangError, match="does not take all sizes"):
        tl.Dispatcher(kernels[1], [tl.Rows("m", {1: kernels[2], 2: kernels[2]})])


def test_a_route_must_take_what_its_slot_gets(marks):
    five = marked(5.0, 5)
    narrow = marked(6.0, te.dim("m", 1, 100))
    with pytest.raises(tl.TensorLangError, match="other arguments"):
        tl.Dispatcher(marks[0], [five])
    with pytest.raises(tl.TensorLangError, match="does not take all sizes"):
        tl.Dispatcher(marks[0], [narrow])
    with pytest.raises(tl.TensorLangError, match="does not take all sizes"):
        tl.Dispatcher(marks[0], [marks[0], narrow], ("m", 100, 1, 0))  # m = 0
    d = tl.Dispatcher(marks[0], [marks[0], narrow], ("m", 100, 1, 0), {"m": (1, 4096)})
    assert (ran(d, 100), ran(d, 101)) == (6.0, 1.0)
    a = te.placeholder((te.dim("m"), 4), name="A", dtype="int32")
    other = tl.compile([a, te.compute(a.shape, lambda i, j: a[i, j], name="B")])
    with pytest.raises(tl.TensorLangError, match="other arguments"):
        d.publish((3,), other)


def test_a_route_that_gets_no_size_need_take_none(marks):
    """Neither a route that the tree does not pick at all, nor one it picks only where no size is."""
    narrow = marked(6.0, te.dim("m", 7, 100))
    for tree in (0, ("m", 3, ("m", 6, 0, 1), 0)):
        d = tl.Dispatcher(marks[0], [marks[0], narrow], tree)
        assert [ran(d, m) for m in (1, 3, 6, 7, 50)] == [1.0] * 5
        a = te.placeholder((te.dim("m", 0, 4096), 5), name="A")
        with pytest.raises(tl.TensorLangError, match="other arguments"):
            tl.Dispatcher(
                marks[0],
                [marks[0], tl.compile([a, te.compute(a.shape, lambda i, j, a=a: a[i, j], name="B")])],
                tree,
            )


def test_a_route_gets_multiples_of_a_step_only():
    """Between 12 and 16 there is none: the second route gets no size, though 13 to 15 are its own by the
    tree."""
    steps = te.dim("m", 0, 40, multiple_of=4)
    fours, high = marked(1.0, steps), marked(2.0, te.dim("m", 20, 40, multiple_of=4))
    d = tl.Dispatcher(fours, [fours, high], ("m", 12, 0, ("m", 15, 1, 0)))
    assert [ran(d, m) for m in (4, 12, 16, 40)] == [1.0] * 4
    d = tl.Dispatcher(fours, [fours, high], ("m", 17, 0, 1))  # gets 20 to 40
    assert [ran(d, m) for m in (16, 20)] == [1.0, 2.0]


@pytest.mark.parametrize("tree", [2, -1, ("m", 1, 0), ("q", 1, 0, 1), ("m", 1.5, 0, 1), True])
def test_a_tree_that_names_no_slot_is_refused(marks, tree):
    with pytest.raises(tl.TensorLangError):
        tl.Dispatcher(marks[0], marks[:2], tree)


def test_exact_shapes_come_first_and_go(marks):
    d = tl.Dispatcher(marks[0], marks[:1], 0)
    for m in range(1, 60):
        d.publish((m,), marked(100.0 + m, m))
    assert all(ran(d, m) == 100 + m for m in range(1, 60)) and ran(d, 60) == 1
    d.publish((7,), marks[3])
    assert ran(d, 7) == 1000
    for m in range(1, 60, 2):
        assert d.retire((m,))
    assert not d.retire((1,))
    assert all(ran(d, m) == (1 if m % 2 else 100 + m) for m in range(1, 60))
    with pytest.raises(tl.TensorLangError, match="m=5000 is not a size"):
        d.publish((5000,), marks[0])
    with pytest.raises(tl.TensorLangError, match="other arguments"):
        d.publish((9,), marked(1.0, 8))


def two_dims(mark: float, m=None, n=None) -> tl.Module:
    m, n = te.dim("m", 0, 64) if m is None else m, te.dim("n", 0, 64) if n is None else n
    a, s = te.placeholder((m, n), name="A"), te.var("s", "int32")
    return tl.compile(
        [a, s, te.compute((m, n), lambda i, j: a[i, j] + mark * te.cast("float32", s), name="B")]
    )


def test_the_order_of_sizes_matters_and_scalars_are_passed_on():
    d = tl.Dispatcher(two_dims(1.0), [two_dims(1.0)])
    d.publish((8, 16), two_dims(2.0, 8, 16))
    d.publish((4, 16), two_dims(3.0, 4))  # one dim left: its scalars are picked
    zeros = lambda *s: np.zeros(s, "float32")
    assert d(zeros(8, 16), 5)[0, 0] == 10
    assert d(zeros(16, 8), 5)[0, 0] == 5
    assert d(zeros(4, 16), 5)[0, 0] == 15
    assert dispatch.mixed((8, 16)) != dispatch.mixed((16, 8))


def test_the_ring_tells_what_ran(marks):
    d = tl.Dispatcher(marks[0], marks[:2], ("m", 5, 0, 1))
    for m in (3, 9, 3):
        ran(d, m)
    total, rows = d.since(0)
    assert total == d.calls == 3
    assert [int(r[2]) for r in rows] == [3, 9, 3]
    assert [d.route_of(int(r[0])) is marks[i] for r, i in zip(rows, (0, 1, 0))] == [True] * 3
    assert (rows[:, 1] > 0).all()
    assert d.since(2)[1][:, 2].tolist() == [3]
    for _ in range(5000):
        ran(d, 1)
    total, rows = d.since(3)
    assert total == 5003 and 4000 <= len(rows) <= 4096


def test_replaced_code_goes_when_no_call_can_see_it(marks):
    d = tl.Dispatcher(marks[0], marks[:1], 0)
    gone = []
    for i in range(20):
        special = marked(float(i), 3)
        gone.append(weakref.ref(special))
        d.publish((3,), special)
        del special
        assert ran(d, 3) == i
    d.retire((3,))
    assert d.collect() == 0
    assert [g() for g in gone] == [None] * 20
    d.publish_range(0, marks[2])
    assert ran(d, 3) == 100


def test_code_is_swapped_under_the_feet_of_threads(marks):
    d = tl.Dispatcher(marks[0], marks[:2], ("m", 40, 0, 1))
    allowed = {m: {1.0, 10.0} | {1000.0 + m} for m in range(1, 80)}
    wrong: list[tuple[int, float]] = []
    stop = threading.Event()

    def call(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not stop.is_set():
            m = int(rng.integers(1, 80))
            got = ran(d, m)
            if got not in allowed[m]:
                wrong.append((m, got))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    special = {m: marked(1000.0 + m, m) for m in range(1, 80, 9)}
    for _ in range(60):
        for m, module in special.items():
            d.publish((m,), module)
        d.publish_range(0, marks[1])
        for m in special:
            d.retire((m,))
        d.publish_range(0, marks[0])
    stop.set()
    for t in threads:
        t.join()
    assert not wrong
    assert d.collect() == 0


def test_a_file_keeps_kernels_tree_and_note(marks, tmp_path):
    kernels = rows_kernels(3)
    d = tl.Dispatcher(
        kernels[1], [tl.Rows("m", kernels), kernels[1]], ("m", 9, 0, 1), {"m": (0, 50)}, name="both"
    )
    d.save(tmp_path / "d", note={"a": [1]})
    again, note = tl.Dispatcher.load(tmp_path / "d")
    assert note == {"a": [1]} and again.name == "both" and again.tree == d.tree
    a = np.arange(22, dtype="float32").reshape(11, 2)
    for m in (0, 4, 11):
        assert (again(a[:m]) == d(a[:m])).all()
    with pytest.raises(tl.CallError, match="m = 51"):
        again(np.zeros((51, 2), "float32"))


def test_constants_are_stored_once(tmp_path):
    w = np.arange(4096, dtype="float32")

    def kernel(h: int) -> tl.Module:
        m = te.dim("m", 0, None, multiple_of=h)
        a, c = te.placeholder((m, 4096), name="A"), te.placeholder((4096,), name="W")
        return tl.compile(
            [a, c, te.compute((m, 4096), lambda i, j: a[i, j] + c[j], name="B")], constants={c: w}
        )

    kernels = {h: kernel(h) for h in (1, 2, 3)}
    tl.Dispatcher(kernels[1], [tl.Rows("m", kernels)]).save(tmp_path / "d")
    assert (tmp_path / "d").stat().st_size < 2 * w.nbytes + sum(len(k.object_code) for k in kernels.values())
    again, _ = tl.Dispatcher.load(tmp_path / "d")
    assert (again(np.zeros((5, 4096), "float32")) == w).all()


def test_a_torn_file_is_refused_with_a_reason(marks, tmp_path):
    path = tmp_path / "d"
    tl.Dispatcher(marks[0], marks[:2], ("m", 5, 0, 1)).save(path)
    data = path.read_bytes()
    for cut in [*range(0, len(data), 64), len(data) - 1]:
        path.write_bytes(data[:cut])
        with pytest.raises(tl.TensorLangError, match=r"not a saved tensorlang dispatcher|torn|version"):
            tl.Dispatcher.load(path)
    for at in range(60, len(data), max(1, len(data) // 37)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(tl.TensorLangError):
            tl.Dispatcher.load(path)
    path.write_bytes(data.replace(b"dispatcher 1\n", b"dispatcher 2\n", 1))
    with pytest.raises(tl.TensorLangError, match="version 2"):
        tl.Dispatcher.load(path)


def test_kernels_that_call_python_are_refused():
    tl.register_func("tests.dispatch.nothing", lambda a, b: None, override=True)
    a = te.placeholder((te.dim("m"),), name="A")
    b = te.extern(
        a.shape,
        [a],
        lambda ins, outs: te.call_packed("tests.dispatch.nothing", ins[0], outs[0]),
        name="B",
        dtype="float32",
    )
    kernel = tl.build(te.create_schedule(b.op), [a, b])
    with pytest.raises(tl.TensorLangError, match="calls Python"):
        tl.Dispatcher(kernel, [kernel])
