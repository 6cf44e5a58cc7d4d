"""Run pytest in several processes, each with a share of the files: `test_in_shares.py 2 -m "not real"`.

Under pytest-xdist each process imports all files, and one more hears of each test. For thousands of quick
tests that is much of the time. tests/conftest.py says which files are whose.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack

_NOTHING = 5  # pytest's exit code where no test was selected


def main(arguments: Sequence[str]) -> int:
    """The first process speaks at once, each other one when those before it have ended."""
    parser = argparse.ArgumentParser(prog="test_in_shares.py", description=__doc__, allow_abbrev=False)
    parser.add_argument("count", type=int, help="how many processes; pytest gets all other arguments")
    options, given = parser.parse_known_args(arguments)
    with ExitStack() as stack:
        running = []
        for number in range(options.count):
            output = stack.enter_context(tempfile.TemporaryFile()) if number else None
            share = {"TEST_SHARE": f"{number}/{options.count}"}
            command = [sys.executable, "-m", "pytest", *given]
            process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **share})
            running.append((stack.enter_context(process), output))
        codes = []
        for process, output in running:
            codes.append(abs(process.wait()))
            if output is not None:
                output.seek(0)
                shutil.copyfileobj(output, sys.stdout.buffer)
                sys.stdout.flush()
    return max((code for code in codes if code != _NOTHING), default=_NOTHING)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
