"""When a serving process hands over: on request, as often as needed until it works."""

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from proxy.handover.channel import PORTS, VARIABLE, Channel, HandoverError
from proxy.handover.control import DONE, Control
from proxy.handover.sender import Lost, NewProcess, OtherForm, Sender
from proxy.home import numbers_of
from proxy.server import Server
from proxy.support.readiness import notify
from proxy.support.spawn import spawn

log = logging.getLogger("zketcd")


async def tell_old_process(channel: Channel) -> None:
    """This process serves: tell the old one, if it is still there."""
    try:
        await channel.send("serving")
    except HandoverError as error:
        log.info("%s", error)
    channel.close()


async def until_ended(
    control: Control,
    server: Server,
    listeners: Mapping[str, socket.socket],
    ends: Sequence["asyncio.Task[Any]"],
    obstacle: str,
) -> int:
    """Serve until one of `ends` is done, or another process has taken over; returns its id, or 0.

    `obstacle`: why no process can take over; empty if one can.
    """
    loop = asyncio.get_running_loop()
    start = partial(_start, numbers_of(listeners))
    sockets = {name: each.fileno() for name, each in listeners.items()}
    while True:
        wanted = loop.create_task(control.requested.wait())
        await asyncio.wait((*ends, wanted), return_when=asyncio.FIRST_COMPLETED)
        if any(end.done() for end in ends):
            wanted.cancel()
            control.close()  # a request from now on would get no answer
            await control.answer("no upgrade: this process ends")
            return 0
        control.begin()
        if obstacle:
            log.error("no upgrade: %s", obstacle)
            await control.answer(f"no upgrade: {obstacle}")
            continue
        sending = loop.create_task(Sender(server, sockets).run(start))
        await asyncio.wait((*ends, sending), return_when=asyncio.FIRST_COMPLETED)
        sending.cancel()
        (outcome,) = await asyncio.gather(sending, return_exceptions=True)
        if isinstance(outcome, int):
            control.close()  # requests from now on are for the new process
            notify(f"MAINPID={outcome}")  # as the one that systemd listens to, before it ends
            await control.answer(f"{DONE}{outcome} has taken over")
            return outcome
        # Cancelled: one of `ends` came first.
        why = (
            "this process ends"
            if isinstance(outcome, asyncio.CancelledError)
            else str(outcome) or repr(outcome)
        )
        log.error("no upgrade: %s", why)
        if isinstance(outcome, OtherForm):
            control.close()  # nobody would answer a request from now on
        await control.answer(f"no upgrade: {why}")
        if isinstance(outcome, OtherForm):
            notify(f"MAINPID={outcome.pid}")
            return outcome.pid
        if isinstance(outcome, Lost | MemoryError):
            raise outcome


async def _start(ports: Mapping[str, int]) -> NewProcess:
    """Start the new process: the same command line, by the code that is installed now. Raises OSError.

    `ports`: those that it will get, by name.
    """
    ours, theirs = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if name != "WATCHDOG_PID"}
    with theirs:
        process = await spawn(
            [sys.executable, *sys.orig_argv[1:]],
            {**environment, VARIABLE: str(theirs.fileno()), PORTS: json.dumps(dict(ports))},
            descriptors=(theirs.fileno(),),
        )
    return NewProcess(process, Channel(ours))
