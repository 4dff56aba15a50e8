"""`bnt`, and `python -m bntricks`."""

import sys
from typing import NoReturn

from bntricks.errors import MissingExtra, extra


def main() -> NoReturn:
    """Run the command line, or say what to install for it."""
    try:
        with extra():
            from bntricks.cli import main as command_line
    except MissingExtra as error:
        sys.stderr.write(f"bnt: {error}\n")
        sys.exit(2)
    command_line()


if __name__ == "__main__":
    main()
