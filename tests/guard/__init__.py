"""Compiled kernels on memory between guard pages: a byte read or written outside an array ends the process,
which the parent sees."""
