"""Four-letter words on real ZooKeeper and zketcd: equal but for numbers, whole or in pieces."""

import contextlib
import re

import pytest

from lab.oracle.client import Client
from lab.oracle.requests import (
    EPHEMERAL,
    Create,
    CreateTtl,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Request,
)
from lab.oracle.wire import Connection
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer, wait_until
from proxy.options import words
from tests.compat.side import Server

pytestmark = pytest.mark.real

# Ours, and those that ZooKeeper has from 3.10 on.
OWN_METRICS = ("zk_etcd_", "zk_log_", "zk_op_count_", "zk_ttl_node_")
# What ZooKeeper's own of these names would tell of means nothing here, or would cost every request.
NOT_TOLD = {
    "zk_last_client_response_size",
    "zk_max_client_response_size",
    "zk_min_client_response_size",
    "zk_non_mtls_local_conn_count",
    "zk_non_mtls_remote_conn_count",
    "zk_outstanding_tls_handshake",
}
# ZooKeeper 3.9's lines that are no gauges of ZooKeeperServer.registerMetrics come from ServerMetrics.
TOLD_OF_SERVER_METRICS = {
    "zk_connection_rejected",
    "zk_connection_request_count",
    "zk_sessionless_connections_expired",
    *(
        f"zk_{figure}_{name}"
        for name in ("readlatency", "updatelatency", "jvm_pause_time_ms")
        for figure in ("avg", "min", "max", "cnt", "sum", "p50", "p95", "p99", "p999")
    ),
}
# The lines that Keeper's `dirs` has instead of ZooKeeper's.
_KEEPERS = ("snapshot_dir_size: N", "log_dir_size: N")
# Of quotas, which zketcd keeps no metrics of.
PER_QUOTA = "quota_"
# ServerMetrics.WATCH_BYTES is the first of those in what mntr prints.
FIRST_SERVER_METRIC = "zk_watch_bytes"


def ask(server: Server, *pieces: bytes) -> str:
    """Send the pieces one by one and return everything that comes until the server closes."""
    connection = Connection(server.ports[0])
    for piece in pieces:
        connection.send(piece)
    answer = connection.receive_rest()
    connection.close()
    return answer.decode()


def masked(text: str) -> str:
    """Leave out what differs between two servers of the same kind: numbers, and what the version says.

    Also the mode, since a server may be one of several.
    """
    text = re.sub(r"(?m)^(Zookeeper version|Mode): .*$", r"\1", text)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "N", text)


@pytest.mark.parametrize(
    "word", [b"ruok", b"isro", b"crst", b"srst", b"RUOK", b"abcd", b"ruo\0", b"\xff\xf4\xff\xfd"]
)
def test_equal(oracle: Server, subject: Server, word: bytes) -> None:
    assert ask(subject, word) == ask(oracle, word)


def test_no_digests_of_the_tree_are_kept(oracle: Server, subject: Server) -> None:
    assert ask(subject, b"hash") == ""
    # ZooKeeper keeps one of every 128th zxid: none while it is young.
    assert re.fullmatch(r"([0-9a-f]+: -?\w+\n)*", ask(oracle, b"hash"))


def _without_sets(dump: str) -> str:
    """Two connections may or may not expire in one tick: `dump` puts them into one set or two."""
    return re.sub(r"(?m)^N expire at \w+ \w+ N N:N:N UTC N:\n", "", dump)


@pytest.mark.parametrize("word", [b"srvr", b"stat", b"cons", b"dirs", b"dump", b"wchs", b"wchc", b"wchp"])
def test_equal_but_for_numbers(pair_oracle: Server, pair: Server, word: bytes) -> None:
    def answer(server: Server) -> list[str]:
        lines = _without_sets(masked(ask(server, word))).splitlines()
        return sorted(line for line in lines if line not in _KEEPERS)  # in no order

    with Client(pair.ports[0]) as ours, Client(pair_oracle.ports[0]) as theirs:
        looks = GetData("/e", True), GetChildren("/e", True), Exists("/missing")
        for request in (Create("/e", flags=EPHEMERAL), *looks):
            for client in (ours, theirs):
                client.ask_for_reply(request)
        with contextlib.suppress(TimeoutError):  # connections of earlier tests may just be ending
            wait_until(lambda: answer(pair) == answer(pair_oracle), "the same", 15)
        assert answer(pair) == answer(pair_oracle)
        for client in (ours, theirs):
            client.close()


def test_mode_of_one_and_of_several(oracle: Server, subject: Server, pair: Server) -> None:
    """docs/decisions/0040; tests/pipeline/follow look for the same mode at a ZooKeeper of three."""
    theirs, alone = ask(oracle, b"mntr"), ask(subject, b"mntr")
    assert "zk_server_state\tstandalone\n" in theirs
    assert "zk_server_state\tstandalone\n" in alone
    leader, follower = (Server("one", (port,)) for port in pair.ports)
    assert "Mode: leader\n" in ask(leader, b"srvr")
    assert "Mode: follower\n" in ask(follower, b"stat")
    assert "zk_synced_followers\t1\n" in ask(leader, b"mntr")
    assert "followers" not in ask(follower, b"mntr")


def test_an_ipv6_client_has_brackets(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with (
        ZooKeeperServer(settings={"clientPortAddress": "::"}) as real,
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, arguments=("--listen", "[::]:0")) as ours,
    ):
        found = re.search(r"clients on \[?::\]?:(\d+),", ours.log_text())
        assert found is not None, ours.log_text()
        for port in (real.port, int(found[1])):
            connection = Connection(port, host="::1")
            session = connection.connect()
            for word in (b"stat", b"cons", b"dump"):
                told = ask(Server("by IPv4", (port,)), word).splitlines()
                of_six = [re.sub(r"(\]:)\d+", r"\1N", line) for line in told if "0:0:0:0:0:0:0:1" in line]
                assert len(of_six) == 1
                start = "\tip: " if word == b"dump" else " "
                assert of_six[0].startswith(f"{start}/[0:0:0:0:0:0:0:1]:N"), (session, of_six)
            connection.close()


@pytest.mark.parametrize("mask", [b"", b"\0" * 7, b"\0" * 7 + b"\x05", b"\xff" * 9])
def test_trace_mask(pair_oracle: Server, pair: Server, mask: bytes) -> None:
    for server in (pair, pair_oracle):
        ask(server, b"stmk" + (306).to_bytes(8, "big"))
    assert ask(pair, b"stmk" + mask) == ask(pair_oracle, b"stmk" + mask)
    assert ask(pair, b"gtmk") == ask(pair_oracle, b"gtmk")


def test_what_the_resets_leave(pair_oracle: Server, pair: Server) -> None:
    for server in (pair, pair_oracle):
        client = Client(server.ports[0])
        client.ask_for_reply(Exists("/"))
        # ZooKeeper counts a reply after it was sent.
        wait_until(lambda server=server: ",sent=2," in ask(server, b"cons"), "the reply counts")  # type: ignore[misc]
        line = next(line for line in ask(server, b"cons").splitlines() if ",sid=" in line)
        assert ",recved=2,sent=2," in line
        assert ",lop=EXIS," in line
        assert ",lcxid=0x1," in line
        ask(server, b"crst")
        line = next(line for line in ask(server, b"cons").splitlines() if ",sid=" in line)
        assert "(queued=0,recved=0,sent=0,sid=0x" in line
        assert ",lop=NA,est=" in line
        assert line.endswith(",lzxid=0xffffffffffffffff,lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)")
        assert ",lcxid" not in line
        ask(server, b"srst")
        told = ask(server, b"srvr")
        assert "Latency min/avg/max: 0/0.0/0\n" in told
        received = re.search(r"Received: (\d+)\nSent: (\d+)\n", told)
        assert received is not None
        assert all(int(number) < 3 for number in received.groups())
        client.connection.close()


def test_what_the_list_leaves_out_is_refused(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    """By default both answer little, ZooKeeper `srvr` alone; the refusal is the same."""
    with (
        ZooKeeperServer(settings={"4lw.commands.whitelist": "ruok, isro"}) as real,
        ZketcdServer(etcd_server.endpoint, prefix=etcd_prefix, four_letter_words="ruok, isro") as ours,
    ):
        servers = [Server("ours", (ours.port,)), Server("real", (real.port,))]
        for word in sorted(words.ZOOKEEPER):
            answers = [masked(ask(server, word.encode())) for server in servers]
            assert answers[0] == answers[1]
            assert ("not in the whitelist" in answers[0]) is (word not in ("ruok", "isro", "srvr"))
        assert ask(servers[0], b"apiv") == "apiv is not executed because it is not in the whitelist.\n"


@pytest.mark.parametrize("word", sorted(words.KEEPER))
def test_keepers_words_have_an_answer(pair: Server, word: str) -> None:
    answer = ask(pair, word.encode())
    assert "not in the whitelist" not in answer
    assert answer
    if word == "lgif":
        assert re.fullmatch(r"(\w+_(idx|term)\t\d+\n){8}", answer)


def test_in_pieces_and_with_more_behind(oracle: Server, subject: Server) -> None:
    for pieces in ([b"r", b"u", b"o", b"k"], [b"ru", b"ok"], [b"ruok\r\n"], [b"ruok", b"ruok"]):
        assert ask(subject, *pieces) == ask(oracle, *pieces) == "imok"


def test_a_part_and_the_end(oracle: Server, subject: Server) -> None:
    for server in (oracle, subject):
        connection = Connection(server.ports[0])
        connection.send(b"ruo")
        connection.shut_writing()
        assert connection.receive_rest() == b""
        connection.close()


def test_conf_and_envi(oracle: Server, subject: Server) -> None:
    def names(server: Server, word: bytes) -> list[str]:
        return [line.partition("=")[0] for line in ask(server, word).splitlines()]

    assert names(subject, b"conf") == [*names(oracle, b"conf"), "prefix"]
    theirs = [name for name in names(oracle, b"envi") if not name.startswith("java.")]
    assert [name for name in names(subject, b"envi") if name != "python.version"] == theirs


def test_mntr(oracle: Server, subject: Server) -> None:
    def metrics(server: Server) -> dict[str, str]:
        return dict(line.split("\t") for line in ask(server, b"mntr").splitlines())

    ours, theirs = metrics(subject), metrics(oracle)
    gauges = set(list(theirs)[: list(theirs).index(FIRST_SERVER_METRIC)])
    # These come with the quotas that other tests have set there.
    gauges -= {name for name in gauges if PER_QUOTA in name}
    assert {name for name in ours if not name.startswith(OWN_METRICS)} == (
        (gauges | TOLD_OF_SERVER_METRICS) - NOT_TOLD
    )
    assert theirs.keys() >= TOLD_OF_SERVER_METRICS
    assert re.match(r"\d+\.\d+\.\d+-", ours["zk_version"])
    for name, value in ours.items():
        if name in theirs and name not in ("zk_version", "zk_server_state"):
            assert ("." in value) is ("." in theirs[name]), name  # whole numbers stay whole
            float(value)


@pytest.mark.parametrize("name", ["zk_znode_count", "zk_ephemerals_count", "zk_watch_count"])
def test_mntr_counts_the_same(oracle: Server, subject: Server, name: str) -> None:
    def counted(server: Server) -> int:
        lines = dict(line.split("\t") for line in ask(server, b"mntr").splitlines())
        return int(lines[name])

    def equal() -> bool:
        return counted(subject) == counted(oracle)

    with contextlib.suppress(TimeoutError):  # sessions of earlier tests may just be ending
        wait_until(equal, "the same", 60)
    assert counted(subject) == counted(oracle)


def test_operations_are_counted(oracle: Server, subject: Server) -> None:
    """ZooKeeper 3.10's counters: failed reads and multis count, other writes that failed do not."""

    def counted() -> dict[str, int]:
        lines = dict(line.split("\t") for line in ask(subject, b"mntr").splitlines())
        names = ("op_count_create", "op_count_get_data", "op_count_multi", "ttl_node_created_count")
        return {name: int(lines[f"zk_{name}"]) for name in names}

    before = counted()
    requests: tuple[Request, ...] = (
        *[Create("/e", flags=EPHEMERAL)] * 2,
        GetData("/missing"),
        Multi((Create("/e"),)),
        Multi((CreateTtl("/ttl"), Delete("/missing"))),
        CreateTtl("/ttl"),
        Delete("/ttl"),
    )
    for server in (oracle, subject):  # both: other tests compare the root's Stat
        with Client(server.ports[0]) as client:
            for request in requests:
                client.ask_for_reply(request)
            client.close()
    assert {name: count - before[name] for name, count in counted().items()} == {
        "op_count_create": 2,
        "op_count_get_data": 1,
        "op_count_multi": 2,
        "ttl_node_created_count": 1,
    }
