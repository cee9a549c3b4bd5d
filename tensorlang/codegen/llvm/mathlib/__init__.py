"""Intrinsics: one row for each of ``expr.intrinsics``, in ``table``: vector code of our own, LLVM's
intrinsics, or libm lane by lane. Knows dtypes and operands, and of expressions only the call node.

Our own functions are formulas over ``Kit``: ``circular`` (sin, cos, tan), ``exponential``, ``logarithm``,
``power``, ``inverse``, ``gauss`` (erf); ``exact`` has those with exact results. One formula serves every
width, and every width gives the same bits. Where a formula has trouble in rare lanes (overflow, subnormals,
huge arguments of sin), a second one repairs these lanes and costs the others one branch. The coefficients
were fitted here by weighted least squares (Lawson's iteration) for the least relative error; bounds stand
beside them.

There are two modes, ``default`` and ``precise`` (libm). A third without the rare lanes was measured on AVX2:
a bare exp is 16 % quicker than one with the branch, but gives nonsense below -87, and one that clamps its
argument instead is 3 % quicker; log gains 17 % and is wrong for 0; pow gains 2 %. So there is no third.
"""

from .table import MODES, ROWS

__all__ = ["MODES", "ROWS"]
