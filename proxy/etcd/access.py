"""How a process reaches etcd: the same for the server, its child processes and tools."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple, Self

from proxy.etcd.client import EtcdClient
from proxy.etcd.tls import Tls
from proxy.options.etcd import DEFAULTS, EtcdAccess


class Access(NamedTuple):
    """Nothing but text."""

    etcd: tuple[str, ...]  # endpoints
    options: EtcdAccess = DEFAULTS

    @classmethod
    def from_json(cls, job: Mapping[str, Any]) -> Self:
        """From the job of a child process, which has other fields too."""
        names = [each.name for each in fields(EtcdAccess) if each.name in job]
        return cls(tuple(job["etcd"]), replace(DEFAULTS, **{name: job[name] for name in names}))

    def as_json(self) -> dict[str, Any]:
        """For a child process."""
        return {"etcd": self.etcd, **asdict(self.options)}

    def tls(self) -> Tls:
        """The certificates in its files. Blocks; raises OSError or ValueError for one that cannot be used."""
        return Tls(self.options.ca, self.options.cert, self.options.key)

    def client(self, tls: Tls | None = None) -> EtcdClient:
        """A client, for the running loop, which reads a file with a password when it needs a token.

        Without `tls` this reads certificates: it blocks, and raises OSError or ValueError.
        """
        options = self.options
        return EtcdClient(
            self.etcd,
            tls=tls or self.tls(),
            user=options.user,
            password=options.password,
            password_file=options.password_file,
            transport=options.transport,
        )
