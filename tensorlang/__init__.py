"""tensorlang"""
from .expr import operators  # noqa
