"""A real HAProxy that relays TCP connections to one server, with a PROXY header before each."""

import csv
import socket
from collections.abc import Sequence

from lab.servers.ports import free_port
from lab.servers.process import ServerProcess, find_program

_CONFIGURATION = """
global
    maxconn 1000
    stats socket {socket} mode 600
defaults
    mode tcp
    timeout connect 30s
    timeout client 300s
    timeout server 300s
"""
# Connections to the server come from `source`; the health checks have headers too.
_RELAY = """
listen {option}
    bind 127.0.0.1:{port}
    server zketcd {server} source {source} {option} check check-send-proxy inter 200ms
"""


class HaproxyServer(ServerProcess):
    """`port` sends headers of version 1, `binary_port` of version 2."""

    kind = "haproxy"

    def __init__(self, server: str, source: str) -> None:
        """`server`: HOST:PORT to relay to; `source`: the address from which HAProxy connects to it."""
        super().__init__()
        self.binary_port = free_port()
        self._server = server
        self._source = source
        self._socket = str(self.folder / "stats")

    def command(self) -> Sequence[str]:
        """HAProxy's command line; its configuration is written into the server's folder."""
        options = {"send-proxy": self.port, "send-proxy-v2": self.binary_port}
        configuration = self.folder / "haproxy.cfg"
        configuration.write_text(
            _CONFIGURATION.format(socket=self._socket)
            + "".join(
                _RELAY.format(option=option, port=port, server=self._server, source=self._source)
                for option, port in options.items()
            )
        )
        program = find_program("haproxy", "make test installs it where it may use apt")
        return [program, "-db", "-f", str(configuration)]

    def health(self) -> list[str]:
        """The result of the last health check by each port: L4OK for a good one."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(self._socket)
            asking.sendall(b"show stat\n")
            answer = b"".join(iter(lambda: asking.recv(65536), b"")).decode()
        rows = csv.DictReader(answer.removeprefix("# ").splitlines())
        return [row["check_status"] for row in rows if row["svname"] == "zketcd"]

    def serves(self) -> bool:
        """Whether both ports accept connections."""
        try:
            for port in (self.port, self.binary_port):
                socket.create_connection(("127.0.0.1", port), 5).close()
        except OSError:
            return False
        return True
