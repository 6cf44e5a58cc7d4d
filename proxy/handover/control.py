"""How a process that serves is asked for an upgrade, by a Unix socket or a signal, and for what it serves."""

import asyncio
import logging
import os
import socket

from proxy.handover.names import name_of, other_end

log = logging.getLogger("zketcd")

#: A request for an upgrade.
REQUEST = b"upgrade\n"
#: A request for what the process serves: its address and prefix.
WHICH = b"which\n"
#: The answer to a request that succeeded begins with this.
DONE = "process "


class Control:
    """Takes requests for an upgrade, by the socket and by a signal, and answers with the outcome."""

    def __init__(self, serves: str = "") -> None:
        """`serves`: the answer to WHICH."""
        self._serves = serves
        #: An upgrade was requested, and has not begun.
        self.requested = asyncio.Event()
        self._is_upgrading = False
        self._waiting: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Take requests of this user and of root."""
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            end.bind(name_of(os.getpid()))
        except OSError as error:  # another user has taken the name
            end.close()
            log.warning("`zketcd upgrade` cannot reach this process, only SIGUSR2 can: %s", error.strerror)
            return
        self._server = await asyncio.start_unix_server(self._asked, sock=end)

    def begin(self) -> None:
        """The upgrade begins. A signal from now on requests another one: the configuration may be newer."""
        self.requested.clear()
        self._is_upgrading = True

    async def answer(self, outcome: str) -> None:
        """The upgrade is over: report it to each client that has asked, also since it began."""
        self._is_upgrading = False
        waiting, self._waiting = self._waiting, []
        for writer in waiting:
            writer.write(outcome.encode() + b"\n")
            writer.close()
        for writer in waiting:
            try:
                await writer.wait_closed()
            except OSError:
                continue  # it waits no more

    def close(self) -> None:
        """Take no more requests."""
        if self._server is not None:
            self._server.close()

    async def _asked(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, user = other_end(writer.get_extra_info("socket"))
        if user not in (0, os.geteuid()):
            writer.write(b"only root and the user that runs it may ask\n")
            writer.close()
            return
        request = await reader.readline()
        if request == REQUEST:
            self._waiting.append(writer)
            if not self._is_upgrading:
                self.requested.set()
            return
        if request == WHICH:
            writer.write(self._serves.encode() + b"\n")
        writer.close()
