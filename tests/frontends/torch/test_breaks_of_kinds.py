"""Thirty programs that break, of the kinds that users write: the report names the line of each, and what it advises
removes the break where it is followed."""

from __future__ import annotations

import copy
import inspect
import io
import json
import logging
import os
import random
import sys
import threading

import pytest

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
from tensorlang.frontends.torch.explain import breaks_of  # noqa: E402

from .breaks import given, removed  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")
PROGRAMS = []
LOGGER = logging.getLogger(__name__)


def program(f):
    PROGRAMS.append(f)
    return f


@program
def item_in_index(x):
    y = x * 2
    n = int(y.abs().sum().item())  # BREAK
    return y[n % 3] + 1


@program
def branch_all(x):
    y = torch.sin(x)
    if (y > -2).all():  # BREAK
        y = y + 1
    return y * 2


@program
def print_shape_value(x):
    y = x.cos()
    print("max", y.max())  # BREAK
    return y + 1


@program
def nonzero_count(x):
    y = x - 1
    idx = torch.nonzero(y > 0)  # BREAK
    return x[idx[:, 0]].sum()


@program
def bool_mask_select(x):
    y = x * 3
    z = y[y > 1]  # BREAK
    return z.sum() + 1


@program
def tolist(x):
    y = (x * 10).to(torch.int64)
    vals = y.tolist()  # BREAK
    return x + vals[0]


@program
def numpy_random(x):
    y = x + 1
    r = random.SystemRandom().random()  # BREAK
    return y * 0 + (r < 2)


@program
def write_file(x):
    y = x.exp()
    with open(os.devnull, "w") as f:  # BREAK
        f.write("hi")
    return y + 1


@program
def assertion_message(x):
    y = x.abs()
    assert float(y.sum()) > 0, "bad"  # BREAK
    return y / 2


@program
def unique_values(x):
    y = x.round()
    u = torch.unique(y)  # BREAK
    return u.sum() + x


@program
def warn(x):
    y = x.tanh()
    LOGGER.warning("value %s", y)  # BREAK
    return y - 1


@program
def sort_python(x):
    y = x * 2
    order = sorted(range(4), key=lambda i: float(y[i]))  # BREAK
    return y[torch.tensor(order)]


@program
def max_python(x):
    y = x + 1
    m = max(float(v) for v in y)  # BREAK
    return y - m


@program
def ternary(x):
    y = x.sum()
    scale = 2.0 if y > 0 else 0.5  # BREAK
    return x * scale


@program
def and_or(x):
    a, b = x[0] > 0, x[1] > 0
    c = a and b  # BREAK
    return x * c


@program
def match_value(x):
    y = x.argmax()
    match y.item():  # BREAK
        case 3:
            return x + 1
        case _:
            return x - 1


@program
def dict_by_value(x):
    y = (x > 0).sum()
    table = {3: 1.0, 2: 5.0}
    return x * table.get(int(y), 0.0)  # BREAK


@program
def json_dump(x):
    y = x * 2
    s = json.dumps([float(v) for v in y])  # BREAK
    return y + len(s) * 0


@program
def deepcopy_obj(x):
    y = x + 1
    d = copy.deepcopy(threading.current_thread().name)  # BREAK
    return y * len(d)


@program
def range_value(x):
    y = x * 1
    n = (x > 0).sum()
    for i in range(n):  # BREAK
        y = y + i
    return y


@program
def helper_item(x):
    y = x * 2
    z = _clip_at(y)
    return z + 1


def _clip_at(y):
    top = y.max().item()  # BREAK
    return y.clamp(max=top / 2)


@program
def try_branch(x):
    y = x + 1
    try:
        if y.min() < -10:  # BREAK
            raise ValueError
        y = y * 2
    except ValueError:
        y = y * 3
    return y


@program
def to_numpy_sig(x):
    y = x * 2
    z = np.linalg.norm(y.numpy())
    return x / float(z)  # BREAK


@program
def list_append_len(x):
    out = []
    for v in x:
        if v > 0:  # BREAK
            out.append(v)
    return torch.stack(out)


@program
def enumerate_assert(x):
    y = x.double()
    torch._assert(bool((y < 100).all()), "large")  # BREAK
    return y.float()


@program
def breakpoint_like(x):
    y = x * 2
    sys.stdout.flush()  # BREAK
    return y + 1


@program
def lock(x):
    y = x + 1
    with threading.Lock():  # BREAK
        y = y * 2
    return y


@program
def env(x):
    y = x * 2
    e = os.getpid()  # BREAK
    return y + (e > 0)


@program
def save(x):
    y = x * 2
    kept = io.BytesIO()  # BREAK
    torch.save(y, kept)
    return y + 1


@program
def multiline(x):
    y = x + 1
    z = torch.where(
        y > 0,
        y,
        torch.full_like(y, y.mean().item()),  # BREAK
    )
    return z * 2


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_line_that_breaks_is_named(f):
    where = _clip_at if f is helper_item else f
    lines, first = inspect.getsourcelines(where)
    line = first + next(i for i, text in enumerate(lines) if "# BREAK" in text)
    seen, _ = breaks_of(f, (given(),), {})
    assert [b.line for b in seen] == [line] and seen[0].file == __file__ and seen[0].advice


def branch_as_where(x):
    y = torch.sin(x)
    return torch.where((y > -2).all(), y + 1, y) * 2


def print_after(x):
    return x.cos() + 1


def mask_of_all(x):
    y = x * 3
    return torch.where(y > 1, y, 0).sum() + 1


def mask_in_place_of_places(x):
    return torch.where(x - 1 > 0, x, 0).sum()


def factor_by_where(x):
    return x * torch.where(x.sum() > 0, 2.0, 0.5)


def both_as_masks(x):
    return x * ((x[0] > 0) & (x[1] > 0))


def steps_at_most(x):
    steps = torch.arange(len(x))
    return x + torch.where(steps < (x > 0).sum(), steps, 0).sum()


def place_by_where(x):
    return torch.where(x.argmax() == 3, x + 1, x - 1)


def number_as_tensor(x):
    y = x + 1
    return y - y.max()


def clamp_by_tensor(x):
    y = x * 2
    return y.clamp(max=y.max() / 2) + 1


MENDED = [
    (branch_all, branch_as_where),
    (print_shape_value, print_after),
    (bool_mask_select, mask_of_all),
    (nonzero_count, mask_in_place_of_places),
    (ternary, factor_by_where),
    (and_or, both_as_masks),
    (range_value, steps_at_most),
    (match_value, place_by_where),
    (max_python, number_as_tensor),
    (helper_item, clamp_by_tensor),
]


@pytest.mark.parametrize("f, mended", MENDED, ids=lambda f: f.__name__)
def test_what_is_advised_removes_it(f, mended):
    removed(f, mended)


def test_there_are_thirty():
    assert len(PROGRAMS) == 30
