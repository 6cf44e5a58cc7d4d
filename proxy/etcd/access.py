"""How a process reaches etcd: the same for the server, its child processes and tools."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, NamedTuple, Self

from proxy.etcd.client import EtcdClient
from proxy.etcd.tls import Tls
from proxy.etcd.transport import HTTP2
from proxy.etcd_options import EtcdAccess, check


class Access(NamedTuple):
    """Nothing but text, so that a child process can get it as JSON."""

    etcd: tuple[str, ...]
    ca: str = ""
    cert: str = ""
    key: str = ""
    user: str = ""
    password: str = ""
    password_file: str = ""
    transport: str = HTTP2

    @classmethod
    def given(cls, endpoints: tuple[str, ...], options: EtcdAccess, transport: str) -> Self:
        """As the options have it."""
        return cls(endpoints, **asdict(options), transport=transport)

    @classmethod
    def ordered(cls, order: Mapping[str, Any]) -> Self:
        """From the JSON order of a child process, which has other fields too."""
        return cls(**{name: order[name] for name in cls._fields if name in order})

    def check(self) -> None:
        """Raises ValueError for options that cannot be used; blocks."""
        options = {each.name: getattr(self, each.name) for each in fields(EtcdAccess)}
        check(EtcdAccess(**options), self.etcd)

    def tls(self) -> Tls:
        """The certificates in its files. Blocks; raises OSError or ValueError for one that cannot be used."""
        return Tls(self.ca, self.cert, self.key)

    def client(self, tls: Tls | None = None) -> EtcdClient:
        """A client, for the running loop, which reads a file with a password when it needs a token.

        Without `tls` this reads certificates: it blocks, and raises OSError or ValueError.
        """
        return EtcdClient(
            self.etcd,
            tls=tls or self.tls(),
            user=self.user,
            password=self.password,
            password_file=self.password_file,
            transport=self.transport,
        )
