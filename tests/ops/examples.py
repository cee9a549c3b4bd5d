"""One typical call for every public operator: ``EXAMPLES[name]()`` declares its arguments and results. What
is asked of every operator is asked of these; the benchmark of compile times takes them too.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorlang import ops, te


def _t(*shape: int, dtype: str = "float32", name: str = "x") -> te.Tensor:
    return te.placeholder(shape, dtype, name=name)


def _row(*names: str) -> Callable[..., dict[str, Callable[[], list]]]:
    """The same call for several operators: their inputs, made anew each time, then the arguments that are no
    tensors."""

    def of(*shapes: tuple[int, ...], dtype: str = "float32", **rest: object) -> dict[str, Callable[[], list]]:
        def example(name: str) -> Callable[[], list]:
            def declare() -> list:
                given = [_t(*s, dtype=dtype, name=f"x{k}") for k, s in enumerate(shapes)]
                return [*given, getattr(ops, name)(*given, **rest)]

            return declare

        return {name: example(name) for name in names}

    return of


ROWS, COLUMNS = 128, 768
IMAGE, KERNEL = (1, 64, 56, 56), (64, 64, 3, 3)


def _taken(op: Callable[..., te.Tensor], index: tuple[int, ...], before: bool = False) -> Callable[[], list]:
    def declare() -> list:
        x, at = _t(1000, COLUMNS), _t(*index, dtype="int32", name="at")
        return [x, at, op(x, 0, at) if before else op(x, at, 0)]

    return declare


def _split() -> list:
    x = _t(ROWS, COLUMNS)
    return [x, *ops.split(x, 3, 1)]


def _joined(name: str) -> Callable[[], list]:
    def declare() -> list:
        x, y = _t(ROWS, COLUMNS), _t(ROWS, COLUMNS, name="y")
        return [x, y, getattr(ops, name)([x, y], 1)]

    return declare


def _at(op: Callable[..., te.Tensor], index: tuple[int, ...]) -> Callable[[], list]:
    def declare() -> list:
        x, at, new = _t(1000, COLUMNS), _t(*index, dtype="int64", name="at"), _t(ROWS, COLUMNS, name="new")
        out = op(x, at, new)
        return [x, at, *([new] if "scatter" in out.op.tag else []), out]

    return declare


def _einsum() -> list:
    x, y = _t(4, 12, 128, 64), _t(4, 12, 128, 64, name="y")
    return [x, y, ops.einsum("bhqd,bhkd->bhqk", [x, y])]


def _loss(op: Callable[..., te.Tensor]) -> Callable[[], list]:
    def declare() -> list:
        x, target = _t(ROWS, 1000), _t(ROWS, dtype="int64", name="target")
        return [x, target, op(x, target)]

    return declare


def _unpooled() -> list:
    x, at = _t(*IMAGE), _t(*IMAGE, dtype="int64", name="at")
    return [x, at, ops.max_unpool(x, at, (112, 112))]


def _quantised(name: str, dtype: str) -> Callable[[], list]:
    def declare() -> list:
        x, scale, zero = _t(ROWS, COLUMNS, dtype=dtype), _t(name="scale"), _t(dtype="uint8", name="zero")
        return [x, scale, zero, getattr(ops, name)(x, scale, zero)]

    return declare


def _product(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> Callable[[], list]:
    def declare() -> list:
        x, w = _t(*a, dtype="uint8"), _t(*b, dtype="int8", name="w")
        sx, sw, sy = (_t(name=n) for n in ("sx", "sw", "sy"))
        zx, zw, zy = (_t(dtype=t, name=n) for n, t in (("zx", "uint8"), ("zw", "int8"), ("zy", "uint8")))
        return [x, sx, zx, w, sw, zw, sy, zy, getattr(ops, name)(x, sx, zx, w, sw, zw, sy, zy)]

    return declare


def _recurrent(name: str, gates: int) -> Callable[[], list]:
    def declare() -> list:
        x, w, r, b = (
            _t(16, 1, 64),
            _t(1, gates * 128, 64, name="w"),
            _t(1, gates * 128, 128, name="r"),
            _t(1, 2 * gates * 128, name="b"),
        )
        return [x, w, r, b, *getattr(ops, name)(x, w, r, b)]

    return declare


def _compressed() -> list:
    on, x = _t(ROWS, dtype="bool", name="on"), _t(ROWS, COLUMNS)
    return [on, x, *ops.compress(on, x, 0)]


def _boxes() -> list:
    boxes, scores = _t(1, 1000, 4, name="boxes"), _t(1, 20, 1000, name="scores")
    return [boxes, scores, *ops.non_max_suppression(boxes, scores, 10, 0.5, 0.1)]


def _attended() -> list:
    q, k, v = _t(1, 12, 128, 64, name="q"), _t(1, 4, 128, 64, name="k"), _t(1, 4, 128, 64, name="v")
    return [q, k, v, ops.attention(q, k, v, is_causal=True)[0]]


def _regions() -> list:
    x, rois, at = _t(1, 16, 28, 28), _t(10, 4, name="rois"), _t(10, dtype="int64", name="at")
    return [x, rois, at, ops.roi_align(x, rois, at, (7, 7), sampling_ratio=2)]


def _reversed() -> list:
    x, n = _t(ROWS, 12, 64), _t(12, dtype="int32", name="n")
    return [x, n, ops.reverse_sequence(x, n)]


def _where() -> list:
    c, x, y = _t(ROWS, COLUMNS, dtype="bool", name="c"), _t(ROWS, COLUMNS), _t(COLUMNS, name="y")
    return [c, x, y, ops.where(c, x, y)]


EXAMPLES: dict[str, Callable[[], list]] = {
    **_row(
        "add",
        "subtract",
        "multiply",
        "divide",
        "floor_divide",
        "mod",
        "power",
        "maximum",
        "minimum",
        "hypot",
        "atan2",
        "logaddexp",
        "isclose",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "fmod",
    )((ROWS, COLUMNS), (COLUMNS,)),
    **_row(
        "negative",
        "abs",
        "sign",
        "square",
        "floor",
        "ceil",
        "trunc",
        "round",
        "sqrt",
        "rsqrt",
        "reciprocal",
        "cbrt",
        "nan_to_num",
        "isinf",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "erf",
        "isnan",
        "isfinite",
        "logical_not",
        "relu",
        "relu6",
        "leaky_relu",
        "elu",
        "selu",
        "gelu",
        "sigmoid",
        "tanh",
        "silu",
        "swish",
        "softplus",
        "softsign",
        "hard_sigmoid",
        "hard_swish",
        "hard_tanh",
        "mish",
        "softmax",
        "log_softmax",
        "layer_norm",
        "rms_norm",
        "transpose",
        "flatten",
        "squeeze",
        "flip",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atanh",
        "digamma",
        "erfc",
        "erfcx",
        "erfinv",
        "i0",
        "i0e",
        "i1",
        "i1e",
        "log_ndtr",
        "ndtri",
        "lgamma",
        "celu",
        "thresholded_relu",
        "shrink",
        "hard_max",
        "tril",
        "triu",
    )((ROWS, COLUMNS)),
    **_row(
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "any",
        "all",
        "argmax",
        "argmin",
        "var",
        "std",
        "norm",
        "logsumexp",
        "cumsum",
        "cumprod",
    )((ROWS, COLUMNS), axis=1),
    **_row("xlogy", "xlog1py", "nextafter")((ROWS, COLUMNS), (COLUMNS,)),
    "cummax": lambda: [x := _t(ROWS, COLUMNS), *ops.cummax(x, 1)],
    "cummin": lambda: [x := _t(ROWS, COLUMNS), *ops.cummin(x, 0)],
    "polygamma": lambda: [x := _t(ROWS, COLUMNS), ops.polygamma(2, x)],
    **_row("determinant", "inverse", "cholesky")((ROWS, 8, 8)),
    **_row("solve", "solve_triangular")((ROWS, 8, 8), (ROWS, 8, 3)),
    "slogdet": lambda: [x := _t(ROWS, 8, 8), *ops.slogdet(x)],
    **_row("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")(
        (ROWS, COLUMNS), (COLUMNS,), dtype="int32"
    ),
    **_row("bitwise_not")((ROWS, COLUMNS), dtype="int32"),
    "where": _where,
    **_row("clip")((ROWS, COLUMNS), min=0, max=6),
    "cast": lambda: [x := _t(ROWS, COLUMNS), ops.cast(x, "int8")],
    **_row("prelu")((1, 64, 56, 56), (64,)),
    **_row("batch_norm")(IMAGE, (64,), (64,), (64,), (64,)),
    **_row("group_norm")(IMAGE, num_groups=32),
    **_row("instance_norm")(IMAGE),
    **_row("reshape")((ROWS, COLUMNS), shape=(ROWS, 12, 64)),
    **_row("expand_dims")((ROWS, COLUMNS), axis=1),
    **_row("swapaxes")((ROWS, 12, 64), axis1=0, axis2=1),
    **_row("broadcast_to")((COLUMNS,), shape=(ROWS, COLUMNS)),
    **_row("tile")((ROWS, 64), reps=(1, 12)),
    **_row("repeat")((ROWS, 64), repeats=12, axis=1),
    "concatenate": _joined("concatenate"),
    "concat": _joined("concat"),
    "stack": _joined("stack"),
    "split": _split,
    **_row("strided_slice")((ROWS, COLUMNS), begin=(1, 0), end=(-1, None), strides=(1, 2)),
    **_row("pad")(IMAGE, pad_width=((0, 0), (0, 0), (1, 1), (1, 1))),
    "take": _taken(ops.take, (ROWS,)),
    "gather_elements": _taken(lambda x, axis, at: ops.gather_elements(x, at, axis), (ROWS, COLUMNS), True),
    "gather_nd": _at(lambda x, at, _: ops.gather_nd(x, at), (ROWS, 1)),
    "scatter_nd": _at(ops.scatter_nd, (ROWS, 1)),
    "scatter_elements": _at(ops.scatter_elements, (ROWS, COLUMNS)),
    "reverse_sequence": _reversed,
    "eye": lambda: [ops.eye(ROWS)],
    **_row("depth_to_space", "space_to_depth")(IMAGE, block_size=2),
    "gather": _taken(ops.gather, (ROWS, COLUMNS), True),
    **_row("one_hot")((ROWS,), dtype="int32", num_classes=1000),
    "arange": lambda: [ops.arange(4096)],
    "full": lambda: [ops.full((ROWS, COLUMNS), 1.0)],
    "einsum": _einsum,
    **_row("lrn")(IMAGE, size=5),
    **_row("mean_variance_norm")(IMAGE),
    "nll_loss": _loss(ops.nll_loss),
    "cross_entropy": _loss(ops.cross_entropy),
    **_row("matmul")((512, 512), (512, 512)),
    **_row("batch_matmul")((12, 128, 64), (12, 64, 128)),
    "grouped_matmul": lambda: [
        x := _t(ROWS, COLUMNS),
        w := _t(4, COLUMNS, COLUMNS, name="w"),
        ends := _t(4, dtype="int64", name="ends"),
        ops.grouped_matmul(x, w, ends),
    ],
    **_row("dense")((ROWS, COLUMNS), (COLUMNS, COLUMNS)),
    **_row("conv1d")((1, 64, 256), (64, 64, 3), padding=1),
    **_row("conv2d")(IMAGE, KERNEL, padding=1),
    **_row("conv3d")((1, 16, 8, 28, 28), (16, 16, 3, 3, 3), padding=1),
    **_row("depthwise_conv2d")(IMAGE, (64, 1, 3, 3), padding=1),
    **_row("conv_transpose1d")((1, 64, 128), (64, 64, 4), stride=2, padding=1),
    **_row("conv_transpose2d")((1, 64, 28, 28), (64, 64, 4, 4), stride=2, padding=1),
    **_row("conv_transpose3d")((1, 16, 8, 14, 14), (16, 16, 4, 4, 4), stride=2, padding=1),
    **_row("conv2d_winograd")(IMAGE, KERNEL, padding=1),
    **_row("conv3d_winograd")((1, 16, 4, 14, 14), (16, 16, 3, 3, 3), padding=1),
    **_row("winograd_weight")(KERNEL),
    **_row("max_pool1d", "avg_pool1d")((1, 64, 256), kernel_size=3, stride=2, padding=1),
    **_row("max_pool2d", "avg_pool2d")(IMAGE, kernel_size=3, stride=2, padding=1),
    **_row("max_pool3d", "avg_pool3d")((1, 16, 8, 28, 28), kernel_size=3, stride=2, padding=1),
    **_row("lp_pool")(IMAGE, kernel_size=3, stride=2, padding=1),
    "max_pool_with_indices": lambda: [x := _t(*IMAGE), *ops.max_pool_with_indices(x, 2)],
    "max_unpool": _unpooled,
    **_row("global_avg_pool", "global_max_pool", "global_lp_pool")(IMAGE),
    "quantize_linear": _quantised("quantize_linear", "float32"),
    "dequantize_linear": _quantised("dequantize_linear", "uint8"),
    "dynamic_quantize_linear": lambda: [x := _t(ROWS, COLUMNS), *ops.dynamic_quantize_linear(x)],
    "qlinear_matmul": _product("qlinear_matmul", (ROWS, COLUMNS), (COLUMNS, COLUMNS)),
    "qlinear_conv": _product("qlinear_conv", IMAGE, KERNEL),
    **_row("matmul_integer")((ROWS, COLUMNS), (COLUMNS, COLUMNS), dtype="int8"),
    **_row("conv_integer")(IMAGE, KERNEL, dtype="int8", padding=1),
    "rnn": _recurrent("rnn", 1),
    "gru": _recurrent("gru", 3),
    "lstm": _recurrent("lstm", 4),
    **_row("sort", "argsort")((ROWS, COLUMNS)),
    "top_k": lambda: [x := _t(ROWS, COLUMNS), *ops.top_k(x, 5)],
    "nonzero": lambda: [x := _t(ROWS, COLUMNS), *ops.nonzero(x)],
    "unique": lambda: [x := _t(ROWS, COLUMNS, dtype="int32"), *ops.unique(x)],
    "compress": _compressed,
    "non_max_suppression": _boxes,
    **_row("adaptive_max_pool2d", "adaptive_avg_pool2d")(IMAGE, output_size=7),
    **_row("global_max_pool2d", "global_avg_pool2d")(IMAGE),
    **_row("scaled_dot_product_attention")((1, 12, 128, 64), (1, 12, 128, 64), (1, 12, 128, 64)),
    "attention": _attended,
    **_row("rotary_embedding")((1, 12, 128, 64), (1, 128, 32), (1, 128, 32)),
    **_row("grid_sample")((1, 16, 28, 28), (1, 28, 28, 2)),
    **_row("affine_grid")((1, 2, 3), size=(1, 16, 28, 28)),
    "roi_align": _regions,
    **_row("dft")((ROWS, 256, 1), onesided=True),
    "stft": lambda: [x := _t(1, 4096, 1), w := _t(256, name="w"), ops.stft(x, 128, w)],
    **_row("col2im")((1, 16 * 9, 28 * 28), image_size=(28, 28), kernel_size=(3, 3), padding=1),
    **_row("deform_conv")((1, 16, 28, 28), (16, 16, 3, 3), (1, 18, 28, 28), padding=1),
    **_row("resample")((1, 16, 28, 28), size=(56, 56), axes=(2, 3), mode="cubic"),
    **_row("resize")((1, 16, 28, 28), size=(56, 56), mode="linear"),
}
