"""Scripts of packets that no sane client sends: cut, mutated, mislabelled, and malformed handshakes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from lab.oracle import wire
from lab.oracle.requests import (
    OPEN,
    AddAuth,
    AddWatch,
    Check,
    CheckWatches,
    Create,
    CreateContainer,
    CreateTtl,
    Delete,
    Exists,
    GetAcl,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Payload,
    Ping,
    Reconfig,
    RemoveWatches,
    Request,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
    SetWatches2,
    Sync,
    WhoAmI,
    encode,
)
from tests.compat import script
from tests.compat.script import Call, Handshake, Junk, Open, Reopen, Script, call

MAX_FRAME = 0xFFFFF
NEW_CLIENT_CONNECT = wire.pack_connect()
OLD_CLIENT_CONNECT = NEW_CLIENT_CONNECT[:-1]

NODE = "/bad-input"
_LITERAL = "@" + NODE
SAMPLES: dict[str, Request] = {
    "create": Create(_LITERAL + "/x", b"data", acls=(*OPEN, (1, "ip", "127.0.0.1"))),
    "create2": Create(_LITERAL + "/x", b"data", with_stat=True),
    "createContainer": CreateContainer(_LITERAL + "/c", b"data"),
    "createTTL": CreateTtl(_LITERAL + "/t", b"data"),
    "delete": Delete(_LITERAL + "/x", 3),
    "exists": Exists(_LITERAL, True),
    "getData": GetData(_LITERAL, True),
    "setData": SetData(_LITERAL, b"data", 7),
    "getACL": GetAcl(_LITERAL),
    "setACL": SetAcl(_LITERAL, OPEN, 7),
    "getChildren": GetChildren(_LITERAL, True),
    "getChildren2": GetChildren(_LITERAL, True, with_stat=True),
    "sync": Sync(_LITERAL),
    "multi": Multi(
        (Check(_LITERAL), Create(_LITERAL + "/x", b"d"), SetData(_LITERAL, b"d", 7), Delete(_LITERAL))
    ),
    "auth": AddAuth("digest", b"amy:secret"),
    "setWatches": SetWatches("zero", (_LITERAL, "@/x"), (_LITERAL,), ("@/y",)),
    "ping": Ping(),
    "setWatches2": SetWatches2("zero", (_LITERAL, "@/x"), (_LITERAL,), ("@/y",), (_LITERAL,), ("@/x",)),
    "addWatch": AddWatch(_LITERAL, 1),
    "checkWatches": CheckWatches(_LITERAL),
    "removeWatches": RemoveWatches(_LITERAL),
    "multiRead": MultiRead((GetData(_LITERAL), GetChildren(_LITERAL), GetData("@/missing"))),
    "getEphemerals": GetEphemerals("@/"),
    "getAllChildrenNumber": GetAllChildrenNumber(_LITERAL),
    "whoAmI": WhoAmI(),
    "reconfig": Reconfig("server.1=a:1:2", None, "", 3),
    "sasl": Sasl(b"token"),
}

# createSession, which only servers send another. ZooKeeper takes it from a client too, and greets it again.
_NO_CLIENTS_OPERATION = -10


def sample(name: str) -> bytes:
    """Return the payload of a well-formed request."""
    return encode(script.resolved(SAMPLES[name], "", {"zero": 0}), 7)


def _start() -> Script:
    """Return steps that open the bad session 0 and the innocent session 1, which watches."""
    return [
        Open(0),
        Open(1),
        call(1, GetChildren("", True)),
        call(1, Create(_LITERAL)),
        call(1, GetData(_LITERAL, True)),
    ]


def _end() -> Script:
    """Return steps that show that the innocent session lives and the tree is as it should be."""
    return [
        Reopen(0),
        call(0, GetChildren(_LITERAL, with_stat=True)),
        call(1, SetData(_LITERAL, b"end")),
        call(1, GetData(_LITERAL)),
        call(1, Create("/end")),
        call(1, Delete(_LITERAL)),
    ]


def cut_script(name: str) -> Script:
    """Return a script that sends a request cut at every byte, its length prefix telling the truth."""
    whole = sample(name)
    steps = _start()
    for size in range(len(whole)):
        steps += [call(0, Payload(whole[:size])), Reopen(0)]
    return steps + _end()


def extended_script() -> Script:
    """Return a script that sends every request with bytes left over."""
    steps = _start()
    for name in SAMPLES:
        steps += [call(0, Payload(sample(name) + b"\0more")), Reopen(0)]
    return steps + _end()


def opcode_script(*codes: int) -> Script:
    """Return a script that sends packets under unknown opcodes."""
    steps = _start()
    for code in codes:
        for body in (b"", wire.pack_string("/") + b"\0", b"\xff" * 20):
            steps += [call(0, Payload(struct.pack(">ii", 9, code) + body)), Reopen(0)]
    return steps + _end()


def length_script() -> Script:
    """Return a script of length prefixes that no packet follows, and of lengths inside packets."""
    steps = _start()
    for length in (-1, -2, -(2**31), 2**31 - 1, MAX_FRAME + 1, 1 << 24, int.from_bytes(b"ruok", "big")):
        steps += [Junk(0, struct.pack(">i", length) + b"abc"), Reopen(0)]
    for name, offset in (
        ("exists", 8),
        ("create", 8),
        ("setData", 8),
        ("setData", 8 + 4 + 10),
        ("multi", 17),
        ("sync", 8),
    ):
        whole = sample(name)
        for length in (-1, -2, -(2**31), 0, 1, 2**31 - 1, MAX_FRAME, MAX_FRAME + 1, 1 << 24):
            steps += [
                call(0, Payload(whole[:offset] + struct.pack(">i", length) + whole[offset + 4 :])),
                Reopen(0),
            ]
    for name in ("create", "setACL"):
        whole = sample(name)
        offset = whole.index(struct.pack(">i", 31)) - 4
        for length in (-1, -2, -(2**31), 0, 1, 3, 2**31 - 1, MAX_FRAME + 1):
            steps += [
                call(0, Payload(whole[:offset] + struct.pack(">i", length) + whole[offset + 4 :])),
                Reopen(0),
            ]
    for name in ("setWatches", "setWatches2"):
        whole = sample(name)
        for length in (-1, -2, 0, 1, 3, 2**31 - 1):
            steps += [call(0, Payload(whole[:16] + struct.pack(">i", length) + whole[20:])), Reopen(0)]
    return steps + _end()


def big_frames_script() -> Script:
    """Return a script of the biggest frame that ZooKeeper takes, and one byte more."""
    steps = _start()
    for size in (MAX_FRAME - 1, MAX_FRAME, MAX_FRAME + 1):
        head = struct.pack(">ii", 5, wire.SET_DATA) + wire.pack_string("/bad-input")
        data = b"x" * (size - len(head) - 8)
        payload = head + wire.pack_buffer(data) + wire.pack_int(77)
        steps += [call(0, Payload(payload)), Reopen(0)]
    return steps + _end()


def multi_header_script() -> Script:
    """Return a script of multis whose headers lie."""
    steps = _start()
    create = (
        wire.pack_string("/bad-input/m") + wire.pack_buffer(b"") + wire.pack_acls(OPEN) + wire.pack_int(0)
    )
    done = b"\xff\xff\xff\xff\1\xff\xff\xff\xff"
    bodies = (
        b"",
        done,
        done + done,
        done + b"more",
        b"\xff\xff\xff\xff\0\xff\xff\xff\xff" + done,
        b"\0\0\0\1\0\0\0\0\0" + create + b"\0\0\0\0\1\0\0\0\0",
        b"\0\0\0\1\1\0\0\0\0" + create,
        b"\0\0\0\1\2\0\0\0\0" + create + done,
        b"\0\0\0\1\0\0\0\0\x05" + create,
        b"\0\0\0\1\0\0\0\0\x05" + create + done[:-1],
        *(
            struct.pack(">i?i", code, False, -1) + create + done
            for code in (*range(-12, 24), 100, 101, 105, 999)
        ),
    )
    for body in bodies:
        for code in (wire.MULTI, wire.MULTI_READ):
            steps += [
                call(0, Payload(struct.pack(">ii", 4, code) + body)),
                call(0, Delete("@/bad-input/m")),
                Reopen(0),
            ]
    return steps + _end()


def mutated_script(seed: int, count: int) -> Script:
    """Return a script of requests with random bytes changed, cut out or put in, and of random bytes."""
    random = Random(seed)
    steps = _start()
    names = list(SAMPLES)
    for _ in range(count):
        payload = bytearray(sample(random.choice(names)))
        if random.random() < 0.1:
            payload = bytearray(random.randbytes(random.randrange(64)))
        for _ in range(random.choice((1, 1, 1, 2, 3))):
            _mutate(payload, random)
        code = int.from_bytes(payload[4:8], "big", signed=True)
        if code != _NO_CLIENTS_OPERATION and not _speaks_of_zxids(code, payload):
            steps += [Call(0, (Payload(bytes(payload)),)), Open(0)]
    return steps + _end()


def _speaks_of_zxids(code: int, payload: bytearray) -> bool:
    """Whether it is about a zxid that one of the servers may have reached and the other not."""
    zxid = int.from_bytes(payload[8:16], "big", signed=True)
    return code in (wire.SET_WATCHES, wire.SET_WATCHES2) and 0 < zxid < 1 << 40


def _mutate(payload: bytearray, random: Random) -> None:
    place = random.randrange(len(payload) + 1)
    kind = random.randrange(4)
    if kind == 0:
        del payload[place : place + random.randrange(1, 5)]
    elif kind == 1:
        payload[place:place] = random.randbytes(random.randrange(1, 5))
    elif kind == 2:
        payload[place : place + 4] = struct.pack(">i", random.choice((-1, -2, 0, 1, 255, 1 << 20, 2**31 - 1)))
    else:
        payload[place : place + 1] = random.randbytes(1)


def handshake_script() -> Script:
    """Return a script of connect requests, most of them malformed."""
    steps: Script = [Open(1)]
    steps += [Handshake(data) for data in _handshakes()]
    whole = wire.frame(NEW_CLIENT_CONNECT)
    steps += [Handshake(whole[:size], half_close=True) for size in range(len(whole))]
    return [*steps, call(1, Exists(""))]


def _handshakes() -> Iterator[bytes]:
    frame = wire.frame
    yield frame(NEW_CLIENT_CONNECT)
    yield frame(OLD_CLIENT_CONNECT)
    for size in range(len(NEW_CLIENT_CONNECT)):
        yield frame(NEW_CLIENT_CONNECT[:size])
    for trailer in (b"\1", b"\2", b"\xff", b"\0more", b"\1" * 100):
        yield frame(OLD_CLIENT_CONNECT + trailer)
    for timeout in (0, 1, -1, -(2**31), 2**31 - 1, 399, 400, 401, 59999, 60000, 60001):
        yield frame(wire.pack_connect(timeout_ms=timeout))
    for password in (None, b"", b"x" * 15, b"x" * 16, b"x" * 17, b"x" * 900):
        yield frame(wire.pack_connect(password=password))
        yield frame(wire.pack_connect(password=password, session=12345))
        yield frame(wire.pack_connect(password=password, session=-1))
    for length in (-2, -(2**31), 2**31 - 1, 15, 17, 1 << 24):
        yield frame(NEW_CLIENT_CONNECT[:24] + struct.pack(">i", length) + NEW_CLIENT_CONNECT[28:])
    for version in (1, -1, 2**31 - 1):
        yield frame(struct.pack(">i", version) + NEW_CLIENT_CONNECT[4:])
    for zxid in (-1, -(2**63), 1, 2**63 - 1):
        yield frame(wire.pack_connect(last_zxid=zxid))
    for length in (-1, -(2**31), 2**31 - 1, MAX_FRAME + 1, 0):
        yield struct.pack(">i", length) + NEW_CLIENT_CONNECT
    yield b"abcd"
    yield b"RUOK"
    yield b"GET / HTTP/1.1\r\n\r\n"
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 40
    for name in ("ping", "exists", "create"):
        yield frame(sample(name))


def second_connect_script() -> Script:
    """Return a script that sends a connect request where requests belong."""
    steps = _start()
    for payload in (NEW_CLIENT_CONNECT, OLD_CLIENT_CONNECT, b"\0" * 45):
        steps += [call(0, Payload(payload)), Open(0)]
    return steps + _end()
