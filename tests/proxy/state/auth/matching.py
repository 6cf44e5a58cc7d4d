"""Whether an entry of an ACL means an identity, by the keys that a scheme gives them."""

from proxy.state.auth.scheme import Scheme


def matches(scheme: Scheme, identity: str, entry: str) -> bool:
    """Whether the entry means the identity."""
    return not set(scheme.keys_of_identity(identity)).isdisjoint(scheme.keys_of_entry(entry))
