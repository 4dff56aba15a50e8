"""Networks, their heads, and what normalises them."""
