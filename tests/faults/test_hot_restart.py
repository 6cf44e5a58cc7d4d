"""`zketcd upgrade` of a process: clients that do not read, or come meanwhile; when no process takes over.

That clients notice nothing, also if the new process fails: proof/simulation ("hot restart"), proof/torture.
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from typing_extensions import override

from codec import client as zk
from lab.client.blocking import EPHEMERAL, Client
from lab.oracle.wire import Connection
from lab.servers import EtcdServer, UpgradableServer, free_port, wait_until
from lab.servers.process import lives
from lab.servers.with_prelude import ServerWithPrelude
from proxy.handover import supervisor
from proxy.state.auth.digest import digest_identity
from tests.faults import failing_takeover


class Upgradable(UpgradableServer):
    """A zketcd whose successors can fail."""

    def __init__(self, etcd: str, prefix: str, folder: Path) -> None:
        self.file = folder / "zketcd.toml"
        self._etcd = etcd
        self.serve_prefix(prefix)
        super().__init__(None, config=self.file)
        self._die_at = folder / "die-at"
        self.reached = folder / "reached"  # while a process is `held`

    def serve_prefix(self, prefix: str, etcd: str = "") -> None:
        """Change the configuration."""
        self.file.write_text(f'[zketcd]\nprefix = "{prefix}"\netcd = "{etcd or self._etcd}"\n')

    @override
    def command(self) -> Sequence[str]:
        interpreter, _, _, *options = super().command()
        return [interpreter, "-m", failing_takeover.__name__, *options]

    @override
    def environment(self) -> Mapping[str, str]:
        return {**super().environment(), "DIE_AT": str(self._die_at)}

    @override
    def upgrade(self, die_at: str = "") -> str:
        """Let a new process take over, which ends before a step; returns what the command prints."""
        self._die_at.write_text(die_at)
        return super().upgrade()


@pytest.fixture
def server(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path) -> Iterator[Upgradable]:
    with Upgradable(etcd_server.endpoint, etcd_prefix, tmp_path) as made:
        yield made


def test_a_connection_ends_when_the_process_that_serves_closes_it(server: Upgradable) -> None:
    """No socket stays open in another process, however often it was passed on."""
    with Client(server.port) as client:
        for _ in range(2):
            server.upgrade()
        client.call(zk.close())
        client.until_closed()


def test_the_first_process_leads_to_the_one_that_serves(server: Upgradable) -> None:
    """The first process stays as a small program, and a service file or a script knows only its id."""
    serving = set()
    for _ in range(3):
        server.serving = 0  # ask by the id of the first process
        assert server.upgrade() == f"process {server.serving} has taken over\n"
        serving.add(server.serving)
    assert len(serving) == 3


class Ended(ServerWithPrelude, UpgradableServer):
    """A zketcd that gets a signal at a moment of its end: `prelude` says which."""


_AS_IT_HANDS_OVER = """
import os, signal
from proxy.handover.sender import Sender
pass_clients = Sender._pass_clients
def passing(self, channel):
    if not os.environ.get("_SENT"):
        os.environ["_SENT"] = "1"
        os.kill(os.getpid(), signal.SIGTERM)
    return pass_clients(self, channel)
Sender._pass_clients = passing
"""
_BEFORE_IT_PASSES_ON = """
import os, signal
from proxy.handover import supervisor
pass_on_to = supervisor.pass_on_to
def passing_on_to(*arguments):
    os.kill(os.getpid(), signal.SIGTERM)
    pass_on_to(*arguments)
supervisor.pass_on_to = passing_on_to
"""
_AS_IT_STOPS = """
import os, signal
from proxy.server import Server
stop = Server.stop
async def stopping(self):
    os.kill(os.getpid(), signal.SIGTERM)
    await stop(self)
Server.stop = stopping
"""
_BEHIND_ITS_LOOP = """
import os, signal
from proxy.support import logs
logs.finish = lambda: os.kill(os.getpid(), signal.SIGTERM)
"""
# Another thread takes it, and Python's handlers run no more: the process is within execv().
_TO_ANOTHER_THREAD = """
import os, signal, threading
execv = os.execv
def take():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    signal.raise_signal(signal.SIGTERM)
def executing(*arguments):
    signal.signal(signal.SIGTERM, lambda *_: None)
    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    execv(*arguments)
os.execv = executing
"""


@pytest.mark.parametrize(
    "prelude", [_BEFORE_IT_PASSES_ON, _AS_IT_STOPS, _BEHIND_ITS_LOOP, _TO_ANOTHER_THREAD]
)
def test_a_signal_for_the_first_process_as_it_hands_over_is_passed_on(
    etcd_server: EtcdServer, etcd_prefix: str, prelude: str
) -> None:
    """It was lost, or ended the first process alone: nothing could stop the one that served."""
    server = Ended(etcd_server.endpoint, prefix=etcd_prefix)
    server.prelude = prelude
    with server:
        server.upgrade()
        assert server.wait() == 0
        assert "draining" in server.log_text()


@pytest.mark.parametrize("signum", ["SIGUSR2", "SIGHUP"])
@pytest.mark.parametrize(
    "prelude", [_AS_IT_HANDS_OVER, _BEFORE_IT_PASSES_ON, _AS_IT_STOPS, _BEHIND_ITS_LOOP, _TO_ANOTHER_THREAD]
)
def test_a_request_for_another_upgrade_as_a_process_hands_over_is_not_lost(
    etcd_server: EtcdServer, etcd_prefix: str, prelude: str, signum: str
) -> None:
    """The configuration that it was sent for was not read."""
    server = Ended(etcd_server.endpoint, prefix=etcd_prefix)
    server.prelude = prelude.replace("SIGTERM", signum)
    with server:
        server.upgrade()
        wait_until(lambda: server.times_ready >= 3, "there is another upgrade")


def test_the_first_process_passes_on_the_signal_for_the_log_level(server: Upgradable) -> None:
    """It ended the small program, and so the service."""
    server.upgrade()
    command = Path(f"/proc/{server.pid}/cmdline")
    wait_until(lambda: supervisor.__name__ in command.read_text(), "the first process is another program")
    os.kill(server.pid, signal.SIGUSR1)
    wait_until(lambda: "the log level is DEBUG now" in server.log_text(), "the one that serves has heard it")


def test_an_id_that_serves_no_longer_names_the_process_that_does(server: Upgradable) -> None:
    server.upgrade()
    second = server.serving
    server.upgrade()
    third = server.serving
    server.serving = second
    wait_until(lambda: not lives(second), "the second process has ended")
    assert f"process {second} is no zketcd that serves clients: " in (said := server.upgrade())
    assert f"{third}: --listen 127.0.0.1:{server.port} " in said


def test_clients_that_come_meanwhile_wait_and_are_served(server: Upgradable) -> None:
    with ThreadPoolExecutor() as pool:
        upgrade = pool.submit(server.upgrade, "listeners held")
        wait_until(server.reached.exists, "no process accepts clients")
        with closing(Connection(server.port)) as client:
            server.reached.unlink()
            client.connect()
        assert "has taken over" in upgrade.result()


def test_a_process_that_would_serve_another_tree_does_not_take_over(
    server: Upgradable, etcd_prefix: str
) -> None:
    server.serve_prefix(etcd_prefix + "/other")
    with Client(server.port) as client:
        assert f"--prefix is {etcd_prefix}/other now, and was {etcd_prefix}: restart" in server.upgrade()
        assert client.stat("/") is not None


def test_rights_that_the_new_options_do_not_give_end(server: Upgradable) -> None:
    """A super user whose password was changed kept all rights for as long as its connection lived."""
    options = server.file.read_text()

    def upgrade(password: bytes) -> None:
        server.file.write_text(f'{options}super-digest = "{digest_identity(password).id}"\n')
        assert "has taken over" in server.upgrade()

    upgrade(b"super:old")
    with Client(server.port) as boss, Client(server.port) as other:
        boss.prove("digest", b"super:old")
        other.prove("digest", b"bob:old")
        upgrade(b"super:old")
        assert boss.stat("/") is not None
        upgrade(b"super:new")
        boss.until_closed()
        assert other.stat("/") is not None


def test_a_wrong_configuration_is_no_upgrade_and_the_reason_is_in_the_log(server: Upgradable) -> None:
    server.file.write_text("[zketcd]\nprefiks = 1\n")
    assert "no upgrade: the new process did not start: the log says why" in server.upgrade()
    assert "unrecognized arguments: --prefiks" in server.log_text()


def test_an_etcd_that_does_not_answer_is_not_waited_for(server: Upgradable, etcd_prefix: str) -> None:
    """It was for ten minutes, in which no other upgrade could begin."""
    server.serve_prefix(etcd_prefix, f"http://127.0.0.1:{free_port()}")
    with Client(server.port) as client:
        assert "no upgrade: the new process did not start: the log says why" in server.upgrade()
        assert "zketcd: connecting to 127.0.0.1:" in server.log_text()
        assert client.stat("/") is not None


def test_a_release_with_another_form_starts_as_after_a_restart(server: Upgradable) -> None:
    with Client(server.port) as client:
        client.create("/kept", mode=EPHEMERAL)
        assert "takes over in form 5, this one in form 4" in server.upgrade(failing_takeover.OTHER_FORM)
        client.until_closed()
        wait_until(lambda: server.times_ready == 2, "the new process serves")
        client.reconnect(server.port)
        assert client.owner("/kept") == client.id
