"""What a tune is made of: a session for one task, programs cut into pieces, records under other names, models
from earlier tasks. Knows the other rooms by their protocols; ``tune.py`` decides the number of trials."""
