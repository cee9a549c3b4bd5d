"""Programs whose graphs break at what Python does by itself: generators, containers, contexts, hooks, texts,
identities, types. Each break is found at its line, with advice that removes it."""

from __future__ import annotations

import asyncio
import contextlib
import decimal
import itertools
import math
import threading
import time

import pytest

torch = pytest.importorskip("torch")
from . import breaks  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def distinct(x):
    return torch.unique(x) * 2  # BREAK


def how_many(x):
    return x * len(torch.nonzero(x > 0))  # BREAK


def how_many_not(x):
    return x * (x > 0).sum()


def texts(x):
    return x * len(f"{x.sum()}")  # BREAK


def formats(x):
    return x + len("{:.2f}".format(x.sum()))  # BREAK  # noqa: UP032


def identities(x):
    y = x * 2
    return y + id(y) % 1  # BREAK


def addresses(x):
    y = x * 2
    return y + y.data_ptr() % 1  # BREAK


def addresses_not(x):
    y = x * 2
    return y + (y is x)


def bytes_of(x):
    return x + x.untyped_storage().nbytes()  # BREAK


def bytes_of_not(x):
    return x + x.numel() * x.element_size()


def yields(x):
    def numbers():
        for i in range(3):
            yield int(x[i])  # BREAK

    return x * sum(numbers())


def yields_not(x):
    return x * x[:3].trunc().sum()


def filters(x):
    return x * sum(1 for v in x if v > 0)  # BREAK


def filters_not(x):
    return x * torch.where(x > 0, 1, 0).sum()


def takes(x):
    for v in itertools.takewhile(lambda v: v > 0, x):  # BREAK
        x = x + v
    return x


def takes_not(x):
    return x + torch.where((x > 0).cumprod(0) > 0, x, 0).sum()


held = torch.ones(4)


def of_a_global(x):
    if held.sum() > 0:  # BREAK
        return held * x
    return x


def of_a_global_not(x):
    return torch.where(held.sum() > 0, held * x, x)


seen: list[float] = []


def grows(x):
    y = x * 2
    seen.append(y.sum().item())  # BREAK
    return y + 1


seen_tensors: list[torch.Tensor] = []


def grows_not(x):
    y = x * 2
    seen_tensors.append(y.sum())
    return y + 1


def sets(x):
    return x * len({float(v) for v in x})  # BREAK


def items(x):
    for v in {"sum": x.sum(), "mean": x.mean()}.values():
        if v > 0:  # BREAK
            x = x + 1
    return x


def items_not(x):
    for v in {"sum": x.sum(), "mean": x.mean()}.values():
        x = torch.where(v > 0, x + 1, x)
    return x


@contextlib.contextmanager
def timed():
    start = time.time()  # BREAK
    yield
    time.time() - start


def in_a_context(x):
    y = x * 2
    with timed():
        return y + 1


def in_a_context_not(x):
    return x * 2 + 1


class Shown:
    def __enter__(self):
        print("in")  # BREAK

    def __exit__(self, *error):
        pass


def in_an_object(x):
    y = x * 2
    with Shown():
        return y + 1


def tells(module, inputs, output):
    print(type(module))  # BREAK


hooked = torch.nn.Identity()
hooked.register_forward_hook(tells)
bare = torch.nn.Identity()
doubled = torch.nn.Identity()
doubled.register_forward_hook(lambda module, inputs, output: output * 2)


def with_a_hook(x):
    return hooked(x * 2) + 1


def hooks(x):
    handle = bare.register_forward_hook(lambda module, inputs, output: output * 2)  # BREAK
    y = bare(x) + 1
    handle.remove()
    return y


def hooks_not(x):
    return doubled(x) + 1


def part_of_it(x):
    y = x.clone()
    part = y[1:3]
    if part.sum() < 0:  # BREAK
        part.add_(1)
    return y * 2


def part_of_it_not(x):
    y = x.clone()
    part = y[1:3]
    part.add_(torch.where(part.sum() < 0, 1, 0))
    return y * 2


def types(x):
    kind = int if x[0] > 0 else float  # BREAK
    return x * isinstance(1, kind)


def types_of_tensors(x):
    return x.to(torch.float64 if x.max() > 0 else torch.int64) * 2  # BREAK


def steps(x):
    return sum((x for _ in range(x.argmax())), x)  # BREAK


def steps_not(x):
    return x + (torch.arange(4)[:, None] < x.argmax()).mul(x).sum(0)


def calls_itself(x):
    if x.sum() < 1000:  # BREAK
        return calls_itself(x * 4)
    return x


def calls_itself_not(x):
    for _ in range(6):
        x = torch.where(x.sum() < 1000, x * 4, x)
    return x


def roots(x):
    return x * math.sqrt(x[0])  # BREAK


def roots_not(x):
    return x * torch.sqrt(x[0])


def claims(x):
    assert (x[0] > 0).item(), "positive"  # BREAK
    return x * 2


def decimals(x):
    n = decimal.Decimal("3.5")  # BREAK
    return x + float(n)


def threads(x):
    t = threading.Thread(target=lambda: None)  # BREAK
    t.start()
    t.join()
    return x * 2


def sparse(x):
    return (x.to_sparse() * 2).to_dense()  # BREAK


def sparse_not(x):
    return x * 2


async def one():
    return 1


def waits_for_it(x):
    return x * asyncio.run(one())  # BREAK


PROGRAMS = [
    (distinct, None, "mask"),
    (how_many, how_many_not, "mask"),
    (texts, None, "text of what"),
    (formats, None, "text of what"),
    (identities, addresses_not, "compare tensors with `is`"),
    (addresses, addresses_not, "compare tensors with `is`"),
    (bytes_of, bytes_of_not, "element_size"),
    (yields, yields_not, "tensor of no dimensions"),
    (filters, filters_not, "torch.where"),
    (takes, takes_not, "torch.where"),
    (of_a_global, of_a_global_not, "torch.where"),
    (grows, grows_not, "tensor of no dimensions"),
    (sets, None, "tensor of no dimensions"),
    (items, items_not, "torch.where"),
    (in_a_context, in_a_context_not, "before or after"),
    (in_an_object, in_a_context_not, "print what"),
    (with_a_hook, None, "print what"),
    (hooks, hooks_not, "before the function is compiled"),
    (part_of_it, part_of_it_not, "torch.where"),
    (types, None, "torch.where"),
    (types_of_tensors, None, "torch.where"),
    (steps, steps_not, "as a mask"),
    (calls_itself, calls_itself_not, "torch.where"),
    (roots, roots_not, "torch's function"),
    (claims, None, "tensor of no dimensions"),
    (decimals, None, "before or after"),
    (threads, None, "before or after"),
    (sparse, sparse_not, "dense"),
    (waits_for_it, None, "before or after"),
]
WITHIN = {"in_a_context": timed.__wrapped__, "in_an_object": Shown.__enter__, "with_a_hook": tells}


@pytest.mark.parametrize(("program", "mended", "advice"), PROGRAMS, ids=lambda f: getattr(f, "__name__", ""))
def test_breaks_are_found_with_advice_that_removes_them(program, mended, advice):
    breaks.found(program, WITHIN.get(program.__name__, program), advice)
    if mended is not None:
        breaks.removed(program, mended)
