"""Random graphs under random schedules: three oracles must agree bit for bit. Run more with ``python -m
tests.fuzz.run``."""
