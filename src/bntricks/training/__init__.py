"""A network that learns: one step, one loop, and the state between two steps."""
