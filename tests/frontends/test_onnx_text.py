"""Counts of n-grams, beside onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")
import tensorlang as tl

from .beside import agree, made, ran

POOL = {
    "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7, 2, 3, 5],
    "ngram_counts": [0, 4, 10],
    "ngram_indexes": [3, 1, 0, 2, 6, 5, 4, 7],
}


@pytest.mark.each_value
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
@pytest.mark.parametrize(("least", "most", "skips"), [(1, 1, 3), (2, 2, 0), (1, 2, 5), (2, 3, 1)])
def test_n_grams(mode, least, most, skips):
    how = {"min_gram_length": least, "max_gram_length": most, "max_skip_count": skips, "mode": mode}
    words = np.random.default_rng(least + skips).integers(2, 9, (3, 12))
    for x in (words.astype("int64"), words[0].astype("int32"), words[:, :1].astype("int64")):
        agree("TfIdfVectorizer", [x], closed=[0], opset=9, weights=[1.0] * 8, **POOL, **how)


@pytest.mark.parametrize(
    ("mode", "wanted"), [("IDF", [0, 0, 10, 30]), ("TFIDF", [0, 0, 20, 30]), ("TF", [0, 0, 2, 1])]
)
def test_weights_are_those_of_n_grams(mode, wanted):
    """In the order of the pool, as the standard says and onnxruntime does; onnx's reference takes columns."""
    how = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": mode}
    pool = {
        "pool_int64s": [2, 3, 5],
        "ngram_counts": [0],
        "ngram_indexes": [2, 0, 3],
    }  # column 1 has no n-gram
    words = np.array([2, 2, 5, 7])
    _, (y,), _, _ = ran("TfIdfVectorizer", [words], opset=9, weights=[10.0, 20.0, 30.0], **pool, **how)
    assert y.tolist() == wanted and y.dtype == np.float32


def test_strings_are_refused():
    how = {"min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "mode": "TF"}
    pool = {"pool_strings": ["a"], "ngram_counts": [0], "ngram_indexes": [0]}
    model = made("TfIdfVectorizer", [np.zeros(3, "int64")], opset=9, **how, **pool)
    with pytest.raises(tl.TensorLangError, match="its pool is of strings"):
        tl.load_onnx(model)
