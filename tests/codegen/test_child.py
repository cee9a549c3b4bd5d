"""LLVM in a child process: the same code, and what would end the process is an error that shows the
program."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.codegen import compile_ll
from tensorlang.codegen.llvm import child
from tensorlang.target import as_target

WIDE = """
define i32 @k(ptr %a) {
  %x = load <32 x i16>, ptr %a
  %y = call <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16> %x, <32 x i16> %x)
  store <16 x i32> %y, ptr %a
  ret i32 0
}
declare <16 x i32> @llvm.x86.avx512.pmaddw.d.512(<32 x i16>, <32 x i16>)
"""
UNKNOWN = "define i32 @k(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n  br label %b\nb:\n  ret i32 %x\n}"


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORLANG_ISOLATE", "1")


def test_an_abort_of_llvm_is_an_error_with_the_program() -> None:
    with pytest.raises(tl.CompileError, match=r"SIGABRT.*\n(.*\n)*.*pmaddw") as error:
        compile_ll(WIDE, as_target("llvm -mcpu=haswell"))
    assert "SIGABRT" in str(pickle.loads(pickle.dumps(error.value)))


@pytest.mark.parametrize("isolate", ["0", "1"])
def test_a_value_used_where_it_is_not_known_is_an_error(
    isolate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORLANG_ISOLATE", isolate)
    with pytest.raises(tl.CompileError, match="does not dominate all uses"):
        compile_ll(UNKNOWN, as_target(None))
    with pytest.raises(tl.CompileError, match="undefined value"):
        compile_ll("define i32 @k() {\n  ret i32 %x\n}", as_target(None))


def test_the_code_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: te.exp(A[i]), name="B")
    made = []
    for isolate in "10":
        monkeypatch.setenv("TENSORLANG_ISOLATE", isolate)
        f = tl.build(te.create_schedule(B.op), [A, B])
        made.append((f.get_source("asm"), f.get_source("ll")))
    assert made[0] == made[1]
    monkeypatch.setenv("TENSORLANG_ISOLATE", "yes")
    with pytest.raises(tl.TensorLangError, match="TENSORLANG_ISOLATE=yes"):
        tl.build(te.create_schedule(B.op), [A, B])


def test_the_answer_of_a_child() -> None:
    assert child.run(lambda: os.getpid()) != os.getpid()
    big = child.run(lambda: bytes(1 << 20))
    assert len(big) == 1 << 20, "more than a pipe holds"
    with pytest.raises(ZeroDivisionError):
        child.run(lambda: 1 // 0)
    with pytest.raises(child.Died, match="code 3"):
        child.run(lambda: os._exit(3))
    with pytest.raises(child.Died, match="code 1"):
        child.run(lambda: lambda: None)  # what cannot be sent


def test_children_leave_no_files_and_no_processes() -> None:
    def held() -> tuple[int, set[str]]:
        tasks = (
            Path(f"/proc/self/task/{t}/children").read_text(encoding="ascii").split()
            for t in os.listdir("/proc/self/task")
        )
        return len(os.listdir("/proc/self/fd")), set().union(*tasks)

    before = held()
    for _ in range(5):
        child.run(lambda: 1)
        with pytest.raises(child.Died):
            child.run(os.abort)
    assert held() == before
