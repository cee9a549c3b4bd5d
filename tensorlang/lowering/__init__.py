"""From schedule state to loop IR. Knows the schedule and the loop IR; nothing of passes, code generation or
running."""
