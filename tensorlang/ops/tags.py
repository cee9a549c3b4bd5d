"""The tags that operators carry (``tensor.op.tag``): the list recipes find computations by. A tag changes no
meaning. Knows no operators; tags that a primitive gives as well are te's.

The last stage of an operator has the operator's tag; the stages before it are called ``softmax.max``,
``softmax.exp``, … after it and carry the tag that says what they are by themselves (most are ``reduce`` or
``elementwise``). Reduction axes are declared in the order of the dimensions they run along, so the last one
is the innermost in memory.
"""

from __future__ import annotations

from ..te import minimal_filtering
from ..te.compute import LINES as LINES_STAGE
from ..te.compute import TABLE as TABLE_STAGE

# element (i, j, …) of the result reads element (i, j, …) of each tensor, all of one shape
ELEMENTWISE = "elementwise"
BROADCAST = "broadcast"  # the same, where a tensor may lack dimensions or repeat one of size 1
# every element of the result is one element of one tensor: transpose, reshape, slices, joins, gathers
INJECTIVE = "injective"
REDUCE = "reduce"  # a reduction over some dimensions: sum, max, the row sums inside a norm
# the index at which a reduction takes its value, found where the value equals the result of the stage before
ARG_REDUCE = "arg_reduce"
SOFTMAX = (
    "softmax"  # exp stage × the reciprocals of its row sums; stages softmax.max, softmax.exp, softmax.sum
)
LOG_SOFTMAX = "log_softmax"  # x - max - log(sum of exp); stages log_softmax.max, .exp, .sum, .log
NORM = "norm"  # (x - mean) * rstd * weight + bias over row statistics; stages .sum, .mean, .squares, .rstd
SCATTER = "scatter"  # updates at places that are data, one after the other: te.scatter
LOOPS = "loops"  # a program of loops, which goes where data lead it: te.loops
SCAN = "scan"  # a recurrence along one dimension: cumsum, cumprod

# In products and convolutions the reduction carries the tag; the stages before it (.pad) and after it (.bias,
# .cast) are apart.
MATMUL = "matmul"  # C[i, j] = sum A[i, k] B[k, j], either operand transposed; a vector lacks i or j
BATCH_MATMUL = "batch_matmul"  # the same with dimensions before i, which broadcast
DENSE = "dense"  # y[…, o] = sum x[…, k] W[o, k] (or W[k, o]); then dense.bias
CONV = "conv"  # conv1d_ncw, conv2d_nchw, conv2d_nhwc, conv2d_nchwc, conv3d_ndhwc …: see conv_tag
# depthwise_conv2d_nchw …: one input channel for each output channel, no channel is reduced
DEPTHWISE_CONV = "depthwise_conv"
# conv1d_transpose_ncw, conv2d_transpose_nchw, conv3d_transpose_ncdhw: reduces over the taps of one phase
CONV_TRANSPOSE = "conv_transpose"
LINES = LINES_STAGE  # what a product reads, copied so that its rows are one dimension
# of what is read more often than there are elements: computed ahead, and once for all calls where it reads
# nothing and its sizes are known
TABLE = TABLE_STAGE
# a step of a Fourier transform, […, time, part, frequency, …], with ``before`` dimensions in front of the
# times and ``behind`` after the frequencies, of which there were as many before as ``so far`` says: ``apart``
# from what is new, if there are two dimensions
FOURIER = "fourier"
PAD = "pad"  # a copy with a margin of one value, where a window reads beyond the edge
# stages conv2d_winograd.weight.taps, .rows and .weight, which depend on the weight only
WINOGRAD_WEIGHT = minimal_filtering.WEIGHT_STAGE
# stages conv2d_winograd.data.pixels (a copy, channels last), .data.rows and .data
WINOGRAD_DATA = minimal_filtering.DATA_STAGE
# M[a, b, p, o] = sum_c V[a, b, p, c] U[a, b, c, o]: one matrix product for each of the points a, b
WINOGRAD_MATMUL = minimal_filtering.PRODUCT_STAGE
WINOGRAD_INVERSE = minimal_filtering.INVERSE_STAGE  # stages .inverse.rows and .inverse
WINOGRAD = "winograd"  # the tiles put in their places
POOL_MAX = "pool_max"
POOL_SUM = "pool_sum"  # the reduction inside an average
POOL_AVG = "pool_avg"  # the sum divided by the number of elements of the window
ATTENTION_DOTS = "attention_dots"  # dots[…, q, k] = sum_d Q[…, q, d] K[…, k, d]
ATTENTION_SCORES = "attention_scores"  # scaled and masked, element by element
ATTENTION_MAX = "attention_max"  # of each row of scores
ATTENTION_EXP = "attention_exp"
ATTENTION_SUM = "attention_sum"  # of each row
ATTENTION_VALUES = "attention_values"  # sum_k exp[…, q, k] V[…, k, d]
ATTENTION = "attention"  # divided by the row sums
ATTENTION_LOG_SUM = "attention_log_sum"  # of a row's exponentials, as if no maximum had been taken off
RESIZE = "resize"  # one stage for each dimension, the last one first


def conv_tag(family: str, rank: int, layout: str) -> str:
    """The tag of a convolution: its family with the rank, and the layout in small letters without the size of
    its block.

    ``conv_tag(CONV, 2, "NCHW8c")`` is ``conv2d_nchwc``.
    """
    kind = family.replace("conv", f"conv{rank}d", 1)
    return f"{kind}_{''.join(c for c in layout if not c.isdigit()).lower()}"


TAGS = (
    ELEMENTWISE,
    BROADCAST,
    INJECTIVE,
    REDUCE,
    ARG_REDUCE,
    SOFTMAX,
    LOG_SOFTMAX,
    NORM,
    LOOPS,
    SCATTER,
    SCAN,
    MATMUL,
    BATCH_MATMUL,
    DENSE,
    LINES,
    TABLE,
    FOURIER,
    PAD,
    WINOGRAD_WEIGHT,
    WINOGRAD_DATA,
    WINOGRAD_MATMUL,
    WINOGRAD_INVERSE,
    WINOGRAD,
    POOL_MAX,
    POOL_SUM,
    POOL_AVG,
    ATTENTION_DOTS,
    ATTENTION_SCORES,
    ATTENTION_MAX,
    ATTENTION_EXP,
    ATTENTION_SUM,
    ATTENTION_VALUES,
    ATTENTION,
    ATTENTION_LOG_SUM,
    RESIZE,
)

# tokens: of keys behind the block of a query, a causal mask leaves out the products and the exponentials
CAUSAL_BLOCK = 96
