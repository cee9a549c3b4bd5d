"""Random programs and files of this package meet plain exceptions as they are."""

from __future__ import annotations

from tests.plain import plain_exceptions_pass

__all__ = ["plain_exceptions_pass"]
