"""The members of one etcd cluster, and which of them gets the next request."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from urllib.parse import urlsplit

from proxy.etcd.http2_channel import Http2Channel
from proxy.etcd.tls import Tls
from proxy.etcd.transport import GRPCIO, HTTP2, TRANSPORTS, Channel, TransportMissing
from proxy.support.libraries import how_to_add

#: Makes the channel to a host and port.
Connect = Callable[[str, int, Tls | None], Channel]


def connector(transport: str) -> Connect:
    """What makes channels of a transport. Raises ValueError, and TransportMissing, which is one."""
    if transport == HTTP2:
        return Http2Channel
    if transport != GRPCIO:
        raise ValueError(f"not a transport to etcd: {transport!r} (expected {' or '.join(TRANSPORTS)})")
    try:
        # Only here: the server works without grpcio unless the option names it (docs/decisions/0017).
        from proxy.etcd.grpc_channel import GrpcChannel
    except ImportError as error:
        raise TransportMissing(
            f"the transport grpcio cannot be used: {error}: {how_to_add('grpcio')}."
            " `--etcd-transport http2`, the default, needs nothing."
        ) from None
    return GrpcChannel


class Endpoint:
    """One member."""

    def __init__(self, endpoint: str, tls: Tls | None, connect: Connect) -> None:
        """Raises ValueError if this is no endpoint. `tls` is for https."""
        url = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
        expected = f"not an etcd endpoint: {endpoint!r} (expected http://HOST:PORT or https://HOST:PORT)"
        if url.scheme not in ("http", "https") or not url.hostname or url.path not in ("", "/"):
            raise ValueError(expected)
        try:
            port = url.port or 2379
        except ValueError as error:  # it does not name the endpoint
            raise ValueError(f"{expected}: {error}") from error
        secure = (tls or Tls()) if url.scheme == "https" else None
        self.channel = connect(url.hostname, port, secure)
        self.address = self.channel.address
        #: It did not answer lately, or later than another member. It gets requests only if all are like this.
        self.suspect = False
        #: When it last answered, in nanoseconds of the client's clock.
        self.answered = 0


class Endpoints:
    """All members."""

    def __init__(self, endpoints: Sequence[str], tls: Tls | None, connect: Connect) -> None:
        """Raises ValueError for a bad endpoint, or none."""
        if not endpoints:
            raise ValueError("no etcd endpoint given")
        self.all = [Endpoint(endpoint, tls, connect) for endpoint in endpoints]
        self.are_several = len(self.all) > 1
        #: Where the next request goes.
        self.current = self.all[0]

    @property
    def suspects(self) -> list[Endpoint]:
        """Those that did not answer lately."""
        return [endpoint for endpoint in self.all if endpoint.suspect]

    def after(self, endpoint: Endpoint) -> Endpoint:
        """The next endpoint: one that answers, if there is one besides this; else the last one that did.

        On a slow machine none may answer in time. A member that hangs must not be taken again for that.
        """
        index = self.all.index(endpoint)
        others = [*self.all[index + 1 :], *self.all[:index]]
        latest = max(others, key=attrgetter("answered"), default=endpoint)
        return next((other for other in others if not other.suspect), latest)

    def leave(self, endpoint: Endpoint) -> None:
        """This endpoint does not answer: send it no more requests until it does, if there are others."""
        endpoint.suspect = self.are_several
        if endpoint is self.current:
            self.current = self.after(endpoint)

    async def close(self) -> None:
        """Close all connections. Requests under way fail as unknown."""
        for endpoint in self.all:
            await endpoint.channel.close()
