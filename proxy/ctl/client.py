"""A session of a running server, for commands that act as a client does, and the options that name it.

The requests are made one after the other, under the caller's identities; each waits for its answer.
"""

import os
import re
import socket
import ssl
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from codec import client, records
from codec.constants import ErrorCode, OpCode, Xid
from codec.errors import FrameTooLong, MalformedPacket
from codec.framing import Framer
from codec.jute import Reader, pack_buffer
from codec.packets import MULTI_HEADER, read_multi_header
from proxy.options import values
from proxy.sasl.digest_md5 import REALM, hexed, secret

_TIMEOUT = 30.0  # seconds, of the session and for each reply
_LARGEST_REPLY = 64 << 20
_END = MULTI_HEADER.pack(-1, True, -1)
_VARIABLE = "ZKETCD_AUTH"
_URI = f"zookeeper/{REALM}".encode()

Part = tuple[OpCode, bytes]
"""One operation of a multi."""


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
            self._token(_sasl_response(challenge, name, password, os.urandom(16).hex().encode()))
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


def _sasl_response(challenge: bytes, name: str, password: str, cnonce: bytes) -> bytes:
    """The client's answer to a challenge of DIGEST-MD5 (RFC 2831). `cnonce`: never used before.

    Raises ValueError.
    """
    found = re.search(rb'nonce="([^"]*)"', challenge)
    if found is None:
        raise ValueError(f"the challenge {challenge[:80]!r} has no nonce")
    nonce = found[1]
    session = hexed(b":".join((secret(name, password), nonce, cnonce)))
    proof = hexed(b":".join((session, nonce, b"00000001", cnonce, b"auth", hexed(b"AUTHENTICATE:" + _URI))))
    quoted = re.sub(r'(["\\])', r"\\\1", name).encode()
    return (
        b'charset=utf-8,username="%b",realm="%b",nonce="%b",nc=00000001,cnonce="%b",digest-uri="%b",'
        b"maxbuf=65536,response=%b,qop=auth" % (quoted, REALM.encode(), nonce, cnonce, _URI, proof)
    )


def identity(text: str) -> tuple[str, bytes]:
    """SCHEME:ID, for argparse."""
    scheme, colon, name = text.partition(":")
    if not colon or not scheme:
        raise ArgumentTypeError("it is not SCHEME:ID")
    return scheme, name.encode()


def add_server(made: ArgumentParser) -> None:
    """Add them."""
    add = made.add_argument
    add(
        "--server",
        type=values.address,
        default="127.0.0.1:2181",
        metavar="HOST:PORT",
        help="the proxy to write to",
    )
    for name, what in (
        ("--server-ca", "connect to --server with TLS, and verify it by this CA: a PEM file"),
        ("--server-cert", "certificate to show to --server: a PEM file"),
        ("--server-key", "key of --server-cert: a PEM file"),
    ):
        add(name, type=values.file, default="", metavar="FILE", help=what)
    add("--server-user", default="", metavar="NAME", help="authenticate by SASL (DIGEST-MD5) with this name")
    add(
        "--server-password",
        default="",
        metavar="WORD",
        help="password of --server-user; safer as ZKETCD_SERVER_PASSWORD in the environment",
    )
    add(
        "--auth",
        type=identity,
        action="append",
        default=[],
        metavar="SCHEME:ID",
        help="an identity to write with, such as digest:user:password; may be repeated."
        " Safer as ZKETCD_AUTH in the environment",
    )


def connected(given: Any, made: Any) -> Client:
    """A session as the options say; `made` is the parser, which ends the process for wrong ones.

    Raises OSError, Refused.
    """
    if bool(given.server_user) != bool(given.server_password):
        made.error("--server-user and --server-password must be given together")
    if bool(given.server_cert) != bool(given.server_key) or (given.server_cert and not given.server_ca):
        made.error("--server-cert and --server-key must be given together, with --server-ca")
    tls = None
    if given.server_ca:
        tls = ssl.create_default_context(cafile=given.server_ca)
        if given.server_cert:
            tls.load_cert_chain(given.server_cert, given.server_key)
    identities = list(given.auth)
    if variable := os.environ.get(_VARIABLE):
        try:
            identities.append(identity(variable))
        except ArgumentTypeError as error:
            made.error(f"{_VARIABLE}: {error}")
    return Client(
        given.server,
        identities,
        tls,
        (given.server_user, given.server_password) if given.server_user else None,
    )
