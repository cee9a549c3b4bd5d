"""Complex numbers in exported programs: Fourier transforms, spectrograms, arithmetic; pairs at the borders.
In graphs of dynamo: within regions."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang.errors import TensorLangError

torch = pytest.importorskip("torch")
tlt = pytest.importorskip("tensorlang.torch")


def pairs(x):
    x = x.detach()
    return torch.view_as_real(x.resolve_conj().contiguous()).numpy() if x.is_complex() else x.numpy()


def same(module, *args, bound=2e-5, **named):
    """The engine of a module gives what eager does, within ``bound`` of the largest."""
    engine = tl.load_torch(torch.export.export(module.eval(), args, **named)).compile()
    with torch.no_grad():
        wanted = module(*args)
    got = engine(*map(pairs, args))
    several = isinstance(wanted, tuple)
    for a, b in zip(got if several else [got], wanted if several else [wanted], strict=True):
        b = pairs(b)
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, atol=bound * max(1e-6, float(np.abs(b).max(initial=0))), rtol=0)
    return engine


def module(f):
    class Made(torch.nn.Module):
        def forward(self, *args):
            return f(*args)

    return Made()


class Mel(torch.nn.Module):
    """As torchaudio's MelSpectrogram."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(80))
        self.register_buffer("bank", torch.rand(49, 12))

    def forward(self, x):
        power = torch.stft(x, 96, 24, 80, self.window, return_complex=True).abs().pow(2.0)
        mel = torch.matmul(power.transpose(-1, -2), self.bank).transpose(-1, -2)
        return torch.log(torch.clamp(mel, min=1e-5))


class Spectral(torch.nn.Module):
    """The convolution of a Fourier neural operator."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.low = torch.nn.Parameter(torch.randn(3, 4, 5, 6, dtype=torch.cfloat))
        self.high = torch.nn.Parameter(torch.randn(3, 4, 5, 6, dtype=torch.cfloat))

    def forward(self, x):
        f = torch.fft.rfft2(x)
        out = torch.zeros(x.shape[0], 4, x.shape[-2], x.shape[-1] // 2 + 1, dtype=torch.cfloat)
        out[:, :, :5, :6] = torch.einsum("bixy,ioxy->boxy", f[:, :, :5, :6], self.low)
        out[:, :, -5:, :6] = torch.einsum("bixy,ioxy->boxy", f[:, :, -5:, :6], self.high)
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Filter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.response = torch.nn.Parameter(torch.randn(33, 2))

    def forward(self, x):
        f = torch.fft.rfft(x, dim=1, norm="ortho")
        return torch.fft.irfft(f * torch.view_as_complex(self.response), n=x.shape[1], dim=1, norm="ortho")


def test_a_mel_spectrogram():
    same(Mel(), torch.randn(2, 500), bound=1e-4)


def test_a_spectral_convolution():
    same(Spectral(), torch.randn(2, 3, 24, 20))


def test_a_filter_of_an_open_batch():
    batch = torch.export.Dim("batch", max=64)
    engine = same(Filter(), torch.randn(3, 64), dynamic_shapes={"x": {0: batch}})
    x = torch.randn(5, 64)
    with torch.no_grad():
        np.testing.assert_allclose(engine(x.numpy()), Filter()(x).numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "how", [{}, {"center": False}, {"win_length": 40}, {"normalized": True}, {"onesided": False}]
)
def test_short_transforms_and_back(how):
    window = torch.hann_window(how.get("win_length", 64)) + 0.1

    def there_and_back(x):
        z = torch.stft(x, 64, 16, window=window, return_complex=True, **how)
        return z, torch.istft(z * 1.0, 64, 16, window=window, **how)

    same(module(there_and_back), torch.randn(2, 600))


def test_a_vocoder_changes_phases():
    window = torch.hann_window(64)

    def vocoder(x):
        z = torch.stft(x, 64, 16, window=window, return_complex=True)
        turned = torch.polar(z.abs(), 2.0 * z.angle())
        return torch.istft(turned, 64, 16, window=window, length=x.shape[-1])

    same(module(vocoder), torch.randn(400), bound=1e-3)


def test_transforms_of_several_dimensions_and_norms():
    def transforms(x, z):
        return (
            torch.fft.fft(z, dim=0),
            torch.fft.ifft2(z, norm="ortho"),
            torch.fft.fftn(x, norm="forward"),
            torch.fft.ifft(z, n=20, norm="forward"),
            torch.fft.rfft(x, n=7),
            torch.fft.irfft(z, norm="forward"),
            torch.fft.irfftn(z, s=(6, 9)),
            torch.fft.hfft(z),
            torch.fft.ihfft(x),
            torch.fft.fftshift(torch.fft.fft2(x)).imag,
        )

    same(module(transforms), torch.randn(6, 12), torch.randn(6, 12, dtype=torch.cfloat))


def test_arithmetic():
    def numbers(x, z, w):
        return (
            z * w + x - 2j,
            z / w,
            x / w,
            (1 + 2j) / w,
            z / 3,
            z.conj() @ w.mT,
            torch.exp(0.1 * z),
            torch.log(z),
            z**3,
            w**-1,
            z.abs(),
            z.angle(),
            torch.sgn(z),
            torch.complex(x, x) - 1,
            (z.real, z.imag)[1],
            torch.where(x > 0, z, w),
            torch.cat([z, w], 1)[:, 1:5].sum(0),
            torch.view_as_real(z.transpose(0, 1).reshape(-1)),
            torch.stack([z, w]).mean(1),
            z.cumsum(0) == z,
            z.to(torch.complex128),
        )

    args = torch.randn(4, 4), torch.randn(4, 4, dtype=torch.cfloat), torch.randn(4, 4, dtype=torch.cfloat)
    same(module(numbers), *args)


def test_double_precision():
    x = torch.randn(3, 50, dtype=torch.float64)
    same(module(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 1j, n=50)), x, bound=1e-13)


def test_complex_numbers_come_and_go_as_pairs():
    z = torch.randn(3, 8, dtype=torch.cfloat)
    graph = tl.load_torch(torch.export.export(module(lambda z: torch.fft.fft(z)), (z,)))
    assert [(str(v.dtype), len(v.shape)) for v in (*graph.inputs, *graph.outputs)] == [("float32", 3)] * 2


def test_what_is_not_there_is_said():
    z = torch.randn(3, dtype=torch.cfloat)
    program = torch.export.export(module(lambda z: torch.tanh(z)), (z,))
    with pytest.raises(TensorLangError, match="for complex numbers"):
        tl.load_torch(program)


class _Modes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.w = torch.nn.Parameter(torch.randn(5, 4, 6, dtype=torch.complex64))

    def forward(self, x, y):
        """One operand twice, a parameter, one made of real numbers, and a single one."""
        mixed = torch.einsum("bim,iom->bom", x, self.w)
        return (
            mixed,
            torch.einsum("bim,bjm->bij", x, x),
            torch.einsum("bim,m->bi", x, y + 0j),
            torch.einsum("bim->mb", x),
        )


@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_of_what_an_einsum_reads_lie_side_by_side(dynamic):
    """Nodes of their own make them, so that those of a parameter are folded; what is read twice has one pair
    of parts."""
    x, y = torch.randn(3, 5, 6, dtype=torch.complex64), torch.randn(6)
    shapes = ({0: torch.export.Dim("rows")}, None)
    named = {"dynamic_shapes": shapes} if dynamic else {}
    same(_Modes(), x, y, **named)
    graph = tl.load_torch(torch.export.export(_Modes(), (x, y), **named))
    made = [n.op for n in graph.nodes if n.op.endswith("_part")]
    assert len(made) == 6 and len(set(made)) == 2  # of x, of the parameter, and of y + 0j


def backend(f, *args, gradients=False):
    """How many of the operators of a function engines compute under torch.compile, which gives what eager
    does, and how many there are."""
    torch._dynamo.reset()
    tlt.reset()
    fast = torch.compile(f, backend="tensorlang")
    with torch.set_grad_enabled(gradients):
        wanted, got = f(*args), fast(*args)
    several = isinstance(wanted, tuple)
    for a, b in zip(got if several else [got], wanted if several else [wanted], strict=True):
        assert a.dtype == b.dtype and a.stride() == b.stride() and a.is_conj() == b.is_conj()
        a, b = (pairs(t) for t in (a, b))
        np.testing.assert_allclose(a, b, atol=2e-5 * max(1e-6, float(np.abs(b).max(initial=0))), rtol=0)
    return sum(g.taken for g in tlt.graphs()), sum(g.nodes for g in tlt.graphs())


@pytest.mark.parametrize("net", [Mel(), Filter()], ids=lambda n: type(n).__name__)
def test_complex_numbers_within_a_graph_of_dynamo(net):
    """Regions take transforms, and what lies between them: complex numbers were torch's alone."""
    taken, there = backend(net.eval(), torch.randn((2, 500) if isinstance(net, Mel) else (2, 64)))
    assert taken == there


def test_complex_numbers_that_go_in_or_out_are_left_to_torch():
    def out(x):
        z = torch.fft.rfft(torch.sin(x) * 2)
        return z, (z.abs() + 1).log()

    def within(x, z):
        return torch.fft.irfft(torch.fft.rfft(torch.cos(x)) * z) + 1

    def reals(x):
        # the transform's result goes to an operator that regions lack, and comes back
        z = torch.fft.fft(torch.sin(x))
        m = torch.linalg.qr(torch.view_as_real(z)[..., 0])[1]
        return torch.fft.ifft(z * m.sum()).real.exp()

    x = torch.randn(4, 16)
    z = torch.fft.rfft(torch.randn(16))
    for f, args in ((out, (x,)), (within, (x, z)), (reals, (x,)), (Spectral(), (torch.randn(2, 3, 24, 20),))):
        taken, there = backend(f, *args)
        assert taken < there


def test_gradients_of_transforms():
    net = Filter()
    x = torch.randn(3, 64, requires_grad=True)
    backend(net, x, gradients=True)
    wanted = torch.autograd.grad(net(x).square().sum(), [x, net.response])
    fast = torch.compile(net, backend="tensorlang")
    got = torch.autograd.grad(fast(x).square().sum(), [x, net.response])
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
