"""How code is found by name, that of the package and that of a user alike."""
