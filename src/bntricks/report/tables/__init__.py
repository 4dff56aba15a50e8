"""Tables of results, and how they are written."""
