"""Admin ports as commands ask them."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from typing_extensions import override


class AdminPort(BaseHTTPRequestHandler):
    """Answers requests; `do_GET` is a test's."""

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def admin_port(handler: type[AdminPort]) -> Iterator[str]:
    """Its address."""
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
