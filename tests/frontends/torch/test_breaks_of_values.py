"""Programs whose graphs break where Python asks for the value of a tensor: in comprehensions, loops over a dict and a
generator, flags of ``while``, texts of ``assert``, sizes of slices and splits. Each break is found at its line, with
advice that removes it."""

from __future__ import annotations

import logging
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from . import breaks  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def asks_each(x):
    numbers = [v.item() for v in x]  # BREAK
    return x * numbers[0]


def asks_each_not(x):
    numbers = list(x)
    return x * numbers[0]


def by_name(x):
    total = x
    for v in {"a": x, "b": -x}.values():
        if v[0] > 0:  # BREAK
            total = total + v
    return total


def by_name_not(x):
    total = x
    for v in {"a": x, "b": -x}.values():
        total = total + torch.where(v[0] > 0, v, 0)
    return total


class Tells(torch.nn.Module):
    def forward(self, x):
        print("within")  # BREAK
        return x * 2


class Quiet(torch.nn.Module):
    def forward(self, x):
        return x * 2


telling, quiet = (torch.nn.Sequential(torch.nn.Identity(), m) for m in (Tells(), Quiet()))


def tells_within(x):
    return telling(x) + 1


def tells_within_not(x):
    return quiet(x) + 1


def positive(x):
    for v in x:
        if v > 0:  # BREAK
            yield v


def of_a_generator(x):
    return sum(positive(x)) + x


def of_a_generator_not(x):
    return sum(torch.where(v > 0, v, 0) for v in x) + x


def while_flag(x):
    small = x.sum() < 100
    while small:  # BREAK
        x = x * 2
        small = x.sum() < 100
    return x


def while_flag_not(x):
    for _ in range(8):
        x = torch.where(x.sum() < 100, x * 2, x)
    return x


def through_numpy(x):
    a = np.unique((x * 2).numpy())  # BREAK
    return torch.from_numpy(a) + 1


def through_numpy_not(x):
    return torch.sort(x * 2).values + 1  # numbers that are all different


def logs_sum(x):
    logging.getLogger("a").info("sum %s", x.sum())  # BREAK
    return x + 1


def logs_sum_not(x):
    return x + 1


def asserts(x):
    assert x.sum() > 0, f"negative: {x}"  # BREAK
    return x * 2


def asserts_not(x):
    torch._assert_async(x.sum() > 0, "negative")  # pytest writes asserts anew, and dynamo would not know them
    return x * 2


def any_of(x):
    if any(v > 3 for v in x):  # BREAK
        return x * 2
    return x


def any_of_not(x):
    return torch.where((x > 3).any(), x * 2, x)


def finds(x):
    at = torch.argwhere(x > 0)  # BREAK
    return x[at[0]]


def finds_not(x):
    return x.take((x > 0).int().argmax())[None]


def splits(x):
    a, b = torch.split(x, [int(x[0]), 3])  # BREAK
    return a.sum() + b.sum()


def splits_not(x):
    first = torch.arange(4) < x[0]
    return torch.where(first, x, 0).sum() + torch.where(first, 0, x).sum()


def assigns(x):
    y = x.clone()
    y[y < 0] = y.max().item()  # BREAK
    return y


def assigns_not(x):
    return torch.where(x < 0, x.max(), x)


def by_process(x):
    y = x * 2
    if os.getpid() > 0:  # BREAK
        return y
    return x


def chosen(x):
    s = 2 if x[0] > 0 else 3  # BREAK
    return x * s


def chosen_not(x):
    return x * torch.where(x[0] > 0, 2, 3)


PROGRAMS = [
    (asks_each, asks_each_not, "tensor of no dimensions"),
    (by_name, by_name_not, "torch.where"),
    (tells_within, tells_within_not, "print what"),
    (of_a_generator, of_a_generator_not, "torch.where"),
    (while_flag, while_flag_not, "for loop"),
    (through_numpy, through_numpy_not, "mask"),
    (logs_sum, logs_sum_not, "print what"),
    (asserts, asserts_not, "plain text"),
    (any_of, any_of_not, "torch.where"),
    (finds, finds_not, "mask"),
    (splits, splits_not, "tensor of no dimensions"),
    (assigns, assigns_not, "tensor of no dimensions"),
    (by_process, None, "before or after"),
    (chosen, chosen_not, "torch.where"),
]
WITHIN = {"tells_within": Tells.forward, "of_a_generator": positive}  # where others call what breaks


@pytest.mark.parametrize(("program", "mended", "advice"), PROGRAMS, ids=lambda f: getattr(f, "__name__", ""))
def test_breaks_are_found_with_advice_that_removes_them(program, mended, advice):
    breaks.found(program, WITHIN.get(program.__name__, program), advice)
    if mended is not None:
        breaks.removed(program, mended)
