"""The process that serves: it starts the new one, and gives it everything, or continues."""

import asyncio
import logging
import os
import sys
from collections.abc import Mapping
from socket import socket, socketpair

from proxy.frontend.moved import FORM, encode
from proxy.handover.channel import MOST_SOCKETS, VARIABLE, Channel, HandoverError, Message
from proxy.server import Server

log = logging.getLogger("zketcd")

_START = 600.0  # seconds in which the new process has to load the tree
_QUIET = 5.0  # seconds for etcd to answer what was taken from clients
_UNREAD = 1.0  # seconds for clients to read their replies; those that do not are closed at the end
_POLL = 0.002


class OtherForm(HandoverError):
    """The new release takes over in another form: a restart is needed."""


class Giver:
    """One attempt to hand the server over."""

    def __init__(self, server: Server, listeners: Mapping[str, socket | None]) -> None:
        self._server = server
        self._listeners = listeners
        self._heir = ""  # the new process's incarnation, once it may append
        self._held = asyncio.Event()  # the sessions are carried over, and nothing after that is applied

    async def run(self, obstacle: str) -> int:
        """Hand over; the new process's id. Raises HandoverError: then this process continues as before."""
        if obstacle:
            raise HandoverError(f"{obstacle}: restart instead")
        ours, theirs = socketpair()
        channel = Channel(ours)
        environment = {name: value for name, value in os.environ.items() if name != "WATCHDOG_PID"}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *sys.orig_argv[1:],
            pass_fds=(theirs.fileno(),),
            env={**environment, VARIABLE: str(theirs.fileno())},
        )
        theirs.close()
        try:
            await self._give(channel)
        except OtherForm:
            raise  # the new process waits for the end of this one
        except BaseException as error:
            await self._go_on(process)
            if isinstance(error, OSError):
                raise HandoverError(str(error)) from error
            raise
        return process.pid

    async def _give(self, channel: Channel) -> None:
        server = self._server
        hello = (await channel.receive("hello", timeout=_START)).fields
        log.info("release %s is ready to take over", hello["release"])
        if hello["form"] != FORM:
            await channel.send("restart")
            raise OtherForm(
                f"release {hello['release']} takes over in form {hello['form']}, this one in form {FORM}:"
                " this process drains and ends, and the new one starts as after a restart"
            )
        server.connections.freeze()
        await self._quiet()
        self._heir = hello["incarnation"]
        server.sessions.expect_heir(self._heir, self._carried)
        await channel.send("frozen", incarnation=server.log.incarnation)
        carried = (await channel.receive("carried")).fields
        if carried["sessions"]:
            await asyncio.wait_for(self._held.wait(), _QUIET)
        await channel.send_all(self._everything())
        await channel.receive("taken")
        await channel.send("go")

    async def _quiet(self) -> None:
        """Wait until nothing is in flight. Raises HandoverError."""
        loop, server = asyncio.get_running_loop(), self._server
        began = loop.time()
        while True:
            busy = [each for each in server.connections if not each.is_quiet]
            is_waiting = server.log.outbox.outstanding or any(each.outstanding for each in busy)
            passed = loop.time() - began
            if not is_waiting and (not busy or passed > _UNREAD):
                return
            if passed > _QUIET:
                raise HandoverError(f"etcd has not answered all requests in {_QUIET:g} s")
            await asyncio.sleep(_POLL)

    def _carried(self) -> None:
        if not self._held.is_set():
            self._held.set()
            self._server.log.applier.worker.hold()

    def _everything(self) -> list[Message]:
        moving = [each for each in self._server.connections if each.can_move and each.is_quiet]
        messages = [
            Message(
                "clients",
                {"connections": [encode(each.packed()).decode() for each in some]},
                [each.fd for each in some],
            )
            for some in (
                moving[start : start + MOST_SOCKETS] for start in range(0, len(moving), MOST_SOCKETS)
            )
        ]
        given = {name: each for name, each in self._listeners.items() if each is not None}
        fds = [each.fileno() for each in given.values()]
        return [*messages, Message("listeners", {"names": list(given)}, fds)]

    async def _go_on(self, process: asyncio.subprocess.Process) -> None:
        """The new process has failed: end it, and serve as before."""
        server = self._server
        if process.returncode is None:
            process.kill()
        await process.wait()
        if self._held.is_set():
            server.log.applier.worker.release()
        if self._heir:
            await server.log.take_back(self._heir)
        server.connections.thaw()
