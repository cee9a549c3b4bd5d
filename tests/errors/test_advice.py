"""The advice of an error works when it is followed: every call that a ``try`` writes out is made where the
mistake was made."""

from __future__ import annotations

import re
import traceback
from typing import Any

import pytest

import tensorlang as tl
from tensorlang import te

from . import mistakes_lower, mistakes_schedule, mistakes_traces
from .scene import Scene, mistakes

CASES = {
    name: f
    for module in (mistakes_schedule, mistakes_traces, mistakes_lower)
    for name, f in mistakes(module).items()
}
CALL = re.compile(
    r"\bs(?:\[[^\]]+\])?\.\w+\((?:[^()]|\([^()]*\))*\)"
)  # s.cache_write(C, 'local'), s[P].compute_at(s[C], i)

WORD = re.compile(
    r"('[^']*'|s?\.\w+\(|\w+=)|s\[([\w.]+)\]|([A-Za-z_][\w.]*)"
)  # what stays, a stage, the name of a stage or loop


def refused(name: str) -> tuple[tl.Schedule | None, str]:
    """The schedule of a mistake, as it was when the mistake was made, and what its error says to try."""
    try:
        CASES[name](Scene())
    except tl.TensorLangError as e:
        frames = [f.f_locals for f, _ in traceback.walk_tb(e.__traceback__) if f.f_code.co_name == name]
        found = frames[0].get("s") if frames else None
        advice = e.try_() if callable(e.try_) else e.try_
        return (found if isinstance(found, tl.Schedule) else None), str(advice or "")
    raise AssertionError(f"{name} was accepted")


def calls(s: tl.Schedule, advice: str) -> list[str]:
    """The calls that are written out, with the names of stages and loops as text and the words for readers as
    those there are."""
    found = []
    for text in CALL.findall(advice):
        argument = re.search(r"cache_read\(([\w.]+)", text)
        if argument and re.search(r"\breaders?\b", text):
            names = [st.name for st in s.stages if any(t.name == argument[1] for t in st.op.input_tensors)]
            text = re.sub(r"\[reader\]|\breaders\b", str(names), text)
        if "…" in text or re.search(r"\bs\[T\]|\b(axis|loop|index_map)\b", text):
            continue  # a form, not a call
        found.append(WORD.sub(lambda m: f"s[{m[2]!r}]" if m[2] else repr(m[3]) if m[3] else m[0], text))
    return found


FOLLOWED = [
    (name, call)
    for name in CASES
    for s, advice in [refused(name)]
    if s is not None
    for call in calls(s, advice)
]


@pytest.mark.parametrize(("name", "call"), FOLLOWED)
def test_a_call_that_is_advised_is_accepted(name: str, call: str) -> None:
    s, _ = refused(name)
    assert s is not None
    environment: dict[str, Any] = {"s": s, "tl": tl, "te": te}
    eval(call, environment)


def test_many_are_followed() -> None:
    assert len(FOLLOWED) >= 12 and len({name for name, _ in FOLLOWED}) >= 10, FOLLOWED


def _output(elementwise: bool, cut: str) -> tuple[tl.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder((12, 16), name="A")
    k = te.reduce_axis((0, 16), name="k")
    P = te.compute((12, 16), lambda i, j: A[i, j] + 1.0, name="P")
    C = (
        te.compute((12,), lambda i: te.sum(P[i, k], axis=k), name="C")
        if not elementwise
        else te.compute((12, 16), lambda i, j: P[i, j] * 2, name="C")
    )
    s = te.create_schedule(C.op)
    if cut:
        s[C].split(C.op.axis[0] if cut == "data" else C.op.reduce_axis[0], factor=5)
    return s, P, C


@pytest.mark.parametrize(
    ("elementwise", "cut"), [(True, ""), (True, "data"), (False, ""), (False, "data"), (False, "reduction")]
)
def test_compute_at_of_an_output_says_when_its_cache_can_be_made(elementwise: bool, cut: str) -> None:
    s, P, C = _output(elementwise, cut)
    with pytest.raises(tl.ScheduleError) as refused_:
        s[C].compute_at(s[P], P.op.axis[0])
    assert ("before split" in str(refused_.value.try_)) == (cut == "reduction")
    if cut == "reduction":
        with pytest.raises(tl.ScheduleError, match="a reduction loop of `C` is cut already"):
            s.cache_write(C, "local")
        s, P, C = _output(elementwise, "")
    s.cache_write(C, "local")


def test_usual_words_for_types_are_told_the_usual_types() -> None:
    for word, meant in (
        ("int", "int32"),
        ("float", "float32"),
        ("double", "float64"),
        ("uint", "uint32"),
        ("half", "float16"),
    ):
        with pytest.raises(tl.DeclareError) as e:
            te.placeholder((4,), dtype=word)
        assert e.value.try_ == repr(meant)
        te.placeholder((4,), dtype=meant)


def test_save_does_not_write_our_format_under_the_name_of_another(tmp_path: Any) -> None:
    A = te.placeholder((4,), name="A")
    f = tl.compile([A, te.compute((4,), lambda i: A[i] + 1, name="B")], name="add")
    for suffix in (".o", ".so", ".h"):
        with pytest.raises(tl.TensorLangError) as e:
            f.save(tmp_path / f"x{suffix}")
        first, second = re.findall(r"f\.\w+\('[^']*'\)", str(e.value.try_))
        eval(second, {"f": f})
        if suffix != ".so":  # which needs a C compiler
            eval(first, {"f": f})
    assert tl.load(tmp_path / "x.tl").name == tl.load(tmp_path / "x.o").name


def _mm(n: Any = 64) -> tuple[tl.Schedule, Any]:
    s, C = mistakes_schedule._matmul(N=n)
    return s, s[C]


def _waits() -> tuple[tl.Schedule, Any, Any, Any]:
    s, _, _, S, C = mistakes_schedule._chain()
    return s, S, C, C.op.axis[0]


def split_first():
    _, C = _mm()
    C.vectorize(C.split("j", factor=8)[1])


def split_by_one_of_two():
    _, C = _mm()
    C.split("i", factor=8)
    C.split("j", nparts=4)


def fuse_first():
    _, C = _mm()
    C.parallel(C.fuse("i", "j"))


def fuse_one_kind():
    _, C = _mm()
    C.fuse("i", "j")


def fused_or_unrolled():
    _, C = _mm(4)
    C.vectorize("j")
    C.unroll("i")
    _, C = _mm(4)
    C.split("i", factor=8)
    C.reorder("i.outer", "k", "i.inner", "j")
    C.vectorize(C.fuse("i.inner", "j"))


def a_small_inner_half():
    _, C = _mm(4096)
    C.vectorize(C.split("j", factor=8)[1])
    C.unroll(C.split("i", factor=4)[1])


def partial_results():
    s, C = _mm()
    rf = s.rfactor("C", C.split("k", factor=8)[0])
    s[rf].parallel(s[rf].op.axis[0])


def cache_before_vectorize():
    s, C = _mm()
    s.cache_write("C", "local")
    C.vectorize("j")


def cache_before_compute_at():
    s, S, C, i = _waits()
    s[s.cache_write(C, "local")].compute_at(s[C], s[C].op.axis[0])
    s[S].compute_at(s[C], s[C].op.axis[0])


WORDS = [
    ("split_of_a_vector_loop", "split first, then vectorize one half", split_first),
    ("split_by_nothing", "split(axis, factor=8) or split(axis, nparts=4)", split_by_one_of_two),
    ("fuse_of_a_parallel_loop", "fuse first, then annotate the fused loop", fuse_first),
    ("fuse_of_data_and_reduction", "fuse those", fuse_one_kind),
    ("vectorize_two_loops", "vectorize the fused loop, or unroll one of them", fused_or_unrolled),
    ("vectorize_too_many_lanes", "a small factor and take the inner half", a_small_inner_half),
    ("unroll_too_much", "a small factor and take the inner half", a_small_inner_half),
    (
        "parallel_reduction",
        "s.rfactor(…) makes partial results that threads can compute apart",
        partial_results,
    ),
    ("cache_write_after_vectorize", "call cache_write before vectorize", cache_before_vectorize),
    ("cache_write_around_a_stage", "call cache_write before compute_at", cache_before_compute_at),
]


@pytest.mark.parametrize(("name", "words", "follow"), WORDS)
def test_advice_in_words_is_accepted(name: str, words: str, follow: Any) -> None:
    assert words in refused(name)[1]
    follow()
