"""Counters. Pure: numbers that only grow, increased where things happen and read by `admin`."""


class Counters:
    """Since the start of this server."""

    __slots__ = (
        "auth_failed",
        "connect_requests",
        "notifications",
        "received",
        "rejected",
        "sent",
        "sessionless_expired",
        "sessions_expired",
    )

    def __init__(self) -> None:
        self.auth_failed = 0  # authentications that failed: addauth, SASL, commands of the admin port
        self.connect_requests = 0  # of connections that wanted a session
        self.notifications = 0  # watch events sent
        self.received = 0  # packets of clients
        self.rejected = 0  # connections: too many, or too many bytes before a session
        self.sent = 0  # packets to clients
        self.sessionless_expired = 0  # connections that never asked for a session
        self.sessions_expired = 0  # ended by this proxy: their clients were silent, or their proxies died
