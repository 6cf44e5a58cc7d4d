"""Four-letter words on real ZooKeeper and zketcd: equal but for numbers, whole or in pieces."""

import re
import socket
import struct
import time

import pytest

from tests.compat.side import Server
from tests.compat.wire import Connection

pytestmark = pytest.mark.real

OWN_METRICS = ("zk_etcd_", "zk_mirror_")
# What monitoring agents read.
EXPECTED_METRICS = {
    "zk_version",
    "zk_server_state",
    "zk_avg_latency",
    "zk_max_latency",
    "zk_min_latency",
    "zk_packets_received",
    "zk_packets_sent",
    "zk_num_alive_connections",
    "zk_outstanding_requests",
    "zk_znode_count",
    "zk_watch_count",
    "zk_ephemerals_count",
    "zk_approximate_data_size",
    "zk_open_file_descriptor_count",
}


def ask(server: Server, *pieces: bytes) -> str:
    """Send the pieces one by one and return everything that comes until the server closes."""
    connection = Connection(server.ports[0])
    for piece in pieces:
        connection.send(piece)
    answer = connection.receive_rest()
    connection.close()
    return answer.decode()


def masked(text: str) -> str:
    """Leave out what differs between two servers of the same kind: numbers, and what the version says."""
    text = re.sub(r"(?m)^Zookeeper version: .*$", "Zookeeper version", text)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", text)


@pytest.mark.parametrize("word", [b"ruok", b"isro", b"wchs", b"RUOK", b"abcd", b"ruo\0"])
def test_equal(oracle: Server, subject: Server, word: bytes) -> None:
    assert ask(subject, word) == ask(oracle, word)


@pytest.mark.parametrize("word", [b"srvr", b"stat", b"cons"])
def test_equal_but_for_numbers(oracle: Server, subject: Server, word: bytes) -> None:
    assert masked(ask(subject, word)) == masked(ask(oracle, word))


def test_in_pieces_and_with_more_behind(oracle: Server, subject: Server) -> None:
    for pieces in ([b"r", b"u", b"o", b"k"], [b"ru", b"ok"], [b"ruok\r\n"], [b"ruok", b"ruok"]):
        assert ask(subject, *pieces) == ask(oracle, *pieces) == "imok"


def test_a_part_is_waited_for(subject: Server) -> None:
    connection = Connection(subject.ports[0])
    connection.send(b"ru")
    assert ask(subject, b"ruok") == "imok"
    connection.send(b"ok")
    assert connection.receive_rest() == b"imok"
    connection.close()


def test_a_part_and_the_end(oracle: Server, subject: Server) -> None:
    for server in (oracle, subject):
        connection = Connection(server.ports[0])
        connection.send(b"ruo")
        connection.shut_writing()
        assert connection.receive_rest() == b""
        connection.close()


def test_a_reset_in_the_middle(subject: Server) -> None:
    for data in (b"ru", struct.pack(">i", 45) + b"\0" * 10, b"mntr"):
        rude = socket.create_connection(("127.0.0.1", subject.ports[0]))
        rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        rude.sendall(data)
        rude.close()
    assert ask(subject, b"ruok") == "imok"


def test_conf(oracle: Server, subject: Server) -> None:
    def keys(server: Server) -> set[str]:
        return {line.partition("=")[0] for line in ask(server, b"conf").splitlines()}

    assert keys(subject) >= keys(oracle) - {"secureClientPort", "dataDirSize", "dataLogSize"}


def test_mntr(oracle: Server, subject: Server) -> None:
    def metrics(server: Server) -> dict[str, str]:
        return dict(line.split("\t") for line in ask(server, b"mntr").splitlines())

    ours, theirs = metrics(subject), metrics(oracle)
    assert {name for name in ours if not name.startswith(OWN_METRICS)} <= theirs.keys()
    assert ours.keys() >= EXPECTED_METRICS
    assert re.match(r"\d+\.\d+\.\d+-", ours["zk_version"])


@pytest.mark.parametrize("name", ["zk_znode_count", "zk_ephemerals_count", "zk_watch_count"])
def test_mntr_counts_the_same(oracle: Server, subject: Server, name: str) -> None:
    def counted(server: Server) -> int:
        lines = dict(line.split("\t") for line in ask(server, b"mntr").splitlines())
        return int(lines[name])

    def equal() -> bool:
        return counted(subject) == counted(oracle)

    # sessions of earlier tests may just be ending
    deadline = time.monotonic() + 10
    while not equal() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert counted(subject) == counted(oracle)
