"""Small kernels in hand-written LLVM text, compiled here, so that the runtime's tests need no code
generator."""

from __future__ import annotations

import functools
from typing import Any

import llvmlite.binding as llvm

from tensorlang.interface.signature import Dim, Param, Signature
from tensorlang.native.object_code import host_machine
from tensorlang.runtime import Module

# a[i] + b[i] -> c[i] over n floats, as i32 name(ptr buffers, ptr scalars); the length is in scalar slot 0.
ADD = """
define i32 @add(ptr %buffers, ptr %scalars) {
entry:
  %pb = getelementptr ptr, ptr %buffers, i64 1
  %pc = getelementptr ptr, ptr %buffers, i64 2
  %a = load ptr, ptr %buffers
  %b = load ptr, ptr %pb
  %c = load ptr, ptr %pc
  %n = load i64, ptr %scalars
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %ai = getelementptr float, ptr %a, i64 %i
  %bi = getelementptr float, ptr %b, i64 %i
  %ci = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %ai
  %y = load float, ptr %bi
  %z = fadd float %x, %y
  store float %z, ptr %ci
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""

# c[i] = alpha * a[i] + k: alpha a float scalar, k an integer scalar, after the dim n.
SCALE = """
define i32 @scale(ptr %buffers, ptr %scalars) {
entry:
  %pc = getelementptr ptr, ptr %buffers, i64 1
  %a = load ptr, ptr %buffers
  %c = load ptr, ptr %pc
  %n = load i64, ptr %scalars
  %palpha = getelementptr i64, ptr %scalars, i64 1
  %pk = getelementptr i64, ptr %scalars, i64 2
  %alpha = load double, ptr %palpha
  %k = load i64, ptr %pk
  %alphaf = fptrunc double %alpha to float
  %kf = sitofp i64 %k to float
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %ai = getelementptr float, ptr %a, i64 %i
  %ci = getelementptr float, ptr %c, i64 %i
  %x = load float, ptr %ai
  %y = fmul float %x, %alphaf
  %z = fadd float %y, %kf
  store float %z, ptr %ci
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""

# Reports the integer scalar it is given as its status.
STATUS = """
define i32 @status(ptr %buffers, ptr %scalars) {
  %s = load i64, ptr %scalars
  %r = trunc i64 %s to i32
  ret i32 %r
}
"""

# Each i of 0 … n: counts[i] += 1, in a parallel region; with depth 1 the body opens a region again for its
# own chunk. Or the first i of each part: counts[i] = iterations of that part.
COUNT = """
declare void @tensorlang_parallel(ptr, ptr, i64, i64)
define internal void @body(ptr %ctx, i64 %begin, i64 %end) {
entry:
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %p = getelementptr i64, ptr %ctx, i64 %i
  %x = load i64, ptr %p
  %y = add i64 %x, 1
  store i64 %y, ptr %p
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}
define internal void @nest(ptr %ctx, i64 %begin, i64 %end) {
  call void @tensorlang_parallel(ptr @body, ptr %ctx, i64 %begin, i64 %end)
  ret void
}
define i32 @count(ptr %buffers, ptr %scalars) {
  %p = load ptr, ptr %buffers
  %n = load i64, ptr %scalars
  call void @tensorlang_parallel(ptr @body, ptr %p, i64 0, i64 %n)
  ret i32 0
}
define i32 @nested(ptr %buffers, ptr %scalars) {
  %p = load ptr, ptr %buffers
  %n = load i64, ptr %scalars
  call void @tensorlang_parallel(ptr @nest, ptr %p, i64 0, i64 %n)
  ret i32 0
}
define internal void @told(ptr %ctx, i64 %begin, i64 %end) {
  %p = getelementptr i64, ptr %ctx, i64 %begin
  %n = sub i64 %end, %begin
  store i64 %n, ptr %p
  ret void
}
define i32 @lengths(ptr %buffers, ptr %scalars) {
  %p = load ptr, ptr %buffers
  %n = load i64, ptr %scalars
  call void @tensorlang_parallel(ptr @told, ptr %p, i64 0, i64 %n)
  ret i32 0
}
define i32 @repeated(ptr %buffers, ptr %scalars) {
entry:
  %p = load ptr, ptr %buffers
  %n = load i64, ptr %scalars
  %pt = getelementptr i64, ptr %scalars, i64 1
  %times = load i64, ptr %pt
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  call void @tensorlang_parallel(ptr @body, ptr %p, i64 0, i64 %n)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""

# Under the control word it is given: parts 0 and 1, each once both have begun, store tiny * 0.5 and 1 +
# 2**-30 at out[2 * part].
FLOAT_MODE = """
declare void @tensorlang_parallel(ptr, ptr, i64, i64)
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
@met = global i64 0
@half = global float 0.5
@tiny = global float 0x3810000000000000
@one = global float 1.0
@small = global float 0x3E10000000000000
define internal void @body(ptr %out, i64 %begin, i64 %end) {
entry:
  %mine = atomicrmw add ptr @met, i64 1 acq_rel
  br label %wait
wait:
  %v = load atomic i64, ptr @met acquire, align 8
  %both = icmp sge i64 %v, 2
  br i1 %both, label %go, label %wait
go:
  %at = mul i64 %begin, 2
  %p = getelementptr float, ptr %out, i64 %at
  %q = getelementptr float, ptr %p, i64 1
  %h = load volatile float, ptr @half
  %t = load volatile float, ptr @tiny
  %x = fmul float %h, %t
  store float %x, ptr %p
  %o = load volatile float, ptr @one
  %s = load volatile float, ptr @small
  %y = fadd float %o, %s
  store float %y, ptr %q
  ret void
}
define i32 @float_mode(ptr %buffers, ptr %scalars) {
  %old = alloca i32
  %new = alloca i32
  %mode = load i64, ptr %scalars
  %short = trunc i64 %mode to i32
  store i32 %short, ptr %new
  call void @llvm.x86.sse.stmxcsr(ptr %old)
  call void @llvm.x86.sse.ldmxcsr(ptr %new)
  %out = load ptr, ptr %buffers
  store i64 0, ptr @met
  call void @tensorlang_parallel(ptr @body, ptr %out, i64 0, i64 2)
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  ret i32 0
}
"""

# alloc(n bytes), write both ends, free; status 1 when there is no memory.
SCRATCH = """
declare ptr @tensorlang_alloc(i64)
declare void @tensorlang_free(ptr)
define i32 @scratch(ptr %buffers, ptr %scalars) {
  %n = load i64, ptr %scalars
  %p = call ptr @tensorlang_alloc(i64 %n)
  %null = icmp eq ptr %p, null
  br i1 %null, label %no, label %yes
no:
  ret i32 1
yes:
  %c = load ptr, ptr %buffers
  %address = ptrtoint ptr %p to i64
  %low = and i64 %address, 63
  store i64 %low, ptr %c
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %touch, label %done
touch:
  store i8 1, ptr %p
  %m = sub i64 %n, 1
  %q = getelementptr i8, ptr %p, i64 %m
  store i8 2, ptr %q
  br label %done
done:
  call void @tensorlang_free(ptr %p)
  ret i32 0
}
"""


@functools.cache
def object_code(text: str) -> bytes:
    with llvm.create_context() as context:
        machine = host_machine()
        module = llvm.parse_assembly(text, context)
        code = bytes(machine.emit_object(module))
        module.close()
        machine.close()
    return code


def vector(
    name: str, *, output: bool = False, shape: tuple[Any, ...] = ("n",), dtype: str = "float32"
) -> Param:
    return Param(name, "buffer", dtype, shape, output)


def scalar(name: str, dtype: str) -> Param:
    return Param(name, "scalar", dtype)


ADD_SIGNATURE = Signature("add", (vector("a"), vector("b"), vector("c", output=True)), (Dim("n"),))


def add(**kw: Any) -> Module:
    """c = a + b over one axis of any length."""
    return Module(object_code(ADD), ADD_SIGNATURE, **kw)


def scale() -> Module:
    params = (vector("a"), scalar("alpha", "float32"), scalar("k", "int32"), vector("c", output=True))
    return Module(object_code(SCALE), Signature("scale", params, (Dim("n"),)))


def status() -> Module:
    return Module(object_code(STATUS), Signature("status", (scalar("code", "int32"),)))


def counter(name: str = "count", short: bool = False) -> Module:
    """``short``: the regions are for threads that are awake."""
    params = (vector("counts", output=True, dtype="int64"),)
    if name == "repeated":
        params += (scalar("times", "int64"),)
    text = COUNT.replace("@tensorlang_parallel", "@tensorlang_parallel_awake") if short else COUNT
    return Module(object_code(text), Signature(name, params, (Dim("n"),)))


def float_mode() -> Module:
    params = (scalar("mode", "int64"), vector("out", output=True, shape=(4,)))
    return Module(object_code(FLOAT_MODE), Signature("float_mode", params))


def scratch() -> Module:
    params = (scalar("n", "int64"), vector("c", output=True, shape=(1,), dtype="int64"))
    return Module(object_code(SCRATCH), Signature("scratch", params))
