"""Commands do without pandas, which takes longer to import than a small tree to be looked at."""

import subprocess
import sys

from lab.servers.process import REPOSITORY
from tests.pipeline.trees import SAMPLES

_PROGRAM = """
import sys
from pipeline.__main__ import main
assert main(sys.argv[1:]) == 0
assert "pandas" not in sys.modules
import pyarrow
print(len(pyarrow.table({"a": [1, 2]}).to_pandas()))
assert "pandas" in sys.modules
"""


def test_a_small_tree_is_inspected_without_pandas_which_is_there_for_those_who_ask() -> None:
    """In a process of its own: this one may have it already."""
    words = ["inspect", str(SAMPLES / "zk39-plain")]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "2"
