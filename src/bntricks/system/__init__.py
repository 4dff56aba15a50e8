"""The machine: its devices, and requests to stop."""
