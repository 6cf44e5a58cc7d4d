"""What nothing has handled ends a connection or the process: with uvloop, threads, and no memory."""

import asyncio
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest

from proxy.support.last_resort import EXIT_CODE, LastResort, contained
from proxy.support.tasks import Tasks

_PROGRAM = """
import asyncio, socket, sys, threading
import uvloop
from proxy.support.last_resort import take_charge
from proxy.support.tasks import Tasks

class Bad(asyncio.Protocol):
    def __init__(self, error):
        self.error = error
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        raise self.error
    def connection_lost(self, error):
        print("lost", flush=True)

async def accepted(error):
    near, far = socket.socketpair()
    near.setblocking(False)
    await asyncio.get_running_loop().connect_accepted_socket(lambda: Bad(error), near)
    far.send(b"x")
    return far

def fail(error=ValueError("a defect")):
    raise error

class Unraisable:
    def __init__(self, error):
        self.error = error
    def __del__(self):
        raise self.error

async def main():
    loop = asyncio.get_running_loop()
    take_charge(loop)
    tasks = Tasks()
    {what}
    await asyncio.sleep(0.5)
    print("goes on")

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


def _run(what: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM.replace("{what}", what)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


@pytest.mark.parametrize(
    "what",
    [
        "loop.call_soon(fail)",
        "loop.call_later(0.01, fail)",
        "loop.create_future().add_done_callback(fail) or loop.call_soon(fail)",
        "tasks.start(asyncio.to_thread(fail), 'do something')",
        "await accepted(MemoryError('a defect'))",
        "threading.Thread(target=fail).start()",
        "Unraisable(MemoryError('a defect'))",
        "loop.call_soon_threadsafe(fail)",
    ],
)
@pytest.mark.long
def test_the_process_ends(what: str) -> None:
    done = _run(what)
    assert (done.returncode, done.stdout.replace("lost\n", "")) == (EXIT_CODE, "")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("zketcd: ending: ")
    assert "a defect" in done.stderr
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    "what", ["Unraisable(ValueError('harmless'))", "kept = await accepted(ValueError('x'))"]
)
@pytest.mark.long
def test_the_process_continues(what: str) -> None:
    done = _run(what)
    assert done.returncode == 0
    assert "goes on" in done.stdout
    assert ("lost" in done.stdout) == ("accepted" in what)


@pytest.mark.long
def test_a_standard_error_that_is_not_read_does_not_keep_it() -> None:
    """The pipe is full when the process ends."""
    fill = "import os; os.set_blocking(2, False); fail() if os.write(2, bytes(1 << 20)) else None"
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.replace("{what}", fill.replace("fail()", "loop.call_soon(fail)"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.wait(60) == EXIT_CODE


async def test_what_is_handled_and_how() -> None:
    loop, ends = mock.Mock(), []
    handler = LastResort(lambda reason, error: ends.append((reason, error)))
    error, memory = ValueError("a defect"), MemoryError()
    transport = mock.Mock()
    handler(loop, {"message": "in data_received", "exception": error, "transport": transport})
    transport.abort.assert_called_once_with()
    handler(loop, {"message": "a warning"})
    handler(loop, {"message": "never retrieved", "exception": error, "task": None})
    assert loop.default_exception_handler.call_count == 2
    assert ends == []
    handler(loop, {"message": "in a callback", "exception": error})
    handler(loop, {"exception": memory, "transport": transport})
    handler(loop, {"message": "never retrieved", "exception": memory, "future": None})
    assert ends == [
        ("ending: in a callback: ValueError('a defect')", error),
        ("ending: an exception in the event loop: MemoryError()", memory),
        ("ending: never retrieved: MemoryError()", memory),
    ]


async def test_a_task_that_fails_is_reported() -> None:
    ends: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(LastResort(lambda reason, _error: ends.append(reason)))
    try:

        async def fail() -> None:
            raise KeyError("x")

        await asyncio.wait((Tasks().start(fail(), "do something"),))
        await asyncio.sleep(0)
        contained(MemoryError(), "closing a connection")
    finally:
        loop.set_exception_handler(None)
    assert ends == [
        "ending: failed to do something: KeyError('x')",
        "ending: closing a connection: MemoryError()",
    ]
