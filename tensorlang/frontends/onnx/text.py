"""ONNX's counts of n-grams. Knows te."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import te
from ...errors import TensorLangError
from ...expr.nodes import Expr
from ...te import Tensor
from .proto import Call
from .table import graph_op

if TYPE_CHECKING:
    from .importer import Importer


@graph_op("TfIdfVectorizer")
def tf_idf_vectorizer(c: Importer, call: Call) -> Any:
    """How often each n-gram of a pool occurs. The pool lists the n-grams of each length one after another,
    ``ngram_counts`` says where each length begins, ``ngram_indexes`` the column of each n-gram."""
    a = call.attrs
    if "pool_strings" in a or "pool_int64s" not in a:
        raise TensorLangError(
            "TfIdfVectorizer: its pool is of strings", because="arrays of numbers are supported"
        )
    pool, begins, columns = a["pool_int64s"], [*a["ngram_counts"], len(a["pool_int64s"])], a["ngram_indexes"]
    weights = np.asarray(a.get("weights") or np.ones(len(columns)), "float32")
    size, first = max(columns) + 1, 0
    by_column, tables, lengths = np.ones(size, "float32"), [], []
    by_column[list(columns)] = weights
    for n, (begin, end) in enumerate(pairwise(begins), 1):
        grams = np.asarray(pool[begin:end], "int64").reshape(-1, n)
        own = columns[first : first + len(grams)]
        first += len(grams)
        if a["min_gram_length"] <= n <= a["max_gram_length"] and len(grams):
            # a row for every column, so that a kernel reads it by the column's number; most are empty
            table = np.zeros((size, n + 1), "int64")  # the n-gram of a column, and whether it has one
            table[own, :n], table[own, n] = grams, 1
            tables.append(c.g.constant(table))
            lengths.append(n)
    how = {"lengths": tuple(lengths), "skips": a.get("max_skip_count", 0), "mode": a["mode"]}
    inputs = [c.tensor(call.inputs[0]), c.g.constant(by_column), *tables]
    return c.g.call(_counted, *inputs, op=call.op, name=call.name, outputs=call.outputs, **how)


def _counted(x: Tensor, weights: Tensor, *tables: Tensor, lengths: Any, skips: int, mode: str) -> Tensor:
    """[C] or [N, C] words to [columns] or [N, columns]."""
    shape = (*x.shape[:-1], weights.shape[0])
    counts = [
        _occurrences(x, t, n, s, shape)
        for t, n in zip(tables, lengths, strict=True)
        for s in _steps(n, skips)
    ]

    def element(*at: Any) -> Expr:
        total: Any = te.const(0.0, "float32")
        for count in counts:
            total = total + count(*at)
        weight = weights(at[-1])
        if mode == "IDF":
            return te.select(total > 0, weight, te.const(0.0, "float32"))
        return total * weight if mode == "TFIDF" else total

    return te.compute(shape, element, name="tf_idf")  # type: ignore[return-value]


def _steps(n: int, skips: int) -> range:
    """How far apart the words of an n-gram may stand; a single word counts once."""
    return range(1, 2 if n == 1 else skips + 2)


def _occurrences(x: Tensor, table: Tensor, n: int, step: int, shape: Any) -> Tensor:
    """How often the n-gram of each column occurs with its words so far apart."""
    words = x.shape[-1]
    i = te.reduce_axis((0, words), "i")

    def element(*at: Any) -> Expr:
        def word(k: int) -> Expr:
            # read within the row, whether or not the n-gram fits
            place = te.min(i + k * step, words - 1)
            return te.cast("int64", x(*at[:-1], place)) == table(at[-1], k)

        there = te.all(table(at[-1], n) == 1, i + (n - 1) * step < words, *(word(k) for k in range(n)))
        return te.sum(te.select(there, te.const(1.0, "float32"), te.const(0.0, "float32")), axis=i)

    return te.compute(shape, element, name=f"grams{n}.{step}")  # type: ignore[return-value]
