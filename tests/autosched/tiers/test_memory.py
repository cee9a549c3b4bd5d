"""No memory is allocated while a kernel serves the sizes it was planned for; in processes of their own, since
a plan is for the whole process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is kept on Linux only")

SCRIPT = """
import ctypes, gc, resource, sys, tracemalloc
import numpy as np
import tensorlang as tl
from tensorlang import ops, te

planned, exact = sys.argv[1] == "planned", sys.argv[2:]
tl.set_num_threads(1)
def attention(m):
    q, k, v = (te.placeholder((2, m, 32), name=n) for n in "QKV")
    return [q, k, v, ops.batch_matmul(ops.softmax(ops.batch_matmul(q, k, transpose_b=True)), v)]
general = tl.compile(attention(te.dim("m", 1, 384)))
kernel = tl.Dispatcher(general, [general])
for m in exact:
    kernel.publish((int(m),), tl.compile(attention(int(m))))
sizes = [384, *range(1, 384, 6)]
arrays = {m: tuple(np.random.default_rng(m).random((2, m, 32), np.float32) for _ in range(4)) for m in sizes}
kernel(*arrays[1])
if planned:
    tl.plan_workspace(lambda: kernel(*arrays[384]))
class Info(ctypes.Structure):
    _fields_ = [(n, ctypes.c_size_t) for n in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]
mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Info
gc.collect()
tracemalloc.start()
for m in sizes[1:3]:
    kernel(*arrays[m])  # the interpreter's own caches
before, heap, python = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, mallinfo().arena + mallinfo().hblkhd, tracemalloc.get_traced_memory()[0]
for m in sizes:
    kernel(*arrays[m])
after, heap2, python2 = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, mallinfo().arena + mallinfo().hblkhd, tracemalloc.get_traced_memory()[0]
print(after - before, heap2 - heap, python2 - python)
"""


def grown(*arguments: str) -> list[int]:
    """Page faults, bytes of the C library's heap and bytes of Python's objects by the first pass over all
    sizes."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(x) for x in done.stdout.split()]


def test_a_planned_kernel_allocates_nothing_at_any_size() -> None:
    faults, heap, python = grown("planned", "37", "200")
    assert faults < 120, (
        "pages of code seen for the first time; the temporary memory alone has thousands, see below"
    )
    assert heap == 0 and python < 2000


def test_without_a_plan_it_does() -> None:
    assert grown("not")[0] > 1000
