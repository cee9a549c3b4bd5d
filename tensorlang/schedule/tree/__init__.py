"""The schedule tree: loop, storage and compute nodes, derived from the state. One tree serves printing,
lowering and analysis."""
