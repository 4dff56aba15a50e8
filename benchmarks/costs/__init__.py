"""What `bench.py` measures, a part in each file."""
