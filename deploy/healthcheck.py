"""The image's health check: asks the server on the port of ZKETCD_LISTEN by a four-letter word.

Without an argument: whether the process answers `ruok`, which it also does without etcd, and while its
clients wait for a long entry of the log. What restarts unhealthy containers has to ask this. With `ready`:
whether clients get sessions, by the mode in `srvr`. Where ZKETCD_LISTEN_TLS is `only`, it asks over TLS, and
any certificate will do.

Runs in a container, with the standard library only. Exits with 0, or with 1 and says why on stderr.
"""

import os
import socket
import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress

_ALL = ("", "*", "0.0.0.0", "[::]")  # what a server on all addresses listens on
_TIMEOUT_SECONDS = 3.0


def main(arguments: list[str]) -> int:
    """Ask once; the exit code of the process."""
    if arguments not in ([], ["ready"]):
        print("usage: healthcheck.py [ready]", file=sys.stderr)
        return 1
    # A process that says that it may not say it is alive as well.
    word, wanted = (b"srvr", (b"\nMode: ",)) if arguments else (b"ruok", (b"imok", b"ruok is not executed"))
    host, _, port = os.environ.get("ZKETCD_LISTEN", "127.0.0.1:2181").rpartition(":")
    hosts = ("127.0.0.1", "::1") if host in _ALL else (host.strip("[]"),)
    try:
        with _connected(hosts, int(port)) as connection:
            connection.sendall(word)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except (OSError, ValueError) as error:
        print(f"no answer on port {port}: {error}", file=sys.stderr)
        return 1
    if not any(each in answer for each in wanted):
        print(f"answered {answer!r} on port {port}", file=sys.stderr)
        return 1
    return 0


def _connected(hosts: Sequence[str], port: int) -> socket.socket:
    """A connection to the first of the hosts that takes one."""
    for host in hosts[:-1]:
        with suppress(OSError):
            return _connected_to(host, port)
    return _connected_to(hosts[-1], port)


def _connected_to(host: str, port: int) -> socket.socket:
    connection = socket.create_connection((host, port), _TIMEOUT_SECONDS)
    if os.environ.get("ZKETCD_LISTEN_TLS") != "only":
        return connection
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
