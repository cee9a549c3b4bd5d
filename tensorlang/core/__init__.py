"""Ground floor: immutable nodes, dtypes, names and text. Knows nothing of expressions, tensors or loops."""
