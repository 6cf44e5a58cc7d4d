"""A session of a running server, for commands that act as a client does, and the options that name it.

The requests are made one after the other, under the caller's identities; each waits for its answer.
"""

import os
import re
import socket
import ssl
import threading
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from codec import client as zk
from codec.client import Dialogue, MultiFailed, Request, ZooKeeperError
from codec.constants import Xid
from codec.errors import FrameTooLong, MalformedPacket
from proxy.options import values
from proxy.sasl.digest_md5 import REALM, hexed, secret
from proxy.support.addresses import servers, socket_address
from proxy.support.validity import reason_of

_TIMEOUT = 30.0  # seconds, of the session and for each reply
_CONNECT_TIMEOUT = 10.0  # seconds, to connect and for the reply that gives the session
_LARGEST_REPLY = 64 << 20
_VARIABLE = "ZKETCD_AUTH"
_PASSWORD = "ZKETCD_SERVER_PASSWORD"
_URI = f"zookeeper/{REALM}".encode()

T = TypeVar("T")


class Refused(Exception):
    """The server refuses a request, or does not answer; the message says which and why."""


class Unreachable(Refused):
    """No session at this server; another one may give one."""


class Client:
    """A session."""

    def __init__(
        self,
        server: tuple[str, int],
        identities: Sequence[tuple[str, bytes]],
        tls: ssl.SSLContext | None = None,
        user: tuple[str, str] | None = None,
    ) -> None:
        """`tls`: None for none. `user`: name and password for SASL (DIGEST-MD5). Raises Refused."""
        self._dialogue = Dialogue(max_frame=_LARGEST_REPLY)
        self._frames: list[bytes] = []
        self.server = socket_address(*server)
        with self._reported():
            self._socket = socket.create_connection(server, timeout=_CONNECT_TIMEOUT)
        try:
            with self._reported():
                if tls is not None:
                    self._socket = tls.wrap_socket(self._socket, server_hostname=server[0])
                self._socket.sendall(zk.connect(int(_TIMEOUT * 1000)))
                while self._dialogue.granted is None:
                    self._receive_some()
            #: The session's id, password and timeout.
            self.granted = self._dialogue.granted
            if not self.granted.session:
                raise Unreachable(f"{self.server} gives no session")
            self._socket.settimeout(_TIMEOUT)
            if user is not None:
                self._authenticate(*user)
            for scheme, identity in identities:
                self._send(zk.packet(Xid.AUTH, zk.auth(scheme, identity)))
                if zk.header(self._receive()).error:
                    raise Refused(f"the server does not accept the identity of scheme {scheme}")
        except BaseException:
            self._socket.close()
            raise

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Raises Unreachable for what fails on the way to a session."""
        try:
            yield
        except TimeoutError as error:
            reason = f"no answer within {_CONNECT_TIMEOUT:.0f} s: is it a port for ZooKeeper clients?"
            raise Unreachable(f"{self.server}: {reason}") from error
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate is not accepted by --server-ca: {error.verify_message}"
            raise Unreachable(f"{self.server}: {reason}") from error
        except ssl.SSLError as error:
            raise Unreachable(f"{self.server}: TLS failed: {reason_of(error)}") from error
        except OSError as error:
            raise Unreachable(
                f"{self.server}: {error.strerror or f'the connection broke off: {error}'}"
            ) from error
        except MalformedPacket as error:
            raise Unreachable(f"{self.server} does not answer as a ZooKeeper: {error}") from error

    def _authenticate(self, name: str, password: str) -> None:
        try:
            challenge = self._answer(zk.sasl(b""))
            response, expected = _sasl_response(challenge, name, password, os.urandom(16).hex().encode())
            if self._answer(zk.sasl(response)) != expected:
                raise Refused(
                    "the server has not proved that it knows the password of --server-user: it may be another"
                )
        except ZooKeeperError as error:
            raise Refused(
                f"the server does not accept the user of --server-user: {zk.name_of(error.code)}"
            ) from error

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

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Ping while something else is done that may take longer than the session's timeout."""
        is_over = threading.Event()

        def ping() -> None:
            while not is_over.wait(self.granted.timeout_ms / 3000):
                with suppress(Refused):  # the next call says it
                    self.ping()

        pinger = threading.Thread(target=ping, daemon=True)
        pinger.start()
        try:
            yield
        finally:
            is_over.set()
            pinger.join()

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
        try:
            while not self._frames:
                self._receive_some()
        except (OSError, FrameTooLong) as error:
            raise Refused(f"the connection broke off: {error}") from error
        return self._frames.pop(0)

    def _receive_some(self) -> None:
        chunk = self._socket.recv(1 << 16)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self._frames += self._dialogue.feed(chunk)


def _said(request: Request[Any], error: ZooKeeperError) -> str:
    return f"{request.opcode.name.lower().removesuffix('2')} {request.path}: {zk.name_of(error.code)}"


def _sasl_response(challenge: bytes, name: str, password: str, cnonce: bytes) -> tuple[bytes, bytes]:
    """The answers of client and server to a challenge of DIGEST-MD5 (RFC 2831). `cnonce`: never used before.

    Raises Refused.
    """
    found = re.search(rb'nonce="([^"]*)"', challenge)
    if found is None:  # ZooKeeper without users answers with an empty challenge
        raise Refused("the server has no users for SASL (DIGEST-MD5): leave out --server-user, or use --auth")
    nonce = found[1]
    session = hexed(b":".join((secret(name, password), nonce, cnonce)))
    proof, proof_of_server = (
        hexed(b":".join((session, nonce, b"00000001", cnonce, b"auth", hexed(purpose + _URI))))
        for purpose in (b"AUTHENTICATE:", b":")
    )
    quoted = re.sub(r'(["\\])', r"\\\1", name).encode()
    return (
        b'charset=utf-8,username="%b",realm="%b",nonce="%b",nc=00000001,cnonce="%b",digest-uri="%b",'
        b"maxbuf=65536,response=%b,qop=auth" % (quoted, REALM.encode(), nonce, cnonce, _URI, proof)
    ), b"rspauth=" + proof_of_server


def add_server(made: ArgumentParser) -> None:
    """Add the options that name a running server and the caller's identities."""
    add = made.add_argument
    add(
        "--server",
        type=values.checked(servers),
        default="127.0.0.1:2181",
        metavar="HOST:PORT",
        help="the proxy to connect to; of several, separated by commas, the first that gives a session",
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
        type=values.identity,
        action="append",
        default=[],
        metavar="SCHEME:ID",
        help="an identity to write with, such as digest:user:password; may be repeated."
        " Safer as ZKETCD_AUTH in the environment",
    )


def _tls(given: Any, made: Any) -> ssl.SSLContext | None:
    if not given.server_ca:
        return None
    loaded = given.server_ca
    try:
        tls = ssl.create_default_context(cafile=loaded)
        if given.server_cert:
            loaded = f"{given.server_cert} with the key {given.server_key}"
            # Without a password OpenSSL would ask for one on the terminal.
            tls.load_cert_chain(given.server_cert, given.server_key, "")
        return tls
    except ssl.SSLError as error:
        made.error(f"{loaded}: {reason_of(error, given.server_key)}")
        raise AssertionError from error


def connected(given: Any, made: Any) -> Client:
    """A session as the options say; `made` is the parser, which ends the process for wrong ones.

    Raises Refused.
    """
    password = given.server_password or (given.server_user and os.environ.get(_PASSWORD, ""))
    if bool(given.server_user) != bool(password):
        made.error("--server-user and --server-password must be given together")
    if bool(given.server_cert) != bool(given.server_key) or (given.server_cert and not given.server_ca):
        made.error("--server-cert and --server-key must be given together, with --server-ca")
    identities = list(given.auth)
    if variable := os.environ.get(_VARIABLE):
        try:
            identities.append(values.identity(variable))
        except ArgumentTypeError as error:
            made.error(f"{_VARIABLE}: {error}")
    user = (given.server_user, password) if given.server_user else None
    tls = _tls(given, made)
    failures = []
    for server in given.server:
        try:
            return Client(server, identities, tls, user)
        except Unreachable as error:
            failures.append(str(error))
    raise Refused("; ".join(failures))
