"""`serve --read-only`: clients read a moment of an archive, and cannot change it."""

import urllib.request

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NotReadOnlyCallError, ZookeeperError
from kazoo.handlers.threading import KazooTimeoutError

from codec import client as zk
from lab.client.blocking import EPHEMERAL, Client
from lab.servers import ZketcdServer
from lab.servers.four_letter import four_letter_word
from lab.servers.ports import free_port
from serve.__main__ import main
from tests.archive.archives import ROOT, Archive, Capture, nodes_of, seen_by
from tests.kazoo import kazoo

_NOT_READ_ONLY = -119


def test_real_clients_read_the_past(
    zketcd_server: ZketcdServer, etcd_prefix: str, archive: Archive, capsys: Capture
) -> None:
    archive.start()
    with Client(zketcd_server.port) as client:
        client.create(ROOT, b"then")
        client.create(f"{ROOT}/session", b"", EPHEMERAL)
        then = seen_by(client)
        client.write(ROOT, b"now")
        client.create(f"{ROOT}/new")
        archive.until(client.zxid)
    archive.kill()
    admin = free_port()
    options = {"prefix": etcd_prefix, "archive": archive.url, "at": f"0x{then.zxid:x}"}
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    with (
        ZketcdServer(None, arguments=[*arguments, "--read-only=all"]) as everybody,
        ZketcdServer(None, arguments=[*arguments, "--read-only"], admin_listen=f"127.0.0.1:{admin}") as past,
    ):
        with Client(everybody.port) as client:
            assert nodes_of(client) == then.nodes
            assert client.refusal(zk.set_data(ROOT, b"x")) == _NOT_READ_ONLY
            assert client.refusal(zk.multi([zk.delete(f"{ROOT}/new")])) == _NOT_READ_ONLY
        assert four_letter_word(past.port, "isro").strip() == "ro"
        with urllib.request.urlopen(f"http://127.0.0.1:{admin}/ready") as answer:
            assert answer.status == 200
        with kazoo(past, read_only=True) as reader:
            assert reader.get(ROOT, watch=print)[0] == b"then"
            with pytest.raises(NotReadOnlyCallError):
                reader.set(ROOT, b"x")
        # As at a ZooKeeper in read-only mode, a client that does not allow it gets no session.
        writer = KazooClient(past.address)
        with pytest.raises((KazooTimeoutError, ZookeeperError)):
            writer.start(timeout=2)
        writer.stop()
        writer.close()
        assert past.stop() == 0
    assert main([*arguments[:-1], "tomorrow", "--read-only"]) == 2
    assert "--at: 'tomorrow' is no moment" in capsys.readouterr().err
