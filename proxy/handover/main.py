"""`zketcd upgrade`: asks a running zketcd to hand over to a new process, and waits for the outcome."""

import argparse
import errno
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress

from proxy.handover.control import DONE, REQUEST, WHICH
from proxy.handover.names import name_of, other_end, serving
from proxy.handover.supervisor import descendants
from proxy.support.usage import Parser

_ANSWERED_WITHIN = 2.0  # seconds, what a process serves
_LONGEST = 64 << 10  # bytes of an answer, which is sent in one write


def parser(command: str) -> argparse.ArgumentParser:
    """The parser of `zketcd upgrade`."""
    made = Parser(
        prog=f"zketcd {command}",
        description="Replace a running zketcd by a new process, of this or another installed release, without"
        " closing its clients' connections. If the new process fails, the old one continues.",
    )
    made.add_argument(
        "pid", type=int, nargs="?", metavar="PID", help="the running one; needed if there are several"
    )
    return made


def main(arguments: Sequence[str], command: str) -> int:
    """Ask, wait, and print the outcome; the exit code: 1 if the old process continues, 2 for wrong usage."""
    made = parser(command)
    given = made.parse_args(arguments)
    try:
        reachable = sorted(serving())
    except OSError as error:
        made.error(f"the processes that serve cannot be found: {error.filename}: {error.strerror}")
    if not reachable:
        made.error("no zketcd runs here, or none that has /proc: restart that one instead")
    found = reachable if given.pid is None else _meant(given.pid, reachable)
    if len(found) != 1:
        question = "which process?" if found else f"process {given.pid} is no zketcd that serves clients:"
        made.error(f"{question} {'; '.join(f'{pid}: {_served(pid)}' for pid in found or reachable)}")
    try:
        outcome = _ask(found[0], REQUEST)
    except OSError as error:
        made.error(f"process {found[0]}: {error.strerror}")
    if outcome.startswith(DONE):
        print(outcome)
        return 0
    print(f"zketcd: {outcome or 'the process ended without an answer: see its log'}", file=sys.stderr)
    return 1


def _meant(pid: int, reachable: Sequence[int]) -> list[int]:
    """The process itself, or those that serve in its place: without systemd the first one stays."""
    return [pid] if pid in reachable else [each for each in descendants(pid) if each in reachable]


def _ask(pid: int, request: bytes, timeout: float | None = None) -> str:
    """The answer of a process. Raises OSError, also if it does not answer within `timeout` seconds."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.settimeout(timeout)
        end.connect(name_of(pid))
        listener, _ = other_end(end)
        if listener != pid:  # any user can take any name
            raise OSError(errno.EPERM, f"process {listener} has taken its name")
        with suppress(BrokenPipeError):  # it refuses other users at once, and closes
            end.sendall(request)
        # Of an answer that came before the request was read, only the first call gets something.
        return end.recv(_LONGEST).decode().strip()


def _served(pid: int) -> str:
    """What a process serves, if it says that: to this user, and in this release."""
    try:
        return _ask(pid, WHICH, _ANSWERED_WITHIN)
    except TimeoutError:
        return "does not answer"
    except OSError as error:
        return str(error.strerror)
