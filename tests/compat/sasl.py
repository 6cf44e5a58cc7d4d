"""A ZooKeeper and a zketcd with the same SASL, and connections that play the same to both."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.oracle import wire
from lab.oracle.requests import OPEN, AddAuth, Create, GetAcl, GetData, Request, Sasl, WhoAmI, encode
from lab.servers import EtcdServer, ZketcdServer, ZooKeeperServer
from lab.servers.digest_md5 import respond

_PROVIDER = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
PASSWORDS = {"bob": "bobs word", "amy": 'amys "word" \\ u00fc', "super": "supers word", "root": "roots word"}


class Peer:
    """One connection to one server, and all that it has answered."""

    def __init__(self, port: int) -> None:
        self._connection = wire.Connection(port)
        assert isinstance(self._connection.connect(), wire.Session)
        self._xid = 0
        self.answers: list[object] = []
        self.body = b""  # of the last answer

    def ask(self, *requests: Request) -> None:
        """Send requests in one go and take their answers."""
        packets = b""
        for request in requests:
            self._xid += 1
            packets += wire.frame(encode(request, self._xid))
        self._connection.send(packets)
        for _ in requests:
            if not self.hear():
                return

    def hear(self) -> bool:
        """Take one answer; False if there is none any more."""
        message = self._connection.receive()
        if not isinstance(message, wire.Reply):
            self.answers.append(type(message).__name__)
            return False
        self.body = message.body
        # zxids tell what else has happened on a server; those of answers without any are 0 on both.
        self.answers.append((message.xid, message.zxid > 0, message.err, _without_nonce(message.body)))
        return True

    def token(self, token: bytes | None) -> bytes:
        """Send a token; return the server's."""
        self.ask(Sasl(token))
        return self.body[4:]

    def authenticate(self, name: str, password: str | None = None, **changes: str | None) -> None:
        """Go through a whole exchange."""
        challenge = self.token(b"")
        word = PASSWORDS.get(name, "") if password is None else password
        changed = {key.replace("_", "-"): value for key, value in changes.items()}
        self.token(respond(challenge, name, word, changed))

    def addauth(self, scheme: str, auth: bytes) -> None:
        """Prove another identity."""
        self.ask(AddAuth(scheme, auth))

    def whoami(self) -> None:
        """Ask who I am."""
        self.ask(WhoAmI())
        last = self.answers[-1]
        if isinstance(last, tuple) and not last[2]:
            cursor = wire.Cursor(self.body)
            self.answers[-1] = [(cursor.string(), cursor.string()) for _ in range(cursor.integer())]

    def create(self, path: str, acls: wire.Acls = OPEN) -> None:
        """Create a node."""
        self.ask(Create(path, b"x", acls=tuple(acls)))

    def read(self, path: str) -> None:
        """Read a node's data; its Stat is each server's own."""
        self.ask(GetData(path))
        self._forget_stat()

    def get_acl(self, path: str) -> None:
        """Read a node's ACL."""
        self.ask(GetAcl(path))
        self._forget_stat()

    def close(self) -> None:
        """Close the socket without a closeSession."""
        self._connection.close()

    def _forget_stat(self) -> None:
        last = self.answers[-1]
        if isinstance(last, tuple) and not last[2]:
            self.answers[-1] = (*last[:3], last[3][: -wire.STAT.size])


def _without_nonce(body: bytes) -> bytes:
    text = re.sub(rb'nonce="([A-Za-z0-9+/]{40})"', b"nonce", body)
    return re.sub(rb"rspauth=[0-9a-f]{32}", b"rspauth", text)


class Pair:
    """Both servers."""

    def __init__(self, ports: tuple[int, int]) -> None:
        self.ports = ports

    def alike(self, *plays: Callable[[Peer], None]) -> list[object]:
        """Play the same on both, on a connection for each part; all answers, which were equal."""
        answers = []
        for port in self.ports:
            peers = []
            try:
                for play in plays:
                    peers.append(Peer(port))
                    play(peers[-1])
            finally:
                for peer in peers:
                    peer.close()
            answers.append([answer for peer in peers for answer in peer.answers])
        assert answers[1] == answers[0]
        return answers[0]


@contextmanager
def both_servers(
    etcd: EtcdServer, prefix: str, jaas: Path, properties: dict[str, str], **options: object
) -> Iterator[Pair]:
    with (
        ZooKeeperServer(
            max_client_connections=0,
            settings=_PROVIDER,
            system_properties={
                "java.security.auth.login.config": str(jaas),
                "zookeeper.fips-mode": "false",  # true, the default, forbids DIGEST-MD5 from 3.9.6 on
                "zookeeper.forceSync": "no",
                "org.apache.logging.log4j.level": "OFF",
                **properties,
            },
        ) as oracle,
        ZketcdServer(
            etcd.endpoint,
            prefix=f"/{prefix}",
            max_client_connections=0,
            jaas_file=jaas,
            **options,  # type: ignore[arg-type]
        ) as subject,
    ):
        yield Pair((oracle.port, subject.port))
