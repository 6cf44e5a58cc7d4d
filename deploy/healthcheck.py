"""The image's health check: asks the server on the port of ZKETCD_LISTEN by a four-letter word.

Without an argument: whether the process answers `ruok`, which it also does without etcd. What restarts
unhealthy containers has to ask this. With `ready`: whether clients get sessions, by the mode in `srvr`.

Runs in a container, with the standard library only. Exits with 0, or with 1 and says why on stderr.
"""

import os
import socket
import sys

_TIMEOUT_SECONDS = 3.0


def main(arguments: list[str]) -> int:
    """Ask once; the exit code of the process."""
    if arguments not in ([], ["ready"]):
        print("usage: healthcheck.py [ready]", file=sys.stderr)
        return 1
    word, wanted = (b"srvr", b"\nMode: ") if arguments else (b"ruok", b"imok")
    host, _, port = os.environ.get("ZKETCD_LISTEN", "127.0.0.1:2181").rpartition(":")
    if host in ("", "0.0.0.0", "[::]"):
        host = "127.0.0.1"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS) as connection:
            connection.sendall(word)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except (OSError, ValueError) as error:
        print(f"no answer on port {port}: {error}", file=sys.stderr)
        return 1
    if wanted not in answer:
        print(f"answered {answer!r} on port {port}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
