"""whoAmI: the identities of the caller's connection (AuthUtil.getClientInfos)."""

from codec.jute import INT, pack_string
from proxy.state.auth.scheme import Identity
from proxy.state.auth.schemes import SCHEMES
from proxy.state.operation import Client, Reading


def who_am_i(_reading: Reading, client: Client, _frame: bytes, _position: int) -> bytes:
    """Scheme and user name of each; the request has no body."""
    parts = [INT.pack(len(client.identities))]
    for identity in client.identities:
        parts += (pack_string(identity.scheme), pack_string(_user(identity)))
    return b"".join(parts)


def _user(identity: Identity) -> str:
    """The user's name by the identity's scheme; `super` is not a scheme, and has no name."""
    scheme = SCHEMES.get(identity.scheme)
    return "" if scheme is None else scheme.user_name(identity.id)
