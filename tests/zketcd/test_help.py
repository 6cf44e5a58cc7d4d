"""The help of every command, where nothing but the server's libraries is installed."""

import subprocess
import sys

import pytest

from cli.commands import available

pytestmark = pytest.mark.long

# Libraries of extras: requirements/*.in but runtime.in. The import system does not find them.
_EXTRAS = ("numpy", "pyarrow", "pandas", "pyspark", "py4j", "obstore", "matplotlib", "chdb", "shtab")
_PROGRAM = f"""
import contextlib, io, sys
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *rest: (
    None if name.partition(".")[0] in {_EXTRAS!r} else found(name, *rest)
)
from zketcd.__main__ import main
for name in sys.argv[1:]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            code = main([name, "--help"])
        except SystemExit as ended:
            code = ended.code
    assert not code, (name, code)
    assert "usage: zketcd " + name in " ".join(out.getvalue().split()), (name, out.getvalue()[:200])
"""


def test_help_needs_no_extras() -> None:
    names = sorted(available())
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *names], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr
