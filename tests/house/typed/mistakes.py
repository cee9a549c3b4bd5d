"""Mistakes that a type checker must find in a user's file; each line says which error of mypy it is. Never
run."""

from __future__ import annotations

import tensorlang as tl
from tensorlang import te

A = te.placeholder((8, 8), name="A")
C = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="C")
s = te.create_schedule(C.op)
i, j = s[C].op.axis
s[C].splt(i, factor=4)  # attr-defined
s[C].split(i, fctor=4)  # call-arg
s[C].split(i, factor=4.0)  # arg-type
s[C].compute_at(C, i)  # arg-type
s[C].vectorize()  # call-arg
s.cach_write(C)  # attr-defined
s[3.0]  # index
te.comput((8,), lambda i: i)  # attr-defined
te.exp("x")  # arg-type
te.compute((8,), lambda i: "x")  # arg-type
tl.build(C, [A, C])  # arg-type
