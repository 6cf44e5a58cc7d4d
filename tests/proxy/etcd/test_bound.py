"""bound.py: the program runs in our place, unless the parent is gone."""

import os
import subprocess
import sys
from pathlib import Path

from proxy.etcd import bound


def run(parent: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", str(Path(bound.__file__)), str(parent), *command],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


def test_the_program_gets_its_arguments_and_returns_its_status() -> None:
    done = run(os.getpid(), "/bin/sh", "-c", 'echo "$1"; exit 5', "sh", "an argument")
    assert (done.stdout, done.returncode) == ("an argument\n", 5)


def test_a_parent_that_is_gone_is_not_outlived() -> None:
    done = run(1, "/bin/sh", "-c", "echo must not run")
    assert (done.stdout, done.returncode) == ("", 1)
    assert "the parent has ended" in done.stderr
