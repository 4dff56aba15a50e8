"""The rules of the house that a linter does not know."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "bntricks"
MODULES = sorted(SOURCE.rglob("*.py"))
BELOW_CLI = [path for path in MODULES if "cli" not in path.parts]
PIECES = {"batch", "errors", "files", "intervals", "memory", "norm", "options", "seeds"}
COMMAND_LINES = {
    "report/commands.py",  # the command that makes a run again, for a reader to copy
    "report/diagrams/frameworks.py",
    "runs/check.py",  # starts a run under torchrun
}


def docstrings(tree):
    """Strings that stand alone: documentation, also of fields."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def test_only_the_pieces_stand_at_the_top():
    top = {path.stem for path in SOURCE.glob("*.py")}
    assert top == PIECES | {"__init__", "__main__"}


@pytest.mark.parametrize("path", BELOW_CLI, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_below_the_command_line_names_a_flag_or_prints(path):
    tree = ast.parse(path.read_text())
    documentation = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "input"), node.lineno
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in documentation or str(path.relative_to(SOURCE)) in COMMAND_LINES:
                continue
            assert not re.search(r"(^|[\s`(])--[a-z]", node.value), f"{node.lineno}: {node.value}"


def test_one_loop_observes_batches():
    """Besides it, only what measures steps does."""
    observing = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "observe"
    }
    assert observing - {"sweeps/estimate.py", "runs/check.py"} == {"training/loop.py"}


def test_a_class_name_means_one_class():
    trees = (ast.parse(path.read_text()) for path in MODULES)
    classes = Counter(
        n.name for tree in trees for n in ast.walk(tree) if isinstance(n, ast.ClassDef)
    )
    assert [name for name, count in classes.items() if count > 1] == []


def test_nobody_asks_a_policy_what_it_is():
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                kinds = ast.unparse(node.args[1])
                assert not re.search(r"Reservoir|Herding|PerTask|Outputs|GradientGreedy", kinds)


@pytest.mark.slow
def test_a_type_checker_sees_every_public_name(tmp_path):
    import bntricks

    lines = ["import bntricks", "from torch import Tensor"]
    lines += [*(f"reveal_type(bntricks.{name})" for name in bntricks.__all__)]
    lines += [
        "record = bntricks.run(bntricks.Config(method='er'))",
        "reveal_type(record.acc)",
        "reveal_type(bntricks.Model.load('m').predict(['a.jpg']))",
        "@bntricks.stream('a', summary='', tasks='', image_size=8, memory=1, data='given')",
        "def opener(info: bntricks.StreamInfo, options: bntricks.GivenOptions) -> bntricks.Stream:",
        "    reveal_type(options.data.name)",
        "    return bntricks.from_arrays([], [])",
        "@bntricks.loss('Small', features=True)",
        "def small(p: bntricks.Pass) -> Tensor:",
        "    return reveal_type(p.features).square().mean()",
    ]
    script = tmp_path / "user.py"
    script.write_text("\n".join(lines) + "\n")
    check = [sys.executable, "-m", "mypy", "--strict", str(script)]
    done = subprocess.run(check, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    revealed = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(revealed) == len(bntricks.__all__) + 4
    assert not [kind for kind in revealed if re.fullmatch(r"Any|builtins\.object", kind)]
    assert [kind.replace("builtins.", "") for kind in revealed[-4:]] == [
        "float",
        "list[str]",
        "str",
        "torch._tensor.Tensor",
    ]
