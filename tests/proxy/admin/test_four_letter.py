"""Four-letter words of a server on the fake etcd: what they keep; their forms are in tests/compat."""

import re

import pytest

from codec.client import create, get, packet
from lab.fakes.etcd import FakeEtcd
from proxy.admin.facts import Facts
from proxy.admin.four_letter import FourLetterWords
from proxy.options import words
from proxy.state.ops import EXTENDED
from proxy.support.latency import ConnectionLatency, Latency
from tests.proxy.admin.subjects import Connection, Session, connected, subject_of
from tests.proxy.test_server import Client, serving
from tests.table import one_by_one


def said(asked: FourLetterWords, word: bytes, rest: bytes = b"") -> bytes | None:
    """The whole answer."""
    lines = asked.answer(word, rest)
    return None if lines is None else "".join(lines).encode()


async def test_every_word_that_is_known_has_an_answer() -> None:
    async with serving(FakeEtcd()) as server:
        client = await Client.connected(server)
        client.send(packet(1, create("/e", mode=1)), packet(2, get("/e", watch=True)))
        await client.reply()
        await client.reply()
        answers = {word: said(server.words, word.encode(), bytes(8)) for word in words.KNOWN}
        assert {word for word, answer in answers.items() if not answer} == {"hash"}
        assert said(server.words, b"abcd", b"") is None


async def test_the_words_whose_answers_grow_are_those_that_say_so() -> None:
    """The others are made at a stretch over HTTP."""
    async with serving(FakeEtcd()) as server:
        lines = []
        for number in range(2):
            client = await Client.connected(server)
            path = f"/e{number}"
            client.send(packet(1, create(path, mode=1)), packet(2, get(path, watch=True)))
            await client.reply()
            await client.reply()
            answers = {word: said(server.words, word.encode()) or b"" for word in words.KNOWN}
            lines.append({word: answer.count(b"\n") for word, answer in answers.items()})
        assert {word for word in words.KNOWN if lines[1][word] > lines[0][word]} == words.LONG - {"crst"}


@pytest.mark.parametrize("word", [b"dump", b"cons"])
def test_a_session_of_a_server_above_127_is_told_as_zookeeper_does(word: bytes) -> None:
    # Ids of sessions that came from a ZooKeeper whose myid has the sign's bit. Long.toHexString has no sign.
    latency = ConnectionLatency(Latency(EXTENDED.updates))
    connection = Connection(latency, session_id=-2, timeout_ms=4000)
    subject = subject_of(connections=connected(connection), sessions=[Session(-2)])
    answer = said(FourLetterWords(Facts(subject), words.parse("dump,cons")), word) or b""
    assert b"0xfffffffffffffffe" in answer
    assert b"0x-" not in answer


async def _asked(word: bytes) -> list[str]:
    """The lines that a server with a client answers."""
    async with serving(FakeEtcd()) as server:
        client = await Client.connected(server)
        client.send(packet(1, create("/a")), packet(2, get("/a")))
        await client.reply()
        await client.reply()
        return (said(server.words, word) or b"").decode().splitlines()


# What ClickHouse's table system.zookeeper_info asks for, and the fields from which its columns come.
_ZOOKEEPER_INFO = {
    b"mntr": (
        "\t",
        "zk_version zk_avg_latency zk_max_latency zk_min_latency zk_packets_received zk_packets_sent"
        " zk_outstanding_requests zk_server_state zk_znode_count zk_watch_count zk_ephemerals_count"
        " zk_approximate_data_size zk_open_file_descriptor_count zk_max_file_descriptor_count",
    ),
    b"srvr": (": ", "Connections Outstanding Zxid Node#count"),
    b"dirs": (": ", "snapshot_dir_size log_dir_size"),
    b"lgif": (
        "\t",
        "first_log_idx first_log_term last_log_idx last_log_term last_committed_log_idx"
        " leader_committed_log_idx target_committed_log_idx last_snapshot_idx",
    ),
}


async def test_what_clickhouses_zookeeper_info_asks_has_an_answer_by_default() -> None:
    async with serving(FakeEtcd()) as server:
        asked = FourLetterWords(server.facts, words.parse(words.DEFAULT))
        assert (said(asked, b"ruok"), said(asked, b"isro")) == (b"imok", b"rw")
        for word, (separator, names) in _ZOOKEEPER_INFO.items():
            lines = (said(asked, word) or b"").decode().splitlines()
            found = dict(line.rsplit(separator, 1) for line in lines if separator in line)
            missing = {name.replace("#", " ") for name in names.split()} - found.keys()
            assert not missing, word
            assert all(found.values())


async def test_mntr_as_telegraf_and_exporters_read_it() -> None:
    """Lines of telegraf's pattern; every value but version and state a number."""
    fields: dict[str, str] = {}
    for line in await _asked(b"mntr"):
        found = re.match(r"^zk_(\w[\w\.\-]*)\s+([\w\.\-]+)", line)
        assert found is not None, line
        fields[found.group(1)] = found.group(2)
    assert fields.pop("version").startswith("3.9.")
    assert fields.pop("server_state") == "standalone"
    for name, value in fields.items():
        assert float(value) >= 0, name
    assert (fields["znode_count"], fields["num_alive_connections"]) == ("6", "1")


async def test_stat_as_datadogs_agent_reads_it() -> None:
    """Line after line in this order: version, clients up to an empty line, then the figures."""
    lines = iter(await _asked(b"stat"))
    assert re.search(r"\d+\.\d+\.\d+", next(lines))
    assert next(lines) == "Clients:"
    clients = list(iter(lambda: next(lines), ""))
    assert len(clients) == 1
    title, _, value = next(lines).partition(":")
    assert title == "Latency min/avg/max"
    low, mean, high = (float(part) for part in value.split("/"))
    assert low <= mean <= high + 1
    figures = dict(line.split(": ") for line in lines)
    assert list(figures) == ["Received", "Sent", "Connections", "Outstanding", "Zxid", "Mode", "Node count"]
    assert int(figures["Zxid"], 16) > 0
    assert figures["Mode"] == "standalone"
    assert [int(figures[name]) for name in ("Received", "Sent", "Connections", "Outstanding")] == [3, 3, 1, 0]


@one_by_one(
    ("text", "allowed"),
    [
        ("", {"srvr"}),
        ("ruok", {"srvr", "ruok"}),
        (" mntr , apiv,", {"srvr", "mntr", "apiv"}),
        ("ruok,*", words.KNOWN),
        (words.DEFAULT, {"srvr", "ruok", "isro", "mntr", "dirs", "lgif"}),
    ],
)
def test_a_list_of_words(text: str, allowed: set[str]) -> None:
    assert words.parse(text) == allowed


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(ValueError, match=r"'rouk' is not a four-letter word; known are .*apiv clrs conf"):
        words.parse("ruok,rouk")
