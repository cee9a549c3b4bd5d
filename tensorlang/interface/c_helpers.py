"""What machine code asks of its surroundings, for programs of C: LLVM text of functions that need the C
library only. A parallel loop runs in the calling thread unless the program has a function
``tensorlang_parallel`` of its own: the one here is weak. A short one always does: who is awake is not known.
"""

from __future__ import annotations

C_HELPERS = {
    "tensorlang_alloc": """define internal ptr @tensorlang_alloc(i64 %size) nounwind {
  %slot = alloca ptr, align 8
  %status = call i32 @posix_memalign(ptr %slot, i64 64, i64 %size)
  %failed = icmp ne i32 %status, 0
  %block = load ptr, ptr %slot, align 8
  %result = select i1 %failed, ptr null, ptr %block
  ret ptr %result
}
declare i32 @posix_memalign(ptr, i64, i64)""",
    "tensorlang_free": """define internal void @tensorlang_free(ptr %block) nounwind {
  call void @free(ptr %block)
  ret void
}
declare void @free(ptr)""",
    "tensorlang_parallel": """define weak void @tensorlang_parallel(
  ptr %body, ptr %context, i64 %begin, i64 %end)
  nounwind {
  call void %body(ptr %context, i64 %begin, i64 %end)
  ret void
}""",
    "tensorlang_parallel_awake": """define internal void @tensorlang_parallel_awake(
  ptr %body, ptr %context, i64 %begin, i64 %end)
  nounwind {
  call void %body(ptr %context, i64 %begin, i64 %end)
  ret void
}""",
}
