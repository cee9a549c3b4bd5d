"""Kernels for other processors: built here, linked by cross compilers, run by an emulator, compared with
numpy."""
