"""`python -m bntricks` is `bnt`."""

from bntricks.cli import main

main()
