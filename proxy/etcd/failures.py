"""What etcd's error messages mean: refused for certain, or outcome unknown.

Pure. Messages are compared, not gRPC codes: one code covers both sorts (ResourceExhausted is "too many
requests" as well as "database space exceeded"), while the texts are part of etcd's API and the same in 3.4
and 3.5 (api/v3rpc/rpctypes/error.go). Whatever is not on the list is unknown.
"""

from proxy.etcd.model import EtcdError, EtcdNoSpace, EtcdRefused, EtcdUnknown, RefusalKind

# Seen when the token is missing, has run out, or is from before a change of rights. All three are found out
# before the request is applied, so it may be sent again with a new token.
STALE_TOKEN = frozenset(
    {
        "etcdserver: invalid auth token",
        "etcdserver: revision of auth store is old",
        "etcdserver: user name is empty",
    }
)
AUTH_NOT_ENABLED = "etcdserver: authentication is not enabled"

_NO_SPACE = "etcdserver: mvcc: database space exceeded"
_REFUSALS = {
    "etcdserver: request is too large": RefusalKind.TOO_LARGE,
    "etcdserver: too many operations in txn request": RefusalKind.TOO_MANY_OPS,
    "etcdserver: requested lease not found": RefusalKind.LEASE_NOT_FOUND,
    "etcdserver: lease already exists": RefusalKind.LEASE_EXISTS,
    "etcdserver: permission denied": RefusalKind.PERMISSION,
    "etcdserver: authentication failed, invalid user ID or password": RefusalKind.PERMISSION,
    "etcdserver: mvcc: required revision has been compacted": RefusalKind.COMPACTED,
    "etcdserver: mvcc: required revision is a future revision": RefusalKind.INVALID,
    "etcdserver: key is not provided": RefusalKind.INVALID,
    "etcdserver: duplicate key given in txn request": RefusalKind.INVALID,
    "etcdserver: too large lease TTL": RefusalKind.INVALID,
    "etcdserver: corrupt cluster": RefusalKind.CORRUPT,
    AUTH_NOT_ENABLED: RefusalKind.INVALID,
    **dict.fromkeys(STALE_TOKEN, RefusalKind.PERMISSION),
}
# The limit of etcd's gRPC server, 512 KiB above etcd's own; the request never gets to etcd. (Ours, by which
# an answer could get lost, is switched off; it would say "CLIENT: Received ...".)
_GRPC_TOO_LARGE = "grpc: received message larger than max"


def error_for(details: str) -> EtcdError:
    """The error that a failed request's message stands for."""
    kind = _REFUSALS.get(details)
    if kind is not None:
        return EtcdRefused(kind, details)
    if details.startswith(_GRPC_TOO_LARGE):
        return EtcdRefused(RefusalKind.TOO_LARGE, details)
    if details == _NO_SPACE:
        return EtcdNoSpace(details)
    return EtcdUnknown(details)


def for_operator(error: Exception, prefix: str) -> str:
    """An error in one line for an operator: etcd's own words do not say what access it denies."""
    if isinstance(error, EtcdRefused) and error.kind is RefusalKind.PERMISSION:
        return (
            f"etcd denies access to the keys of {prefix}: {error}"
            " (--etcd-user, --etcd-password or --etcd-password-file, --etcd-cert)"
        )
    return str(error)
