"""The tuner measured: against TVM's MetaSchedule, against libraries, and against itself with parts left out.

``python -m benchmarks.autosched [peers | ablation | tails | sample | model]``; see ``__main__``. Knows
autosched's public names, and the harness of ``benchmarks.run`` for cases, peers and timing in turns.
"""
