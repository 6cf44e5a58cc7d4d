"""Reports to systemd that the service is ready, lives, or stops: sd_notify's protocol, for Type=notify.

One datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)). Without that variable nothing is sent.
"""

import asyncio
import os
import socket
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"
_ALIVE = "WATCHDOG=1"
_DIGITS = 20  # of a number of 64 bits
_TIMEOUT = 5.0  # seconds: a busy systemd that did not get MAINPID would take the service for ended


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send a state; whether it was sent. A systemd that cannot take it is no reason to fail."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    # "@" stands for the zero byte of an abstract socket.
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.settimeout(0 if state == _ALIVE else _TIMEOUT)
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return False
    return True


def watchdog_interval(environment: Mapping[str, str] = os.environ) -> float | None:
    """Seconds between two signs of life that systemd wants (WatchdogSec=); None if it wants none.

    Half of what it waits for one, as sd_watchdog_enabled(3) recommends.
    """
    wanted = environment.get("WATCHDOG_USEC", "")
    process = environment.get("WATCHDOG_PID", "")
    if not wanted.isdecimal() or len(wanted) > _DIGITS or process not in ("", str(os.getpid())):
        return None
    return int(wanted) / 1e6 / 2 or None


async def report_alive(interval: float) -> None:
    """Send signs of life until cancelled. They stop when the event loop does; systemd then restarts us."""
    while True:
        notify(_ALIVE)
        await asyncio.sleep(interval)
