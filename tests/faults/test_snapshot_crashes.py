"""Processes that write snapshots crash or stop between any two steps, and two of them run at once."""

import asyncio
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from lab.client.blocking import Client
from lab.servers import EtcdServer, wait_until
from lab.servers.operator import keys_of
from lab.servers.process import REPOSITORY
from proxy.etcd.client import EtcdClient
from proxy.log.record import look
from proxy.log.start import Loaded, load
from schema.keys import Keyspace
from schema.record import TreeRecord
from tests.faults.conftest import Start
from tests.faults.roaming import Roamers

_STEPS = (
    "clean up",
    "put the state page",
    "put a page of sessions",
    "put a page of znodes",
    "publish",
    "truncate",
    "truncate entries",
    "delete pages",
)

# The writer of the command stops at this step.
_STOP_AT = """
import functools, os, signal
from proxy.log import snapshot_writer
wanted = ["{step}"]
def step(what):
    if what in wanted:
        wanted.clear()
        os.kill(os.getpid(), signal.SIGSTOP)
snapshot_writer.write = functools.partial(snapshot_writer.write, step=step)
import runpy; runpy.run_module('proxy.ctl', None, '__main__', True)
"""


class Snapshotter:
    """`proxy.ctl snapshot`, which stops before a step."""

    def __init__(self, etcd: EtcdServer, prefix: str, step: str) -> None:
        source = _STOP_AT.format(step=step)
        self.process = subprocess.Popen(
            [sys.executable, "-c", source, "--etcd", etcd.endpoint, "--prefix", prefix, "snapshot"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=REPOSITORY,
        )

    def wait_until_stopped(self) -> None:
        """Wait until it is at its step. Raises TimeoutError."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T", "the writer at its step")

    def go_on(self) -> None:
        """Let a stopped one go on."""
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> tuple[int, str]:
        """Wait for its end; the exit code, and what it said."""
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def loaded(etcd: EtcdServer, prefix: str) -> tuple[Loaded, TreeRecord]:
    """The tree as a start would load it, and its record. Raises if it cannot be loaded."""

    async def run() -> tuple[Loaded, TreeRecord]:
        client = EtcdClient([etcd.endpoint])
        try:
            keys = Keyspace(prefix)
            found = await load(client, keys, make=False, timeout=10)
            record = (await look(client, keys)).record
        finally:
            await client.close()
        assert record is not None
        return found, record

    return asyncio.run(run())


def test_between_any_two_steps(start: Start, etcd_server: EtcdServer, etcd_prefix: str) -> None:
    """One that stops before a step is killed, or goes on after another one has written a snapshot."""
    proxy = start(etcd_server, prefix=etcd_prefix)
    with ExitStack() as stack:
        roamers = stack.enter_context(Roamers(lambda: [proxy.port], count=2))

        def write(step: str = "") -> Snapshotter:
            roamers.progress()
            writer = Snapshotter(etcd_server, etcd_prefix, step)
            stack.callback(writer.close)
            return writer

        for _ in range(2):
            assert write().end()[0] == 0
        for number, step in enumerate(_STEPS):
            first = write(step)
            first.wait_until_stopped()
            if number % 2 == 0:
                code, said = write().end()
                assert code == 0, said
            else:
                first.close()
            found, record = loaded(etcd_server, etcd_prefix)
            assert not found.fell_back
            assert not found.disagreements
            assert record.current is not None
            assert record.previous is not None
            if number % 2 == 0:
                first.go_on()
                code, said = first.end()
                # Its lease has ended as well if it was stopped for long.
                told = ("another snapshot", "record has changed", "that the snapshot is written for is over")
                assert code == 0 or any(reason in said for reason in told), said
        code, said = write().end()
        assert code == 0, said
        roamers.verify()
        found, record = loaded(etcd_server, etcd_prefix)
        named = {ref.name for ref in (record.current, record.previous) if ref is not None}
        pages = keys_of(etcd_server, f"{etcd_prefix}/snapshot/")
        assert {page.split("/snapshot/")[1].partition("/")[0] for page in pages} == named
        with Client(start(etcd_server, prefix=etcd_prefix).port) as late, Client(proxy.port) as known:
            known.sync()
            assert late.children("/") == known.children("/")
