"""SASL compared with real ZooKeeper's: DIGEST-MD5, Kerberos, their identities, clients that must have one.

Each test plays the same requests to both servers. All answers must be equal, byte by byte, but for
nonces and what depends on them.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.client import Client
from lab.oracle import wire
from lab.oracle.requests import AddAuth, Exists, Payload, Sync, encode_body
from lab.oracle.wire import pack_int
from lab.servers import EtcdServer
from lab.servers.digest_md5 import respond
from tests.compat.sasl import PASSWORDS, Pair, Peer, both_servers

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


@pytest.fixture(scope="module")
def jaas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sasl") / "jaas.conf"
    path.write_text(_JAAS)
    return path


def _served(prefix: str, properties: dict[str, str], **options: object) -> Callable[..., Iterator[Pair]]:
    """A fixture: ZooKeeper with these properties and zketcd with these options, for the whole module."""

    @pytest.fixture(scope="module")
    def made(etcd_server: EtcdServer, jaas: Path) -> Iterator[Pair]:
        with both_servers(etcd_server, prefix, jaas, properties, **options) as pair:
            yield pair

    return made


# Both with users and a super user.
pair = _served("compat-sasl", {"zookeeper.superUser": "root"}, sasl_super_users="root")
# Both serve no client without SASL.
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


@pytest.mark.parametrize("name", sorted(PASSWORDS))
def test_a_user_authenticates(pair: Pair, name: str) -> None:
    def play(peer: Peer) -> None:
        peer.whoami()
        peer.authenticate(name)
        peer.whoami()

    answers = pair.alike(play)
    assert [part for part in answers if isinstance(part, tuple)][-1][2:] == (0, pack_int(40) + b"rspauth")
    assert ("sasl", name) in answers[-1]  # type: ignore[operator]


@pytest.mark.parametrize("name", sorted(PASSWORDS))
def test_a_command_authenticates(pair: Pair, name: str) -> None:
    for port in pair.ports:
        Client(("127.0.0.1", port), [], user=(name, PASSWORDS[name])).close()


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
        peer.token(respond(challenge, "bob", PASSWORDS["bob"]))

    def null(peer: Peer) -> None:
        peer.token(None)

    def interleaved(peer: Peer) -> None:
        challenge = peer.token(b"")
        peer.whoami()
        peer.create("/between")
        peer.token(respond(challenge, "bob", PASSWORDS["bob"]))
        peer.whoami()

    pair.alike(twice, early, null, interleaved)


def test_a_challenge_is_good_for_one_connection(pair: Pair) -> None:
    challenges: list[bytes] = []

    def first(peer: Peer) -> None:
        challenges.append(peer.token(b""))

    def second(peer: Peer) -> None:
        peer.token(b"")
        peer.token(respond(challenges[-1], "bob", PASSWORDS["bob"]))

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
        peer.addauth("sasl", b"bob")
        peer.hear()

    assert pair.alike(play)[-1] == "Closed"


# -- who has to authenticate ---------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [wire.PING, wire.WHO_AM_I, wire.CLOSE_SESSION, wire.CREATE, 999])
def test_nobody_is_served_without_sasl(demanding: Pair, opcode: int) -> None:
    def play(peer: Peer) -> None:
        peer.ask(Payload(pack_int(1) + pack_int(opcode)))
        peer.hear()

    assert demanding.alike(play) == [(1, False, -124, b""), "Closed"]


def test_with_sasl_they_are(demanding: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.authenticate("bob")
        peer.whoami()
        peer.create("/demanded")
        peer.ask(Exists("/none"), Sync("/"))

    demanding.alike(play)


def test_what_stands_between_the_tokens_is_not_heard(demanding: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.token(b"")
        peer.whoami()

    def digest(peer: Peer) -> None:
        peer.addauth("digest", b"a:b")
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
        auth = pack_int(1) + pack_int(wire.AUTH) + encode_body(AddAuth("digest", b"a:b"))
        peer.ask(Payload(auth), Exists("/none"), Sync("/"))

    answers = lenient.alike(without, together)
    assert (3, False, -124, b"") in answers


def test_clients_whose_sasl_fails_may_be_served(lenient: Pair) -> None:
    def play(peer: Peer) -> None:
        peer.addauth("digest", b"a:b")
        peer.authenticate("bob", "wrong")
        peer.whoami()
        peer.token(b"")
        peer.token(b"x")
        peer.whoami()

    lenient.alike(play)
