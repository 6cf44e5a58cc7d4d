"""whoAmI: schemes and user names."""

from codec.jute import INT, pack_string
from proxy.state.auth.digest import digest_identity
from proxy.state.auth.scheme import Identity
from proxy.state.ops.who_am_i import who_am_i
from tests.proxy.state.ops.room import room
from tests.proxy.state.ops.test_reads import Client


def test_identities() -> None:
    world = room()
    client = Client(
        Identity("ip", "::1"),
        digest_identity(b"user:word"),
        digest_identity(b":"),
        Identity("super", "user:x"),
    )
    shown = [("ip", "::1"), ("digest", "user"), ("digest", ""), ("super", "")]
    assert who_am_i(world.reading, client, b"head", 4) == INT.pack(4) + b"".join(
        pack_string(text) for pair in shown for text in pair
    )
