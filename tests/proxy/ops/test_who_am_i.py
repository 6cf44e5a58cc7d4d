"""whoAmI: schemes and user names."""

from codec.jute import INT, pack_string
from proxy.auth.digest import digest_identity
from proxy.auth.scheme import Identity
from proxy.operation import Reading
from proxy.ops.who_am_i import who_am_i
from tests.proxy.ops.room import room
from tests.proxy.ops.test_reads import Client


def test_identities() -> None:
    proxy = room()
    client = Client(
        Identity("ip", "::1"),
        digest_identity(b"user:word"),
        digest_identity(b":"),
        Identity("super", "user:x"),
    )
    shown = [("ip", "::1"), ("digest", "user"), ("digest", ""), ("super", "")]
    assert who_am_i(Reading(proxy.mirror.tree, proxy.watches), client, b"head", 4) == INT.pack(4) + b"".join(
        pack_string(text) for pair in shown for text in pair
    )
