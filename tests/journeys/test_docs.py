"""What the docs say is what the code does."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_methods_is_the_codes():
    text = (DOCS / "methods.md").read_text()
    written = text.split("<!-- methods -->\n")[1].split("<!-- /methods -->")[0]
    printed = subprocess.run(
        [sys.executable, "-m", "bntricks", "methods", "--markdown"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert written.strip() == printed.strip(), "run `bnt methods --markdown` and paste it in"
