"""The new process, as its parent starts it: the same command line, by the code that is installed now."""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from socket import socketpair

from proxy.handover.channel import PORTS, VARIABLE, Channel


class Heir:
    """The process that is to take over."""

    def __init__(self, process: asyncio.subprocess.Process, channel: Channel) -> None:
        self._process = process
        self.pid = process.pid
        self.channel = channel

    async def end(self) -> None:
        """Kill it, and wait until it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        self.channel.close()


async def start_heir(ports: Mapping[str, int]) -> Heir:
    """Start it. `ports`: those that it will get, by name. Raises OSError."""
    ours, theirs = socketpair()
    environment = {name: value for name, value in os.environ.items() if name != "WATCHDOG_PID"}
    with theirs:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *sys.orig_argv[1:],
            pass_fds=(theirs.fileno(),),
            env={**environment, VARIABLE: str(theirs.fileno()), PORTS: json.dumps(dict(ports))},
        )
    return Heir(process, Channel(ours))
