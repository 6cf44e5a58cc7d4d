"""etcd's metrics for Prometheus, which have what its API does not tell: the quota, for one. Blocking."""

import ssl
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse
from typing import NamedTuple
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from proxy.etcd.tls import Tls

_TIMEOUT = 5.0  # seconds

QUOTA = "etcd_server_quota_backend_bytes"


class Metrics(NamedTuple):
    """A member's metrics, and its clock when it answered, in seconds since 1970."""

    samples: Mapping[str, float]
    date: float


def read(endpoint: str, tls: Tls) -> Metrics | None:
    """None if the member does not show them at this address."""
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    try:
        context = tls.context()
        context.set_alpn_protocols(["http/1.1"])
        with opened(f"{url.rstrip('/')}/metrics", context) as response:
            body = response.read().decode()
            # Whole seconds, cut off.
            date = parsedate_to_datetime(response.headers["Date"]).timestamp() + 0.5
        samples = {}
        for line in body.splitlines():
            if line.startswith(("etcd_disk_wal", QUOTA, "etcd_debugging_mvcc_compact_revision")):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
    except (OSError, HTTPException, ValueError, TypeError):
        return None
    return Metrics(samples, date)


def opened(url: str, context: ssl.SSLContext) -> HTTPResponse:
    """The answer to a request that goes past any proxy for HTTP."""
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    response: HTTPResponse = opener.open(url, timeout=_TIMEOUT)
    return response


def quota(endpoint: str, tls: Tls) -> int:
    """A member's quota in bytes; 0 if it does not show it."""
    found = read(endpoint, tls)
    return 0 if found is None else int(found.samples.get(QUOTA, 0))
