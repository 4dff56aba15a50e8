"""What works where only `pip install .` was run, and what is said of the rest: `make test-light`
runs this in such an environment, and a fast test where optional packages are only hidden (`hide`).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from bntricks.errors import EXTRAS, MissingExtra  # noqa: E402

if "hide" in sys.argv:
    sys.modules |= dict.fromkeys(EXTRAS)
else:
    assert "pytest" not in sys.modules
    sys.modules["pytest"] = MagicMock()  # helpers define fixtures

import bntricks  # noqa: E402
from helpers.pages import python_blocks  # noqa: E402
from helpers.scenery import SCENERY  # noqa: E402

NEED_EXTRAS = {
    "progress": "cli",
    "IncrementalClassifier": "sklearn",
    **dict.fromkeys(("compare", "search", "Range"), "report"),
}
"""Public names that cannot be imported without one."""


def missing(use):
    """The line that says what to install."""
    try:
        use()
    except MissingExtra as error:
        return str(error)
    raise AssertionError("no extra is missing")


def command(*words):
    """Run `bnt`, where the packages are hidden as here."""
    hidden = (
        f"import sys; sys.modules |= dict.fromkeys({[*EXTRAS]}); " if "hide" in sys.argv else ""
    )
    code = f"{hidden}from bntricks.__main__ import main; main()"
    return subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)


os.chdir(tempfile.mkdtemp())
os.environ.setdefault("BNT_CACHE", str(Path("cache").absolute()))
for name in bntricks.__all__:
    if name in NEED_EXTRAS:
        line = missing(lambda name=name: getattr(bntricks, name))
        assert f"pip install 'bntricks[{NEED_EXTRAS[name]}]'" in line, line
    else:
        getattr(bntricks, name)

names = {"__name__": "page", **SCENERY["README.md"]()}
blocks = python_blocks((HERE.parent / "README.md").read_text(encoding="utf-8"))
for _, block in blocks:
    exec(block, names)

[row] = bntricks.load_records("runs").rows()
assert row["method"] == "er-again-bnt"
assert 0 < row["acc"] <= 100
assert "'bntricks[sklearn]'" in missing(lambda: bntricks.open_stream("seq-digits"))
assert "'bntricks[pandas]'" in missing(lambda: bntricks.load_records("runs").frame())
assert "'bntricks[report]'" in missing(
    lambda: bntricks.write_report(bntricks.load_records("runs"), "report")
)
done = command("--help")
assert (done.returncode, done.stdout) == (2, ""), done
assert done.stderr == "bnt: this needs cyclopts: pip install 'bntricks[cli]'\n", done.stderr
print(f"{len(blocks)} blocks of Python run without extras")
