"""Reasoning about integers: what is known of variables, what follows, and what region an index covers. Knows
expressions only."""
