"""What lies on the stack becomes registers, or stays where LLVM would get it wrong: never the end of the
process."""

from __future__ import annotations

import itertools

import llvmlite.binding as llvm
import numpy as np
import pytest

import tensorlang as tl
from tensorlang import ops, te
from tensorlang.codegen.llvm.compile import _machine, _optimised
from tensorlang.target import as_target


@pytest.mark.parametrize("order", list(itertools.permutations((0, 8, 16))), ids=str)
def test_vectors_stored_in_any_order_and_loaded_as_one(order):
    """SROA of LLVM 22 merges them where the one with the highest address was stored."""
    stores = "".join(
        f"  %s{n} = getelementptr float, ptr %a, i64 {n}\n  %l{n} = load <8 x float>, ptr %s{n}, align 4\n"
        f"  %d{n} = getelementptr float, ptr %m, i64 {n}\n  store <8 x float> %l{n}, ptr %d{n}, align 4\n"
        for n in order
    )
    target = as_target("llvm -mcpu=znver4")
    text = (
        f'target triple = "{target.triple}"\ndefine void @f(ptr %a, ptr %o) {{\nentry:\n'
        f"  %m = alloca [24 x float], align 64\n{stores}  %r = load <24 x float>, ptr %m, align 4\n"
        "  store <24 x float> %r, ptr %o, align 4\n  ret void\n}\n"
    )
    module = _optimised(text, target, 2, {})
    module.verify()
    assert _machine(target, 2).emit_object(module)


@pytest.mark.parametrize("cpu", ["znver4", "znver3"])
@pytest.mark.parametrize("n", [5, 13, 21])
def test_a_reduction_of_joined_vectors_that_end_within_one(n, cpu):
    """The largest of 13 elements joined with themselves ended the process."""
    x = te.placeholder((n,), name="x")
    k = te.reduce_axis((0, 2 * n))
    joined = ops.concat([x, x], 0)
    out = te.compute((), lambda: te.max(joined[k], axis=k), name="out")
    assert tl.compile([x, out], target=f"llvm -mcpu={cpu}").get_source("asm")
    a = np.random.default_rng(0).standard_normal(n).astype("float32")
    assert tl.compile([x, out])(a) == a.max()


@pytest.mark.parametrize("cpu, level", [("znver5", 1), ("znver4", 2), ("skylake-avx512", 2)])
def test_instructions_are_ordered_once_where_the_processor_orders_them(monkeypatch, cpu, level):
    asked = []
    monkeypatch.setattr(llvm.Target, "create_target_machine", lambda *_, opt, **__: asked.append(opt))
    for opt_level in (0, 2):
        _machine.__wrapped__(as_target(f"llvm -mcpu={cpu}"), opt_level)
    assert asked == [0, level]
