"""Which torch is taken, and what is said of others. Needs no torch."""

from __future__ import annotations

import pytest

from tests.fresh import python

CODE = """
import sys, types
torch = types.ModuleType("torch")
torch.__version__ = {version!r}
sys.modules["torch"] = {module}
import tensorlang as tl
try:
    tl.load_torch(None)
except tl.TensorLangError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("version", "module", "words"),
    [
        ("2.8.1", "torch", ["torch 2.8.1 is not supported", "torch 2.9 and newer, older than 2.15"]),
        ("2.15.0", "torch", ["torch 2.15.0 is not supported", "pip install 'tensorlang[torch]'"]),
        ("strange", "torch", ["torch strange is not supported"]),
        ("", "None", ["torch cannot be imported", "pip install 'tensorlang[torch]'"]),
    ],
)
def test_a_torch_that_is_missing_or_not_known_is_told(version, module, words):
    code = CODE.format(version=version, module=module)
    found = python(code)
    assert found.returncode == 0 and all(w in found.stdout for w in words), found
