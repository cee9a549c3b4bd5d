"""Operators that few models ask for, in programs of torch.export: the answers of torch."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl

torch = pytest.importorskip("torch")
from tests.frontends.torch.functions import Of, beside  # noqa: E402

F = torch.nn.functional
ENDS = [0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 10.0, 0.5, float("inf"), -float("inf"), float("nan")]


def of_torch(f, *args, rtol=2e-6, atol=1e-6):
    theirs = f(*(a.clone() for a in args))
    ours = tl.load_torch(torch.export.export(Of(f), args)).compile()(*(a.numpy() for a in args))
    for a, b in beside(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def numbers(kind, low, high):
    torch.manual_seed(0)
    return torch.cat([torch.rand(500, dtype=kind) * (high - low) + low, torch.tensor(ENDS, dtype=kind)])


SPECIAL = {
    "erfinv": (torch.erfinv, -1, 1),
    "erfc": (torch.erfc, -6, 12),
    "lgamma": (torch.lgamma, -5, 40),
    "digamma": (torch.digamma, -5, 40),
    "i0": (torch.i0, -40, 40),
    "i0e": (torch.special.i0e, -40, 40),
    "i1": (torch.special.i1, -40, 40),
    "i1e": (torch.special.i1e, -40, 40),
    "modified_bessel": (torch.special.modified_bessel_i1, -40, 40),
    "erfcx": (torch.special.erfcx, -5, 60),
    "ndtri": (torch.special.ndtri, 0, 1),
    "ndtri_of_little": (torch.special.ndtri, 0, 1e-12),
    "log_ndtr": (torch.special.log_ndtr, -30, 6),
    "multigammaln": (lambda x: torch.special.multigammaln(x, 2), 1, 40),
    "frexp": (torch.frexp, -1e-38, 1e-38),
    "sgn": (torch.sgn, -3, 3),
    "angle": (torch.angle, -3, 3),
    "sinc": (torch.sinc, -3, 3),
    "entr": (torch.special.entr, -3, 3),
    "decimals": (lambda x: (x.round(decimals=2), x.round(decimals=-1)), -50, 50),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_functions_of_elements(name):
    f, low, high = SPECIAL[name]
    of_torch(f, numbers(torch.float32, low, high), rtol=1e-5, atol=2e-6)
    of_torch(f, numbers(torch.float64, low, high), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_derivatives_of_the_gamma_function(n):
    for kind in (torch.float32, torch.float64):
        x = numbers(kind, -5, 40)
        # of less than nothing torch's own trigamma has four digits
        x = x[x.isfinite() & (x > 0 if n == 1 else x == x)]
        of_torch(lambda t: torch.polygamma(n, t), x, rtol=1e-5, atol=2e-6)


def test_whole_numbers_become_floats():
    of_torch(lambda n: (torch.lgamma(n), torch.digamma(n), torch.i0(n)), torch.arange(1, 20), rtol=1e-5)


def test_functions_of_two():
    x, y = numbers(torch.float32, -3, 3), numbers(torch.float32, -3, 3).flip(0)
    of_torch(lambda a, b: (torch.fmax(a, b), torch.fmin(a, b), torch.nextafter(a, b)), x, y, rtol=0, atol=0)
    of_torch(lambda a, b: (torch.xlogy(a, b), torch.special.xlog1py(a, b), torch.ldexp(a, b)), x, y)
    of_torch(lambda a, b: (torch.dist(a, b), torch.dist(a, b, 1)), x[:500], y[11:])
    of_torch(lambda a, b: torch.copysign(a.frac(), b) + a.hypot(b), x[:500], y[11:])


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0, -2.0])
def test_between_two_ends(weight):
    """A weight of 1 is the second end, however large the first; an infinite end stays."""
    x, y = numbers(torch.float32, -3, 3), numbers(torch.float32, -3, 3).flip(0)
    x[:5] = 1e9
    of_torch(lambda a, b: torch.lerp(a, b, weight), x, y)
    of_torch(torch.lerp, x, y, torch.full_like(x, weight))


def test_what_is_no_number_is_not_below_a_threshold():
    of_torch(lambda t: F.threshold(t, 0.5, 3.0), numbers(torch.float32, -3, 3), rtol=0, atol=0)


@pytest.mark.parametrize("kind", [torch.float32, torch.int32, torch.bool])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_largest_so_far(dim, kind):
    torch.manual_seed(1)
    x = (torch.randint(-3, 4, (3, 5, 9))).to(kind)
    if kind.is_floating_point:
        x[1, 2, 3] = x[0, 1, 5] = float("nan")
    of_torch(lambda t: (*torch.cummax(t, dim), *torch.cummin(t, dim)), x, rtol=0, atol=0)


def test_medians_without_what_is_no_number():
    torch.manual_seed(2)
    x = torch.randn(4, 7, 6)
    x[x > 0.8] = float("nan")
    x[2, :, 3] = float("nan")
    of_torch(lambda t: (torch.nanmedian(t), torch.nanmedian(t, 1).values), x, rtol=0, atol=0)
    of_torch(lambda t: torch.nanmedian(t, -1, keepdim=True).values + torch.nanmean(t, -1, keepdim=True), x)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_what_is_there_most_often(dim):
    torch.manual_seed(2)
    for x in (torch.randint(-2, 3, (4, 7, 12)), torch.randint(0, 2, (3, 1, 4)).float(), torch.tensor(3.0)):
        d = min(dim, max(x.ndim - 1, 0))
        of_torch(lambda t, d=d: (*torch.mode(t, d), torch.mode(t, d, True).values), x, rtol=0, atol=0)


@pytest.mark.parametrize("how", ["prod", "mean", "amax", "amin"])
def test_slices_reduced_at_places(how):
    torch.manual_seed(3)
    x, v, at = torch.randn(5, 6), torch.randn(5, 9), torch.randint(0, 6, (9,))
    of_torch(lambda a, b: torch.index_reduce(a, 1, at, b, how, include_self=False), x, v)
    of_torch(lambda a, b: torch.index_reduce(a, 1, at, b, how), x, v)


def test_bits_as_numbers_of_another_type():
    x = numbers(torch.float32, -3, 3)
    of_torch(lambda t: (t.view(torch.int32) >> 23, (t.view(torch.int32) ^ 1).view(torch.float32)), x, rtol=0)
    of_torch(lambda t: t.view(torch.int16), x.half(), rtol=0)


def test_products_of_a_batch_added_up():
    torch.manual_seed(4)
    x, a, b = torch.randn(3, 4), torch.randn(5, 3, 6), torch.randn(5, 6, 4)
    of_torch(lambda *t: torch.addbmm(*t, beta=0.5, alpha=2), x, a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(3, 4), (5, 7), (11, 13)])
def test_adaptive_pools_of_windows_of_different_sizes(size):
    torch.manual_seed(5)
    x = torch.randn(2, 3, 11, 13)
    of_torch(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x, rtol=0)
    of_torch(lambda t: F.adaptive_max_pool1d(t[0], size[0]), x, rtol=0)
    of_torch(lambda t: F.adaptive_max_pool3d(t, (2, *size)), x, rtol=0)


RESIZED = [
    {"size": (7, 9), "mode": "nearest-exact"},
    {"scale_factor": 1.7, "mode": "nearest-exact"},
    {"scale_factor": 1.7, "mode": "nearest"},
    {"scale_factor": 0.7, "mode": "bilinear"},
    {"scale_factor": 1.3, "mode": "bicubic"},
    {"size": (5, 4), "mode": "bilinear", "antialias": True},
    {"size": (5, 4), "mode": "bicubic", "antialias": True},
    {"size": (23, 31), "mode": "bicubic", "antialias": True},
]


@pytest.mark.parametrize("how", RESIZED, ids=lambda h: "-".join(map(str, h.values())))
def test_images_in_other_sizes(how):
    torch.manual_seed(6)
    of_torch(lambda t: F.interpolate(t, **how), torch.randn(2, 3, 11, 13), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("how", [{"size": (5, 6, 7)}, {"scale_factor": 2, "align_corners": True}])
def test_volumes_in_other_sizes(how):
    torch.manual_seed(7)
    of_torch(
        lambda t: F.interpolate(t, **how, mode="trilinear"), torch.randn(1, 2, 4, 3, 5), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("n", [7, 64, 65, 1000, 5000])
def test_places_among_boundaries(n):
    torch.manual_seed(8)
    rows, x = torch.randn(3, n).round(decimals=2).sort().values, torch.randn(3, 40).round(decimals=2)
    x[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    shuffled = torch.randperm(n)
    of_torch(lambda b, t: (torch.searchsorted(b, t), torch.searchsorted(b, t, side="right")), rows, x)
    of_torch(lambda b, t: torch.bucketize(t, b[0], out_int32=True), rows, x)
    sorter = rows[:, shuffled].argsort()
    of_torch(lambda b, t, s: torch.searchsorted(b, t, sorter=s, right=True), rows[:, shuffled], x, sorter)
