"""A page with a slider: what the same weights recognise under other statistics φ."""
