"""Kerberos compared with real ZooKeeper's. Each test plays the same requests to both servers."""

from collections.abc import Callable, Iterator

import pytest

from lab.oracle.wire import pack_int
from lab.servers import EtcdServer, Kdc
from tests.compat.sasl import Pair, Peer, both_servers

pytestmark = pytest.mark.real


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
        with both_servers(
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
    """A process that has overheard a token cannot use it for a connection of its own."""
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
