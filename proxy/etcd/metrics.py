"""etcd's metrics for Prometheus, which have what its API does not tell: the quota, for one. Blocking."""

import math
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from typing_extensions import override

from proxy.etcd.model import Status
from proxy.etcd.tls import Tls
from proxy.etcd.unix_socket import reachable

_TIMEOUT = 5.0  # seconds

QUOTA = "etcd_server_quota_backend_bytes"
_SIZE = "etcd_mvcc_db_total_size_in_bytes"
_IN_USE = "etcd_mvcc_db_total_size_in_use_in_bytes"
_HAS_LEADER = "etcd_server_has_leader"
_VERSION = "etcd_server_version{"
_READ = (
    "etcd_disk_wal",
    QUOTA,
    _SIZE,
    _IN_USE,
    _HAS_LEADER,
    _VERSION,
    "etcd_debugging_mvcc_compact_revision",
)


class Metrics(NamedTuple):
    """A member's metrics, and its clock when it answered, in seconds since 1970."""

    samples: Mapping[str, float]
    date: float

    @property
    def quota(self) -> int:
        """In bytes; 0 if it is not shown, below 0 if there is none."""
        return int(self.samples.get(QUOTA, 0))

    def completed(self, status: Status) -> Status:
        """A status that has gaps (see there), with the version, the sizes, and whether there is a leader."""
        if status.version:
            return status
        versions = [name.split('"')[1] for name in self.samples if name.startswith(_VERSION)]
        size, in_use, leader = (int(self.samples.get(name, 0)) for name in (_SIZE, _IN_USE, _HAS_LEADER))
        return status._replace(version="".join(versions), db_size=size, db_size_in_use=in_use, leader=leader)


def read(endpoint: str, tls: Tls) -> Metrics | None:
    """None if the member does not show them at this address."""
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        context = tls.context()
        context.set_alpn_protocols(["http/1.1"])
        with opened(url, "/metrics", context) as response:
            body = response.read().decode()
            # Whole seconds, cut off.
            date = parsedate_to_datetime(response.headers["Date"]).timestamp() + 0.5
        samples = {}
        for line in body.splitlines():
            if line.startswith(_READ):
                name, _, value = line.rpartition(" ")
                if math.isfinite(number := float(value)):
                    samples[name] = number
    except (OSError, HTTPException, ValueError, TypeError):
        return None
    return Metrics(samples, date)


def opened(url: str, path: str, context: ssl.SSLContext) -> HTTPResponse:
    """The answer to a request to a member's URL, past any proxy for HTTP. Raises OSError, HTTPException."""
    place = urlsplit(url)
    if place.scheme == "unix":
        with closing(_UnixConnection(unquote(place.path))) as connection:
            connection.request("GET", path, headers={"Connection": "close"})
            return connection.getresponse()  # it has the socket now
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    response: HTTPResponse = opener.open(url.rstrip("/") + path, timeout=_TIMEOUT)
    return response


class _UnixConnection(HTTPConnection):
    """HTTP through a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_TIMEOUT)
        self._path = path

    @override
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        with reachable(self._path) as path:
            self.sock.connect(path)
