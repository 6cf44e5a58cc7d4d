"""What commands do when their standard output fails: one line, no traceback."""

import subprocess
import sys

import pytest

from lab.servers.process import REPOSITORY

pytestmark = pytest.mark.long

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


_FULL = "name: cannot write to standard output: No space left on device\n"
_CLOSED = "name: cannot write to standard output: Bad file descriptor\n"
_SAYS_WHY = "print('text'); print('why', file=sys.stderr); "


@pytest.mark.parametrize(
    ("body", "redirection", "expected"),
    [
        ("print('text'); return 0", "", ("text\n", "", 0)),
        ("print('text'); return 3", "", ("text\n", "", 3)),
        ("sys.exit('words')", "", ("", "words\n", 1)),
        # A full disk; what has failed already says no more.
        ("print('text'); return 0", ">/dev/full", ("", _FULL, 1)),
        ("print('text', flush=True); return 0", ">/dev/full", ("", _FULL, 1)),
        ("print('text'); sys.exit(0)", ">/dev/full", ("", _FULL, 1)),
        (_SAYS_WHY + "return 2", ">/dev/full", ("", "why\n", 2)),
        # A pipe that nothing reads from: the exit code is that of `head`.
        (r"print('text\n' * 100_000); return 0", "| head -n 1", ("text\n", "", 0)),
        # A standard output that is closed, and a standard error.
        ("return 0", ">&-", ("", "", 0)),
        ("print('text'); return 0", ">&-", ("", _CLOSED, 1)),
        (_SAYS_WHY + "return sys.stderr.isatty()", "2>&-", ("text\n", "", 0)),
        ("raise KeyboardInterrupt", "", ("", "name: interrupted\n", 130)),
        ("raise KeyboardInterrupt", ">&-", ("", "name: interrupted\n", 130)),
        (
            "from proxy.support.stdout import terminate; terminate(15, None)",
            "",
            ("", "name: terminated\n", 143),
        ),
    ],
)
def test_output_and_exit_code(body: str, redirection: str, expected: tuple[str, str, int]) -> None:
    done = _run(body, redirection)
    assert (done.stdout, done.stderr, done.returncode) == expected


def test_a_command_that_catches_errors_can_tell_those_of_standard_output() -> None:
    body = """try:
        print('text', flush=True)
    except OSError as error:
        from proxy.support.stdout import has_failed
        if has_failed():
            raise
        return 5"""
    done = _run(body, ">/dev/full")
    assert (done.stderr, done.returncode) == (_FULL, 1)


def test_a_standard_output_without_unicode() -> None:
    done = _run("print('a\\u00e4\\udcff'); return 0", PYTHONIOENCODING="ascii")
    assert (done.stdout, done.returncode) == ("a\\xe4\\udcff\n", 0)


def test_another_error_is_not_taken_for_one_of_standard_output() -> None:
    done = _run("open('/nowhere/at/all')")
    assert "FileNotFoundError" in done.stderr
