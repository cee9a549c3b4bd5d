"""Every mistake of a user that we know of, one function each, with the message it earns kept as golden text
that a person has read."""
