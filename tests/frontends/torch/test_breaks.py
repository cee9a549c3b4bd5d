"""Thirty and more programs that break graphs: each break is found at its line, with advice that removes it."""

from __future__ import annotations

import copy
import datetime
import gc
import hashlib
import heapq
import io
import json
import logging
import os
import pickle
import random
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te

torch = pytest.importorskip("torch")
import tensorlang.torch as tlt  # noqa: E402

from . import breaks  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def branches(x):
    if x.sum() > 0:  # BREAK
        return x * 2
    return x - 1


def branches_not(x):
    return torch.where(x.sum() > 0, x * 2, x - 1)


def tells(x):
    y = x * 2
    print("twice")  # BREAK
    return y + 1


def tells_not(x):
    return x * 2 + 1


def asks(x):
    n = x.sum().item()  # BREAK
    return x * n


def asks_not(x):
    return x * x.sum()


def asks_int(x):
    n = int(x[0])  # BREAK
    return x * n


def asks_int_not(x):
    return x * x[0].trunc()


def lists(x):
    n = x.tolist()  # BREAK
    return x * n[0]


def lists_not(x):
    return x * x[0]


def selects(x):
    y = x[x > 0]  # BREAK
    return y.sum() * 2


def selects_not(x):
    return torch.where(x > 0, x, 0).sum() * 2


def places(x):
    at = torch.nonzero(x > 0)  # BREAK
    return at.shape[0] + x


def places_not(x):
    return (x > 0).sum() + x


def stops(x):
    y = x * 2
    torch._dynamo.graph_break()  # BREAK
    return y + 1


def waits(x):
    y = x + 1
    time.sleep(0)  # BREAK
    return y * 2


def loops(x):
    while x.max() < 8:  # BREAK
        x = x * 2
    return x


def inner(x):
    if x.mean() > 0:  # BREAK
        return x + 1
    return x


@torch._dynamo.disable
def outside(x):
    return x + 1


def nested(x):
    return inner(x * 2) * 3


def counts(x):
    for _ in range(int(x[1])):  # BREAK
        x = x + 1
    return x


def logs(x):
    y = x * 2
    logging.getLogger("a").warning("twice")  # BREAK
    return y + 1


def warns(x):
    y = x * 2
    warnings.warn("twice", stacklevel=1)  # BREAK
    return y + 1


def reads(x):
    y = x * 2
    with open(os.devnull) as f:  # BREAK
        f.read()
    return y + 1


def clocks(x):
    y = x * 2
    t = time.perf_counter()  # BREAK
    return y + t


def lists_dir(x):
    y = x * 2
    n = len(os.listdir("."))  # BREAK
    return y + n


def masked(x):
    return torch.masked_select(x, x > 0) * 2  # BREAK


def learns(x):
    y = (x * 2).requires_grad_()
    y.sum().backward()  # BREAK
    return y


def pickles(x):
    y = x * 2
    n = len(pickle.dumps(3))  # BREAK
    return y + n


def jsons(x):
    y = x * 2
    s = json.dumps([1, 2])  # BREAK
    return y + len(s)


def locked(x):
    y = x * 2
    with threading.Lock():  # BREAK
        y = y + 1
    return y


def disabled(x):
    return outside(x * 2) * 3  # BREAK


lstm = torch.nn.LSTM(1, 2)


def recurs(x):
    return lstm(x[:, None] * 2)[0].sum() + 1  # BREAK


def recurs_not(x):
    with torch.no_grad():
        return lstm(x[:, None] * 2)[0].sum() + 1


def writes(x):
    y = x * 2
    sys.stdout.write("")  # BREAK
    return y + 1


t = te.placeholder((4,), "float32", name="x")
kernel = tl.compile([t, te.compute((4,), lambda i: t[i] * 2, name="y")])


def kernels(x):
    return kernel(x * 2) + 1  # BREAK


def seeds(x):
    y = x * 2
    torch.manual_seed(0)  # BREAK
    return y + 1


def bins(x):
    return torch.bincount(x.abs().long()) + 1  # BREAK


def wheres(x):
    return torch.where(x > 0)[0] + 1  # BREAK


def repeats(x):
    return torch.repeat_interleave(x, x.abs().long()) + 1  # BREAK


def hashes(x):
    y = x * 2
    h = hashlib.md5(b"a").hexdigest()  # BREAK
    return y + len(h)


def both(x):
    if x.any() and x[0] > 0:  # BREAK
        return x * 2
    return x


def floats(x):
    return x * float(x.sum())  # BREAK


def sorts(x):
    return torch.stack(sorted([x[0], x[1], x[2]])) * 2  # BREAK


def saves(x):
    y = x * 2
    torch.save(y, io.BytesIO())  # BREAK
    return y + 1


def copies(x):
    y = x * 2
    return copy.deepcopy(y) + 1  # BREAK


def runs(x):
    y = x * 2
    subprocess.run(["true"])  # BREAK
    return y + 1


def tries(x):
    try:
        if x.sum() > 100:  # BREAK
            raise ValueError
    except ValueError:
        return x
    return x * 2


def to_numpy(x):
    y = x * 2
    n = np.asarray(y).tobytes()  # BREAK
    return y + len(n)


def raises(x):
    if x.sum() < -100:  # BREAK
        raise ValueError("no")
    return x * 2


def in_list(x):
    if x[0] in [x[1], x[2]]:  # BREAK
        return x * 2
    return x


def slices(x):
    n = x.argmax()
    return x[: n.item()] * 2  # BREAK


def dict_of(x):
    d = {int(k): 1 for k in x}  # BREAK
    return x + len(d)


def tries_number(x):
    y = x * 2
    try:
        n = int(y.sum())  # BREAK
    except ValueError:
        n = 3
    return y * n


def tries_number_not(x):
    y = x * 2
    return y * y.sum().trunc()


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x.max().item()  # BREAK

    @staticmethod
    def backward(ctx, g):
        return g


def of_a_function(x):
    return Scaled.apply(x + 1)


def of_a_function_not(x):
    return (x + 1) * (x + 1).max()


def while_large(x):
    while x.norm() > 1:  # BREAK
        x = x / 2
    return x


def counts_not(x):
    steps = torch.arange(8)
    return x + (steps < x[1]).sum()


def masked_not(x):
    return torch.where(x > 0, x, 0) * 2


def sorts_not(x):
    return torch.sort(x[:3]).values * 2


def copies_not(x):
    return (x * 2).clone() + 1


def both_not(x):
    return torch.where(x.any() & (x[0] > 0), x * 2, x)


double = tlt.op(kernel, "ours::doubled")


def kernels_not(x):
    return double(x * 2) + 1


def slices_not(x):
    return torch.where(torch.arange(len(x)) < x.argmax(), x, 0) * 2


def bins_not(x):
    return (x.abs().long()[:, None] == torch.arange(8)).sum(0) + 1


def loops_not(x):
    for _ in range(4):
        x = torch.where(x.max() < 8, x * 2, x)
    return x


def while_large_not(x):
    for _ in range(8):
        x = torch.where(x.norm() > 1, x / 2, x)
    return x


def equals(x):
    if torch.equal(x, x + 1):  # BREAK
        return x * 2
    return x - 1


def equals_not(x):
    return torch.where((x == x + 1).all(), x * 2, x - 1)


def draws(x):
    return x * (random.SystemRandom().random() > 2)  # BREAK


def heaps(x):
    rows = [x[1], x[0], x[2]]
    heapq.heapify(rows)  # BREAK
    return rows[0] * 2


def heaps_not(x):
    return torch.sort(x[:3]).values[0] * 2


def dates(x):
    y = x * 2
    datetime.datetime.now()  # BREAK
    return y + 1


def collects(x):
    y = x * 2
    gc.collect()  # BREAK
    return y + 1


def texts(x):
    return x * len(str(x[0]))  # BREAK


def values_by_place(x):
    return x * [2.0, 3.0, 4.0, 5.0][x.argmax()]  # BREAK


def values_by_place_not(x):
    return x * torch.tensor([2.0, 3.0, 4.0, 5.0]).take(x.argmax())


def matches(x):
    match int(x.argmax()):  # BREAK
        case 3:
            return x * 3
        case _:
            return x


def matches_not(x):
    return torch.where(x.argmax() == 3, x * 3, x)


PROGRAMS = [
    (branches, branches_not, "torch.where"),
    (tells, tells_not, "print what the compiled function returns"),
    (asks, asks_not, "tensor of no dimensions"),
    (asks_int, asks_int_not, "tensor of no dimensions"),
    (lists, lists_not, "tensor of no dimensions"),
    (selects, selects_not, "mask"),
    (places, places_not, "mask"),
    (stops, tells_not, "leave torch._dynamo.graph_break"),
    (waits, tells_not, "before or after"),
    (loops, loops_not, "for loop"),
    (nested, None, "torch.where"),
    (counts, counts_not, "tensor of no dimensions"),
    (logs, tells_not, "print what"),
    (warns, None, "print what"),
    (reads, None, "before or after"),
    (clocks, tells_not, "before or after"),
    (lists_dir, None, "before or after"),
    (masked, masked_not, "mask"),
    (learns, None, "gradients outside"),
    (pickles, None, "before or after"),
    (jsons, None, "before or after"),
    (locked, None, "context outside"),
    (disabled, None, "disable"),
    (recurs, recurs_not, "no_grad"),
    (writes, None, "print what"),
    (kernels, kernels_not, "tensorlang.torch.op"),
    (seeds, None, "before or after"),
    (bins, bins_not, "mask"),
    (wheres, None, "mask"),
    (repeats, None, "mask"),
    (hashes, None, "before or after"),
    (both, both_not, "torch.where"),
    (floats, asks_not, "tensor of no dimensions"),
    (sorts, sorts_not, "torch.sort"),
    (saves, None, "before or after"),
    (copies, copies_not, "clone"),
    (runs, None, "before or after"),
    (tries, None, "torch.where"),
    (to_numpy, None, "torch's function"),
    (raises, None, "torch.where"),
    (in_list, None, "torch.where"),
    (slices, slices_not, "tensor of no dimensions"),
    (dict_of, None, "tensor of no dimensions"),
    (tries_number, tries_number_not, "tensor of no dimensions"),
    (of_a_function, of_a_function_not, "tensor of no dimensions"),
    (while_large, while_large_not, "for loop"),
    (equals, equals_not, "(a == b).all()"),
    (draws, None, "torch.rand"),
    (heaps, heaps_not, "torch.sort"),
    (dates, None, "before or after"),
    (collects, None, "before or after"),
    (texts, None, "text of what"),
    (values_by_place, values_by_place_not, "tensor of no dimensions"),
    (matches, matches_not, "tensor of no dimensions"),
]
WITHIN = {"nested": inner, "of_a_function": Scaled.forward}  # where others call what breaks
OTHERWISE = (bins, clocks, counts, masked, slices, waits)  # of another shape, or of the time


@pytest.mark.parametrize(("program", "mended", "advice"), PROGRAMS, ids=lambda f: getattr(f, "__name__", ""))
def test_breaks_are_found_with_advice_that_removes_them(program, mended, advice):
    breaks.found(program, WITHIN.get(program.__name__, program), advice)
    if mended is not None:
        breaks.removed(program, mended, equal=program not in OTHERWISE)
