"""The order of a client's identities."""

from proxy.state.auth.digest import DIGEST
from proxy.state.auth.listing import listed
from proxy.state.auth.scheme import Identity, Peer, Settings

_IP = Identity("ip", "127.0.0.1")


def _digest(user: str) -> Identity:
    (identity,) = DIGEST.authenticate(user.encode() + b":1", Peer("127.0.0.1"), Settings())
    return identity


def test_they_are_listed_as_by_zookeeper() -> None:
    """As ZooKeeper 3.9.5 answers whoAmI after these auth packets."""
    zed, amy, bob, eve = map(_digest, ("zed", "amy", "bob", "eve"))
    assert listed((_IP, zed, amy, bob, eve)) == (zed, bob, amy, eve, _IP)
    # Zed and Bob share a place.
    assert listed((_IP, bob, amy, zed)) == (bob, zed, amy, _IP)


def test_adding_to_a_list_is_listing_all() -> None:
    identities = tuple(map(_digest, map(str, range(40))))
    one_by_one: tuple[Identity, ...] = ()
    for identity in identities:
        one_by_one = listed((*one_by_one, identity, identity))
    assert one_by_one == listed(identities)
    assert sorted(one_by_one) == sorted(identities)


def test_names_of_any_characters_are_listed() -> None:
    names = [Identity("sasl", name) for name in ("", "\ud800", "\U0001f600", "\xfc")]
    assert set(listed(tuple(names))) == set(names)
