"""What commands print goes through `cli.output`: names of znodes may have control characters."""

import ast
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_SOURCES = ("archive", "cli", "ctl", "pipeline", "zketcd")

# What else prints, and why it may.
_OTHERS = {
    "cli/output.py": "is the one way",
    "ctl/top.py": "clears the screen first; the rest is visible",
    "pipeline/progress.py": "rewrites a line; messages are visible",
    "zketcd/__main__.py": "our own words",
    "zketcd/completion.py": "a script of ours",
    "zketcd/online/shell.py": "the help, and the end of a line",
}


def _prints(file: Path) -> bool:
    calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
    return bool({"print", "sys.stdout.write", "sys.stderr.write"} & set(map(ast.unparse, calls)))


def test_names_are_printed_in_one_place() -> None:
    files = [file for folder in _SOURCES for file in sorted((_ROOT / folder).rglob("*.py"))]
    assert {str(file.relative_to(_ROOT)) for file in files if _prints(file)} == set(_OTHERS)
