"""whoAmI: the identities of the caller's connection (AuthUtil.getClientInfos)."""

from codec.jute import INT, pack_string
from proxy.state.auth.schemes import user_of
from proxy.state.operation import Client, Reading


def who_am_i(_reading: Reading, client: Client, _frame: bytes, _position: int) -> bytes:
    """Scheme and user name of each; the request has no body."""
    parts = [INT.pack(len(client.identities))]
    for identity in client.identities:
        parts += (pack_string(identity.scheme), pack_string(user_of(identity)))
    return b"".join(parts)
