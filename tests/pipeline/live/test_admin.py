"""The admin server's snapshot, from a stand-in: the ZooKeeper of the tests lacks Jetty and so has none."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lab.servers import EtcdServer, free_port
from pipeline.live.admin import NoSnapshot, check, download
from tests.pipeline.trees import node, write_snapshot
from zketcd.__main__ import main

AUTHORIZATION = "digest root:secret"


class _Admin(ThreadingHTTPServer):
    """Answers as Commands.SnapshotCommand and JettyAdminServer do."""

    daemon_threads = True
    content = b""
    last_zxid: str | None = "0x20"
    status = 200
    location = ""  # where else the snapshot is


class _Handler(BaseHTTPRequestHandler):
    server: _Admin

    def do_GET(self) -> None:
        """One request."""
        if self.path in ("/commands/ruok", "/zk/admin/ruok"):
            self.send_response(200)
            self.end_headers()
            return
        assert self.path in ("/commands/snapshot?streaming=true", "/zk/admin/snapshot?streaming=true")
        status = self.server.status
        if self.headers.get("Authorization") != AUTHORIZATION:
            status = 401
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"{self.server.location}/commands/ruok")
        if self.server.last_zxid is not None:
            self.send_header("last_zxid", self.server.last_zxid)
        self.end_headers()
        if status == 200:
            self.wfile.write(self.server.content)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@pytest.fixture
def admin(tmp_path: Path) -> Iterator[_Admin]:
    server = _Admin(("127.0.0.1", 0), _Handler)
    tail = (0x20).to_bytes(8, "big")
    nodes = [node("/", 0, created=1), node("/a", 0x1F, data=b"x")]
    server.content = write_snapshot(tmp_path / "made", 0x20, nodes, trailers=[tail]).read_bytes()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def url(admin: _Admin) -> str:
    return f"http://127.0.0.1:{admin.server_address[1]}"


def test_the_file_is_named_after_its_zxid_and_packing(admin: _Admin, tmp_path: Path) -> None:
    assert download(url(admin), tmp_path, AUTHORIZATION).name == "snapshot.20"
    check(f"{url(admin)}/zk/admin")  # zookeeper.admin.commandURL
    assert download(f"{url(admin)}/zk/admin/", tmp_path, AUTHORIZATION).name == "snapshot.20"
    plain = admin.content
    admin.content = gzip.compress(plain)
    admin.last_zxid = "0x500000020"
    file = download(url(admin), tmp_path, AUTHORIZATION)
    assert file.name == "snapshot.500000020.gz"
    assert gzip.decompress(file.read_bytes()) == plain


def test_what_it_answers_instead(admin: _Admin, tmp_path: Path) -> None:
    with pytest.raises(NoSnapshot, match="--auth digest"):
        download(url(admin), tmp_path)
    admin.status = 429
    with pytest.raises(NoSnapshot, match="five minutes"):
        download(url(admin), tmp_path, AUTHORIZATION)
    admin.status = 500
    with pytest.raises(NoSnapshot, match="500"):
        download(url(admin), tmp_path, AUTHORIZATION)
    admin.status = 200
    admin.content = b"<html>"
    with pytest.raises(NoSnapshot, match="no snapshot"):
        download(url(admin), tmp_path, AUTHORIZATION)
    admin.last_zxid = None
    with pytest.raises(NoSnapshot, match="names no zxid"):
        download(url(admin), tmp_path, AUTHORIZATION)
    with pytest.raises(NoSnapshot, match="refused"):
        download(f"http://127.0.0.1:{free_port()}", tmp_path)


def test_its_identity_goes_to_nobody_else(
    admin: _Admin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither to a proxy of the environment, nor to where an answer redirects."""
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    monkeypatch.delenv("no_proxy", raising=False)
    assert download(url(admin), tmp_path, AUTHORIZATION).name == "snapshot.20"
    admin.status, admin.location = 302, url(admin)
    with pytest.raises(NoSnapshot, match="302"):
        download(url(admin), tmp_path, AUTHORIZATION)


def test_an_import_from_it(
    spark: SparkSession,
    admin: _Admin,
    etcd_server: EtcdServer,
    etcd_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    assert main(["import", url(admin), "--auth", "digest:root:secret", *options]) == 0
    told = capsys.readouterr().out
    assert "snapshot.20, no transactions behind it, last zxid 0x20" in told
    assert "imported: 2 znodes" in told
