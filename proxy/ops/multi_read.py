"""multiRead: several reads in one request, each answered by itself (FinalRequestProcessor, case multiRead).

A form says which reads there may be and how one that is refused is told of; here is ZooKeeper's.
"""

import contextlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

from codec.constants import ErrorCode, OpCode, Perms
from codec.errors import MalformedPacket, NullString
from codec.jute import INT, Reader, pack_buffer, pack_strings
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.acl import demand
from proxy.operation import Client, Reading
from proxy.ops.multi import END_OF_PARTS, read_part
from proxy.ops.reads import find
from proxy.refusal import Refusal

# (what it reads, who asks, path) -> the body of the part's result. Raises Refusal.
ReadPart = Callable[[Reading, Client, str], bytes]


class Form(NamedTuple):
    """A dialect of multiRead."""

    parts: Mapping[int, ReadPart]
    # The whole result, header included, of a part that was refused, given its opcode.
    refused: Callable[[int, ErrorCode], bytes]


def _get_data(reading: Reading, client: Client, path: str) -> bytes:
    node = find(reading, path)
    demand(node.acl, Perms.READ, client.identities)
    return pack_buffer(node.data) + node.stat()


def _get_children(reading: Reading, client: Client, path: str) -> bytes:
    node = find(reading, path)
    demand(node.acl, Perms.READ, client.identities)
    return pack_strings(node.children or ())


def _refused(_opcode: int, code: ErrorCode) -> bytes:
    return MULTI_HEADER.pack(OpCode.ERROR, False, code) + INT.pack(code)


ZOOKEEPER = Form({OpCode.GET_DATA: _get_data, OpCode.GET_CHILDREN: _get_children}, _refused)


def multi_read(reading: Reading, client: Client, frame: bytes, position: int) -> bytes:
    """The results in order. Parts set no watch, whatever they say (Op.GetData, Op.GetChildren)."""
    form = ZOOKEEPER
    body: list[bytes] = []
    for opcode, path in _read(Reader(frame, position), form):
        operation = form.parts.get(opcode)
        if operation is None or path is None:
            # A multi of writes, or a null path: ZooKeeper stumbles, but sends the results so far.
            raise Refusal(ErrorCode.MARSHALLING_ERROR, b"".join(body) + END_OF_PARTS)
        try:
            result = operation(reading, client, path)
        except Refusal as refusal:
            body.append(form.refused(opcode, refusal.code))
        else:
            body += (MULTI_HEADER.pack(opcode, False, ErrorCode.OK), result)
    body.append(END_OF_PARTS)
    return b"".join(body)


def _read(reader: Reader, form: Form) -> list[tuple[int, str | None]]:
    """Opcode and path of each part. Raises MalformedPacket; also if reads and writes are mixed."""
    parts: list[tuple[int, str | None]] = []
    reads = 0
    while True:
        opcode, done, _err = read_multi_header(reader)
        if done:
            if 0 < reads < len(parts):
                raise MalformedPacket("reads and writes in one request")
            return parts
        if opcode in form.parts:
            parts.append((opcode, reader.string()))
            reader.boolean()  # whether to watch
            reads += 1
        else:
            parts.append((opcode, None))
            with contextlib.suppress(NullString):  # the part is whole, and not looked at further
                read_part(reader, opcode)
