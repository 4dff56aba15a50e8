"""What runs have reached in rows and columns, and how a table is written."""
