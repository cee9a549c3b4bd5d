"""The project measured: against its peers, and where a decision of its design rested on a number.

``python -m benchmarks`` runs all.
"""
