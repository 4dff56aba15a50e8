"""What the machine beneath decides: its devices, and its requests to stop."""
