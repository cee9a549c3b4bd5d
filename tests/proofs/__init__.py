"""Proofs by an independent oracle (isl): every element of every output is written, once, and no access leaves
its buffer; for all sizes."""
