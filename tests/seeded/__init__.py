"""Bugs put into the compiler on purpose: each must be caught by the suite. ``python -m tests.seeded.table``
shows by what."""
