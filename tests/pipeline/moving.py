"""What the moves of `make prove-move` have in common: clients that write by one address, kills, and waits.

Only the whole run has a limit of time: a slow machine makes it slow and nothing else.
"""

import http.client
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.clickhouse import ClickHouseServer, QueryRefused
from lab.servers.link import Link
from lab.servers.process import REPOSITORY, ServerProcess
from proof.torture.host import faketime_library
from tests.clients.clickhouse_tables import Writer, create_table, wait_for_progress
from tests.pipeline.adders import Adder

PREFIX = "/move"
TIMEOUT_MS = 60_000
STANDS_BY = "waiting for `zketcd follow"  # what a zketcd says before the cut-over
_MORE = 5  # creates that show that a client still works


def clock(ahead: int) -> Mapping[str, str]:
    """The environment of a host whose clock is ahead by so many seconds, or behind."""
    library = faketime_library()
    if not library:
        return {}
    return {"LD_PRELOAD": library, "FAKETIME": f"{ahead:+d}", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


class Moving:
    """A move, and its clients."""

    def __init__(self, stack: ExitStack, seconds: float) -> None:
        """`seconds`: of the whole run."""
        self.figures: dict[str, float | int | str] = {"kills": 0}
        self._stack = stack
        self._begun = time.monotonic()
        self._seconds = seconds
        self._balancer = stack.enter_context(Link())
        self._adders: list[Adder] = []
        self._writers: list[Writer] = []

    # -- clients --------------------------------------------------------------------------------------------

    def _clickhouse(self) -> tuple[ClickHouseServer, ClickHouseServer]:
        one, two = (
            # It never continues a session, and waits until its former one has expired.
            ClickHouseServer(self._balancer.port, replica=f"replica-{n}", session_timeout_ms=10_000)
            for n in (1, 2)
        )
        for replica in (one, two):
            replica.join((one, two))
        self._launch(one, two)
        self._serving(one, two)
        create_table(one, "t")
        self._writers = [Writer(number, replica, self._left()) for number, replica in enumerate((one, two))]
        return one, two

    def _kazoo(self) -> KazooClient:
        retry = KazooRetry(max_tries=-1, delay=0.1, backoff=1)
        client = KazooClient(
            self._balancer.address,
            timeout=TIMEOUT_MS / 1000,
            connection_retry=retry,
            command_retry=retry.copy(),
        )
        client.start(self._left())
        self._stack.callback(client.close)
        self._stack.callback(client.stop)
        return client

    def _go_on(self) -> None:
        """Wait until all clients that write do so again."""
        self._created(_MORE)
        wait_for_progress(self._writers, self._left())

    def _created(self, more: int) -> None:
        goals = [(adder, adder.done + more) for adder in self._adders]
        self._wait(lambda: all(adder.done >= goal for adder, goal in goals), "creates are acknowledged")

    def _insert(self, replicas: Sequence[ClickHouseServer]) -> None:
        """Wait until both servers insert again."""
        self._wait(lambda: all(map(restarted, replicas)), "ClickHouse's table uses the server that is there")
        wait_for_progress(self._writers, self._left())

    def _check(self, adder: Adder, reader: KazooClient) -> None:
        found = sorted(reader.retry(reader.get_children, adder.folder))
        expected = [f"{number:08d}" for number in range(adder.done)]
        assert found[: adder.done] == expected, f"{adder.folder}: acknowledged creates are missing"
        assert len(found) <= adder.done + 1  # one more whose acknowledgement was lost at the end
        self.figures[f"{adder.folder}: creates"] = adder.done
        self.figures[f"{adder.folder}: longest wait, s"] = adder.longest_wait

    # -- steps ----------------------------------------------------------------------------------------------

    def _proxy(self, etcd: EtcdServer, ahead: int) -> ZketcdServer:
        """On a host whose clock is so many seconds ahead."""
        return ZketcdServer(
            etcd.endpoint,
            prefix=PREFIX,
            max_session_timeout=TIMEOUT_MS,
            max_client_connections=0,
            variables=clock(ahead),
        )

    def _launch(self, *servers: ServerProcess) -> None:
        for server in servers:
            self._stack.callback(server.close)
            server.launch()

    def _kill(self, victim: ServerProcess, wait: Callable[[ServerProcess], None]) -> None:
        print(f"{time.monotonic() - self._begun:6.0f} s  kill {victim.name}", flush=True)
        victim.kill()
        time.sleep(1)
        victim.launch()
        wait(victim)
        self._go_on()
        self.figures["kills"] = int(self.figures["kills"]) + 1

    def _cut(self) -> float:
        """Take the clients from the servers."""
        self._balancer.lead_to()
        return time.monotonic()

    def _lead_to(self, servers: Sequence[ServerProcess]) -> None:
        self._balancer.lead_to(*(server.port for server in servers))

    def _command(self, *words: str) -> Sequence[str]:
        """Run a command of the pipeline; returns the lines that it prints."""
        print(f"{time.monotonic() - self._begun:6.0f} s  {words[0]} {words[-1]}", flush=True)
        command = [sys.executable, "-m", "zketcd", *words]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert not done.returncode, f"{' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout.splitlines()

    # -- waiting --------------------------------------------------------------------------------------------

    def _left(self) -> float:
        return max(0.0, self._begun + self._seconds - time.monotonic())

    def _wait(self, probe: Callable[[], bool], what: str) -> None:
        wait_until(probe, what, self._left(), interval=0.1)

    def _serving(self, *servers: ServerProcess) -> None:
        for server in servers:
            self._reaches(server, server.serves, "serves")

    def _says(self, server: ServerProcess, text: str) -> None:
        self._reaches(server, lambda: text in server.log_text(), f"says {text!r}")

    def _reaches(self, server: ServerProcess, probe: Callable[[], bool], what: str) -> None:
        self._wait(lambda: probe() or not server.alive, f"{server.name} {what}")
        assert server.alive, f"{server.name} ended:\n{server.log_tail()}"


def restarted(replica: ClickHouseServer) -> bool:
    """Have the table use the server that is there, as docs/migration.md advises for 18.16."""
    try:
        replica.query("SYSTEM RESTART REPLICA t")
    except (QueryRefused, OSError, http.client.HTTPException):
        return False
    return True
