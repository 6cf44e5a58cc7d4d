"""A zketcd that follows another one: real etcds and clients, and processes that are killed at any moment."""

import threading
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from lab.oracle.client import Client
from lab.servers import EtcdServer, ZketcdServer
from pipeline.__main__ import main
from schema.keys import Keyspace
from tests.archive.archives import until_archived
from tests.pipeline.ensembles import ephemerals, populate, zketcd
from tests.pipeline.follow.running import Comer, PipelineCommand, wait_for_zxid

COPY = "/copy"
Capture = pytest.CaptureFixture[str]


def url_of(etcd: EtcdServer, prefix: str) -> str:
    """The name of a tree."""
    return f"etcd://{etcd.address}{prefix}"


def check(source: str, to: list[str], capsys: Capture) -> None:
    """Every field of every znode is the same, and so are the sessions."""
    capsys.readouterr()
    assert main(["follow", source, *to, "--check"]) == 0
    assert "equal at zxid" in capsys.readouterr().out


def test_everything_is_killed_while_clients_write(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, capsys: Capture
) -> None:
    to = ["--etcd", etcd_server.endpoint, "--prefix", etcd_prefix]
    source = url_of(own_etcd_server, COPY)
    random = Random(20)
    with zketcd(own_etcd_server.endpoint, COPY) as server:
        client = Client(server.port)
        populate(client)
        ephemerals(client)
        client.leave()
        with Comer(server.port) as comer, PipelineCommand("follow", source, *to) as following:
            for killed in (following, following, server, following, own_etcd_server, following):
                comer.go_on()
                threading.Event().wait(random.uniform(0.0, 0.3))
                killed.kill()
                threading.Event().wait(random.uniform(0.0, 0.3))
                killed.start()
            zxid = comer.go_on()
            wait_for_zxid(etcd_server, Keyspace(etcd_prefix), zxid)
            check(source, to, capsys)  # while clients write
            comer.stop()
            wait_for_zxid(etcd_server, Keyspace(etcd_prefix), comer.last_zxid)
            assert following.alive
        check(source, to, capsys)
    assert main(["follow", source, *to, "--until-level", "--timeout", "60"]) == 0
    check(source, to, capsys)


def test_an_archive_is_followed(
    etcd_server: EtcdServer, own_etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: Capture
) -> None:
    """Its etcd is not needed, and the two kinds of source may take turns."""
    to = ["--etcd", own_etcd_server.endpoint, "--prefix", COPY]
    url = tmp_path / "archive"
    archive, log = f"archive:{url}", url_of(etcd_server, etcd_prefix)
    server = ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, archive=url, tick_time=500)
    with server, closing(Client(server.port)) as client:
        populate(client)
        until_archived(url, client.last_zxid)
        with Comer(server.port) as comer:
            with PipelineCommand("follow", archive, *to) as following:
                following.wait_until_level()
                zxid = comer.go_on()
                wait_for_zxid(own_etcd_server, Keyspace(COPY), zxid)
                check(archive, to, capsys)
            for source in (log, archive, log):
                zxid = comer.go_on()
                until_archived(url, zxid)
                options = ["--until-level", "--zxid", hex(zxid), "--timeout", "60"]
                assert main(["follow", source, *to, *options]) == 0
            check(log, to, capsys)


def test_what_is_refused(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: Capture) -> None:
    with zketcd(etcd_server.endpoint, etcd_prefix):
        pass
    source = url_of(etcd_server, etcd_prefix)

    def refused(*arguments: str) -> str:
        assert main(["follow", *arguments]) == 2
        return capsys.readouterr().err

    for prefix in (etcd_prefix, f"{etcd_prefix}/below"):
        to = ["--etcd", etcd_server.endpoint, "--prefix", prefix]
        assert "are in one tree: name another --prefix" in refused(source, *to)
    to = ["--etcd", etcd_server.endpoint, "--prefix", f"{etcd_prefix}-copy"]
    assert "--finish is for a ZooKeeper's directory" in refused(source, *to, "--finish")
    assert "--repair is for a ZooKeeper's directory" in refused(source, *to, "--repair", "tail")
    assert "cannot be reached" in refused("etcd://127.0.0.1:1/zketcd", *to)
    assert "there is no tree under /none" in refused(f"etcd://{etcd_server.address}/none", *to)
    assert "there is no directory" in refused(f"archive:{tmp_path}/none", *to)
    assert "the archive is empty" in refused(f"archive:{tmp_path}", *to)
    assert "is no directory, etcd://HOST:PORT/PREFIX or archive:URL" in refused(f"{tmp_path}/none", *to)
    assert main(["follow", source, *to, "--until-level"]) == 0
    assert "follows no other tree" in refused(source, *to[:2], "--prefix", etcd_prefix + "-none", "--check")
