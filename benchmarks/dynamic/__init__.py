"""Kernels of every shape: dispatch, tiers and whole traces, against other ways to serve sizes that change."""
