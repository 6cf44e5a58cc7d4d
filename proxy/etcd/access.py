"""How a process reaches etcd: the same for the server, its child processes and tools."""

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from proxy.etcd.client import EtcdClient
from proxy.etcd.status_poller import ReadMetrics
from proxy.etcd.tls import Tls
from proxy.options.etcd import DEFAULTS, EtcdAccess

if TYPE_CHECKING:
    from proxy.etcd.metrics import Metrics


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

    def metrics_reader(self, tls: Tls) -> ReadMetrics:
        """Reads the metrics of the member in use (EtcdClient.endpoint)."""
        scheme = "https" if self.etcd[0].startswith("https://") else "http"

        def read(endpoint: str) -> "Metrics | None":
            from proxy.etcd import metrics  # a start does not wait for an HTTP client

            return metrics.read(endpoint if "://" in endpoint else f"{scheme}://{endpoint}", tls)

        return lambda endpoint: asyncio.to_thread(read, endpoint)

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
