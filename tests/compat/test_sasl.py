"""SASL compared with real ZooKeeper's: DIGEST-MD5, Kerberos, their identities, clients that must have one.

Each test plays the same requests to both servers. All that comes back must be equal, byte by byte, but for
nonces and what depends on them.
"""

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.oracle import wire
from lab.oracle.wire import pack_acls, pack_buffer, pack_int, pack_string
from lab.servers import EtcdServer, Kdc, ZketcdServer, ZooKeeperServer
from lab.servers.digest_md5 import respond

pytestmark = pytest.mark.real

_JAAS = """
// users of the tests
Server {
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_bob="bobs word"
    user_amy="amys \\"word\\" \\\\ \\u00fc"
    user_super="supers word"
    user_root="roots word";
};
"""
_PASSWORDS = {
    "bob": "bobs word",
    "amy": 'amys "word" \\ u00fc',
    "super": "supers word",
    "root": "roots word",
}
_PROVIDER = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
_OPEN = [(31, "world", "anyone")]


class Peer:
    """One connection to one server, and all that it has answered."""

    def __init__(self, port: int) -> None:
        self._connection = wire.Connection(port, patience=60)
        assert isinstance(self._connection.connect(), wire.Session)
        self._xid = 0
        self.answers: list[object] = []
        self.body = b""  # of the last answer

    def ask(self, opcode: int, body: bytes = b"", xid: int | None = None) -> None:
        """Send one request and take its answer."""
        self._xid += 1
        self._connection.send(
            wire.frame(struct.pack(">ii", self._xid if xid is None else xid, opcode) + body)
        )
        self.hear()

    def ask_together(self, *requests: tuple[int, bytes]) -> None:
        """Send several in one go, and take their answers."""
        packets = b""
        for opcode, body in requests:
            self._xid += 1
            packets += wire.frame(struct.pack(">ii", self._xid, opcode) + body)
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
        """Send a token; the one that comes back."""
        self.ask(wire.SASL, pack_buffer(token))
        return self.body[4:]

    def authenticate(self, name: str, password: str | None = None, **changes: str | None) -> None:
        """Go through a whole exchange."""
        challenge = self.token(b"")
        word = _PASSWORDS.get(name, "") if password is None else password
        changed = {key.replace("_", "-"): value for key, value in changes.items()}
        self.token(respond(challenge, name, word, changed))

    def whoami(self) -> None:
        """Ask who I am; the order of the answers is nobody's promise."""
        self.ask(wire.WHO_AM_I)
        last = self.answers[-1]
        if isinstance(last, tuple) and not last[2]:
            cursor = wire.Cursor(self.body)
            told = sorted((cursor.string(), cursor.string()) for _ in range(cursor.integer()))
            self.answers[-1] = told

    def create(self, path: str, acls: wire.Acls | None = None) -> None:
        """Create a node."""
        acl = pack_acls(_OPEN if acls is None else acls)
        self.ask(wire.CREATE, pack_string(path) + pack_buffer(b"x") + acl + pack_int(0))

    def read(self, path: str) -> None:
        """Read a node's data; its Stat is each server's own."""
        self.ask(wire.GET_DATA, pack_string(path) + b"\0")
        self._forget_stat()

    def get_acl(self, path: str) -> None:
        """Read a node's ACL."""
        self.ask(wire.GET_ACL, pack_string(path))
        self._forget_stat()

    def close(self) -> None:
        """Leave, without a word."""
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
        self._ports = ports

    def alike(self, *plays: Callable[[Peer], None]) -> list[object]:
        """Play the same on both, on a connection for each part; all answers, which were equal."""
        answers = []
        for port in self._ports:
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
def _pair(
    etcd: EtcdServer, prefix: str, jaas: Path, properties: dict[str, str], **options: object
) -> Iterator[Pair]:
    with (
        ZooKeeperServer(
            max_client_connections=0,
            settings=_PROVIDER,
            system_properties={
                "java.security.auth.login.config": str(jaas),
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


@pytest.fixture(scope="module")
def jaas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sasl") / "jaas.conf"
    path.write_text(_JAAS)
    return path


def _served(prefix: str, properties: dict[str, str], **options: object) -> Callable[..., Iterator[Pair]]:
    """A fixture: ZooKeeper with these properties and zketcd with these options, for the whole module."""

    @pytest.fixture(scope="module")
    def made(etcd_server: EtcdServer, jaas: Path) -> Iterator[Pair]:
        with _pair(etcd_server, prefix, jaas, properties, **options) as pair:
            yield pair

    return made


# Both with users and a super user.
pair = _served("compat-sasl", {"zookeeper.superUser": "root"}, sasl_super_users="root")
# Both serve nobody without SASL.
demanding = _served(
    "compat-sasl-demanded",
    {"zookeeper.sessionRequireClientSASLAuth": "true", "zookeeper.allowSaslFailedClients": "true"},
    enforce_auth_schemes="sasl",
    allow_sasl_failed_clients="true",
)
# Both serve clients whose SASL fails, if they have another identity.
lenient = _served(
    "compat-sasl-lenient",
    {
        "zookeeper.allowSaslFailedClients": "true",
        "zookeeper.enforce.auth.enabled": "true",
        "zookeeper.enforce.auth.schemes": "digest",
    },
    enforce_auth_schemes="digest",
    allow_sasl_failed_clients="true",
)


# -- DIGEST-MD5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(_PASSWORDS))
def test_a_user_authenticates(pair: Pair, name: str) -> None:
    def play(peer: Peer) -> None:
        peer.whoami()
        peer.authenticate(name)
        peer.whoami()

    answers = pair.alike(play)
    assert [part for part in answers if isinstance(part, tuple)][-1][2:] == (0, pack_int(40) + b"rspauth")
    assert ("sasl", name) in answers[-1]  # type: ignore[operator]


@pytest.mark.parametrize(
    "changes",
    [
        {"realm": "elsewhere"},
        {"realm": None},
        {"realm": ""},
        {"nonce": "AAAA"},
        {"nonce": None},
        {"cnonce": None},
        {"cnonce": ""},
        {"username": None},
        {"username": ""},
        {"response": "0" * 32},
        {"response": ""},
        {"response": None},
        {"digest_uri": None},
        {"digest_uri": "ldap/zk-sasl-md5"},
        {"digest_uri": "ZooKeeper/ZK-sasl-MD5"},
        {"charset": "latin-1"},
        {"charset": None},
        {"qop": "auth-int"},
        {"qop": "auth-conf"},
        {"qop": "other"},
        {"qop": None},
        {"nc": None},
        {"nc": "00000002"},
        {"maxbuf": None},
        {"maxbuf": "1"},
        {"maxbuf": "-1"},
        {"maxbuf": "many"},
        {"maxbuf": "99999999999"},
        {"authzid": "amy"},
        {"authzid": ""},
        {"surplus": "ignored"},
    ],
    ids=str,
)
def test_what_a_response_may_say(pair: Pair, changes: dict[str, str | None]) -> None:
    def play(peer: Peer) -> None:
        peer.authenticate("bob", **changes)
        peer.whoami()

    pair.alike(play)


@pytest.mark.parametrize(
    "token",
    [
        b"x",
        b"username",
        b"=",
        b'username="bob',
        b'username="bob"x',
        b'username="bob",username="bob"',
        b",,,",
        b"\0\xff\xfe",
        b"username=\xff",
        b"x" * 4096,
        b"x" * 4097,
        b'a="' + b"\\" * 2001 + b'"',
    ],
    ids=lambda token: repr(token[:20]),
)
def test_a_malformed_response(pair: Pair, token: bytes) -> None:
    def play(peer: Peer) -> None:
        peer.token(b"")
        peer.token(token)
        peer.whoami()

    assert pair.alike(play)[-1] == "Closed"


@pytest.mark.parametrize("name", ["bob", "nobody", "", "\u4f60"])
def test_a_wrong_password(pair: Pair, name: str) -> None:
    def play(peer: Peer) -> None:
        peer.authenticate(name, "wrong")
        peer.whoami()

    answers = pair.alike(play)[1:]
    assert answers == [*([(2, False, -115, pack_int(-1))] if name else ["Closed"]), "Closed"]


def test_tokens_out_of_turn(pair: Pair) -> None:
    def twice(peer: Peer) -> None:
        peer.authenticate("bob")
        peer.token(b"")
        peer.whoami()

    def early(peer: Peer) -> None:
        challenge = peer.token(b"x" * 100)
        peer.token(respond(challenge, "bob", _PASSWORDS["bob"]))

    def null(peer: Peer) -> None:
        peer.token(None)

    def interleaved(peer: Peer) -> None:
        challenge = peer.token(b"")
        peer.whoami()
        peer.create("/between")
        peer.token(respond(challenge, "bob", _PASSWORDS["bob"]))
        peer.whoami()

    pair.alike(twice, early, null, interleaved)


def test_a_challenge_is_good_for_one_connection(pair: Pair) -> None:
    challenges: list[bytes] = []

    def first(peer: Peer) -> None:
        challenges.append(peer.token(b""))

    def second(peer: Peer) -> None:
        peer.token(b"")
        peer.token(respond(challenges[-1], "bob", _PASSWORDS["bob"]))

    assert pair.alike(first, second)[-1] == (2, False, -115, pack_int(-1))


# -- identities ----------------------------------------------------------------------------------------------


def test_acls_with_sasl_users(pair: Pair) -> None:
    def bobs(peer: Peer) -> None:
        peer.authenticate("bob")
        peer.create("/bobs", [(31, "sasl", "bob")])
        peer.create("/all", [(31, "auth", "")])
        peer.create("/amys", [(31, "sasl", "amy")])
        for path in ("/bobs", "/all", "/amys"):
            peer.read(path)
            peer.get_acl(path)

    def other(name: str) -> Callable[[Peer], None]:
        def play(peer: Peer) -> None:
            if name:
                peer.authenticate(name)
            for path in ("/bobs", "/all", "/amys"):
                peer.read(path)

        return play

    pair.alike(bobs, *map(other, ("amy", "super", "root", "")))


@pytest.mark.parametrize(
    "name", ["", "a/b", "a@R", "a/b@R", "a/b/c", "a/b/c@R", "a@b@R", "@", "/@", "a b", "\u00fc"]
)
def test_which_names_an_acl_may_hold(pair: Pair, name: str) -> None:
    pair.alike(lambda peer: peer.create(f"/name-{name.encode().hex()}", [(31, "sasl", name)]))


def test_addauth_proves_no_sasl_user(pair: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.ask(wire.AUTH, pack_int(0) + pack_string("sasl") + pack_buffer(b"bob"), wire.AUTH_XID)
        peer.hear()

    assert pair.alike(play)[-1] == "Closed"


# -- who has to authenticate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [wire.PING, wire.WHO_AM_I, wire.CLOSE_SESSION, wire.CREATE, 999])
def test_nobody_is_served_without_sasl(demanding: Pair, opcode: int) -> None:
    def play(peer: Peer) -> None:
        peer.ask(opcode)
        peer.hear()

    assert demanding.alike(play) == [(1, False, -124, b""), "Closed"]


def test_with_sasl_they_are(demanding: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.authenticate("bob")
        peer.whoami()
        peer.create("/demanded")
        peer.ask_together((wire.EXISTS, pack_string("/none") + b"\0"), (wire.SYNC, pack_string("/")))

    demanding.alike(play)


def test_what_stands_between_the_tokens_is_not_heard(demanding: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.token(b"")
        peer.whoami()

    def digest(peer: Peer) -> None:
        peer.ask(wire.AUTH, pack_int(0) + pack_string("digest") + pack_buffer(b"a:b"), wire.AUTH_XID)
        peer.whoami()

    assert demanding.alike(play, digest)[-1] == (2, False, -124, b"")


def test_sasl_that_fails_where_it_is_demanded(demanding: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.authenticate("bob", "wrong")
        peer.hear()

    assert demanding.alike(play)[1:] == [(2, False, -124, pack_int(-1)), "Closed"]


def test_another_scheme_may_be_demanded(lenient: Pair) -> None:
    def without(peer: Peer) -> None:
        peer.authenticate("bob")
        peer.whoami()

    def together(peer: Peer) -> None:
        peer.ask_together(
            (wire.AUTH, pack_int(0) + pack_string("digest") + pack_buffer(b"a:b")),
            (wire.EXISTS, pack_string("/none") + b"\0"),
            (wire.SYNC, pack_string("/")),
        )

    answers = lenient.alike(without, together)
    assert (3, False, -124, b"") in answers


def test_clients_whose_sasl_fails_may_be_served(lenient: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.ask(wire.AUTH, pack_int(0) + pack_string("digest") + pack_buffer(b"a:b"), wire.AUTH_XID)
        peer.authenticate("bob", "wrong")
        peer.whoami()
        peer.token(b"")
        peer.token(b"x")
        peer.whoami()

    lenient.alike(play)


# -- Kerberos ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kerberos(etcd_server: EtcdServer, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both with a keytab. This process has tickets of the realm."""
    jaas = tmp_path_factory.mktemp("kerberos") / "jaas.conf"
    jaas.write_text(
        f"""Server {{
        com.sun.security.auth.module.Krb5LoginModule required
        useKeyTab=true
        keyTab="{kdc.server_keytab}"
        storeKey=true
        useTicketCache=false
        principal="{kdc.service}";
        }};"""
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.client_environment().items():
            patch.setenv(name, value)
        with _pair(
            etcd_server,
            "compat-sasl-kerberos",
            jaas,
            {
                "java.security.krb5.conf": str(kdc.configuration),
                "zookeeper.superUser": "root",
                "zookeeper.kerberos.removeHostFromPrincipal": "true",
                "zookeeper.kerberos.removeRealmFromPrincipal": "true",
            },
            sasl_super_users="root",
            kerberos_remove_host="true",
            kerberos_remove_realm="true",
        ) as made:
            yield made


class Ticket:
    """The client's side of GSSAPI, by python-gssapi."""

    def __init__(self, kdc: Kdc, principal: str) -> None:
        gssapi = pytest.importorskip("gssapi")
        kdc.get_ticket(kdc.add(principal, f"{principal.replace('/', '-')}.keytab"), principal)
        self._context = gssapi.SecurityContext(
            name=gssapi.Name("zookeeper@127.0.0.1", gssapi.NameType.hostbased_service),
            usage="initiate",
            flags=gssapi.RequirementFlag.mutual_authentication,
        )

    def open(self, peer: Peer) -> None:
        """Authenticate, up to the server's offer of layers."""
        answer = peer.token(self._context.step())
        assert self._context.step(answer) is None
        offer = peer.token(b"")
        # Both are made with keys of this connection, by another library.
        peer.answers[-2:] = [self._context.unwrap(offer).message]

    def choose(self, peer: Peer, choice: bytes) -> None:
        """Answer the offer."""
        peer.token(self._context.wrap(choice, False).message)


@pytest.mark.parametrize("principal", ["bob", "bob/host", "root"])
def test_a_principal_authenticates(kerberos: Pair, kdc: Kdc, principal: str) -> None:
    def play(peer: Peer) -> None:
        ticket = Ticket(kdc, principal)
        ticket.open(peer)
        ticket.choose(peer, b"\x01\0\0\0")
        peer.whoami()
        peer.create(f"/of-{principal.replace('/', '-')}", [(31, "auth", "")])
        peer.get_acl(f"/of-{principal.replace('/', '-')}")

    answers = kerberos.alike(play)
    assert (3, False, 0, pack_int(-1)) in answers
    assert ("sasl", principal.partition("/")[0]) in answers[2]  # type: ignore[operator]


@pytest.mark.parametrize("choice", [b"\x01\0\0\0amy", b"\x02\0\0\0", b"\x04\0\xff\xff", b"\0\0\0\0", b"\x01"])
def test_the_choice_of_a_layer(kerberos: Pair, kdc: Kdc, choice: bytes) -> None:
    def play(peer: Peer) -> None:
        ticket = Ticket(kdc, "bob")
        ticket.open(peer)
        ticket.choose(peer, choice)
        peer.whoami()

    kerberos.alike(play)


def test_what_is_no_ticket(kerberos: Pair) -> None:
    def play(token: bytes) -> Callable[[Peer], None]:
        def one(peer: Peer) -> None:
            peer.token(token)
            peer.whoami()

        return one

    kerberos.alike(*map(play, (b"", b"garbage", b"\x60\x06\x06\x01\x01", b"\0" * 70_000)))


def test_a_ticket_is_good_once(kerberos: Pair, kdc: Kdc) -> None:
    """Whoever has heard a token cannot use it for a connection of its own."""
    gssapi = pytest.importorskip("gssapi")
    kdc.get_ticket(kdc.add("bob", "bob.keytab"), "bob")
    tokens = [
        gssapi.SecurityContext(
            name=gssapi.Name("zookeeper@127.0.0.1", gssapi.NameType.hostbased_service), usage="initiate"
        ).step()
        for _ in range(2)  # of one for each server
    ]
    used: list[bytes] = []

    def first(peer: Peer) -> None:
        used.append(tokens.pop())
        peer.token(used[-1])
        peer.answers.clear()

    def again(peer: Peer) -> None:
        peer.token(used[-1])

    assert kerberos.alike(first, again) == [(1, False, -115, pack_int(-1))]
