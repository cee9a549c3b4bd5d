"""Recurrent layers against numpy, one time after the other: directions, lengths, first states, peepholes,
clips, orders of gates, symbolic sizes."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlang as tl
from tensorlang import te
from tensorlang.analysis import product_of
from tests.ops.arrays import near, real, stored

ops = tl.ops
RNG = np.random.default_rng(11)
T, B, I, H = 5, 3, 4, 17
GATES = {"rnn": "h", "gru": "zrh", "lstm": "iofc"}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "sigmoid": sigmoid,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "hardsigmoid": lambda x: np.clip(0.25 * x + 0.5, 0, 1),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "elu": lambda x: np.where(x > 0, x, 0.5 * np.expm1(np.minimum(x, 0))),
}


def arrays(kind, directions=1, t="float32"):
    n = len(GATES[kind])
    shapes = {
        "x": (T, B, I),
        "w": (directions, n * H, I),
        "r": (directions, n * H, H),
        "b": (directions, 2 * n * H),
        "initial_h": (directions, B, H),
        "initial_c": (directions, B, H),
        "p": (directions, 3 * H),
    }
    return {k: stored(RNG.uniform(-0.5, 0.5, s), t) for k, s in shapes.items()}


def layer(kind, a, d, backwards, names, lens=None, clip=None, before=False, coupled=False, zero=False):
    """One direction in float64: all states [T, B, H], the last one, and the last cell."""
    f, g, o_f = (FUNCTIONS[n] for n in (*names, names[-1], names[-1])[:3])
    cut = (lambda v: v) if clip is None else (lambda v: np.clip(v, -clip, clip))
    w, r, b = a["w"][d], a["r"][d], np.zeros(2 * len(GATES[kind]) * H) if zero else a["b"][d]
    gates = GATES[kind]
    W, R = ({q: m[k * H : (k + 1) * H] for k, q in enumerate(gates)} for m in (w, r))
    WB, RB = ({q: b[(k + s) * H :][:H] for k, q in enumerate(gates)} for s in (0, len(gates)))
    P = {q: np.zeros(H) if zero else a["p"][d][k * H :][:H] for k, q in enumerate("iof")}
    lens = np.full(B, T) if lens is None else lens
    ys, hs, cs = np.zeros((T, B, H)), np.zeros((B, H)), np.zeros((B, H))
    for n in range(B):
        h = np.zeros(H) if zero else a["initial_h"][d, n]
        c = np.zeros(H) if zero else a["initial_c"][d, n]
        times = range(lens[n])
        for t in reversed(times) if backwards else times:
            x = a["x"][t, n]

            def part(q, state, x=x):
                return W[q] @ x + R[q] @ state + WB[q] + RB[q]

            if kind == "rnn":
                h = f(cut(part("h", h)))
            elif kind == "gru":
                z, reset = f(cut(part("z", h))), f(cut(part("r", h)))
                linear = W["h"] @ x + WB["h"] + reset * (R["h"] @ h + RB["h"])
                h = (1 - z) * g(cut(linear if before else part("h", reset * h))) + z * h
            else:
                i = f(cut(part("i", h) + P["i"] * c))
                forget = 1 - i if coupled else f(cut(part("f", h) + P["f"] * c))
                c = forget * c + i * g(cut(part("c", h)))
                h = f(cut(part("o", h) + P["o"] * c)) * o_f(c)
            ys[t, n] = h
        hs[n], cs[n] = h, c
    return ys, hs, cs


def check(
    kind,
    direction="forward",
    *,
    t="float32",
    lens=None,
    names=None,
    given=("b", "initial_h"),
    options=None,
    want=None,
):
    directions = 2 if direction == "bidirectional" else 1
    a = arrays(kind, directions, t)
    more = [*given, *(["initial_c", "p"] if kind == "lstm" and "initial_h" in given else [])]
    tensors = {k: te.placeholder(a[k].shape, t, name=k) for k in ("x", "w", "r", *more)}
    feed = [a[k] for k in tensors]
    extra = {}
    if lens is not None:
        tensors["sequence_lens"] = extra["sequence_lens"] = te.placeholder((B,), "int32", name="lens")
        feed.append(lens)
    arguments = {k: v for k, v in tensors.items() if k not in ("x", "w", "r")}
    outs = getattr(ops, kind)(
        tensors["x"], tensors["w"], tensors["r"], direction=direction, **arguments, **(options or {})
    )
    got = tl.compile([*tensors.values(), *outs])(*feed)
    wide = {k: real(v, t) for k, v in a.items()}
    names = names or {"rnn": ("tanh",), "gru": ("sigmoid", "tanh"), "lstm": ("sigmoid", "tanh", "tanh")}[kind]
    parts = [
        layer(kind, wide, d, direction == "reverse" or d == 1, names, lens, zero=not given, **(want or {}))
        for d in range(directions)
    ]
    near(
        got[0],
        np.stack([p[0] for p in parts], 1),
        t,
        32 if t != "float16" else 4,
        1e-5 if t == "float32" else 1e-3,
    )
    for k, g in enumerate(got[1:], 1):
        near(
            g,
            np.stack([p[k] for p in parts]),
            t,
            32 if t != "float16" else 4,
            1e-5 if t == "float32" else 1e-3,
        )


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", list(GATES))
def test_directions(kind, direction):
    check(kind, direction)


@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
@pytest.mark.parametrize("kind", list(GATES))
def test_sequences_of_other_lengths(kind, direction):
    check(kind, direction, lens=np.array([5, 2, 0], "int32"))


@pytest.mark.parametrize("kind", list(GATES))
def test_without_bias_and_first_states(kind):
    check(kind, given=())


def test_gru_resets_after_the_product():
    check("gru", options={"linear_before_reset": True}, want={"before": True})


def test_lstm_of_coupled_gates():
    check("lstm", options={"input_forget": True}, want={"coupled": True})


@pytest.mark.parametrize(
    ("kind", "names", "alpha"),
    [
        ("rnn", ("relu",), None),
        ("gru", ("HardSigmoid", "Elu"), (0.25, 0.5)),
        ("lstm", ("hardsigmoid", "softsign", "tanh"), (0.25,)),
    ],
)
def test_other_activations_and_a_clip(kind, names, alpha):
    options = {"activations": names, "activation_alpha": alpha, "clip": 0.4}
    check(kind, names=tuple(n.lower() for n in names), options=options, want={"clip": 0.4})


def test_half_floats_are_computed_in_single():
    check("gru", t="float16")


def test_symbolic_time_and_batch_and_torchs_order_of_gates():
    a = arrays("lstm")
    times, batch = te.dim("t", 1, 64), te.dim("n", 1, 8)
    x, h0, c0 = (
        te.placeholder((times, batch, I), name="x"),
        te.placeholder((1, batch, H), name="h0"),
        te.placeholder((1, batch, H), name="c0"),
    )
    w, r, b = (te.placeholder(a[k].shape, name=k) for k in "wrb")

    def turned(m):  # i, o, f, c → i, f, c, o
        parts = m.reshape(m.shape[0], -1, 4, H, *m.shape[2:])
        return np.ascontiguousarray(parts[:, :, [0, 2, 3, 1]].reshape(m.shape))

    y, h, c = ops.lstm(x, w, r, b, initial_h=h0, initial_c=c0, gates="ifco")
    kernel = tl.compile([x, h0, c0, w, r, b, y, h, c])
    wide = {k: v.astype("float64") for k, v in a.items()}
    wide["p"] = np.zeros_like(wide["p"])
    want = layer("lstm", wide, 0, False, ("sigmoid", "tanh", "tanh"))
    weights = [turned(a[k]) for k in "wrb"]
    got = kernel(a["x"], a["initial_h"], a["initial_c"], *weights)
    for g, v in zip(got, (want[0][:, None], want[1][None], want[2][None]), strict=True):
        near(g, v, "float32", 32, 1e-5)
    one = kernel(a["x"][:1, :1], a["initial_h"][:, :1], a["initial_c"][:, :1], *weights)
    near(one[0], want[0][:1, None, :1], "float32", 32, 1e-5)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, w, r: ops.lstm(x, w, w), "number of rows of r|H = 4"),
        (lambda x, w, r: ops.gru(x, w, r), "is 32, 24 is needed|24"),
        (lambda x, w, r: ops.lstm(x, w, r, direction="both"), "'forward', 'reverse', 'bidirectional'"),
        (lambda x, w, r: ops.lstm(x, w, r, gates="ifgo"), "in any order"),
        (lambda x, w, r: ops.lstm(x, w, r, activations=["tanh"]), "1 activation, 3 are needed"),
        (lambda x, w, r: ops.lstm(x, w, r, activations=["tanh", "sin", "tanh"]), "'sin' is not known"),
        (lambda x, w, r: ops.lstm(x, w, r, direction="bidirectional"), "number of directions"),
        (lambda x, w, r: ops.lstm(x, w, r, initial_h=x), "dimension 0 of initial_h"),
        (lambda x, w, r: ops.lstm(x, w, r, sequence_lens=x), "integers are needed"),
        (lambda x, w, r: ops.lstm(x, w, r, p=te.placeholder((1, 9))), "is 9, 24 is needed"),
        (lambda x, w, r: ops.lstm(x, r, r), "number of inputs of w"),
    ],
)
def test_refusals(call, text):
    x, w, r = te.placeholder((5, 3, 4)), te.placeholder((1, 32, 4)), te.placeholder((1, 32, 8))
    with pytest.raises(tl.DeclareError, match=text):
        call(x, w, r)


def test_the_product_with_the_input_is_one_of_all_times():
    """Constant weights of two directions, open sizes; what is read at one place along a dimension, as the
    weights of a direction are, is a matrix product all the same."""
    a = arrays("lstm", 2)
    g = tl.Graph("layer")
    x = g.input(("t", "n", I), "float32", "x")
    weights = [g.constant(a[k], k) for k in "wr"]
    for v in g.call(ops.lstm, x, *weights, direction="bidirectional"):
        g.output(v)
    engine = g.compile(level=0)
    wide = {k: v.astype("float64") for k, v in a.items()}
    for t, n in ((T, B), (1, 1), (T, 1), (1, B)):
        names, lens = ("sigmoid", "tanh", "tanh"), np.array([t] * n + [0] * (B - n))
        want = [layer("lstm", wide, d, d == 1, names, lens, zero=True) for d in (0, 1)]
        got = engine(np.ascontiguousarray(a["x"][:t, :n]))
        near(got[0], np.stack([p[0][:t, :n] for p in want], 1), "float32", 32, 1e-5)
        for k, have in enumerate(got[1:], 1):
            near(have, np.stack([p[k][:n] for p in want]), "float32", 32, 1e-5)
    empty = engine(np.zeros((0, 2, I), "float32"))
    assert empty[0].shape == (0, 2, 2, H) and not empty[1].any() and not empty[2].any()
    product = next(s for s in tl.create_schedule(_lstm_of(I, H)).stages if s.name.endswith(".input"))
    assert product_of(product.op) is not None


def _lstm_of(inputs, size):
    x, w, r = (
        te.placeholder(shape, name=n)
        for n, shape in (("x", (4, 3, inputs)), ("w", (2, 4 * size, inputs)), ("r", (2, 4 * size, size)))
    )
    return list(ops.lstm(x, w, r, direction="bidirectional"))


def test_lstm_that_rounds_its_state():
    """Beside numpy, turn by turn over all sequences; a rounded state is within half a step of the state."""
    a = arrays("lstm")
    t = {k: te.placeholder(v.shape, v.dtype, k) for k, v in a.items() if k != "p"}
    made = ops.lstm(
        *(t[k] for k in "xwrb"), initial_h=t["initial_h"], initial_c=t["initial_c"], rounds_state=True
    )
    (y, _, _) = tl.compile([*t.values(), *made])(*(a[k] for k in t))
    w, r, b = (a[k][0].astype("float64") for k in "wrb")
    h, c = (a[k][0].astype("float32") for k in ("initial_h", "initial_c"))
    for n in range(T):
        low, high = min(h.min(), 0), max(h.max(), 0)
        scale = np.float32((high - low) / np.float32(255))
        zero = np.rint(-low / scale)
        rounded = (np.clip(np.rint(h / scale) + zero, 0, 255) - zero) * scale
        assert np.abs(rounded - h).max() <= scale
        gates = a["x"][n] @ w.T + rounded @ r.T + b[: 4 * H] + b[4 * H :]
        i, o, f, g = (gates[:, k * H : (k + 1) * H] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = (sigmoid(o) * np.tanh(c)).astype("float32")
        np.testing.assert_allclose(y[n, 0], h, atol=1e-5)
        h = np.asarray(y[n, 0])
