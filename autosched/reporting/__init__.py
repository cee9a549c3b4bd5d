"""What a person sees of a tune: progress while it runs, the report with curve, roofline and page afterwards.
Knows results and records; decides nothing."""
