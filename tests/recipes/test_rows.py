"""Row operators: all stages of a row in one loop, and right for every number of rows and columns."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.recipes import default_schedule
from tests.codegen.test_assembly import AVX512

RNG = np.random.default_rng(23)


def normed(a: np.ndarray, axis: int) -> np.ndarray:
    return (a - a.mean(axis, keepdims=True)) / np.sqrt(a.var(axis, keepdims=True) + 1e-5)


def softmax(a: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(a.astype("float64") - a.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def loops(s: tl.Schedule) -> list[str]:
    return [line.split("loop ")[1] for line in s.tree().splitlines() if "loop " in line]


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax, ops.layer_norm, ops.rms_norm])
def test_all_stages_of_a_row_are_in_one_parallel_loop(op):
    s = default_schedule(op(te.placeholder((4096, 1024), name="x")))
    roots = [line for line in s.tree().splitlines() if line.startswith(("├─ loop", "└─ loop"))]
    assert len(roots) == 1 and "parallel" in roots[0]
    assert sum("parallel" in loop for loop in loops(s)) == 1


def test_threads_share_one_long_row_whose_elements_are_dear():
    """Serial before, at 65,536 elements as well: only how many they are was asked."""
    x = te.placeholder((1, 32768), name="x")
    target = f"{AVX512} -num-cores=2"
    assert "parallel" in str(default_schedule(ops.softmax(x), target).tree())
    short = te.placeholder((1, 2048), name="x")
    assert "parallel" not in str(default_schedule(ops.softmax(short), target).tree())


@pytest.mark.parametrize("n", [1024, 1000, 1003])
def test_the_next_row_of_what_leaves_the_second_cache_is_asked_for(n):
    """Also where rows leave a rest: as many vectors ahead as one row has, or begins."""
    x = te.placeholder((4096, n), name="x")
    s = default_schedule(ops.softmax(x), "llvm -mcpu=sapphirerapids -num-cores=1")
    asked = [p for name in ("softmax", "softmax.exp", "softmax.max") for p in s.state.stage(name).prefetches]
    asked = [p for p in asked if p.tensor is x]
    assert len(asked) == 1
    assert asked[0].offset * 64 >= n > (asked[0].offset - 1) * 64
    small = default_schedule(ops.softmax(te.placeholder((4, n), name="x")))
    assert not any(st.state.prefetches for st in small.stages)


def test_the_longest_chain_asks_for_the_next_row_and_for_what_will_be_written():
    """The one with exp has the time, for what others read too and for the row that is written next; not for a
    result that the caches hold, or that is written past them."""
    one_line = "llvm -mcpu=znver4 -num-cores=1"

    def asked(shape):
        s = default_schedule(ops.log_softmax(te.placeholder(shape, name="x")), one_line)
        found = [(st.name, p.tensor.name) for st in s.stages for p in st.state.prefetches]
        return sorted(found)

    l3 = tl.Target(one_line).l3_bytes
    rows = l3 // 3 // 4 // 1000
    exp = ("log_softmax.exp", "x")
    assert asked((rows, 1000)) == [("log_softmax.exp", "log_softmax"), exp]
    assert asked((rows // 3, 1000)) == [exp]
    assert asked((rows * 3, 1000)) == [exp]
    assert asked((rows * 10, 100)) == [exp]  # short rows are here before their lines
    assert asked((rows // 10, 10000)) == [exp]  # and long ones lie in the result from the beginning


def test_the_last_stage_asks_for_what_it_will_write_where_no_other_has_its_elements():
    x, w, b = (te.placeholder(shape, name="x") for shape in ((2800, 1000), (1000,), (1000,)))
    s = default_schedule(ops.layer_norm(x, 1000, w, b), "llvm -mcpu=znver4 -num-cores=1")
    last = s.outputs[0].output(0)
    assert [p.tensor for p in s[last].state.prefetches if p.tensor is last] == [last]


@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
@pytest.mark.parametrize("shape", [(6, 5000), (2, 3, 5001), (te.var("m"), 4099)])
def test_a_long_row_is_kept_in_the_result(op, shape):
    x = te.placeholder(shape, name="x")
    f = tl.compile([x, op(x)])
    assert ".exp: float32" not in f.get_source("ir")
    a = RNG.standard_normal([n if isinstance(n, int) else 5 for n in shape]).astype("float32")
    (right,) = te.reference.evaluate([op(x)], {x: a})
    np.testing.assert_allclose(f(a), right, rtol=3e-6, atol=1e-6)


def test_every_loop_of_a_layer_norm_reads_in_vectors():
    x, w, b = (
        te.placeholder((64, 1024), name="x"),
        te.placeholder((1024,), name="w"),
        te.placeholder((1024,), name="b"),
    )
    asm = tl.compile([x, w, b, ops.layer_norm(x, 1024, w, b)]).get_source("asm")
    assert "vinsertps" not in asm and "vpinsrd" not in asm, "rows are gathered element by element"


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 1), (5, 10), (7, 17), (2, 64), (3, 65), (9, 127), (2, 3, 131), (33, 1000)]
)
def test_odd_sizes(shape):
    rng = np.random.default_rng(1)
    a = rng.standard_normal(shape).astype("float32")
    x = te.placeholder(shape, name="x")
    for axis in range(-1, -len(shape) - 1, -1):
        assert np.allclose(tl.compile([x, ops.softmax(x, axis)])(a), softmax(a, axis), rtol=2e-6, atol=1e-12)
    n = a.astype("float64")
    want = (n - n.mean(-1, keepdims=True)) / np.sqrt(n.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(tl.compile([x, ops.layer_norm(x)])(a), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (4, 31), (130, 64), (3, 1001)])
def test_symbolic_sizes(m, n):
    a = np.random.default_rng(m).standard_normal((m, n)).astype("float32")
    x = te.placeholder((te.var("m"), te.var("n")), name="x")
    assert np.allclose(tl.compile([x, ops.softmax(x)])(a), softmax(a, -1), rtol=2e-6, atol=1e-12)


def test_what_is_read_outside_the_rows_stays_outside():
    """The exponentials are an output too: they may not be computed in the row's own buffer."""
    x = te.placeholder((6, 40), name="x")
    y = ops.softmax(x)
    e = next(t for t in y.op.input_tensors if t.op.name == "softmax.exp")
    a = np.random.default_rng(0).standard_normal((6, 40)).astype("float32")
    out, grown = np.empty_like(a), np.empty_like(a)
    tl.build(default_schedule([y, e]), [x, y, e])(a, out, grown)
    assert np.allclose(out, softmax(a, -1), rtol=2e-6) and np.allclose(
        grown, np.exp(a - a.max(1, keepdims=True)), rtol=2e-6
    )


def test_a_matrix_product_in_front_is_no_row_reduction():
    a, b = te.placeholder((64, 64), name="a"), te.placeholder((64, 64), name="b")
    f = tl.compile([a, b, ops.softmax(ops.matmul(a, b))])
    rng = np.random.default_rng(3)
    u, v = rng.standard_normal((64, 64)).astype("float32"), rng.standard_normal((64, 64)).astype("float32")
    assert np.allclose(f(u, v), softmax(u.astype("float64") @ v, -1), rtol=1e-4, atol=1e-7)
    assert "vfmadd" in f.get_source("asm")


@pytest.mark.parametrize("shape", [(2, 9), (3, 8, 7), (2, 12, 5, 9)])
@pytest.mark.parametrize("groups", [1, 2, 3])
def test_groups_of_channels_are_rows(shape, groups):
    if shape[1] % groups:
        pytest.skip("the groups do not divide the channels")
    a = np.random.default_rng(0).standard_normal(shape).astype("float32")
    x = te.placeholder(shape, name="x")
    rows = a.reshape(shape[0], groups, -1).astype("float64")
    want = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    assert np.allclose(
        tl.compile([x, ops.group_norm(x, groups)])(a), want.reshape(shape), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("shape", [(5, 33), (70, 129), (1, 8)])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_argmax(shape, axis):
    a = np.random.default_rng(5).integers(-9, 9, shape).astype("float32")
    x = te.placeholder(shape, name="x")
    assert np.array_equal(tl.compile([x, ops.argmax(x, axis)])(a), np.argmax(a, axis))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(37, 5), (64, 48), (1, 9), (9, 1)])
def test_cumsum_in_vectors(shape, axis):
    a = np.random.default_rng(7).integers(-9, 9, shape).astype("float32")
    x = te.placeholder(shape, name="x")
    assert np.array_equal(tl.compile([x, ops.cumsum(x, axis)])(a), np.cumsum(a, axis))


def test_rows_of_what_is_scheduled_already_are_left_alone() -> None:
    """A norm of an attention whose heads are one row: the last stage of the attention has its own loops."""
    q, k, v = (te.placeholder((1, 2, 10, 16), name=n) for n in "qkv")
    out = ops.layer_norm(ops.scaled_dot_product_attention(q, k, v), 16)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((1, 2, 10, 16)).astype(np.float32) for _ in range(3)]
    (right,) = te.reference.evaluate([out], dict(zip((q, k, v), arrays, strict=True)))
    assert np.abs(tl.compile([q, k, v, out])(*arrays) - right).max() < 1e-4


def test_the_trace_of_one_row_serves_many():
    """The default schedule of a single row, replayed for others, still keeps no more than a row."""
    one = ops.softmax(te.placeholder((1, 512), name="x"))
    x = te.placeholder((te.dim("m", 1, 64), te.dim("n", 1, 4097)), name="x")
    many = ops.softmax(x)
    s = default_schedule(one).trace.apply(te.create_schedule(many.op))
    assert b"tensorlang_alloc" not in tl.build(s, [x, many]).object_code


@pytest.mark.parametrize("n", [100, 197, 321])
def test_the_rest_of_a_short_row_has_masks_that_are_known(n):
    """Written out or in a vector behind its loop: masks that were computed in every iteration took a quarter
    of a softmax."""
    x = te.placeholder((6, n), name="x")
    y = ops.softmax(x)
    assert not re.search(r"ramp\(\w+\.outer", tl.compile([x, y], AVX512).get_source("ir"))
    a = np.random.default_rng(n).standard_normal((6, n)).astype("float32")
    e = np.exp(a - a.max(1, keepdims=True), dtype="float64")
    np.testing.assert_allclose(tl.compile([x, y])(a), e / e.sum(1, keepdims=True), rtol=1e-6)


def test_the_end_of_an_open_row_is_a_loop_of_its_own() -> None:
    """No vector before it asks for a mask, and what a row has one of is computed once."""
    n, m = te.dim("n", 1, 99), te.dim("m", 1, 999)
    x = te.placeholder((n, m), name="x")
    y = ops.log_softmax(x)
    text = str(tl.lower(default_schedule(y, AVX512), [x, y]))
    assert len(re.findall(r"\blog\(", text)) == 1
    whole, ends = (
        re.findall(rf"for i1\.outer\S* in range\({loop}\):.*\n(.*\n)", text)
        for loop in (r"0, m // 16", r"m // 16, \(m \+ 15\) // 16")
    )
    assert len(whole) == len(ends) == 2, text
    assert not any("if" in first for first in whole) and all("mask" in first for first in ends)
    a = np.random.default_rng(0).standard_normal((5, 41)).astype("float32")
    top = a.astype("float64") - a.max(1, keepdims=True)
    want = top - np.log(np.exp(top).sum(1, keepdims=True))
    np.testing.assert_allclose(tl.compile([x, y])(a), want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [7, 8, 13, 16, 17, 24, 31, 33])
def test_short_rows_are_reduced_in_vectors(n: int) -> None:
    """Rows of one to two vectors were reduced one element after the other, each waiting for the last: softmax
    of rows of 31 took 2.6 times as long."""
    x = te.placeholder((500, n), name="x")
    for y in (ops.sum(x, -1), ops.max(x, -1), ops.softmax(x)):
        text = str(tl.lower(default_schedule(y, "llvm -mcpu=skylake-avx512 -num-cores=2"), [x, y]))
        several = r"\bx\[.* : .*, \d+\]"  # rows of less than a vector, side by side
        assert re.search(several if n < 16 else r"\b(sum|max)\(\S+\[[^()]* : ", text), text
    a = np.random.default_rng(n).integers(-9, 10, (500, n)).astype("float32")
    assert np.array_equal(tl.compile([x, ops.sum(x, -1)])(a), a.sum(-1))
    assert np.array_equal(tl.compile([x, ops.max(x, -1)])(a), a.max(-1))
    assert np.array_equal(tl.compile([x, ops.argmax(x, -1)])(a), a.argmax(-1))
    e = np.exp(a - a.max(1, keepdims=True), dtype="float64")
    np.testing.assert_allclose(tl.compile([x, ops.softmax(x)])(a), e / e.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "parallel"), [((1, 300_000), True), ((300_000,), True), ((1, 3000), False), ((64, 6000), True)]
)
def test_one_long_row_is_shared_out(shape: tuple[int, ...], parallel: bool) -> None:
    """A single row was computed by one thread, whatever its length."""
    x = te.placeholder(shape, name="x")
    a = np.random.default_rng(2).standard_normal(shape, dtype="float32")
    wide = a.astype("float64")
    moments = wide.mean(-1, keepdims=True), wide.var(-1, keepdims=True)
    for out, want in (
        (ops.softmax(x, -1), softmax(a, -1)),
        (ops.layer_norm(x, shape[-1]), (wide - moments[0]) / np.sqrt(moments[1] + 1e-5)),
    ):
        s = default_schedule(out, "llvm -mcpu=skylake-avx512 -num-cores=2")
        assert any("parallel" in loop for loop in loops(s)) == parallel
        np.testing.assert_allclose(tl.compile([x, out])(a), want, rtol=2e-5, atol=1e-6)


@pytest.mark.each_value
@pytest.mark.parametrize("n", [17, 23, 24, 25, 33, 42, 50, 61])
@pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
def test_short_rows_stay_in_registers(op, n):
    """The rest of a row is a masked vector for all stages of it. It was stored in pieces and loaded as one, which
    waited for the stores, and each piece took an exponential."""
    x = te.placeholder((70, n), name="x")
    f = tl.compile([x, op(x)], target="llvm -mcpu=skylake-avx512 -num-cores=1")
    asm = f.get_source("asm")
    wide = [line for line in asm.splitlines() if re.search(r"\(%rsp\)", line) and "zmm" in line]
    # around the logarithm of an unusual number, which is a call, registers are saved
    assert (not wide or op is ops.log_softmax) and f.get_source("ir").count("exp(") == -(-n // 16)
    a = np.random.default_rng(n).uniform(-30, 30, (70, n)).astype("float32")
    a[3, :-1], a[4, 2] = -np.inf, -1e30
    wanted = softmax(a, -1)
    if op is ops.log_softmax:
        with np.errstate(divide="ignore"):
            wanted = a.astype("float64") - a.max(-1, keepdims=True)
            wanted -= np.log(np.exp(wanted).sum(-1, keepdims=True))
    # a sum near 1 has no more digits for its logarithm
    np.testing.assert_allclose(tl.compile([x, op(x)])(a), wanted, rtol=3e-6, atol=4e-7)


@pytest.mark.each_value
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 17, 30, "m"])
@pytest.mark.parametrize("n", [5, 16, 33, 100, 300])
@pytest.mark.parametrize("cores", [1, 2])
def test_stages_of_several_short_rows_come_one_after_the_other(rows, n, cores):
    """Each stage of a row waited for the sum before it: softmax of rows of 12 to 100 took 1.3 to 1.6 times as
    long, layer norm 1.2 to 1.4."""
    x = te.placeholder((te.dim("m", 0, 1000) if rows == "m" else rows, n), name="x")
    for op, want in ((ops.softmax, softmax), (lambda x, _: ops.layer_norm(x, n), normed)):
        f = tl.compile([x, op(x, -1)], target=f"llvm -num-cores={cores}")
        for m in (0, 1, 5, 8, 21) if rows == "m" else (rows,):
            a = np.random.default_rng(n).uniform(-3, 3, (m, n)).astype("float32")
            np.testing.assert_allclose(f(a), want(a, -1), rtol=1e-4, atol=1e-5)


def test_rows_of_several_axes_are_not_computed_twice():
    """Eight of ten times 34 rows, counted as one axis, were made of two times 34."""
    for shape, rows in (((10, 34, 34), 7), ((10, 2, 3, 50), 3), ((3, 5, 1, 40), 5)):
        x = te.placeholder(shape, name="x")
        s = default_schedule(ops.softmax(x, -1), "llvm -mcpu=skylake-avx512 -num-cores=2")
        storage = "1, 5, 1" if 5 in shape else ", ".join(["1"] * (len(shape) - 2) + [str(rows)])
        assert re.search(rf"storage softmax.sum +float32\[{storage}\]", s.tree()), s.tree()
        assert "repeated work" not in s.tree()
        a = np.random.default_rng(3).uniform(-3, 3, shape).astype("float32")
        np.testing.assert_allclose(tl.compile([x, ops.softmax(x, -1)])(a), softmax(a, -1), rtol=1e-4)


def test_how_many_rows_are_computed_together():
    x = {n: te.placeholder((200, n), name="x") for n in (40, 300, 1000)}
    x[4] = te.placeholder((10, 40), name="x")
    for n, rows in ((40, 8), (300, 4), (1000, 1), (4, 5)):  # 10 rows are five for each thread
        tree = default_schedule(ops.softmax(x[n], -1), "llvm -mcpu=skylake-avx512 -num-cores=2").tree()
        assert re.search(rf"storage softmax.sum +float32\[{rows}\]", tree), tree


def test_the_exponentials_of_a_softmax_have_no_branch():
    """It is known that none of them overflows: there was a test and a call for each vector."""
    x = te.placeholder((64, 768), name="x")
    for op in (ops.softmax, ops.log_softmax):
        assert "wide_exp" not in tl.compile([x, op(x)]).get_source("ll")
    assert "wide_exp" in tl.compile([x, ops.exp(x)]).get_source("ll")
    a = np.full((64, 768), -120.0, "float32")
    a[:, 0], a[1, 5], a[2], a[3, 7], a[4, 8] = 0, np.nan, -np.inf, np.inf, 3e38
    with np.errstate(invalid="ignore", over="ignore"):
        wanted = softmax(a, -1)
    np.testing.assert_allclose(tl.compile([x, ops.softmax(x)])(a), wanted, rtol=1e-6, atol=1e-38)


def test_one_result_of_a_row_beside_a_sum_of_it():
    """A cross entropy has one number of a row, and so has the logarithm of its sum, which is not a loop over
    the row's elements: no schedule was found."""
    x, at = te.placeholder((3, 5), name="x"), te.placeholder((3,), "int64", name="at")
    y = ops.log_softmax(x)
    out = te.compute((3,), lambda i: -y[i, at[i]], name="out")
    a, picked = RNG.random((3, 5), dtype=np.float32), np.array([0, 4, 2])
    want = -np.log(softmax(a, 1))[np.arange(3), picked]
    np.testing.assert_allclose(tl.compile([x, at, out])(a, picked), want, rtol=1e-5)


@pytest.mark.parametrize("rows", [51, None])
def test_rows_that_are_scaled_before_a_norm_are_held(rows):
    """Written into the reductions, a scale that is the same for all rows would make products of them."""
    n = te.dim("n") if rows is None else rows
    x, r, s = (
        te.placeholder(shape, name=name) for shape, name in (((n, 96), "x"), ((n, 96), "r"), ((96,), "s"))
    )
    g, b = te.placeholder((96,), name="g"), te.placeholder((96,), name="b")
    h = te.compute(x.shape, lambda i, k: x[i, k] * s[k] + r[i, k], name="h")
    y = ops.layer_norm(h, 96, g, b)
    tree = default_schedule(y, "llvm -mcpu=znver4 -num-cores=2").tree()
    assert tree.count("parallel") <= 1 and "compute h " in tree and "compute layer_norm.squares" in tree
    assert not any(line.startswith("├─ loop") for line in tree.splitlines())
    rng = np.random.default_rng(0)
    arrays = [
        rng.standard_normal(shape).astype("float32") for shape in ((51, 96), (51, 96), (96,), (96,), (96,))
    ]
    got = tl.compile([x, r, s, g, b, y])(*arrays)
    a = arrays[0].astype("float64") * arrays[2] + arrays[1]
    a = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-5)
    assert np.allclose(got, a * arrays[3] + arrays[4], rtol=1e-4, atol=1e-5)
