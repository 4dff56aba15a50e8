"""One run: its configuration, its folder on disk, its checkpoints and its record."""
