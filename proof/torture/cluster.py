"""The processes: three members of etcd, the proxies, and relays between all of them and the clients.

Hosts are called `clients`, `proxy1`..., and members by their number from 0; between members a relay knows the
dialer by etcd's own id of it. Proxies speak TLS with etcd; observers and operators connect past the
relays, without TLS.
"""

import http.client
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Self

from typing_extensions import override

from lab.servers import EtcdServer, UpgradableServer, free_port
from lab.servers.operator import etcdctl
from lab.servers.relay import Relays, Way
from lab.servers.tls import Authority, Pair
from proof.simulation.proxies import PREFIX
from proof.torture.acts import kill
from proof.torture.host import HostClock, give_disk
from proxy.handover.supervisor import descendants

MEMBERS = 3
CLIENTS = "clients"
TICK_MS = 500
_QUOTA = 96 << 20  # bytes
_SNAPSHOT_REQUESTS = 5_000
_REGISTERED = re.compile(r" registered as ([0-9a-f]+)$", re.MULTILINE)
PROXY_LEASE = 5  # seconds
_DAYS = 30  # that a certificate is good for
_PROXIES = "proxies"  # the name of the one certificate of all proxies
_ADDRESS = "127.0.0.1"
USER, ROOT = "zketcd", "root"
"""etcd's users, while it has authentication. root's password is its name."""


class Member(EtcdServer):
    """One member of etcd. Its own port is plain; the one for proxies asks for TLS."""

    def __init__(self, number: int, quota: int, certificate: Pair, authority: Authority) -> None:
        super().__init__(f"--quota-backend-bytes={quota}")
        self.host = f"member{number}"
        self.tls_port = free_port()
        #: The relay's port by which the others reach this member.
        self.relayed_port = 0
        #: All members as `--initial-cluster` has them.
        self.everybody = ""
        #: etcd's id of it, in hex, once the cluster is up.
        self.id = ""
        #: Whether it joins a cluster that is there.
        self.joins = False
        self._certificate = certificate
        self._authority = authority

    @property
    def peer_url(self) -> str:
        """Where the other members find this one."""
        return f"http://{_ADDRESS}:{self.relayed_port}"

    def command(self) -> Sequence[str]:
        """etcd's command line."""
        replaced = (
            "--name=",
            "--initial-cluster=",
            "--initial-advertise-peer-urls=",
            "--listen-client-urls=",
        )
        return [
            *(argument for argument in super().command() if not argument.startswith(replaced)),
            f"--name={self.host}",
            f"--initial-cluster={self.everybody}",
            f"--initial-cluster-state={'existing' if self.joins else 'new'}",
            f"--initial-advertise-peer-urls={self.peer_url}",
            f"--listen-client-urls={self.endpoint},https://{_ADDRESS}:{self.tls_port}",
            f"--cert-file={self._certificate.cert}",
            f"--key-file={self._certificate.key}",
            f"--trusted-ca-file={self._authority.ca}",
            "--client-cert-auth",
        ]

    def is_leader(self) -> bool:
        """Whether this member leads the cluster now; blocks for a moment."""
        try:
            return self.alive and self.metric("etcd_server_is_leader") == 1
        except (OSError, http.client.HTTPException):
            return False


class TorturedProxy(UpgradableServer):
    """A proxy with a clock of its own."""

    def __init__(
        self,
        name: str,
        endpoints: str,
        authority: Authority,
        client: Pair,
        password_file: Path,
        variables: Mapping[str, str],
    ) -> None:
        super().__init__(
            endpoints,
            variables=variables,
            prefix=PREFIX,
            etcd_ca=authority.ca,
            etcd_cert=client.cert,
            etcd_key=client.key,
            etcd_user=USER,
            etcd_password_file=password_file,
            tick_time=TICK_MS,
            max_client_connections=0,
            max_session_timeout=40_000,
            snapshot_log_requests=_SNAPSHOT_REQUESTS,
            proxy_lease=PROXY_LEASE,
            peer_listen=f"{_ADDRESS}:{free_port()}",
        )
        self.host = name
        self._lives: list[int] = []  # where in the log each begins
        self.clock = HostClock(self.folder)

    def environment(self) -> Mapping[str, str]:
        """With the date of its own."""
        return {**super().environment(), **self.clock.environment()}

    def ended_by_itself(self) -> int | None:
        """The exit status, if the process has ended and was not killed by us."""
        return None if self._process is None else self._process.poll()

    def whole_log(self) -> str:
        """The log of all of its lives."""
        return self.log_path.read_text(errors="replace")

    @override
    def launch(self) -> None:
        super().launch()
        self._lives.append(self._log_start)

    def successors(self, incarnation: str) -> list[str]:
        """The later incarnations of the process that had this one, or of one that took over from it."""
        log = self.log_path.read_bytes()
        return [
            name
            for start, end in pairwise([*self._lives, len(log)])
            for name in later_incarnations(log[start:end].decode(errors="replace"), incarnation)
        ]

    def messages_from_now(self) -> Callable[[], str]:
        """What it logs from now on, by any of its processes."""
        start = self.log_path.stat().st_size

        def read() -> str:
            with self.log_path.open("rb") as log:
                log.seek(start)
                return log.read().decode(errors="replace")

        return read

    def heirs(self) -> list[int]:
        """The processes that are about to take over from the one that serves, or just have."""
        command = _command_line(self.serving or self.pid)
        return [pid for pid in descendants(self.serving or self.pid) if _command_line(pid) == command]


def _command_line(pid: int) -> bytes:
    """b"" if the process has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def later_incarnations(log: str, incarnation: str) -> list[str]:
    """What a proxy has registered as behind this incarnation; nothing if it never was that."""
    names = _REGISTERED.findall(log)
    return names[names.index(incarnation) + 1 :] if incarnation in names else []


def write_password(file: Path, password: str) -> None:
    """As Kubernetes does it: another file gets the name."""
    fresh = file.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(f"{password}\n")
    fresh.replace(file)


def initial_cluster(members: Iterable[Member]) -> str:
    """As etcd's option of this name."""
    return ",".join(f"{member.host}={member.peer_url}" for member in members)


class Cluster:
    """All servers and relays. A `with` block starts them, and ends them in the opposite order."""

    _stack: ExitStack

    def __init__(
        self,
        proxies: int,
        *,
        variables: Mapping[str, str] | None = None,
        small_disks: bool = False,
        quota: int = _QUOTA,
    ) -> None:
        """`variables`: more variables in the environment of each proxy. `quota`: etcd's, in bytes.

        `small_disks`: each member of etcd has a small file system of its own, which only root may mount.
        """
        self._count = proxies
        self._variables = variables or {}
        self.members: list[Member] = []
        self.proxies: list[TorturedProxy] = []
        #: Where clients reach each proxy.
        self.ports: dict[str, int] = {}
        self._guests: list[Member] = []
        self._guest_count = 0  # of all that have come
        self._small_disks = small_disks
        self._quota = quota

    # -- start -----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zketcd-torture-")))
        self.relays = stack.enter_context(Relays())
        self.authority = Authority(folder)
        self.password_file = folder / "etcd-password"
        write_password(self.password_file, USER)
        client = self._certificate(_PROXIES)
        for number in range(MEMBERS):
            member = self._new_member(number)
            self.members.append(member)
            stack.callback(member.close)
            if self._small_disks:
                stack.callback(give_disk(member.data_dir))
                stack.callback(kill, member)  # before that
        for member in self.members:
            member.everybody = initial_cluster(self.members)
            member.launch()  # none serves before there is a quorum
        for member in self.members:
            member.wait_until_serving()
        self.learn_members(self.members[0])
        for number in range(1, self._count + 1):
            name = f"proxy{number}"
            ports = [self.relays.listen(name, member.host, member.tls_port) for member in self.members]
            turned = ports[number % MEMBERS :] + ports[: number % MEMBERS]
            endpoints = ",".join(f"https://{_ADDRESS}:{port}" for port in turned)
            proxy = TorturedProxy(
                name, endpoints, self.authority, client, self.password_file, self._variables
            )
            self.proxies.append(proxy)
            stack.callback(proxy.close)
            proxy.launch()
            self.ports[name] = self.relays.listen(CLIENTS, name, proxy.port)
        for proxy in self.proxies:
            proxy.wait_until_serving()

    def _new_member(self, number: int) -> Member:
        member = Member(number, self._quota, self._certificate(f"member{number}"), self.authority)
        member.relayed_port = self.relays.listen(None, member.host, member.peer_port)
        return member

    @contextmanager
    def another_member(self) -> Iterator[Member]:
        """A member that proxies do not know, for some time; it does not run yet."""
        self._guest_count += 1
        guest = self._new_member(MEMBERS + self._guest_count - 1)
        self._guests.append(guest)
        try:
            yield guest
        finally:
            self._guests.remove(guest)
            guest.close()

    def learn_members(self, asked: Member) -> None:
        """Ask one for etcd's members: their ids, and what a new one has to know. Raises RuntimeError."""
        listed = json.loads(etcdctl(asked, "member", "list", "--write-out=json"))
        ids = {each["peerURLs"][0]: f"{each['ID']:x}" for each in listed["members"]}
        everybody = [member for member in self._everybody if member.peer_url in ids]
        for member in everybody:
            member.id = ids[member.peer_url]
            member.everybody = initial_cluster(everybody)

    @property
    def _everybody(self) -> list[Member]:
        return [*self.members, *self._guests]

    # -- ways ------------------------------------------------------------------------------------------------

    def between(self, proxy: TorturedProxy, members: Sequence[Member]) -> tuple[list[Way], list[Way]]:
        """The ways from a proxy to members, and back."""
        there = [(proxy.host, member.host) for member in members]
        return there, [(b, a) for a, b in there]

    def peers(self, member: Member, others: Sequence[Member]) -> tuple[list[Way], list[Way]]:
        """The ways from a member to others, and back: over connections that either has opened."""
        there = [way for other in others for way in ((member.id, other.host), (member.host, other.id))]
        return there, [(b, a) for a, b in there]

    # -- certificates ----------------------------------------------------------------------------------------

    def issue(self, *, servers_end: datetime | None = None, proxies_end: datetime | None = None) -> None:
        """New certificates for all, which each side reads for its next connection; None: for long."""
        for number in range(MEMBERS):
            self._certificate(f"member{number}", servers_end)
        self._certificate(_PROXIES, proxies_end)

    def _certificate(self, name: str, end: datetime | None = None) -> Pair:
        far = datetime.now(UTC) + timedelta(days=_DAYS)
        leaf = self.authority.authority.issue_cert(_ADDRESS, not_after=end or far)
        chain = b"".join(pem.bytes() for pem in leaf.cert_chain_pems)
        return self.authority.write(name, chain, leaf.private_key_pem.bytes())

    # -- etcd's operator -------------------------------------------------------------------------------------

    def leader(self) -> Member | None:
        """The member that leads; blocks for a moment."""
        return next((member for member in self._everybody if member.is_leader()), None)
