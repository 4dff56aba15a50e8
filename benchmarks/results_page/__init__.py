"""The parts of docs/results.md, which `write_results.py` puts together."""
