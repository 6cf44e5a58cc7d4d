"""Reports to systemd that the service is ready or stops: sd_notify's protocol, for units of Type=notify.

One datagram to the socket that NOTIFY_SOCKET names (sd_notify(3)). Without that variable nothing is sent.
"""

import os
import socket
from collections.abc import Mapping

READY = "READY=1"
STOPPING = "STOPPING=1"


def notify(state: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send a state; whether it was sent. A systemd that cannot take it is no reason to fail."""
    path = environment.get("NOTIFY_SOCKET", "")
    if not path.startswith(("/", "@")):
        return False
    # "@" stands for the zero byte of an abstract socket.
    address = "\0" + path[1:] if path.startswith("@") else path
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(state.encode(), address)
        except OSError:
            return False
    return True
