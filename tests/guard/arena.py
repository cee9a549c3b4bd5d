"""Memory whose neighbours cannot be touched: each block between two pages without access, at the start or at
the end of its own pages.

The allocator is machine code, so that the kernels' own temporaries come from it as well, from any thread.
Knows the runtime's loader and the names under which kernels import their memory; nothing of kernels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tensorlang.codegen.llvm import statement
from tensorlang.runtime import loader, threads

# A block: [its size | guard | data, whole pages | guard]. Blocks are filled with 0xAB, so what was never
# written is not zero.
TEXT = """
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i32 @munmap(ptr, i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @llvm.umax.i64(i64, i64)
@at_end = global i32 0

define ptr @guarded_alloc(i64 %size) {
entry:
  %bad = icmp slt i64 %size, 0
  br i1 %bad, label %none, label %ask
ask:
  %some = call i64 @llvm.umax.i64(i64 %size, i64 16)
  %up = add i64 %some, 4095
  %pages = and i64 %up, -4096
  %total = add i64 %pages, 12288
  %block = call ptr @mmap(ptr null, i64 %total, i32 0, i32 34, i32 -1, i64 0)
  %number = ptrtoint ptr %block to i64
  %failed = icmp eq i64 %number, -1
  br i1 %failed, label %none, label %mapped
mapped:
  %one = call i32 @mprotect(ptr %block, i64 4096, i32 3)
  store i64 %total, ptr %block
  %data = getelementptr i8, ptr %block, i64 8192
  %two = call i32 @mprotect(ptr %data, i64 %pages, i32 3)
  %filled = call ptr @memset(ptr %data, i32 171, i64 %pages)
  %end = load i32, ptr @at_end
  %is_end = icmp ne i32 %end, 0
  %rest = sub i64 %pages, %some
  %offset = select i1 %is_end, i64 %rest, i64 0
  %p = getelementptr i8, ptr %data, i64 %offset
  ret ptr %p
none:
  ret ptr null
}

define void @guarded_free(ptr %p) {
  %none = icmp eq ptr %p, null
  br i1 %none, label %done, label %held
held:
  %number = ptrtoint ptr %p to i64
  %page = and i64 %number, -4096
  %base = sub i64 %page, 8192
  %block = inttoptr i64 %base to ptr
  %total = load i64, ptr %block
  %status = call i32 @munmap(ptr %block, i64 %total)
  br label %done
done:
  ret void
}
"""


class Arena:
    """The allocator, compiled once a process."""

    def __init__(self) -> None:
        self.code = loader.compile_text(TEXT, ["guarded_alloc", "guarded_free", "at_end"], {}).keep()
        self._alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(self.code.address["guarded_alloc"])
        self._free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.code.address["guarded_free"])
        self._at_end = ctypes.c_int32.from_address(self.code.address["at_end"])

    def place(self, at_end: bool) -> None:
        """Whether blocks from now on end where their last page ends, or start where their first page
        starts."""
        self._at_end.value = int(at_end)

    @contextmanager
    def copies(self, arrays: list[np.ndarray[Any, Any]]) -> Iterator[list[np.ndarray[Any, Any]]]:
        """Copies of the arrays in blocks of their own."""
        addresses = [self._alloc(max(16, a.nbytes)) for a in arrays]
        try:
            out = []
            for a, address in zip(arrays, addresses, strict=True):
                # a block is at least 16 bytes: what is smaller stands at that end of it which meets the guard
                shift = max(16, a.nbytes) - a.nbytes if self._at_end.value else 0
                copy = np.ndarray(
                    a.shape, a.dtype, (ctypes.c_char * max(16, a.nbytes)).from_address(address), shift
                )
                copy[...] = a
                out.append(copy)
            yield out
        finally:
            for address in addresses:
                self._free(address)

    def serve_kernels(self) -> None:
        """Temporaries of kernels built from now on come from here."""
        threads.helpers(parallel=True)
        threads._helpers["tensorlang_alloc"] = self.code.address["guarded_alloc"]
        threads._helpers["tensorlang_free"] = self.code.address["guarded_free"]


@contextmanager
def nothing_on_the_stack() -> Iterator[None]:
    """Kernels built here allocate every buffer, small tiles as well."""
    before = statement.STACK_LIMIT
    statement.STACK_LIMIT = -1
    try:
        yield
    finally:
        statement.STACK_LIMIT = before
