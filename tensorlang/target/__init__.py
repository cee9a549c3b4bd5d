"""What machine code is made for: target strings, detection of this CPU, its registers and caches. Knows no expressions."""
