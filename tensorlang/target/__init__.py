"""What machine code is made for: target strings, detection of this CPU, its registers and caches. Knows no
expressions."""

from ..entries import share
from ..errors import TargetError
from .target import Target, arch_of, as_target

__all__ = ["Target", "arch_of", "as_target"]

share(__name__, error=TargetError)
