"""The project measured: against its peers, and where a decision of its design rested on a number.

``python -m benchmarks.run`` compares with peers (``suites/`` says on what, ``peers/`` with whom, ``harness/``
how, ``results/`` what came of it); ``python -m benchmarks [NAME …]`` runs the scripts of this folder, each
about one matter of our own.
"""
