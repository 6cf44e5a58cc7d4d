"""Three real ZooKeepers that serve together, with relays between all of them and the clients.

A follower opens the connection for requests to its leader, and of two servers the one with the higher id
that for elections: each server has a relay's port of its own for each other one, so a relay knows both ends.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from typing_extensions import override

from lab.client.blocking import NO_NODE, Client, Disconnected, Refused, get
from lab.servers import ZooKeeperServer, free_port
from lab.servers.four_letter import four_letter_word
from lab.servers.relay import Relays, Way
from lab.servers.together import Together
from proof.torture.acts import kill
from proof.torture.cluster import CLIENTS, TICK_MS
from proof.torture.host import give_disk

SIZE = 3
_MAX_SESSION_MS = 40_000
_SYNC_LIMIT = 5  # ticks
_SETTINGS = {"initLimit": "10", "syncLimit": str(_SYNC_LIMIT)}  # as ZooKeeper's own zoo_sample.cfg
SYNC_MS = _SYNC_LIMIT * TICK_MS
_JAVA = ("-Xmx256m",)
# A new leader listens a moment after its followers know of it. They try five times, 100 ms apart, but a relay
# would have taken their connection and broken it.
_LEARNER_TRIES = 0.5
_ADDRESS = "127.0.0.1"
_PATIENCE = 1.0  # seconds for an answer to a four-letter word


class Server(ZooKeeperServer):
    """One server of the ensemble."""

    def __init__(self, number: int, servers: Mapping[str, str], port: int) -> None:
        super().__init__(
            tick_time=TICK_MS,
            max_client_connections=0,
            max_session_timeout=_MAX_SESSION_MS,
            settings={**_SETTINGS, **servers},
            java_options=_JAVA,
            port=port,
        )
        self.host = f"server{number}"
        self.number = number

    def begin_data(self) -> None:
        """Say which server's the data are."""
        self.data_dir.mkdir(exist_ok=True)
        (self.data_dir / "myid").write_text(str(self.number))

    def figure(self, word: str, name: str) -> str:
        """What `srvr` or `mntr` tells by this name; "" if the server does not answer."""
        if not self.alive:
            return ""
        try:
            told = four_letter_word(self.port, word, _PATIENCE)
        except OSError:
            return ""
        found = re.search(rf"^{name}:?\s+(\S+)$", told, re.MULTILINE)
        return found[1] if found else ""


class Ensemble(Together):
    """All of it."""

    def __init__(self, *, small_disks: bool = False) -> None:
        """`small_disks`: each server has a small file system of its own, which only root may mount."""
        self._small_disks = small_disks
        self.servers: list[Server] = []
        #: Where clients reach each server.
        self.ports: dict[str, int] = {}

    @override
    def _start(self, stack: ExitStack) -> None:
        self.relays = stack.enter_context(Relays())
        numbers = range(1, SIZE + 1)
        ports = {number: (free_port(), free_port()) for number in numbers}
        for number in numbers:
            addresses = {f"server.{other}": self._address(number, other, *ports[other]) for other in numbers}
            server = Server(number, addresses, free_port())
            stack.callback(server.close)
            self.servers.append(server)
            if self._small_disks:
                stack.callback(give_disk(server.data_dir))
                stack.callback(kill, server)  # before that
            server.begin_data()
            self.ports[server.host] = self.relays.listen(CLIENTS, server.host, server.port)
        for server in self.servers:
            server.launch()  # none serves before there is a quorum
        for server in self.servers:
            server.wait_until_serving()

    def _address(self, number: int, other: int, quorum: int, election: int) -> str:
        """Where a server reaches another one: a relay's ports; its own ones where it is itself."""
        if number != other:
            dialer, target = f"server{number}", f"server{other}"
            quorum = self.relays.listen(dialer, target, quorum, patience=_LEARNER_TRIES)
            election = self.relays.listen(dialer, target, election, election=True)
        return f"{_ADDRESS}:{quorum}:{election}"

    def leader(self) -> Server | None:
        """The server that leads; blocks for a moment."""
        return next((server for server in self.servers if server.figure("srvr", "Mode") == "leader"), None)

    def between(self, server: Server, others: Sequence[Server]) -> tuple[list[Way], list[Way]]:
        """The ways from a server to others, and back."""
        there = [(server.host, other.host) for other in others]
        return there, [(b, a) for a, b in there]

    def sessions(self) -> str:
        """How many sessions there are; "" if no server knows."""
        leader = self.leader()
        return leader.figure("mntr", "zk_global_sessions") if leader else ""


def tree_of(port: int, roots: Sequence[str]) -> Mapping[str, bytes | None] | None:
    """Data by path of everything below these nodes; None if the connection was lost on the way."""
    found: dict[str, bytes | None] = {}
    try:
        with Client(port) as client:
            client.sync()
            for root in roots:
                _walk(client, root, found)
            client.close()
    except (Disconnected, OSError):
        return None
    return found


def _walk(client: Client, path: str, found: dict[str, bytes | None]) -> None:
    try:
        found[path] = client.call(get(path)).data
        names, _ = client.children(path)
    except Refused as refused:
        if refused.code != NO_NODE:
            raise
        return
    for name in names:
        _walk(client, f"{path}/{name}", found)


def snapshots_of(folder: Path) -> int:
    """How many snapshots a server's data directory has."""
    return sum(1 for _ in folder.glob("version-2/snapshot.*"))
