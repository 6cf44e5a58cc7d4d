"""Which requests are looked at, and what is counted of them."""

import random
from collections.abc import Sequence

import pytest

from codec import client as zk
from codec.constants import KeeperOpCode, OpCode, Xid
from codec.operation_names import operation_name
from codec.packets import MULTI_HEADER
from lab.oracle.requests import body_of
from proxy.frontend.client_info import ClientInfo
from proxy.frontend.replies import NARROW
from proxy.frontend.sampling import NEVER, Sampling
from proxy.options.top import TopOptions
from proxy.state.ops import EXTENDED_PARTS, MULTI_READ
from proxy.state.ops.multi import END_OF_PARTS

CLIENT = ClientInfo("10.0.0.1", 255)


def _sampling(sample: int = 1, depth: int = 2) -> Sampling:
    options = TopOptions(sample=sample, depth=depth, window=60, log=0, rows=20)
    return Sampling(options, random.Random(7).getrandbits, lambda: 1.0)


def _frames(*requests: zk.Request[object]) -> list[bytes]:
    return [zk.packet(1, each)[4:] for each in requests]


def _seen(sampling: Sampling, frames: Sequence[bytes], client: ClientInfo = CLIENT) -> None:
    assert sampling.look(client, NARROW, frames, 0) == 0


def test_reads_and_writes_are_counted_by_prefix_operation_session_and_client() -> None:
    sampling = _sampling()
    _seen(sampling, _frames(zk.get("/a/b/c"), zk.get("/a/b/d"), zk.set_data("/a/n-0000000001", b"")))
    _seen(sampling, _frames(zk.children("/")), ClientInfo("10.0.0.2", 256))
    one = sampling.total().writes
    assert sampling.total().reads == pytest.approx(3 * one)
    assert [(path, rates.reads / one, rates.writes / one) for path, rates in sampling.paths()] == [
        ("/a/b", 2, 0),
        ("/a/n-", 0, 1),
        ("/", 1, 0),
    ]
    assert [each[:2] for each in sampling.operations()] == [
        ("getData", "/a/b"),
        ("setData", "/a/n-"),
        ("getChildren2", "/"),
    ]
    assert [each[:3] for each in sampling.sessions()] == [
        ("0xff", "10.0.0.1", "/a/b"),
        ("0x100", "10.0.0.2", "/"),
    ]
    assert [client for client, _ in sampling.clients()] == ["10.0.0.1", "10.0.0.2"]


def test_a_multi_counts_once_for_each_of_its_prefixes() -> None:
    sampling = _sampling()
    _seen(sampling, _frames(zk.multi([zk.create("/a/b/1"), zk.create("/a/b/2"), zk.delete("/c")])))
    assert sorted(path for path, _ in sampling.paths()) == ["/a/b", "/c"]
    assert sorted(each[:2] for each in sampling.operations()) == [("create", "/a/b"), ("delete", "/c")]
    assert {rates for _, rates in sampling.paths()} == {sampling.total()}


@pytest.mark.parametrize("opcode", EXTENDED_PARTS)
def test_every_part_that_a_multi_may_have_is_counted(opcode: OpCode | KeeperOpCode) -> None:
    sampling = _sampling()
    part = zk.Request(opcode, body_of(opcode, path="/b"), zk.nothing)
    _seen(sampling, _frames(zk.multi([zk.check("/a"), part])))
    assert {each[:2] for each in sampling.operations()} == {("check", "/a"), (operation_name(opcode), "/b")}


def test_every_part_that_a_multi_read_may_have_is_counted() -> None:
    sampling = _sampling()
    parts = [
        MULTI_HEADER.pack(opcode, False, -1) + body_of(opcode, path=f"/{opcode}")
        for opcode in MULTI_READ.parts
    ]
    _seen(sampling, [zk.framed(1, OpCode.MULTI_READ)[4:] + b"".join(parts) + END_OF_PARTS])
    assert {each[:2] for each in sampling.operations()} == {
        (operation_name(opcode), f"/{opcode}") for opcode in MULTI_READ.parts
    }


def test_what_cannot_be_decoded_and_what_is_no_request_does_no_harm() -> None:
    sampling = _sampling()
    whole = _frames(zk.multi([zk.create("/a"), zk.delete("/c")]))[0]
    _seen(sampling, [whole[:40], b"", b"\0\0"])
    assert [path for path, _ in sampling.paths()] == [""]
    _seen(sampling, [zk.framed(Xid.PING, OpCode.PING)[4:], zk.framed(1, 12345)[4:]])
    assert len(sampling.operations()) == 1


def test_a_path_is_short_and_can_be_printed() -> None:
    sampling = _sampling()
    _seen(sampling, _frames(zk.get("/a\n\x1b[2J"), zk.get("/" + "b" * 100_000)))
    one, two = sorted(path for path, _ in sampling.paths())
    assert one == r"/a\n\x1b[2J"
    assert two.startswith("/bbb")
    assert len(two) < 300


def test_each_request_has_the_same_chance() -> None:
    """Whatever the sizes of chunks, and though the client repeats the same two requests in turn."""
    sampling = _sampling(sample=10)
    frames = _frames(*[zk.get("/even"), zk.get("/odd")] * 4)
    unsampled = sampling.skip()
    for number in range(8_000):
        chunk = frames[number % 3 :]
        unsampled -= len(chunk)
        if unsampled < 0:
            unsampled = sampling.look(CLIENT, NARROW, chunk, unsampled + len(chunk))
            assert unsampled >= 0
    rates = {path: each.reads for path, each in sampling.paths()}
    assert sum(rates.values()) == pytest.approx(7 * 8_000, rel=0.05)  # a second has passed
    assert rates["/even"] / rates["/odd"] == pytest.approx(3.33 / 3.67, rel=0.1)


def test_off() -> None:
    sampling = _sampling(sample=0)
    assert sampling.skip() == NEVER
    assert sampling.total() == (0, 0)
    assert sampling.sessions() == []


def test_what_is_kept_has_a_bound() -> None:
    sampling = _sampling(depth=100)
    for number in range(2_000):
        _seen(sampling, _frames(zk.get(f"/{number}" + "x" * 1000)), ClientInfo(f"10.0.{number}", number))
    kept = (sampling.paths, sampling.operations, sampling.sessions, sampling.clients)
    assert all(len(each(10_000)) <= 512 for each in kept)
