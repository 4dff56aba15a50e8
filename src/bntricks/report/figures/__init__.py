"""Charts of results, each with its data and a description."""
