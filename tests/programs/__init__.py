"""Programs as one writes them for TVM's ``te``, with the import changed: the classic tutorials' subjects,
each against numpy."""
