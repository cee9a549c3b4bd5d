"""te.extern: Python callbacks and C symbols inside a computation, by the oracles and by compiled kernels."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.loopir.interpret import interpret
from tensorlang.te.reference import evaluate
from tests.te.oracles import agree


@pytest.fixture(autouse=True)
def functions():
    tl.register_func("test.scale", lambda x, out, by: np.multiply(x, by, out=out), override=True)

    @tl.register_func("test.fails", override=True)
    def fails(x, out):
        raise ValueError("not today")


def pipeline(n):
    A = te.placeholder((n, 5), name="A")
    B = te.compute((n, 5), lambda i, j: A[i, j] + 1, name="B")
    C = te.extern((n, 5), [B], lambda ins, outs: te.call_packed("test.scale", ins[0], outs[0], 3.0), name="C")
    D = te.compute((n, 5), lambda i, j: C[i, j] - B[i, j], name="D")
    return A, B, C, D


@pytest.mark.parametrize("n", [4, te.var("n")])
def test_a_python_function_in_the_middle(n):
    A, B, C, D = pipeline(n)
    a = np.arange(20, dtype="float32").reshape(4, 5)
    want = (a + 1) * 2
    s = te.create_schedule(D)
    s[B].vectorize(s[B].split(s[B].op.axis[1], 4)[1])
    s[D].parallel(s[D].op.axis[0])
    assert np.array_equal(evaluate(D, {A: a})[0], want)
    assert np.array_equal(tl.build(s, [A, D])(a), want)
    assert np.array_equal(tl.compile([A, D])(a), want)
    out = np.zeros_like(a)
    interpret(tl.lower(s, [A, D]), a, out)
    assert np.array_equal(out, want)
    assert "call_packed('test.scale', B, C, 3.0)" in str(tl.lower(s, [A, D]))


def test_several_outputs_of_several_dtypes():
    def divmod_(x, q, r):
        q[...], r[...] = x // 3, (x % 3).astype("float32")

    tl.register_func("test.divmod", divmod_, override=True)
    A = te.placeholder((7,), dtype="int32", name="A")
    Q, R = te.extern(
        [(7,), (7,)],
        [A],
        lambda ins, outs: te.call_packed("test.divmod", ins[0], *outs),
        dtype=["int32", "float32"],
        name="qr",
    )
    a = np.arange(7, dtype="int32")
    q, r = tl.build(te.create_schedule([Q.op]), [A, Q, R])(a)
    assert np.array_equal(q, a // 3) and np.array_equal(r, a % 3)


def test_a_c_symbol_gets_pointers_and_numbers():
    seen = []
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32)

    @kind
    def negate(x, out, n):
        src = np.ctypeslib.as_array(ctypes.cast(x, ctypes.POINTER(ctypes.c_float)), (n,))
        np.negative(src, out=np.ctypeslib.as_array(ctypes.cast(out, ctypes.POINTER(ctypes.c_float)), (n,)))
        seen.append(n)
        return 0

    tl.register_symbol("test_negate", negate)
    n = te.var("n")
    A = te.placeholder((n,), name="A")
    B = te.extern(
        (n,),
        [A],
        lambda ins, outs: te.call_extern("int32", "test_negate", ins[0].data, outs[0].data, n),
        name="B",
    )
    f = tl.build(te.create_schedule(B), [A, B])
    for size in (1, 17):
        a = np.arange(size, dtype="float32")
        assert np.array_equal(f(a), -a)
    assert seen == [1, 17]


def test_what_the_function_raises_is_raised_by_the_call():
    A = te.placeholder((3,), name="A")
    B = te.extern((3,), [A], lambda ins, outs: te.call_packed("test.fails", ins[0], outs[0]), name="B")
    f = tl.build(te.create_schedule(B), [A, B])
    for _ in range(3):
        with pytest.raises(ValueError, match="not today"):
            f(np.zeros(3, "float32"))


def test_an_unknown_function_is_refused_when_the_kernel_is_built():
    A = te.placeholder((3,), name="A")
    B = te.extern((3,), [A], lambda ins, outs: te.call_packed("test.nobody", ins[0], outs[0]), name="B")
    with pytest.raises(tl.TensorLangError, match="no function of that name is registered"):
        tl.build(te.create_schedule(B), [A, B])


@pytest.mark.parametrize(
    "f, message",
    [
        (lambda ins, outs: None, "returned None"),
        (lambda ins, outs: te.call_packed("test.scale", ins[0]), "does not get every output"),
    ],
)
def test_declarations_that_make_no_sense(f, message):
    A = te.placeholder((3,), name="A")
    with pytest.raises(tl.DeclareError, match=message):
        te.extern((3,), [A], f)


def test_what_an_extern_does_not_allow():
    A, B, C, D = pipeline(4)
    s = te.create_schedule(D)
    for call, because in (
        (lambda: s[C].compute_at(s[D], s[D].op.axis[0]), "runs whole"),
        (lambda: s.cache_write(C), "foreign code writes it"),
        (lambda: s[B].compute_inline(), "reads it whole"),
        (lambda: s.cache_read(B, "local", [C]), "what it reads is fixed"),
        (lambda: s[B].transform_layout(lambda i, j: (j, i)), "in the layout it was declared with"),
    ):
        with pytest.raises(tl.ScheduleError, match=because):
            call()
    assert len(s.trace) == 0


def test_a_saved_kernel_finds_its_function_again(tmp_path):
    A, _, _, D = pipeline(4)
    f = tl.build(te.create_schedule(D), [A, D])
    f.save(tmp_path / "k")
    a = np.ones((4, 5), "float32")
    assert np.array_equal(tl.load(tmp_path / "k")(a), f(a))


def _scaled(x: float, n: int) -> float:
    return x * n


SCALED = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_int32)(_scaled)


def test_c_functions_of_numbers_are_elements():
    A = te.placeholder((13,), name="A")
    B = te.compute(
        (13,),
        lambda i: (
            te.call_pure_extern("float32", "fabsf", A[i]) + te.call_pure_extern("float32", "fmaxf", A[i], 2.0)
        ),
        name="B",
    )
    a = np.arange(-6, 7, dtype="float32")
    (got,) = agree(B, {A: a}, lanes=(0, 4, 8))
    assert np.array_equal(got, np.abs(a) + np.maximum(a, 2))


def test_c_functions_take_numbers_of_several_types():
    tl.register_symbol("test_scaled", SCALED)
    A, I = te.placeholder((6,), "float64", name="A"), te.placeholder((6,), "int32", name="I")
    B = te.compute((6,), lambda i: te.call_extern("float64", "test_scaled", A[i], I[i]), name="B")
    a, n = np.arange(6.0), np.arange(6, dtype="int32")
    (got,) = agree(B, {A: a, I: n}, lanes=(0, 4))
    assert np.array_equal(got, a * n)
    assert str(B.op.body[0]) == "test_scaled(A[i], I[i])"


def test_c_functions_of_numbers_travel():
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: te.call_pure_extern("float32", "fabsf", A[i]), name="B")
    back = te.serialize.from_json(te.serialize.to_json([B]))
    assert str(back[0].op.body[0]) == "fabsf(A[i])" and back[0].dtype == "float32"


def test_what_c_has_not_is_refused():
    A, H = te.placeholder((6,), name="A"), te.placeholder((6,), "float16", name="H")
    with pytest.raises(tl.DeclareError, match="C has no float16"):
        te.compute((6,), lambda i: te.call_pure_extern("float32", "fabsf", H[i]))
    with pytest.raises(tl.DeclareError, match="stands where one element is meant"):
        te.compute((6,), lambda i: te.call_packed("f", A[i]))
    B = te.compute((6,), lambda i: te.call_pure_extern("float32", "no_such_function", A[i]), name="B")
    with pytest.raises(tl.TensorLangError, match="no C function of that name"):
        te.reference.evaluate(B, {A: np.zeros(6, "float32")})
    with pytest.raises(tl.TensorLangError, match="no_such_function"):
        tl.build(te.create_schedule(B.op), [A, B])


def test_a_kernel_of_the_name_of_what_it_calls_is_refused():
    """Machine code has one function of a name, and the advice holds."""
    A = te.placeholder((6,), name="A")
    B = te.compute((6,), lambda i: te.call_pure_extern("float32", "fmodf", A[i], 2.0), name="B")
    s = te.create_schedule(B.op)
    with pytest.raises(tl.LowerError, match=r"calls a function of that name(.*\n){2}.*name='fmodf_kernel'"):
        tl.build(s, [A, B], name="fmodf")
    a = np.arange(6, dtype="float32")
    np.testing.assert_array_equal(tl.build(s, [A, B], name="fmodf_kernel")(a), np.fmod(a, 2))
