"""xgboost by its C interface: the only file that loads it, and only when a model is first used. Knows
matrices of numbers.

Its Python package imports scikit-learn, and with that scipy.stats, for classes that nobody asks for here:
1.5 seconds before the first candidate of a search is proposed, where the library itself is loaded in 0.02.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import json
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

NO_VALUE = float("nan")  # what stands for a feature without a value


class Booster:
    """Trees that were learnt, or read from a file. Raises RuntimeError for what the library refuses."""

    def __init__(self, *data: ctypes.c_void_p) -> None:
        self._handle = ctypes.c_void_p()
        tables = (ctypes.c_void_p * len(data))(*data)
        _call("XGBoosterCreate", tables, ctypes.c_uint64(len(data)), ctypes.byref(self._handle))
        weakref.finalize(self, library().XGBoosterFree, self._handle)

    @staticmethod
    def learnt(parameters: Mapping[str, Any], table: Any, label: Any, rounds: int) -> Booster:
        """So many rounds of learning what the rows of a table have as ``label``."""
        data, how = ctypes.c_void_p(), _json(missing=NO_VALUE, nthread=1)
        table = np.ascontiguousarray(table, np.float32)
        _call("XGDMatrixCreateFromDense", _interface(table), how, ctypes.byref(data))
        try:
            values = np.ascontiguousarray(label, np.float32)
            _call("XGDMatrixSetInfoFromInterface", data, b"label", _interface(values))
            result = Booster(data)
            result._set(parameters)
            for number in range(rounds):
                _call("XGBoosterUpdateOneIter", result._handle, ctypes.c_int(number), data)
        finally:
            _call("XGDMatrixFree", data)
        return result

    @staticmethod
    def read(file: str | Path) -> Booster:
        """Those that ``save`` wrote."""
        result = Booster()
        _call("XGBoosterLoadModel", result._handle, str(file).encode())
        result._set({"nthread": 1})
        return result

    def __deepcopy__(self, memo: Any) -> Booster:
        return self  # nothing changes it any more

    def save(self, file: str | Path) -> None:
        """Write them to a file."""
        _call("XGBoosterSaveModel", self._handle, str(file).encode())

    def num_features(self) -> int:
        """The number of columns it has learnt from."""
        number = ctypes.c_uint64()
        _call("XGBoosterGetNumFeature", self._handle, ctypes.byref(number))
        return number.value

    def predict(self, table: Any) -> Any:
        """What the trees say of each row, as float32."""
        table = np.ascontiguousarray(table, np.float32)
        shape, size, values = (
            ctypes.POINTER(ctypes.c_uint64)(),
            ctypes.c_uint64(),
            ctypes.POINTER(ctypes.c_float)(),
        )
        how = _json(
            type=0,
            training=False,
            iteration_begin=0,
            iteration_end=0,
            missing=NO_VALUE,
            strict_shape=False,
            cache_id=0,
        )
        out = ctypes.byref(shape), ctypes.byref(size), ctypes.byref(values)
        _call("XGBoosterPredictFromDense", self._handle, _interface(table), how, None, *out)
        # the library writes the next answer to the same place
        return np.ctypeslib.as_array(values, (len(table),)).copy()

    def gains(self) -> dict[int, float]:
        """By the number of a feature, the gain of all splits that ask for it."""
        count, names, size = ctypes.c_uint64(), ctypes.POINTER(ctypes.c_char_p)(), ctypes.c_uint64()
        shape, scores = ctypes.POINTER(ctypes.c_uint64)(), ctypes.POINTER(ctypes.c_float)()
        out = (ctypes.byref(x) for x in (count, names, size, shape, scores))
        _call(
            "XGBoosterFeatureScore", self._handle, _json(importance_type="total_gain", feature_map=""), *out
        )
        return {int(names[i][1:]): float(scores[i]) for i in range(count.value)}

    def _set(self, parameters: Mapping[str, Any]) -> None:
        for name, value in parameters.items():
            _call("XGBoosterSetParam", self._handle, name.encode(), str(value).encode())


@functools.cache
def library() -> Any:
    """The library, loaded once. Raises ImportError where there is none."""
    found = importlib.util.find_spec("xgboost")
    places = found.submodule_search_locations if found is not None else None
    files = [Path(place) / "lib" / "libxgboost.so" for place in places or ()]
    for file in files:
        if file.exists() and "xgboost" not in sys.modules:
            result = ctypes.CDLL(str(file))
            break
    else:  # elsewhere, as in environments of conda: the package knows
        import xgboost

        result = xgboost.core._LIB
    result.XGBGetLastError.restype = ctypes.c_char_p
    result.XGBoosterFree.argtypes = [ctypes.c_void_p]
    return result


def _call(name: str, *arguments: Any) -> None:
    if getattr(library(), name)(*arguments):
        why = library().XGBGetLastError().decode(errors="replace").partition("\n")[0]  # then its stack
        raise RuntimeError(f"xgboost: {why}")


def _interface(array: Any) -> bytes:
    """Where the numbers of an array are, as the library wants to be told."""
    return json.dumps(array.__array_interface__).encode()


def _json(**values: Any) -> bytes:
    return json.dumps(values).encode()
