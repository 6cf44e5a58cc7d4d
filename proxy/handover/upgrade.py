"""When a serving process hands over: on request, as often as needed until it works."""

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from proxy.handover.channel import Channel, HandoverError
from proxy.handover.control import DONE, Control
from proxy.handover.giver import Giver, Lost, OtherForm
from proxy.handover.heir import start_heir
from proxy.home import numbers_of
from proxy.server import Server
from proxy.support.readiness import notify

log = logging.getLogger("zketcd")


async def report_serving(channel: Channel) -> None:
    """Tell the old process, if it is still there."""
    try:
        await channel.send("serving")
    except HandoverError as error:
        log.info("%s", error)
    channel.close()


async def upgraded(
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
    start = partial(start_heir, numbers_of(listeners))
    while True:
        wanted = loop.create_task(control.requested.wait())
        await asyncio.wait((*ends, wanted), return_when=asyncio.FIRST_COMPLETED)
        if any(end.done() for end in ends):
            wanted.cancel()
            return 0
        if obstacle:
            log.error("no upgrade: %s", obstacle)
            await control.answer(f"no upgrade: {obstacle}")
            continue
        giving = loop.create_task(Giver(server, listeners).run(start))
        await asyncio.wait((*ends, giving), return_when=asyncio.FIRST_COMPLETED)
        giving.cancel()
        (outcome,) = await asyncio.gather(giving, return_exceptions=True)
        if isinstance(outcome, int):
            notify(f"MAINPID={outcome}")  # as the one that systemd listens to, before it ends
            await control.answer(f"{DONE}{outcome} has taken over")
            return outcome
        log.error("no upgrade: %s", outcome)
        await control.answer(f"no upgrade: {outcome}")
        if isinstance(outcome, OtherForm):
            notify(f"MAINPID={outcome.pid}")
            return outcome.pid
        if isinstance(outcome, Lost):
            raise outcome
