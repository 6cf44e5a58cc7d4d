"""Downloads a snapshot from ZooKeeper 3.9's admin server: the whole tree, in ZooKeeper's file format.

The endpoint requires an identity with all permissions on the root, and limits how often it answers: once in
five minutes by ZooKeeper's documents; 3.9.5 takes its 300,000 ms for microseconds.
"""

import contextlib
import http.client
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipeline.errors import Failure

_SNAPSHOT = "snapshot?streaming=true"
_FIRST_TIMEOUT = 4.0  # seconds until a server must answer
_ANYTHING = "ruok"
_TIMEOUT = 600.0  # seconds: the server writes the whole snapshot before it answers
_LAST_ZXID = "last_zxid"
# The file is sent as it is on the server; the name's ending says how it is compressed (FileSnap, SnapStream).
_ENDINGS = {b"\x1f\x8b": ".gz", b"\x82SNAPPY\0": ".snappy", b"ZKSN": ""}
_REASONS = {
    401: "it wants an identity with all permissions on the root: --auth digest:USER:PASSWORD",
    403: "the identity lacks permissions on the root",
    429: "it has just given one: wait, at most five minutes (zookeeper.admin.rateLimiterIntervalInMS)",
    404: "there is no such command: ZooKeeper before 3.9, another server, or another admin.commandURL",
    503: "the command is switched off (zookeeper.admin.snapshot.enabled)",
}


class _Nowhere(urllib.request.HTTPRedirectHandler):
    """An answer that redirects is an error."""

    def redirect_request(self, *_: object) -> None:
        """Ask nobody else."""


# The request has an identity, and the address is one of the cluster's: no proxy of the environment gets it.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Nowhere)


class NoSnapshot(Failure):
    """The admin server sends no snapshot; the message says why."""


def check(url: str) -> None:
    """Raises NoSnapshot within some seconds if no admin server answers at `url`: a snapshot takes longer."""
    with _asked(url, _command(url, _ANYTHING), _FIRST_TIMEOUT):
        pass


def _command(url: str, command: str) -> str:
    """The URL of a command. A path in `url` is the server's zookeeper.admin.commandURL."""
    path = "" if urllib.parse.urlsplit(url).path.strip("/") else "/commands"
    return f"{url.rstrip('/')}{path}/{command}"


def download(url: str, folder: Path, authorization: str = "") -> Path:
    """Fetch a snapshot from the admin server at `url` (http://HOST:8080) into `folder`; returns the file.

    `authorization` is the header's value, `digest USER:PASSWORD`. Blocks. Raises NoSnapshot.
    """
    request = urllib.request.Request(_command(url, _SNAPSHOT))
    if authorization:
        request.add_header("Authorization", authorization)
    with _asked(url, request, _TIMEOUT) as response:
        zxid = response.headers.get(_LAST_ZXID, "")
        part = folder / "snapshot.part"
        with part.open("wb") as file:
            shutil.copyfileobj(response, file, 1 << 20)
    try:
        number = int(zxid, 16)
    except ValueError:
        raise NoSnapshot(f"{url}: the answer names no zxid: not ZooKeeper's admin server?") from None
    with part.open("rb") as file:
        head = file.read(8)
    for magic, ending in _ENDINGS.items():
        if head.startswith(magic):
            return part.rename(folder / f"snapshot.{number:x}{ending}")
    raise NoSnapshot(f"{url}: the answer is no snapshot")


@contextlib.contextmanager
def _asked(url: str, request: str | urllib.request.Request, timeout: float) -> Iterator[Any]:
    """The response to a request. Raises NoSnapshot, also for errors while it is read."""
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            yield response
    except urllib.error.HTTPError as error:
        with error:
            reason = _REASONS.get(error.code, f"it answers {error.code} {error.reason}")
        raise NoSnapshot(f"{url}: {reason}") from error
    except (OSError, http.client.HTTPException) as error:
        cause: object = getattr(error, "reason", error)
        raise NoSnapshot(f"{url}: {str(cause) or type(error).__name__}") from error
