"""Where the corpus comes from: sessions of real clients with a real ZooKeeper, a real ZooKeeper's files, and
values as zketcd puts them into etcd.

The recorded sessions and the files are those of the tests. etcd's answers are made by its protocol's own
messages.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from codec.constants import OpCode
from codec.packets import REPLY_HEADER, REQUEST_HEADER, STAT_NAMES
from codec.records import KEEPER_REQUESTS, REQUESTS, RESPONSES, encode
from pipeline.formats import log
from pipeline.formats.compression import BytesSource
from proof.fuzzing.mutate import MOST_BYTES
from proof.fuzzing.targets import calls, connection, machine
from proof.fuzzing.targets.clients import index_of
from proof.fuzzing.targets.pieces import pack_pieces
from proof.fuzzing.targets.storage import json_seed
from proxy.etcd import rpc_pb2 as pb
from proxy.state.capture import new_machine, pages
from schema import entry, record
from schema.compression import ENVELOPE_SIZE, unseal
from schema.followed import Followed, encode_followed
from schema.pages import NODES_FORMAT, SESSIONS_FORMAT, SessionValue, encode_nodes, encode_sessions

_REPOSITORY = Path(__file__).resolve().parents[2]
_SESSIONS = _REPOSITORY / "tests" / "codec" / "fixtures"
_SAMPLES = _REPOSITORY / "tests" / "pipeline" / "samples"


def seeds_of(name: str) -> list[bytes]:
    """The seeds of a target; none where the tests' files are missing."""
    return [seed for seed in _SEEDS[name]() if len(seed) <= MOST_BYTES] if name in _SEEDS else []


def _recorded() -> Iterator[list[tuple[bool, bytes]]]:
    """The frames of each session, True for those that the client sent."""
    for file in sorted(_SESSIONS.glob("*.txt")):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        yield [(line.startswith(">"), bytes.fromhex(line[2:])) for line in lines]


def _requests() -> Iterator[tuple[int, bytes]]:
    """(opcode, body) of all requests behind the handshakes."""
    for session in _recorded():
        for frame in [frame for sent, frame in session if sent][1:]:
            _, opcode = REQUEST_HEADER.unpack_from(frame)
            if opcode in REQUESTS:
                yield opcode, frame[REQUEST_HEADER.size :]


# Values of all fields that requests have, by name.
_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("path", "prefixPath"), "/a"),
    **dict.fromkeys(("data", "auth", "token"), b"data"),
    **dict.fromkeys(("flags", "mode", "filter", "curConfigId", "relativeZxid"), 0),
    **dict.fromkeys(("limit", "ttl"), 100),
    "version": -1,
    "stat": dict.fromkeys(STAT_NAMES, 0),
    "type": 3,
    **dict.fromkeys(("watch", "withStat", "withData"), True),
    **dict.fromkeys(("joiningServers", "leavingServers", "newMembers"), None),
    "acl": [{"perms": 31, "id": {"scheme": "world", "id": "anyone"}}],
    "scheme": "digest",
}


def _declared() -> Iterator[bytes]:
    """A step of each request of simple fields (no multi, no lists): of a node, and of missing ones."""
    for opcode, declaration in (*REQUESTS.items(), *KEEPER_REQUESTS.items()):
        if all(field.name in _FIELDS for field in declaration.subcons):
            for path in ("/a", "/a/new", "/missing/x"):
                body = encode(declaration, {**_FIELDS, "path": path})
                yield bytes([index_of(opcode)]) + pack_pieces([body])


def _framed(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def _streams() -> Iterator[bytes]:
    for session in _recorded():
        sent = [frame for sent, frame in session if sent]
        yield b"\xff" + _framed(sent[:4])
        yield b"\x10" + _framed(sent[-3:])
    yield b"\xff" + _framed([_wide_handshake()])[:-1]


def _wide_handshake() -> bytes:
    return (11).to_bytes(4, "big") + b"\0" + bytes(20) + (16).to_bytes(4, "big") + bytes(17)


def _handshakes() -> Iterator[bytes]:
    for session in _recorded():
        yield session[0][1]
    yield _wide_handshake()


def _bodies() -> Iterator[bytes]:
    for opcode, body in _requests():
        yield bytes([index_of(opcode)]) + body


def _replies() -> Iterator[bytes]:
    order = sorted(RESPONSES)
    for session in _recorded():
        asked: dict[int, int] = {}
        for sent, frame in session[2:]:
            if sent:
                xid, opcode = REQUEST_HEADER.unpack_from(frame)
                asked[xid] = opcode
            else:
                xid, _, err = REPLY_HEADER.unpack_from(frame)
                if not err and asked.get(xid) in RESPONSES:
                    yield bytes([order.index(OpCode(asked[xid]))]) + frame[REPLY_HEADER.size :]


def _headers() -> Iterator[bytes]:
    yield b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 2181\r\n"
    yield b"PROXY TCP6 2001:db8::1 2001:db8::2 4124 2181\r\nmore"
    yield b"PROXY UNKNOWN\r\n"
    signature = b"\r\n\r\n\0\r\nQUIT\n"
    yield signature + b"\x21\x11\0\x0c" + bytes((192, 0, 2, 1, 198, 51, 100, 1, 0xDC, 4, 8, 0x85))
    yield signature + b"\x21\x21\0\x28" + bytes(36) + b"\x04\0\x01x"
    yield signature + b"\x20\0\0\0"


def _steps() -> Iterator[bytes]:
    """Recorded sessions as steps of the state machine, a new entry now and then."""
    for session in _recorded():
        steps = b""
        for number, frame in enumerate([frame for sent, frame in session if sent][1:]):
            _, opcode = REQUEST_HEADER.unpack_from(frame)
            if opcode not in REQUESTS:
                continue
            step = bytes([machine.CLIENT, index_of(opcode)]) + pack_pieces([frame[REQUEST_HEADER.size :]])
            if len(steps) + len(step) > MOST_BYTES // 4:
                yield steps
                steps = b""
            steps += step
            if number % 8 == 3:
                steps += bytes([machine.ENTRY_ENDS])
        yield steps
    yield b"".join(
        bytes([machine.PROXYS, kind - 1]) + pack_pieces([body])
        for kind, body in _proxys()
        if kind != entry.Kind.LEVEL
    )


def _connections() -> Iterator[bytes]:
    for session in _recorded():
        yield bytes([connection.OPENING]) + _framed([session[0][1]])
        sent = [frame for is_sent, frame in session if is_sent][1:]
        steps = [
            bytes([index_of(opcode)]) + pack_pieces([frame[REQUEST_HEADER.size :]])
            for frame in sent
            if (opcode := REQUEST_HEADER.unpack_from(frame)[1]) in REQUESTS
        ]
        for start in range(0, len(steps), 5):
            yield bytes([connection.REQUESTS]) + b"".join(steps[start : start + 5])
        yield bytes([connection.NOISE]) + _framed(sent[:3])
        yield bytes([connection.GRANTED]) + _framed([session[0][1], *sent[:4]])
    yield bytes([connection.OPENING]) + b"ruok"
    declared = list(_declared())
    for start in range(0, len(declared), 8):
        some = b"".join(declared[start : start + 8])
        yield bytes([connection.REQUESTS]) + some
        yield bytes([connection.KEEPER]) + declared[0] + some


def _proxys() -> Iterator[tuple[int, bytes]]:
    yield entry.Kind.OPEN, entry.encode_open(4000, bytes(16))
    yield entry.Kind.ATTACH, entry.encode_attach(4000, bytes(16))
    yield entry.Kind.CLOSE, entry.encode_close("timeout", "fuzz")
    yield entry.Kind.CARRY_OVER, entry.encode_carry_over("fuzz")
    yield entry.Kind.NODE_DUE, entry.encode_node_due("/a", 0, 0, 0, 0)
    yield entry.Kind.EPOCH, entry.encode_epoch(9, 5)
    yield entry.Kind.LEVEL, entry.encode_level(1)
    yield entry.Kind.FORGET, entry.encode_forget("old")


def _proxys_requests() -> Iterator[bytes]:
    for place, (_, body) in enumerate(_proxys()):
        yield bytes([place]) + body


def _entries() -> Iterator[bytes]:
    writer = entry.EntryWriter()
    one = (entry.Identity("ip", "10.0.0.1"),)
    for number, (opcode, body) in enumerate(_requests()):
        writer.add(
            entry.Kind.CLIENT, 1, opcode, one if number % 3 else (*one, entry.Identity("digest", "a:b")), body
        )
        if number % 6 == 5:
            yield _body(entry.FORMAT, writer.finish(1_600_000_000_000, number % 16, number, number))
            writer = entry.EntryWriter()
    for kind, body in _proxys():
        writer.add(kind, 5, 0, (), body)
    yield _body(entry.FORMAT, writer.finish(1_600_000_000_000, 0, 0, 0))
    yield _body(entry.FORMAT, entry.encode_void(1))


def _body(format_byte: int, value: bytes) -> bytes:
    return unseal(format_byte, value, "a seed")[1]


def _node_pages() -> Iterator[bytes]:
    for page in _pages():
        head, body = unseal(NODES_FORMAT, page, "a seed")
        yield pack_pieces([head]) + body


def _pages() -> Iterator[bytes]:
    nodes = sorted(new_machine(1).tree.nodes.items())
    yield encode_nodes(nodes)
    yield encode_nodes(nodes[:1])


_SOME_SESSIONS = (SessionValue(1, 4000, bytes(16), "abc"), SessionValue(2, 9000, bytes(16), "def"))


def _session_pages() -> Iterator[bytes]:
    for count in range(len(_SOME_SESSIONS) + 1):
        yield _body(SESSIONS_FORMAT, encode_sessions(_SOME_SESSIONS[:count]))


def _json() -> Iterator[bytes]:
    snapshot = record.SnapshotRef("0000000000000005-abc", 5, "abc", 1, 1, 100, 4, 2, 9, 1 << 63)
    yield json_seed(0, record.encode_record(record.TreeRecord(True, 1, 1, snapshot, None)))
    yield json_seed(1, record.encode_proxy(record.ProxyValue((1, 2), "1.0")))
    machine_now = new_machine(1)
    machine_now.applied["abc"] = 4
    machine_now.checkpoints.append((32, 5))
    yield json_seed(2, pages(machine_now).state)


def _followed() -> Iterator[bytes]:
    nodes = sorted(new_machine(1).tree.nodes.items())
    body = encode_followed(Followed(3, 9, ["/a/b", "/a"], nodes[:2], nodes[2:], _SOME_SESSIONS, [7]))
    at, parts = 20, []
    for _ in range(5):
        size = int.from_bytes(body[at : at + 4], "big")
        parts.append(body[at + 4 : at + 4 + size])
        at += 4 + size
    yield body[:20] + pack_pieces(parts)
    yield body[:16] + bytes(4) + pack_pieces([b""] * 5)


def _keys() -> Iterator[bytes]:
    yield b"live/tree"
    yield b"live/proxy/1f2e3d"
    yield b"live/log/1f2e3d/0000000000000012"
    yield b"snapshot/0000000000000005-abc/nodes/00000001"
    yield b"snapshot/0000000000000005-abc/state"


def _envelopes() -> Iterator[bytes]:
    nodes = sorted(new_machine(1).tree.nodes.items())
    yield b"\xff" + encode_nodes(nodes)
    large = [(f"/{number:03}", nodes[0][1]) for number in range(100)]
    for value in (
        encode_nodes(large),
        encode_nodes([(f"/{number:04}", nodes[0][1]) for number in range(1000)]),
    ):
        yield b"\xff" + value
        yield b"\0" + value[: ENVELOPE_SIZE + 30]


def _ranges() -> Iterator[bytes]:
    header = pb.ResponseHeader(cluster_id=1 << 60, member_id=5, revision=12, raft_term=2)
    pair = pb.KeyValue(
        key=b"/zketcd/live/tree", value=b"v", create_revision=3, mod_revision=9, version=4, lease=77
    )
    yield pb.RangeResponse(header=header, kvs=[pair, pair], more=True, count=2).SerializeToString()
    yield pb.RangeResponse(header=header).SerializeToString()


def _txns() -> Iterator[bytes]:
    header = pb.ResponseHeader(revision=12)
    ranged = pb.ResponseOp(response_range=pb.RangeResponse(kvs=[pb.KeyValue(key=b"a", mod_revision=2)]))
    put = pb.ResponseOp(response_put=pb.PutResponse())
    inner = pb.ResponseOp(response_txn=pb.TxnResponse(succeeded=True, responses=[ranged, put]))
    yield pb.TxnResponse(header=header, succeeded=True, responses=[ranged, put, inner]).SerializeToString()
    yield pb.TxnResponse(
        header=header, responses=[ranged, pb.ResponseOp(response_txn=pb.TxnResponse())]
    ).SerializeToString()


def _watches() -> Iterator[bytes]:
    events = [pb.Event(kv=pb.KeyValue(key=b"k%d" % place, mod_revision=5 + place // 2)) for place in range(4)]
    header = pb.ResponseHeader(revision=9)
    responses = [
        pb.WatchResponse(header=header, created=True),
        pb.WatchResponse(header=header, events=events, fragment=True),
        pb.WatchResponse(header=header, events=events[:1]),
    ]
    yield pack_pieces([response.SerializeToString() for response in responses])
    yield pack_pieces([pb.WatchResponse(canceled=True, compact_revision=7).SerializeToString()])


# What Go's gRPC server sends.
_STATUS = b"\x40\x0bgrpc-status\x010"
_HEAD = b"\x88\x5f\x10application/grpc"
_MESSAGE = b"\0" + (3).to_bytes(4, "big") + b"abc"


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


_SETTINGS = _frame(4, 0, 0, b"\0\5\0\0\x40\0") + _frame(4, 1, 0) + _frame(8, 0, 0, b"\0\1\0\0")


def _http2() -> Iterator[bytes]:
    """Settings, window updates, a ping, headers, a message, trailers."""
    ping = _frame(6, 0, 0, b"12345678") + _frame(6, 1, 0, bytes(8))
    refused = b"\x40\x0bgrpc-status\x015\x40\x0cgrpc-message\x03%41"
    yield _SETTINGS + ping + b"".join(_answer(stream) for stream in (1, 3))
    yield _SETTINGS + _frame(1, 5, 1, refused) + _frame(3, 0, 3, b"\0\0\0\x08") + _frame(7, 0, 0, bytes(8))
    yield (
        _frame(1, 1, 1, _STATUS[:5])
        + _frame(9, 4, 1, _STATUS[5:])
        + _frame(0, 9, 3, b"\2" + _MESSAGE + b"\0\0")
    )
    yield (
        _frame(1, 0x2D, 1, b"\1\0\0\0\0\x10" + _STATUS + b"\0")
        + _frame(8, 0, 3, b"\0\0\0\1")
        + _frame(99, 0, 0, b"x")
    )


def _answer(stream: int) -> bytes:
    return _frame(1, 4, stream, _HEAD) + _frame(0, 0, stream, _MESSAGE) + _frame(1, 5, stream, _STATUS)


def _http2_calls() -> Iterator[bytes]:
    """Requests, a stream, and what a server says to them; large messages, and time that passes."""

    def server(data: bytes) -> bytes:
        return bytes([calls.SERVER]) + pack_pieces([data])

    request, stream = bytes([calls.REQUEST, 1]), bytes([calls.STREAM])
    write, cancel = bytes([calls.WRITE, 0, 1]), bytes([calls.CANCEL, 0])
    second = bytes([calls.TIME, 4])
    hello = server(_SETTINGS)
    yield (
        hello
        + request
        + server(_answer(1))
        + stream
        + write
        + server(_answer(3))
        + request
        + server(_answer(5))
    )
    yield hello + stream + server(_frame(1, 4, 1, _HEAD) + _frame(0, 0, 1, _MESSAGE * 3)) + cancel + write
    yield hello + request + second * 3 + request + second * 4 + server(_answer(3)) + second
    # No room for it in the window, nor in a frame; then there is.
    more = server(_frame(8, 0, 0, b"\0\1\0\0")) + server(_frame(8, 0, 1, b"\0\1\0\0"))
    yield (
        bytes([calls.REQUEST, 250]) * 2 + more + server(_frame(4, 0, 0, b"\0\4\0\2\0\0")) + server(_answer(1))
    )
    # No answer: a ping is sent, and then the connection is given up. The first ping is answered.
    yield hello + stream + bytes([calls.TIME, 28]) + server(_frame(6, 1, 0, bytes(8))) + second * 12
    # A stream that ends before its client has said its last word, and pings in between.
    yield (
        hello
        + stream
        + write
        + server(_frame(6, 0, 0, b"12345678"))
        + second
        + server(_frame(0, 1, 1))
        + write
    )
    yield hello + request * 3 + server(_frame(7, 0, 0, b"\0\0\0\3" + bytes(4))) + request + server(_answer(1))
    # A listener that does not take a message, and calls to an address that speaks HTTP, but no gRPC.
    yield hello + stream + server(_frame(0, 0, 1, b"\0\0\0\0\2!!" + _MESSAGE)) + write
    yield (
        hello
        + request
        + server(_frame(1, 5, 1, b"\x8d"))
        + stream
        + server(_frame(3, 0, 3, bytes(4)) + b"\xff" * 9)
    )


def _samples(prefix: str) -> Iterator[bytes]:
    for file in sorted(_SAMPLES.glob(f"*/version-2/{prefix}*")):
        if not file.name.endswith((".gz", ".snappy")):
            yield file.read_bytes()


def _log_entries() -> Iterator[bytes]:
    for raw in _samples(log.PREFIX):
        for one in log.entries(BytesSource(raw), "a sample", log.HEADER_SIZE):
            yield one.body


def _logs() -> Iterator[bytes]:
    bodies = list(_log_entries())
    for start in range(0, len(bodies), 40):
        yield log.pack_header() + b"".join(map(log.pack_entry, bodies[start : start + 6])) + bytes(start % 32)


def _snapshots() -> Iterator[bytes]:
    for raw in _samples("snapshot."):
        yield raw
        if len(raw) > MOST_BYTES:
            yield raw[:2000]


def _compressed() -> Iterator[bytes]:
    for file in sorted(_SAMPLES.glob("*/version-2/snapshot.*")):
        if file.name.endswith(".gz"):
            yield b"\0" + file.read_bytes()
        elif file.name.endswith(".snappy"):
            yield b"\xff" + file.read_bytes()
    squeezed = zlib.compressobj(9, zlib.DEFLATED, 31)
    yield b"\0" + squeezed.compress(bytes(1 << 16)) + squeezed.flush()


_SEEDS: Mapping[str, Callable[[], Iterator[bytes]]] = {
    "framing": _streams,
    "opening": _streams,
    "handshake": _handshakes,
    "request": _bodies,
    "reply": _replies,
    "primitives": lambda: (pack_pieces([bytes(range(10))]) + body for _, body in _requests()),
    "proxy-header": _headers,
    "connection": _connections,
    "machine": _steps,
    "envelope": _envelopes,
    "entry": _entries,
    "proxys-request": _proxys_requests,
    "node-page": _node_pages,
    "session-page": _session_pages,
    "json": _json,
    "followed": _followed,
    "key": _keys,
    "range-answer": _ranges,
    "txn-answer": _txns,
    "watch-stream": _watches,
    "http2": _http2,
    "http2-calls": _http2_calls,
    "log": _logs,
    "transaction": _log_entries,
    "snapshot": _snapshots,
    "seal": _snapshots,
    "compressed": _compressed,
}
