"""As much of S3 as ClickHouse's S3Queue reads: a bucket in memory, behind HTTP on 127.0.0.1.

Here: ListObjectsV2 in one page, GET with ranges, HEAD. Not here: credentials, writing, versions.
"""

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

from typing_extensions import override

BUCKET = "bucket"
_TIME = "2026-01-01T00:00:00.000Z"


class Store:
    """Serves `objects`, key -> content, while the context is open."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        class Handler(_Handler):
            found = objects

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/{BUCKET}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    found: Mapping[str, bytes] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if "list-type" in query:
            self._answer(200, self._listing(query.get("prefix", [""])[0]).encode())
            return
        content = self.found.get(url.path.removeprefix(f"/{BUCKET}/"))
        if content is None:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        elif asked := self.headers.get("Range"):
            first, last = asked.removeprefix("bytes=").split("-")
            start, end = int(first), min(int(last or len(content)), len(content) - 1)
            self._answer(206, content[start : end + 1], f"bytes {start}-{end}/{len(content)}")
        else:
            self._answer(200, content)

    do_HEAD = do_GET

    def _listing(self, prefix: str) -> str:
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{_TIME}</LastModified>"
            f"<ETag>&quot;x&quot;</ETag><Size>{len(content)}</Size></Contents>"
            for key, content in sorted(self.found.items())
            if key.startswith(prefix)
        )
        return f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"

    def _answer(self, status: int, content: bytes, content_range: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("ETag", '"x"')
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    @override
    def log_message(self, format: str, *args: object) -> None:
        pass
