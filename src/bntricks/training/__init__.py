"""Training: one step, one loop, and the state between two steps."""
