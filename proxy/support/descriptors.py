"""How many files and sockets this process may have open, and for whom they are.

Clients get what is left when the others have their share. So they cannot take the descriptor by which a
connection to etcd is opened again, and an operator or a probe is answered while clients fill up their share.
"""

import resource
from typing import NamedTuple

# etcd, children, snapshots, logs, the takeover by another process: about 30 are open in a proxy without
# clients.
_OWN = 64
#: Connections to the admin port, at most; an eighth of all descriptors.
ADMIN = 128
_PEERS = 256  # likewise, of other proxies
# Fewer clients than this are worth a warning.
_MANY = 1000


class Shares(NamedTuple):
    """How the limit is shared."""

    limit: int
    admin: int  # connections to the admin port
    peers: int  # to the port for other proxies
    clients: int

    @property
    def warning(self) -> str:
        """What is to be said about few descriptors; "" if there are enough."""
        if self.clients >= _MANY:
            return ""
        few = f"this process may have {self.limit} open files: at most {self.clients} clients can connect"
        return f"{few}, since etcd, the admin port and files need the rest: raise LimitNOFILE= or ulimit -n"


def share(limit: int) -> Shares:
    """Share so many descriptors."""
    admin, peers = (min(most, limit // 8) for most in (ADMIN, _PEERS))
    return Shares(limit, admin, peers, max(1, limit - min(_OWN, limit // 2) - admin - peers))


def raised() -> Shares:
    """Raise the limit as far as this process may; what it can then share."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return current()


def current() -> Shares:
    """What this process can share now."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return share(1 << 30 if soft == resource.RLIM_INFINITY else soft)
