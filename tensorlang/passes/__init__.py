"""Loop IR to loop IR, one pass a file; ``pipeline`` holds THE list. Knows loop IR and arith; never te or
schedule."""
