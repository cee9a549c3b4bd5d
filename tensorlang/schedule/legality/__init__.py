"""What is legal and why not: verdicts, places of stages, properties of loops. Knows the state and its bounds;
changes nothing."""
