"""What commands do when their standard output fails: one line, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.servers.process import REPOSITORY

_PROGRAM = """
import sys
from proxy.support.stdout import guarded
def main():
    {}
sys.exit(guarded(main, "name"))
"""


def _run(body: str, redirection: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", f'"$0" -c "$1" {redirection}', sys.executable, _PROGRAM.format(body)],
        env={"PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_standard_output_that_works() -> None:
    for code in (0, 3):
        done = _run(f"print('text'); return {code}")
        assert (done.stdout, done.stderr, done.returncode) == ("text\n", "", code)


@pytest.mark.parametrize(
    "body", ["print('text'); return 0", "print('text', flush=True); return 0", "print('text'); sys.exit(0)"]
)
def test_a_full_disk(body: str) -> None:
    assert Path("/dev/full").exists()
    done = _run(body, ">/dev/full")
    assert done.stderr == "name: cannot write to standard output: No space left on device\n"
    assert done.returncode == 1


def test_what_has_failed_already_says_no_more() -> None:
    done = _run("print('text'); print('why', file=sys.stderr); return 2", ">/dev/full")
    assert (done.stderr, done.returncode) == ("why\n", 2)


def test_a_pipe_that_nobody_reads_from() -> None:
    done = _run("print('text\\\\n' * 100_000); return 0".replace("\\\\", "\\"), "| head -n 1")
    assert (done.stdout, done.stderr) == ("text\n", "")


def test_a_standard_output_that_is_closed() -> None:
    done = _run("print('text'); return 0", ">&-")
    assert (done.stderr, done.returncode) == ("", 0)


def test_a_standard_error_that_is_closed() -> None:
    done = _run("print('text'); print('why', file=sys.stderr); return sys.stderr.isatty()", "2>&-")
    assert (done.stdout, done.returncode) == ("text\n", 0)


def test_a_command_that_catches_errors_can_tell_those_of_standard_output() -> None:
    body = """try:
        print('text', flush=True)
    except OSError as error:
        from proxy.support.stdout import has_failed
        if has_failed():
            raise
        return 5"""
    done = _run(body, ">/dev/full")
    assert done.stderr == "name: cannot write to standard output: No space left on device\n"
    assert done.returncode == 1


def test_a_standard_output_without_unicode() -> None:
    done = _run("print('a\\u00e4\\udcff'); return 0", PYTHONIOENCODING="ascii")
    assert (done.stdout, done.returncode) == ("a\\xe4\\udcff\n", 0)


def test_another_error_is_not_taken_for_one_of_standard_output() -> None:
    done = _run("open('/nowhere/at/all')")
    assert "FileNotFoundError" in done.stderr


@pytest.mark.parametrize("redirection", ["", ">&-"])
def test_ctrl_c_is_one_line(redirection: str) -> None:
    done = _run("raise KeyboardInterrupt", redirection)
    assert (done.stdout, done.stderr, done.returncode) == ("", "name: interrupted\n", 130)


def test_words_of_sys_exit_stay() -> None:
    done = _run("sys.exit('words')")
    assert (done.stderr, done.returncode) == ("words\n", 1)
