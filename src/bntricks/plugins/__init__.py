"""Registries by name, and the import of a user's own code."""
