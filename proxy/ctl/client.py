"""A session of a running server, for commands that act as a client does, and the options that name it.

The requests are made one after the other, under the caller's identities; each waits for its answer.
"""

import os
import re
import socket
import ssl
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any, TypeVar

from codec import client as zk
from codec.client import Dialogue, MultiFailed, Request, ZooKeeperError
from codec.constants import Xid
from codec.errors import FrameTooLong, MalformedPacket
from proxy.options import values
from proxy.sasl.digest_md5 import REALM, hexed, secret

_TIMEOUT = 30.0  # seconds, of the session and for each reply
_LARGEST_REPLY = 64 << 20
_VARIABLE = "ZKETCD_AUTH"
_URI = f"zookeeper/{REALM}".encode()

T = TypeVar("T")


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
        self._dialogue = Dialogue(max_frame=_LARGEST_REPLY)
        self._frames: list[bytes] = []
        self._socket = socket.create_connection(server, timeout=_TIMEOUT)
        try:
            if tls is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=server[0])
            self._send(zk.connect(int(_TIMEOUT * 1000)))
            while self._dialogue.granted is None:
                self._receive_some()
            if not self._dialogue.granted.session:
                raise Refused("the server gives no session")
            if user is not None:
                self._authenticate(*user)
            for scheme, identity in identities:
                self._send(zk.packet(Xid.AUTH, zk.auth(scheme, identity)))
                if zk.header(self._receive()).error:
                    raise Refused(f"the server does not accept the identity of scheme {scheme}")
        except MalformedPacket as error:
            self._socket.close()
            raise Refused(f"the server does not answer as a ZooKeeper: {error}") from error
        except BaseException:
            self._socket.close()
            raise

    def _authenticate(self, name: str, password: str) -> None:
        try:
            challenge = self._answer(zk.sasl(b""))
            response = _sasl_response(challenge, name, password, os.urandom(16).hex().encode())
            self._answer(zk.sasl(response))
        except ZooKeeperError as error:
            raise Refused(
                f"the server does not accept the user of --server-user: {zk.name_of(error.code)}"
            ) from error
        except ValueError as error:
            raise Refused(f"SASL: {error}") from error

    def close(self) -> None:
        """End the session."""
        try:
            self.call(zk.close())
        except Refused:
            pass
        finally:
            self._socket.close()

    def ping(self) -> None:
        """Keep the session alive. The next call passes over the answer. Raises Refused."""
        self._send(zk.PING)

    def call(self, request: Request[T]) -> T:
        """Send a request and return what its answer says. Raises Refused."""
        try:
            answer: T = self._answer(request)
        except ZooKeeperError as error:
            raise Refused(_said(request, error)) from error
        return answer

    def multi(self, parts: Sequence[Request[Any]]) -> None:
        """Do these together or not at all. Raises Refused."""
        try:
            self._answer(zk.multi(parts))
        except MultiFailed as error:
            raise Refused(_said(parts[error.failed], error)) from error
        except ZooKeeperError as error:
            raise Refused(
                f"a multi of {len(parts)} operations from {parts[0].path} on: {zk.name_of(error.code)}"
            ) from error

    def _answer(self, request: Request[Any]) -> Any:
        """The answer to a request. Raises ZooKeeperError and Refused."""
        xid, packet = self._dialogue.request(request)
        self._send(packet)
        try:
            while (reply := zk.header(frame := self._receive())).xid != xid:
                pass  # an event, or the answer to something before
            return zk.answer_of(request, reply.error, zk.body(frame))
        except MalformedPacket as error:
            raise Refused(str(error)) from error

    def _send(self, frame: bytes) -> None:
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise Refused(f"the connection broke off: {error}") from error

    def _receive(self) -> bytes:
        while not self._frames:
            self._receive_some()
        return self._frames.pop(0)

    def _receive_some(self) -> None:
        try:
            chunk = self._socket.recv(1 << 16)
            if not chunk:
                raise Refused("the server closed the connection")
            self._frames += self._dialogue.feed(chunk)
        except (OSError, FrameTooLong) as error:
            raise Refused(f"the connection broke off: {error}") from error


def _said(request: Request[Any], error: ZooKeeperError) -> str:
    return f"{request.opcode.name.lower().removesuffix('2')} {request.path}: {zk.name_of(error.code)}"


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
    """Add the options that name a running server and the caller's identities."""
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
