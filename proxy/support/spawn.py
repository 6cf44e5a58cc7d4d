"""Starts a process from one that has much memory, in the time of one that has little.

uvloop's own way is to fork, and to wait until the child runs its program: 50 ms of CPU time for each GB of
this process, and more on busy cores, in which no client is served. `subprocess` does not copy page tables
(vfork).
"""

import asyncio
import errno
import subprocess
import threading
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from typing_extensions import override


class Child:
    """A child process, as asyncio.subprocess.Process."""

    stdin: StreamWriter | None = None
    stdout: StreamReader | None = None

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.pid = process.pid
        self.returncode: int | None = None
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._output: asyncio.BaseTransport | None = None
        threading.Thread(target=self._wait, name=f"wait for {self.pid}", daemon=True).start()

    async def connect(self) -> None:
        """Connect what are pipes."""
        if self._process.stdin is not None:
            transport, protocol = await self._loop.connect_write_pipe(
                lambda: StreamReaderProtocol(StreamReader()), self._process.stdin
            )
            self.stdin = StreamWriter(transport, protocol, None, self._loop)
        if self._process.stdout is not None:
            self.stdout = reader = StreamReader()
            self._output, _ = await self._loop.connect_read_pipe(
                lambda: _Output(reader), self._process.stdout
            )

    async def wait(self) -> int:
        """The exit status, when it has ended."""
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        self._process.kill()

    def close(self) -> None:
        """Read no more of its output."""
        if self._output is not None:
            self._output.close()

    def _wait(self) -> None:
        """In a thread: wait for its end."""
        status = self._process.wait()
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._end, status)

    def _end(self, status: int) -> None:
        self.returncode = status
        self._ended.set()


class _Output(StreamReaderProtocol):
    @override
    def eof_received(self) -> bool:
        super().eof_received()
        return False  # close the pipe


async def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    pipes: bool = False,
    descriptors: Collection[int] = (),
) -> Child:
    """Start a process. `pipes`: stdin and stdout are some. `descriptors`: it gets these. Raises OSError."""
    pipe = subprocess.PIPE if pipes else None
    process: subprocess.Popen[bytes] | None = None
    try:
        process = await asyncio.to_thread(
            subprocess.Popen, command, env=environment, stdin=pipe, stdout=pipe, pass_fds=descriptors
        )
        child = Child(process)
    except RuntimeError as error:  # the host, or the container, has no place for one more thread
        if process is not None:
            with process:  # closes its pipes, and waits for its end
                process.kill()
        raise OSError(errno.EAGAIN, str(error)) from error
    await child.connect()
    return child
