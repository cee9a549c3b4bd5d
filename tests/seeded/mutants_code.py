"""The seeded bugs of the machine code and the threads it runs on."""

from __future__ import annotations

from .inject import Mutant as M

MACHINE_CODE = (
    M(
        "strides run the other way",
        "loopir.stmt:Buffer.element_strides",
        "for extent in reversed(self.shape):",
        "for extent in self.shape:",
        ("cached_transpose", "fused"),
    ),
    M(
        "a loop runs one iteration too many",
        "codegen.llvm.statement:_repeated",
        "icmp slt i64 {following}, {end}",
        "icmp sle i64 {following}, {end}",
        ("split_tail", "vector_tail"),
    ),
    M(
        "an empty loop runs once",
        "codegen.llvm.statement:_iterations",
        "(first[0], hi), extent is not None, s.body)",
        "(first[0], hi), True, s.body)",
        ("guard",),
    ),
    M(
        "threads get one iteration less",
        "codegen.llvm.parallel:emit",
        "em.index(make.add(s.begin, s.extent))",
        "em.index(make.sub(make.add(s.begin, s.extent), 1))",
        ("many_threads",),
    ),
    M(
        "the mask of a load is dropped in machine code",
        "codegen.llvm.memory:_load_raw",
        "if mask is None or _on_stack(em, buffer, place):",
        "if True:",
        ("guard", "vector_tail"),
    ),
    M(
        "the mask of a store is dropped in machine code",
        "codegen.llvm.memory:store",
        "flags = None if mask is None else em.value(mask)",
        "flags = None",
        ("vector_tail", "guard"),
    ),
    M(
        "reversed lanes are stored as they come",
        "codegen.llvm.memory:_reversed",
        "list(range(lanes - 1, -1, -1))",
        "list(range(lanes))",
        ("odd_vectors", "strided"),
    ),
    M(
        "strided loads read past their last lane",
        "codegen.llvm.memory:_load_strided",
        "[min(i * n, span - n) for i in range((span + n - 1) // n)]",
        "[i * n for i in range((span + n - 1) // n)]",
        ("guard",),
    ),
    M(
        "division rounds to zero in machine code",
        "codegen.llvm.index:divide",
        "floor = kind is FloorDiv or kind is FloorMod",
        "floor = False",
        ("divisions",),
    ),
    M(
        "a negative number is divided as if it were not",
        "codegen.llvm.index:divide",
        "lo_a is not None and lo_a >= 0 and lo_b",
        "lo_b",
        ("divisions",),
    ),
    M(
        "registers are not written back",
        "codegen.llvm.promote:_between",
        "seq(*before, inner, *after)",
        "seq(*before, inner)",
        ("unrolled_rows", "reduction_split"),
    ),
    M(
        "registers do not start from memory",
        "codegen.llvm.promote:_between",
        "seq(*before, inner, *after)",
        "seq(inner, *after)",
        ("unrolled_rows", "reduction_split", "where_and_init"),
    ),
    M(
        "registers may overlap",
        "codegen.llvm.promote:_disjoint",
        "at + n <= following",
        "at <= following",
        ("kernels by hand",),
    ),
    M(
        "a temporary is one element short",
        "codegen.llvm.statement:size_in_elements",
        "total = make.mul(total, extent)",
        "total = make.mul(total, make.sub(extent, 1))",
        ("guard", "many_threads"),
    ),
)
