"""Writes a plan as a client of ZooKeeper does: multis on one connection, under the caller's identities."""

import os
import socket
import ssl
from collections.abc import Iterator, Sequence

from archive import sasl
from archive.revert import Kind, Step
from codec import client, records
from codec.constants import CreateMode, ErrorCode, OpCode, Xid
from codec.errors import FrameTooLong, MalformedPacket
from codec.framing import Framer
from codec.jute import INT, LONG, Reader, pack_acls, pack_buffer, pack_string
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.state.node import Node
from schema.paths import join
from schema.znode import CONTAINER_OWNER, MAX_TTL

_TIMEOUT = 30.0  # seconds, of the session and for each reply
_LARGEST_REPLY = 64 << 20
_MOST_PARTS = 200
_MOST_BYTES = 400_000  # of a multi; ZooKeeper's jute.maxbuffer is 1 MiB
_COUNTING = "zketcd-revert"
_END = MULTI_HEADER.pack(-1, True, -1)

Part = tuple[OpCode, bytes]


class Refused(Exception):
    """The server refuses a request, or does not answer; the message says which and why."""


class Client:
    """A session."""

    def __init__(
        self,
        server: tuple[str, int],
        identities: Sequence[tuple[str, bytes]],
        tls: ssl.SSLContext | None = None,
        user: tuple[str, str] | None = None,
    ) -> None:
        """`tls`: None for none. `user`: name and password for SASL (DIGEST-MD5). Raises OSError, Refused."""
        self._xid = 0
        self._framer = Framer(_LARGEST_REPLY)
        self._frames: list[bytes] = []
        self._socket = socket.create_connection(server, timeout=_TIMEOUT)
        try:
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=server[0])
            self._send(client.connect(int(_TIMEOUT * 1000)))
            if not client.connected(self._receive()).session:
                raise Refused("the server gives no session")
            if user is not None:
                self._authenticate(*user)
            for scheme, identity in identities:
                packet = records.encode(records.AuthPacket, {"type": 0, "scheme": scheme, "auth": identity})
                self._send(client.request(Xid.AUTH, OpCode.AUTH, packet))
                if client.header(self._receive()).error:
                    raise Refused(f"the server does not accept the identity of scheme {scheme}")
        except MalformedPacket as error:
            self._socket.close()
            raise Refused(f"the server does not answer as a ZooKeeper: {error}") from error
        except BaseException:
            self._socket.close()
            raise

    def _authenticate(self, name: str, password: str) -> None:
        challenge = self._token(b"")
        try:
            self._token(sasl.response(challenge, name, password, os.urandom(16).hex().encode()))
        except ValueError as error:
            raise Refused(f"SASL: {error}") from error

    def _token(self, token: bytes) -> bytes:
        """One step of SASL."""
        error, answer = self.call(OpCode.SASL, pack_buffer(token))
        if error:
            raise Refused(f"the server does not accept the user of --server-user: {client.name_of(error)}")
        return answer.buffer() or b""

    def close(self) -> None:
        """End the session."""
        try:
            self.call(OpCode.CLOSE_SESSION, b"")
        except Refused:
            pass
        finally:
            self._socket.close()

    def ping(self) -> None:
        """Keep the session alive. The next call passes over the answer. Raises Refused."""
        self._send(client.PING)

    def write(self, steps: Sequence[Step]) -> Iterator[int]:
        """Do the steps in their order; yields how many are done. Raises Refused."""
        parts: list[tuple[str, Part]] = []
        size = 0
        for done, step in enumerate(steps):
            for unit in _units(step):
                single = unit[0][0] == OpCode.SET_ACL  # not in a multi
                more = sum(len(body) for _, body in unit)
                if parts and (single or len(parts) + len(unit) > _MOST_PARTS or size + more > _MOST_BYTES):
                    self.multi(parts)
                    parts, size = [], 0
                    yield done
                if single:
                    self._one(step.path, unit[0])
                else:
                    parts += [(step.path, part) for part in unit]
                    size += more
        if parts:
            self.multi(parts)
        yield len(steps)

    def _one(self, path: str, part: Part) -> None:
        error, _ = self.call(*part)
        if error:
            raise Refused(f"{part[0].name} {path}: {client.name_of(error)}")

    def multi(self, parts: Sequence[tuple[str, Part]]) -> None:
        """Do these parts, each with its path for messages, together or not at all. Raises Refused."""
        body = b"".join(MULTI_HEADER.pack(opcode, False, -1) + packed for _, (opcode, packed) in parts) + _END
        error, reply = self.call(OpCode.MULTI, body)
        if error:
            raise Refused(
                f"a multi of {len(parts)} operations from {parts[0][0]} on: {client.name_of(error)}"
            )
        for path, (opcode, _) in parts:
            kind, done, _ = read_multi_header(reply)
            if done or kind == OpCode.ERROR:
                code = 0 if done else reply.int()
                if code not in (0, ErrorCode.RUNTIME_INCONSISTENCY):
                    raise Refused(f"{opcode.name} {path}: {client.name_of(code)}")
            else:
                return  # the first part was done, so all were

    def call(self, opcode: int, body: bytes) -> tuple[int, Reader]:
        """Send a request and wait for its answer: the error, and what follows the header. Raises Refused."""
        self._xid += 1
        self._send(client.request(self._xid, opcode, body))
        try:
            while (header := client.header(frame := self._receive())).xid != self._xid:
                pass  # an event, or the answer to something before
        except MalformedPacket as error:
            raise Refused(str(error)) from error
        return header.error, client.body(frame)

    def _send(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise Refused(f"the connection broke off: {error}") from error

    def _receive(self) -> bytes:
        try:
            while not self._frames:
                chunk = self._socket.recv(1 << 16)
                if not chunk:
                    raise Refused("the server closed the connection")
                self._frames.extend(self._framer.feed(chunk))
        except (OSError, MalformedPacket, FrameTooLong) as error:
            raise Refused(f"the connection broke off: {error}") from error
        return self._frames.pop(0)


def _units(step: Step) -> Iterator[list[Part]]:
    """The requests of a step; those of a unit are done together or not at all."""
    path, node = step.path, step.node
    if step.kind is Kind.DELETE:
        yield [(OpCode.DELETE, pack_string(path) + INT.pack(step.version))]
    elif step.kind is Kind.SET:
        yield [(OpCode.SET_DATA, pack_string(path) + pack_buffer(node.data) + INT.pack(step.version))]
    elif step.kind is Kind.SET_ACL:
        yield [(OpCode.SET_ACL, pack_string(path) + pack_acls(node.acl) + INT.pack(step.version))]
    elif step.kind is Kind.CREATE:
        yield [_create(path, node.data, node)]
    else:
        child = join(path, _COUNTING)
        pair = [_create(child, b"", node, 0), (OpCode.DELETE, pack_string(child) + INT.pack(-1))]
        for _ in range(step.times):
            yield pair


def _create(path: str, data: bytes | None, node: Node, owner: int | None = None) -> Part:
    owner = node.owner if owner is None else owner
    body = pack_string(path) + pack_buffer(data) + pack_acls(node.acl)
    if owner == CONTAINER_OWNER:
        return OpCode.CREATE_CONTAINER, body + INT.pack(CreateMode.CONTAINER)
    if owner:
        ttl = LONG.pack(owner & MAX_TTL)
        return OpCode.CREATE_TTL, body + INT.pack(CreateMode.PERSISTENT_WITH_TTL) + ttl
    return OpCode.CREATE, body + INT.pack(CreateMode.PERSISTENT)
