"""Arrays, devices and targets in TVM's words."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import tensorlang as tl


def test_arrays():
    a = tl.nd.array([1.5, 2.0], tl.cpu())
    assert isinstance(a, np.ndarray) and a.dtype == "float32" and a.device == tl.cpu(0)
    assert tl.nd.array(np.arange(3)).dtype == "int64" and tl.nd.array(np.float64(2)).dtype == "float64"
    b = tl.nd.empty((2,), "float64")
    a.copyto(b)
    assert b.tolist() == [1.5, 2.0] and type(b.numpy()) is np.ndarray and not np.shares_memory(b.numpy(), b)
    assert (
        tl.nd.array(np.arange(6).reshape(2, 3).T).flags.c_contiguous
        and a.copyto(tl.cpu()).copyfrom([3, 4]).tolist() == [3, 4]
        and a[0] == 1.5
    )


def test_devices():
    assert (
        tl.device("llvm", 1) == tl.cpu(1)
        and tl.device(tl.Target("llvm")) == tl.cpu()
        and str(tl.cpu(0)) == "cpu(0)"
        and tl.cpu().exist
    )
    tl.cpu().sync()
    with pytest.raises(tl.TargetError, match="no such device"):
        tl.device("cuda", 0)


def test_targets():
    here = tl.Target.host()
    assert tl.Target("llvm") == tl.Target(target="llvm", host="llvm") == tl.Target(here) == here
    assert here.kind.name == here.kind == "llvm" and pickle.loads(pickle.dumps(here)).kind.name == "llvm"
    assert replace(here, num_cores=1).num_cores == 1 and pickle.loads(pickle.dumps(here)) == here
    for wrong in (lambda: tl.Target("cuda"), lambda: tl.Target("llvm", host="cuda"), lambda: tl.Target(7)):
        with pytest.raises(tl.TargetError):
            wrong()


def test_comparison():
    tl.testing.assert_allclose(np.ones(2), np.ones(2) + 1e-9)
    for other in (np.ones(2) + 1e-3, np.ones((1, 2))):
        with pytest.raises(AssertionError):
            tl.testing.assert_allclose(np.ones(2), other)


def test_a_builder_of_one_call():
    ib = tl.tir.ir_builder.create()
    with pytest.raises(tl.DeclareError, match="0 calls"):
        ib.get()
    ib.emit(tl.tir.call_packed("f"))
    assert ib.get().name == "f"
