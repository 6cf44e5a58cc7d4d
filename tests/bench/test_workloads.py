"""The generator's packets, decoded by codec: two encoders written apart must agree."""

from collections.abc import Callable

import pytest

from bench.data import SIZE
from bench.workloads import DATA, WORKLOADS
from codec import packets
from codec.constants import OpCode
from codec.framing import Framer
from codec.jute import OPEN_TO_ALL, Reader

ROOT = b"/b"
OWN = "/b/c0003"
CONNECTION = 3

Operation = tuple[OpCode, tuple[object, ...]]

READERS: dict[OpCode, Callable[[Reader], tuple[object, ...]]] = {
    OpCode.GET_DATA: packets.read_path_watch,
    OpCode.EXISTS: packets.read_path_watch,
    OpCode.GET_CHILDREN: packets.read_path_watch,
    OpCode.CREATE: packets.read_create,
    OpCode.SET_DATA: packets.read_set_data,
    OpCode.DELETE: packets.read_path_version,
    OpCode.CHECK: packets.read_path_version,
}


def decoded(frame: bytes) -> tuple[int, list[Operation]]:
    """xid and operations of one request, which must hold nothing else."""
    xid, number = packets.REQUEST_HEADER.unpack_from(frame)
    reader = Reader(frame, packets.REQUEST_HEADER.size)
    found: list[Operation] = []
    if number == OpCode.MULTI:
        while (kind := reader.int()) != -1:
            assert (reader.boolean(), reader.int()) == (False, -1)
            found.append((OpCode(kind), READERS[OpCode(kind)](reader)))
        assert (reader.boolean(), reader.int()) == (True, -1)
    else:
        found.append((OpCode(number), READERS[OpCode(number)](reader)))
    assert reader.remaining == 0
    return xid, found


def uniform(operation: Operation) -> Operation:
    """With the data that differ from request to request put in the place of DATA."""
    code, fields = operation
    return code, tuple(DATA if isinstance(field, bytes) and len(field) == SIZE else field for field in fields)


def created(path: str, data: bytes = DATA, flags: int = 0) -> Operation:
    return OpCode.CREATE, (path, data, OPEN_TO_ALL, flags)


FIRST: dict[str, list[Operation]] = {
    "get": [(OpCode.GET_DATA, ("/b/n0000000111", False))],
    "exists": [(OpCode.EXISTS, ("/b/n0000000111", False))],
    "children": [(OpCode.GET_CHILDREN, ("/b", False))],
    "create": [created(f"{OWN}/0000000000")],
    "sequential": [created("/b/n-", flags=2)],
    "set": [(OpCode.SET_DATA, (f"{OWN}/0000000001", DATA, -1))],
    "delete": [(OpCode.DELETE, (f"{OWN}/0000000000", -1))],
    "mixed": [(OpCode.GET_DATA, (f"{OWN}/0000000000", False))],
    "multi": [
        created("/b/log/log-", flags=2),
        created("/b/blocks/0003-0000000000", b""),
        created(f"{OWN}/part-0000000000"),
        (OpCode.CHECK, (f"{OWN}/host", 0)),
    ],
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_requests_are_what_they_should_be(name: str) -> None:
    stream = WORKLOADS[name](ROOT, 4, 4000).stream(CONNECTION)
    chunk = stream.take(1) + stream.take(255) + stream.take(256) + stream.take(100)
    requests = [decoded(frame) for frame in Framer().feed(chunk)]
    assert len(requests) == 612
    assert [uniform(operation) for operation in requests[0][1]] == FIRST[name]
    assert [xid & 0xFF for xid, _ in requests] == [(i + 1) & 0xFF for i in range(612)]


@pytest.mark.parametrize("name", ["create", "sequential", "set", "mixed", "multi"])
def test_no_data_are_sent_twice_within_an_entry_of_the_log(name: str) -> None:
    workload = WORKLOADS[name](ROOT, 64, 4000)
    seen = [
        field
        for connection in range(64)
        for frame in Framer().feed(workload.stream(connection).take(32))
        for _, fields in decoded(frame)[1]
        for field in fields
        if isinstance(field, bytes) and len(field) == SIZE
    ]
    assert len(set(seen)) > 0.95 * len(seen) > 0


def test_writes_never_repeat_a_path() -> None:
    for name in ("create", "delete"):
        workload = WORKLOADS[name](ROOT, 2, 400)
        paths = [
            decoded(frame)[1][0][1][0]
            for connection in range(2)
            for frame in Framer().feed(workload.stream(connection).take(200))
        ]
        assert len(set(paths)) == 400
