"""Where an ensemble is."""

from pipeline.live.address import Identity, identity_of, servers_of


def test_servers_and_identities() -> None:
    assert servers_of("zk://a:1,b, [::1]:3/") == (("a", 1), ("b", 2181), ("::1", 3))
    assert identity_of("digest:me:word") == Identity("digest", b"me:word")
