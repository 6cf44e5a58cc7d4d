"""The image's health check: whether the server on the port of ZKETCD_LISTEN answers `ruok` with `imok`.

Runs by itself in a container, with the standard library only. Exits with 0, or with 1 and says why on stderr.
"""

import os
import socket
import sys

_TIMEOUT_SECONDS = 3.0


def main() -> int:
    """Ask once; the exit code of the process."""
    host, _, port = os.environ.get("ZKETCD_LISTEN", "127.0.0.1:2181").rpartition(":")
    if host in ("", "0.0.0.0", "[::]"):
        host = "127.0.0.1"
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _TIMEOUT_SECONDS) as connection:
            connection.sendall(b"ruok")
            answer = connection.recv(4, socket.MSG_WAITALL)
    except (OSError, ValueError) as error:
        print(f"no answer on port {port}: {error}", file=sys.stderr)
        return 1
    if answer != b"imok":
        print(f"answered {answer!r} on port {port}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
