"""torch.compile with our backend: eager's answers, strides and types; what changes is noticed; what is not
supported runs in torch."""

from __future__ import annotations

import importlib
import operator
import tomllib

import pytest

from tensorlang.errors import TensorLangError
from tests.house.source import ROOT

torch = pytest.importorskip("torch")
F = torch.nn.functional
import tensorlang.torch as tlt  # noqa: E402
from tensorlang.frontends.torch import backend, region, source  # noqa: E402

pytestmark = pytest.mark.usefixtures("fresh")


def compiled(f, **kwargs):
    return torch.compile(f, backend=tlt.backend, **kwargs)


def same(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
    if isinstance(theirs, torch.Tensor):
        assert ours.stride() == theirs.stride()


def taken():
    return sum(g.taken for g in tlt.graphs()), sum(g.nodes for g in tlt.graphs())


def left():
    return {operator: why for g in tlt.graphs() for operator, why in g.left.values()}


def test_the_backend_has_an_entry_point():
    with (ROOT / "pyproject.toml").open("rb") as f:
        points = tomllib.load(f)["project"]["entry-points"]["torch_dynamo_backends"]
    # the room itself: what it tells dynamo has to come before the first function is traced
    room, _, name = points["tensorlang"].partition(":")
    assert getattr(importlib.import_module(room), name) is backend.tensorlang


def test_a_model_in_eval_is_one_engine_with_packed_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).eval()
    f = compiled(model)
    x = torch.randn(3, 6)
    with torch.no_grad():
        same(f(x), model(x))
        same(f(x), model(x))
    (graph,) = tlt.graphs()
    assert graph.kind == "inference" and graph.taken == graph.nodes == 3
    (region,) = graph.regions
    assert region.counts.compiled == 1 and region.counts.calls == 2 and len(region.frozen) == 4


def test_a_graph_is_read_once_for_an_engine(monkeypatch):
    """Also where two parameters are one memory; and again for an engine of other parameters."""
    reads, load = [], source.Importer.load
    monkeypatch.setattr(
        source.Importer, "load", lambda self, *args: (reads.append(self), load(self, *args))[1]
    )
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).eval()
    model[1].weight = model[0].weight
    f = compiled(model)
    x = torch.randn(3, 8)
    with torch.no_grad():
        same(f(x), model(x))
        assert len(reads) == 1
        model[0].weight.add_(1)
        same(f(x), model(x))
    assert len(reads) == 2


def test_open_sizes_compile_once():
    def f(x):
        return (x @ x.transpose(-1, -2)).softmax(-1).sum(-1) * x.shape[0]

    g = compiled(f, dynamic=True)
    for b, n in ((2, 5), (3, 7), (6, 2)):
        x = torch.randn(b, n, 4)
        same(g(x), f(x))
    assert len(tlt.graphs()) == 1 and taken()[0] == taken()[1]


def test_a_size_that_no_tensor_of_a_region_tells_is_given():
    def f(x, y):
        z = torch.linalg.inv(y) * x.shape[0]  # the region after it reads y only
        return z + 1

    g = compiled(f, dynamic=True)
    for n in (3, 5):
        x, y = torch.randn(n, 2), torch.eye(2) * 2
        same(g(x, y), f(x, y))


def test_a_size_of_which_tensors_tell_only_arithmetic_is_given():
    def f(x):
        return torch.special.airy_ai(x[::2]) * x.shape[0] + 1  # the region after it reads half the rows

    g = compiled(f, dynamic=True)
    for n in (5, 8):
        x = torch.rand(n, 3)
        same(g(x), f(x))
    assert not any(
        r.counts.reason for q in tlt.graphs() for r in q.regions
    ) and "aten.special_airy_ai" in str(left())


def test_what_is_not_supported_runs_in_torch_between_engines():
    def f(x):
        q = torch.linalg.qr(x + 1).R
        return torch.relu(q).abs() * 2, x.exp()

    g = compiled(f)
    x = torch.randn(4, 4)
    for ours, theirs in zip(g(x), f(x), strict=True):
        same(ours, theirs)
    (graph,) = tlt.graphs()
    assert len(graph.regions) == 2 and graph.taken == graph.nodes - 1
    assert left() == {"aten.linalg_qr.default": "the operator is not in the table"}


@pytest.mark.parametrize("kind", [torch.complex64, torch.float8_e4m3fn])
def test_types_that_kernels_lack_break_nothing(kind):
    def f(x):
        return x.to(torch.complex64).abs() + 1 if kind.is_complex else x.to(kind).to(torch.float32) + 1

    x = torch.randn(3)
    same(compiled(f)(x), f(x))


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float64", "int64", "int8", "uint8", "bool"])
def test_tensors_of_every_type_go_in_and_come_out(kind):
    kind = getattr(torch, kind)
    x = torch.randint(0, 2, (5, 7)).to(kind)

    def f(x):
        return torch.cat([x, x.flip(0)]).t(), (x == x[0]).sum(0)

    for ours, theirs in zip(compiled(f)(x), f(x), strict=True):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs) and ours.stride() == theirs.stride()


def test_what_is_changed_in_place_is_changed():
    def f(x, y):
        x.add_(1)
        y[1:] = x[:-1] * 2
        return y.view(-1), x

    g = compiled(f)
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    c, d = a.clone(), b.clone()
    ours, theirs = g(a, b), f(c, d)
    same(a, c), same(b, d), same(ours[0], theirs[0])
    assert ours[1] is a and ours[0].data_ptr() == b.data_ptr()


def test_inputs_may_overlap_and_have_any_strides():
    def f(x, y):
        return x * 2 + y

    g = compiled(f)
    base = torch.randn(6, 8)
    for x, y in ((base[:4], base[2:]), (base.t()[:4], base.t()[4:]), (base[0].expand(3, 8), base[:3])):
        same(g(x, y), f(x, y))


def test_the_order_of_dimensions_in_memory_is_arithmetic_of_indices(monkeypatch):
    def f(x):
        return torch.nn.functional.max_pool2d(x, 2).relu(), x.mean(1), x.permute(1, 0, 3, 2) * 2

    copies = []
    first = region.Engine.__call__
    monkeypatch.setattr(
        region.Engine, "__call__", lambda e, *args: (copies.extend(args), first(e, *args))[1], raising=True
    )
    x = torch.randn(2, 3, 4, 6).to(memory_format=torch.channels_last)
    for ours, theirs in zip(compiled(f)(x), f(x), strict=True):
        same(ours, theirs)
    (a,) = copies
    assert a.flags.c_contiguous and a.ctypes.data == x.data_ptr()  # a view of it, which no call copies
    (graph,) = tlt.graphs()
    assert graph.taken == graph.nodes


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_rows_that_lie_in_columns_are_taken_as_they_are(kind):
    def f(x, y):
        return x.softmax(-1) + y, (x.double() * 2).to(torch.int64)

    g = compiled(f, dynamic=True)
    for n in (3, 5):
        x, y = torch.randn(4, n).to(kind).t(), torch.randn(n, 4).to(kind).requires_grad_()
        with torch.no_grad():
            for ours, theirs in zip(g(x, y), f(x, y), strict=True):
                torch.testing.assert_close(ours, theirs)
                assert ours.stride() == theirs.stride()


def test_parameters_whose_writes_nobody_counts_are_no_constants():
    """Those made in inference mode have no version."""
    with torch.inference_mode():
        model = torch.nn.Linear(4, 4).eval()
        f, x = compiled(model), torch.randn(2, 4)
        same(f(x), model(x))
        model.weight.mul_(2), model.bias.add_(1)
        same(f(x), model(x))
    (graph,) = tlt.graphs()
    assert graph.taken == graph.nodes and graph.counts[0].calls == 2


def test_parameters_written_in_inference_mode_are_noticed():
    model = torch.nn.Linear(4, 4).eval()
    f, x = compiled(model), torch.randn(2, 4)
    for _ in range(2):
        with torch.no_grad():
            same(f(x), model(x))
        with torch.inference_mode():
            model.weight.mul_(2)


def test_what_is_returned_is_nobody_elses():
    model = torch.nn.Linear(4, 4).eval()
    f = compiled(lambda x: (x, model(x), model.weight * 1))
    x = torch.randn(2, 4)
    with torch.no_grad():
        first = f(x)
        kept = [t.clone() for t in first]
        first[1].add_(1), first[2].zero_()
        for ours, before in zip(f(x), kept, strict=True):
            same(ours, before)


def test_a_region_that_cannot_be_compiled_runs_in_torch_with_its_sizes(monkeypatch):
    def no(self, args):
        raise TensorLangError("not today")

    def f(x, y):
        return torch.cat([x.reshape(-1)[: x.shape[0] * 2], y * x.shape[1]])

    monkeypatch.setattr(region.Region, "_compiled", no)
    g = compiled(f, dynamic=True)
    for n in (3, 5):
        x, y = torch.randn(n, 4), torch.randn(n + 1)
        same(g(x, y), f(x, y))
    reasons = {r.counts.reason.split("\n")[0] for q in tlt.graphs() for r in q.regions}
    assert reasons == {"not today"} and taken()[0] == 0


def test_sums_of_16_bit_floats_are_rounded_once():
    def f(x, y, z):
        return torch.addcmul(x, y, z), torch.lerp(x, y, 0.4), torch.baddbmm(x, y, z)

    args = [torch.randn(3, 5, 5).bfloat16() for _ in range(3)]
    for ours, theirs in zip(compiled(f)(*args), f(*args), strict=True):
        torch.testing.assert_close(ours, theirs)


class TestParameters:
    """That change are noticed."""

    @pytest.fixture
    def model(self):
        return torch.nn.Linear(4, 3).eval()

    def check(self, f, model, x):
        with torch.no_grad():
            same(f(x), model(x))

    def test_written_by_an_optimizer_or_a_state_dict(self, model):
        f, x = compiled(model), torch.randn(2, 4)
        self.check(f, model, x)
        with torch.no_grad():
            model.weight.add_(1)
        self.check(f, model, x)
        model.load_state_dict({k: v * 3 for k, v in model.state_dict().items()})
        self.check(f, model, x)
        (region,) = tlt.graphs()[0].regions
        assert region.counts.compiled == 3

    def test_put_in_their_place(self, model):
        f, x = compiled(model), torch.randn(2, 4)
        self.check(f, model, x)
        model.weight.data = torch.ones(3, 4)
        self.check(f, model, x)

    def test_written_each_time_they_are_inputs_at_last(self, model):
        f, x = compiled(model), torch.randn(2, 4)
        for _ in range(6):
            with torch.no_grad():
                model.weight.add_(1)
            self.check(f, model, x)
        (region,) = tlt.graphs()[0].regions
        assert region.frozen == () and region.counts.compiled <= 4

    def test_written_behind_torchs_back(self, model):
        f, x = compiled(model), torch.randn(2, 4)
        self.check(f, model, x)
        model.weight.data.add_(1)  # torch counts no write
        with torch.no_grad():
            assert not torch.allclose(f(x), model(x))
        tlt.invalidate(model)
        self.check(f, model, x)

    def test_written_behind_torchs_back_without_freezing(self, model):
        f, x = compiled(model, options={"freeze": False}), torch.randn(2, 4)
        self.check(f, model, x)
        model.weight.data.add_(1)
        self.check(f, model, x)


def test_a_bias_of_16_bit_floats_is_added_before_the_sum_is_rounded():
    """1 + 1/256 lies between two numbers of bfloat16, and rounds to 1; with 1/256 more it is the next one."""
    layer = torch.nn.Linear(4, 8).eval().bfloat16()
    with torch.no_grad():
        layer.weight.fill_(1.0)
        layer.bias.fill_(1 / 256)
        x = torch.tensor([[1, 1 / 256, 0, 0]], dtype=torch.bfloat16)
        assert compiled(layer)(x).tolist() == [[1 + 1 / 128] * 8]


@pytest.mark.parametrize("divisors", [(40, 50), (50,), (40, 1), (1,), ()], ids=str)
def test_a_quotient_of_16_bits_by_several_numbers_is_rounded_before_it_is_cut(divisors):
    def f(x, y):
        return torch.div(x, y, rounding_mode="trunc")

    x, y = (torch.randn(40, 50) * 20).bfloat16(), torch.randn(divisors).bfloat16()
    assert torch.equal(compiled(f)(x, y), f(x, y)) and taken() == (1, 1)


@pytest.mark.parametrize(("shape", "axis"), [((5, 30), 1), ((4, 6, 5), -1), ((5, 30), 0)], ids=str)
def test_of_16_bits_a_logarithm_of_softmax_is_rounded_where_torch_rounds(shape, axis):
    x = (torch.randn(shape) * 3).bfloat16()
    torch.testing.assert_close(compiled(torch.log_softmax)(x, axis), torch.log_softmax(x, axis))


def test_places_and_values_without_dimensions():
    def f(x, row, cell):
        at = torch.tensor(1)
        return x.index_add(0, at, row), x[0].index_copy(0, at, cell), cell.index_copy(0, at * 0, cell + 1)

    args = torch.randn(3, 4), torch.randn(1, 4), torch.tensor(2.0)
    for ours, theirs in zip(compiled(f)(*args), f(*args), strict=True):
        same(ours, theirs)
    assert not left()


def test_a_program_that_torch_cannot_make_functional_runs_in_torch():
    """AOTAutograd has no form for memory that is exchanged; ``explain`` and the graphs say so."""

    def f(x, y):
        x.data = y
        return x * 2

    a, b, y = torch.zeros(3), torch.zeros(3), torch.randn(3)
    same(compiled(f)(a, y), f(b, y)), same(a, b)
    (graph,) = tlt.graphs()
    assert "set_" in graph.reason and not graph.taken


class OfTheProgram(torch.Tensor):
    """A class of tensors without a dispatch of its own."""


def test_tensors_of_a_class_of_the_program_go_in_and_come_out():
    """AOTAutograd watches its first call by a mode that takes no other class than torch's own."""
    x = torch.randn(3, 4)
    g = compiled(lambda x: x * 2)
    for _ in range(2):
        made = g(x.as_subclass(OfTheProgram))
        assert type(made) is OfTheProgram and torch.equal(made.as_subclass(torch.Tensor), x * 2)


def test_the_sign_of_no_number_is_0_as_in_torch():
    x = torch.tensor([float("nan"), -2.0, 0.0, float("inf")])
    assert torch.equal(compiled(torch.sign)(x), torch.sign(x))


@pytest.mark.parametrize("kind", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_bits_are_shifted_as_by_torch_also_too_far(kind):
    x = torch.tensor([-7, 5, 0, 120, -128, 3]).to(kind)
    y = torch.tensor([1, 3, 70, -1, 2, 0]).to(kind)

    def f(x, y):
        far = [g(x, n) for n in (-1, 7, 8, 100, 300) for g in (operator.lshift, operator.rshift)]
        halves = [(x & 15).to(torch.int8) - 8, (x >> 4).to(torch.int8) - 8]  # weights of four bits
        return x << 2, x << y, x >> 1, x >> y, torch.bitwise_left_shift(x, 3), *far, *halves

    for ours, theirs in zip(compiled(f)(x, y), f(x, y), strict=True):
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype
    assert not left()


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int64])
def test_numbers_that_a_type_does_not_hold_come_round_as_in_torch(kind):
    """300 is 44 among bytes, and -1 is 255; a quotient is one of floats."""

    def f(x):
        where = torch.where(x > 2, x, -1), torch.where(x > 2, -1, x), x.masked_fill(x > 2, -1), x.clamp(-5, 7)
        made = torch.full_like(x, -1), x.new_full((2,), -1), x.scatter(0, x.long() % 3, -1)
        sums = (
            x + 300,
            x - 1,
            x * -1,
            torch.rsub(x, 300),
            torch.add(x, x, alpha=-1),
            x + 2**31,
            x // -2,
            x % -3,
        )
        tests = x == -1, x > -1, x < 300, x.eq(256), x != -3
        bits = x | 300, x & -1, x ^ -1, torch.threshold(x, 1, -1)
        return *where, *made, *sums, *tests, *bits, x.div(-1), x / 300

    x = torch.tensor([0, 3, 100]).to(kind)
    for ours, theirs in zip(compiled(f)(x), f(x), strict=True):
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype
    assert not left()


@pytest.mark.parametrize("kind", [torch.uint8, torch.bool, torch.int16, torch.float32])
def test_sums_and_products_are_of_the_type_that_is_asked_for(kind):
    """Lengths are counted from masks in 32 bits; what is too large comes round."""

    def f(x):
        kinds = torch.int32, torch.uint8, torch.int16, torch.bool, torch.int64, torch.float64
        of = [k for k in kinds if k.is_floating_point or not x.is_floating_point()]
        rows = [g(x, dim=1, dtype=k) for k in of for g in (torch.sum, torch.prod)]
        return *rows, *(g(x, dtype=k) for k in of for g in (torch.sum, torch.prod)), x[0, 1].sum(dtype=of[-1])

    x = torch.arange(3 * 300).reshape(3, 300) % 7
    x[0] = 0
    for ours, theirs in zip(compiled(f)(x.to(kind)), f(x.to(kind)), strict=True):
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype
    assert not left()


def test_arithmetic_of_whole_numbers_and_of_truth():
    def f(x, n):
        return x.sign(), x.square(), torch.outer(x, x), torch.nn.functional.relu6(n)

    args = torch.tensor([True, False]), torch.tensor([-3, 4, 9])
    for ours, theirs in zip(compiled(f)(*args), f(*args), strict=True):
        same(ours, theirs)
    assert not left()
