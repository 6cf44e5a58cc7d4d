"""Starting processes."""

import asyncio
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
import uvloop

from proxy.support.spawn import spawn

_ECHO = "import sys; sys.stdout.write(sys.stdin.readline()); sys.exit(3)"
_PAGES = 8192


async def test_it_reads_and_writes_and_ends() -> None:
    child = await spawn([sys.executable, "-c", _ECHO], os.environ, pipes=True)
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"a question\n")
    await child.stdin.drain()
    assert await child.stdout.read() == b"a question\n"
    assert await child.wait() == child.returncode == 3
    child.kill()  # as if it had not ended
    child.stdin.close()
    child.close()


@pytest.mark.parametrize("started", [0, 1])
async def test_without_a_place_for_another_thread_it_is_refused(
    started: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before or after the process was started, which took the last place."""
    start, left = threading.Thread.start, [None] * started
    pids: list[int] = []

    def start_if_there_is_a_place(thread: threading.Thread) -> None:
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    popen = subprocess.Popen
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda *words, **how: _noted(pids, popen(*words, **how)))
        patched.setattr(threading.Thread, "start", start_if_there_is_a_place)
        with pytest.raises(OSError, match="can't start new thread"):
            await spawn([sys.executable, "-c", "input()"], os.environ, pipes=True)
    assert len(pids) == started
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def _noted(pids: list[int], process: "subprocess.Popen[Any]") -> "subprocess.Popen[Any]":
    pids.append(process.pid)
    return process


async def test_it_is_killed_with_output_that_nobody_reads() -> None:
    child = await spawn([sys.executable, "-c", "while True: print('x' * 9999)"], os.environ, pipes=True)
    assert child.stdin is not None
    assert child.stdout is not None
    await child.stdout.readexactly(9999)
    child.kill()
    assert await child.wait() == -signal.SIGKILL
    child.stdin.close()
    child.close()


async def test_it_gets_descriptors() -> None:
    read, write = os.pipe()
    code = f"import os; os.write({write}, b'here')"
    child = await spawn([sys.executable, "-c", code], os.environ, descriptors=[write])
    assert await child.wait() == 0
    assert child.stdin is None
    assert child.stdout is None
    os.close(write)
    assert os.read(read, 9) == b"here"
    os.close(read)


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError):
        await spawn(["/no/such/program"], {})


def test_the_memory_of_this_process_is_not_copied() -> None:
    """After a fork each page of it is a fault again when it is written to."""

    async def faults() -> int:
        memory[:: mmap.PAGESIZE] = bytes(_PAGES)
        child = await spawn([sys.executable, "-c", ""], os.environ)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        memory[:: mmap.PAGESIZE] = bytes(_PAGES)
        found = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        await child.wait()
        return found

    memory = mmap.mmap(-1, _PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(faults()) < _PAGES // 2
    memory.close()
