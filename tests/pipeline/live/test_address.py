"""Where an ensemble is."""

import pytest

from pipeline.live.address import Identity, identity_of, servers_of


def test_servers_and_identities() -> None:
    assert servers_of("zk://a:1,b, [::1]:3/") == (("a", 1), ("b", 2181), ("::1", 3))
    assert identity_of("digest:me:word") == Identity("digest", b"me:word")


@pytest.mark.parametrize("url", ["zk://", "zk://a:b", "zk://a:65536", "zk://a:0", "zk://a,,b", "zk://a/b"])
def test_what_is_no_server(url: str) -> None:
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        servers_of(url)


@pytest.mark.parametrize("text", ["digest", ":me", ""])
def test_what_is_no_identity(text: str) -> None:
    with pytest.raises(ValueError, match="is not SCHEME:ID"):
        identity_of(text)
