"""What runs for long: shapes that alternate, threads, children, copies and files of modules; and nothing is kept of
what is gone."""

from __future__ import annotations

import copy
import ctypes
import gc
import io
import os
import threading
import weakref

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import region, source  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def model():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 3)).eval()


def resident():
    """Bytes of this process in memory."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="Linux tells how large a process is")
def test_a_thousand_calls_of_alternating_shapes_are_right_and_keep_nothing():
    m = model()
    f = torch.compile(m, backend="tensorlang", dynamic=True)
    inputs = [torch.randn(n, 6) for n in (2, 300, 17, 4096, 5, 64, 1000)]
    with torch.no_grad():
        wanted = [m(x) for x in inputs]
        size = 0
        for i in range(1001):
            x = inputs[i % len(inputs)]
            torch.testing.assert_close(f(x), wanted[i % len(inputs)])
            if i == 500:
                size = resident()
    assert resident() - size < 8 << 20
    (graph,) = tlt.graphs()
    assert sum(r.counts.calls for r in graph.regions) == 1001


class Heap(ctypes.Structure):
    """What glibc's ``mallinfo2`` tells."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]

    @property
    def used(self):
        """Bytes that are allocated: in arenas, and mapped one by one. Not what arenas keep for later."""
        return self.uordblks + self.hblkhd


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc tells what is allocated")
def test_calls_by_threads_that_come_and_go_allocate_nothing_that_stays():
    """The process grows by arenas that malloc keeps for so many threads at once; what is in use does not."""
    heap = ctypes.CDLL(None).mallinfo2
    heap.restype = Heap
    m = model()
    f = torch.compile(m, backend="tensorlang", dynamic=True)
    inputs = [torch.randn(n, 6) for n in (2, 300, 17, 4096, 5)]

    def calls(first):
        with torch.no_grad():
            for i in range(40):
                f(inputs[(first + i) % 5])

    def four():
        threads = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        gc.collect()
        return heap().used

    calls(0)
    before = [four() for _ in range(3)][-1]
    after = [four() for _ in range(5)][-1]
    assert after - before < 200_000  # of 800 calls: 250 bytes each would be found


def test_threads_call_one_model_at_once():
    m = model()
    f = torch.compile(m, backend="tensorlang", dynamic=True)
    inputs = [torch.randn(n, 6) for n in (2, 30, 17)]
    wrong = []

    def run(seed):
        with torch.no_grad():
            for i in range(60):
                x = inputs[(i + seed) % 3]
                if not torch.allclose(f(x), m(x), atol=1e-5):
                    wrong.append(i)

    with torch.no_grad():
        f(inputs[0])
    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(tlt.graphs()) == 1


def test_parameters_that_change_while_threads_call():
    m = torch.nn.Linear(4, 4, bias=False).eval()
    f = torch.compile(m, backend="tensorlang")
    x, wrong = torch.eye(4), []

    def run():
        with torch.no_grad():
            for _ in range(100):
                n = f(x).flatten()
                if not (n == n[0]).all():  # never half of one and half of another
                    wrong.append(n)

    with torch.no_grad():
        m.weight.fill_(1.0)
        f(x)
        threads = [threading.Thread(target=run) for _ in range(2)]
        for t in threads:
            t.start()
        for n in range(5):
            m.weight.data = torch.full((4, 4), float(n))
        for t in threads:
            t.join()
        assert not wrong and torch.equal(f(x), m(x))


def test_a_parameter_that_is_replaced_while_it_is_packed_is_seen_at_the_next_call(monkeypatch):
    m = torch.nn.Linear(4, 4, bias=False).eval()
    f, x, plain = torch.compile(m, backend="tensorlang"), torch.eye(4), source.Importer.bring

    def bring(self, tensors):
        plain(self, tensors)
        m.weight.data = m.weight.data + 1.0

    monkeypatch.setattr(source.Importer, "bring", bring)
    with torch.no_grad():
        f(x)
        monkeypatch.undo()
        assert torch.equal(f(x), m(x))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_calls_what_its_parent_compiled():
    m, x = model(), torch.randn(512, 6)
    f = torch.compile(m, backend="tensorlang")
    with torch.no_grad():
        wanted = f(x).numpy().copy()
        child = os.fork()
        if child == 0:
            os._exit(0 if np.array_equal(f(x).numpy(), wanted) else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0 and np.array_equal(f(x).detach().numpy(), wanted)


def test_modules_are_copied_and_saved():
    m, x = model(), torch.randn(3, 6)
    f = torch.compile(m, backend="tensorlang")
    with torch.no_grad():
        wanted = f(x)
        other = copy.deepcopy(f)
        torch.testing.assert_close(other(x), wanted)
        for p in other.parameters():
            p.zero_()
        assert not other(x).any()
        # parameters that have changed are no constants: from now on another kernel, whose last digit may differ
        torch.testing.assert_close(f(x), wanted, rtol=0, atol=2e-7)
        m.compile(backend="tensorlang")
        file = io.BytesIO()
        torch.save(m, file)
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        torch.testing.assert_close(loaded(x), wanted)
        file = io.BytesIO()
        torch.save(f.state_dict(), file)
        file.seek(0)
        other.load_state_dict(torch.load(file))
        torch.testing.assert_close(other(x), wanted)


def test_what_was_compiled_goes_with_its_model():
    m = model()
    f = torch.compile(m, backend="tensorlang")
    with torch.no_grad():
        f(torch.randn(3, 6))
    (graph,) = tlt.graphs()
    (found,) = graph.regions
    kept = weakref.ref(found), weakref.ref(found.engine)
    del found, m, f
    torch._dynamo.reset()
    gc.collect()
    assert [k() for k in kept] == [None, None]
    assert graph.taken == 3 and graph.regions == []  # what became of it is still told


def test_as_many_models_as_one_likes():
    before = len(region._REGIONS)
    for _ in range(6):
        m = torch.nn.Linear(3, 3)
        with torch.no_grad():
            torch.compile(m, backend="tensorlang")(torch.ones(2, 3))
        torch._dynamo.reset()
    del m
    gc.collect()
    assert len(region._REGIONS) <= before + 1
