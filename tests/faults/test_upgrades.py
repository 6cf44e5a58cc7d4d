"""A rolling upgrade, the way back, and the raise of the level of the semantics, under load."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from lab.client.blocking import Client
from lab.servers import EtcdServer, StartFailed, wait_until
from lab.servers.operator import ctl
from lab.servers.prepared import NEXT_LEVEL, PreparedServer, prepared
from lab.servers.process import REPOSITORY
from tests.faults.roaming import Roamers

pytestmark = pytest.mark.real

OLD, NEW = "", NEXT_LEVEL

# A release that never gets from the load to its registration.
_UNREGISTERED = """
import asyncio
from proxy.log.membership import Membership
async def never(self):
    print("loaded", flush=True)
    await asyncio.Event().wait()
Membership.register = never
"""
_RUN_CTL = "import runpy; runpy.run_module('proxy.ctl', None, '__main__', True)"


def raise_level(etcd: EtcdServer, prefix: str) -> str:
    """Raise the tree to level 3 with the new release's command; what it says if it refuses, else ""."""
    options = ["--etcd", etcd.endpoint, "--prefix", prefix, "raise-level", "3"]
    result = subprocess.run(
        [sys.executable, "-c", f"{NEXT_LEVEL}\n{_RUN_CTL}", *options],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=REPOSITORY,
    )
    assert result.returncode in (0, 1), result.stderr
    return result.stderr if result.returncode else ""


def test_a_rolling_upgrade_the_way_back_and_the_raise(etcd_server: EtcdServer, etcd_prefix: str) -> None:
    with ExitStack() as stack:
        serving: list[PreparedServer] = []

        def begin(release: str) -> PreparedServer:
            server = stack.enter_context(prepared(release, etcd_server, prefix=etcd_prefix, proxy_lease=2))
            serving.append(server)
            return server

        def replace(release: str, number: int = 0) -> None:
            """The next proxy starts, and an old one stops."""
            begin(release)
            serving.pop(number).stop()

        begin(OLD)
        begin(OLD)
        roamers = stack.enter_context(Roamers(lambda: [server.port for server in serving], count=4))
        roamers.progress()
        for release in (NEW, OLD, NEW):  # half way, back, and half way again
            replace(release)
            roamers.progress()
        refused = raise_level(etcd_server, etcd_prefix)
        assert "has no snapshot yet" in refused or "does not apply level 3" in refused
        ctl(etcd_server, "snapshot", prefix=etcd_prefix)
        assert "does not apply level 3. Upgrade it first" in raise_level(etcd_server, etcd_prefix)
        replace(NEW)
        roamers.progress()
        # The key of a proxy that was stopped with sessions goes with its lease.
        wait_until(lambda: not raise_level(etcd_server, etcd_prefix), "the level raised", timeout=60)
        roamers.progress()
        with pytest.raises(StartFailed, match="level"):
            begin(OLD)
        roamers.verify()


def test_an_old_release_that_joins_during_the_raise_never_applies_it(
    etcd_server: EtcdServer, etcd_prefix: str
) -> None:
    with ExitStack() as stack:
        new = stack.enter_context(prepared(NEW, etcd_server, prefix=etcd_prefix))
        client = stack.enter_context(Client(new.port))
        client.create("/before")
        ctl(etcd_server, "snapshot", prefix=etcd_prefix)
        # It has loaded the tree, and nobody can know of it yet.
        old = PreparedServer(etcd_server.endpoint, prefix=etcd_prefix)
        old.prelude = _UNREGISTERED
        stack.callback(old.close)
        old.launch()
        wait_until(lambda: "loaded" in old.log_text(), "the old release has loaded the tree")
        assert raise_level(etcd_server, etcd_prefix) == ""
        client.create("/after")
        assert old.wait() == 1
        assert f"zketcd: the tree under {etcd_prefix} has level 3" in old.log_text()
        assert "ready" not in old.log_text()
        # Any moment at which both meet: either the command is refused, or the old release does not serve.
        for delay in (0.2, 0.6):
            prefix = f"{etcd_prefix}-{delay}"
            _meet(stack, etcd_server, prefix, delay)


def _meet(stack: ExitStack, etcd: EtcdServer, prefix: str, delay: float) -> None:
    new = stack.enter_context(prepared(NEW, etcd, prefix=prefix))
    with Client(new.port) as client:
        client.create("/n")
        ctl(etcd, "snapshot", prefix=prefix)
        old = PreparedServer(etcd.endpoint, prefix=prefix)
        stack.callback(old.close)
        with ThreadPoolExecutor(1) as pool:
            raising = pool.submit(raise_level, etcd, prefix)
            time.sleep(delay)
            old.launch()
            refused = raising.result()
        client.create("/m")
        if refused:
            assert "does not apply level 3" in refused or "at the same moment" in refused
            old.wait_until_serving()
            old.kill()
        else:
            with pytest.raises(StartFailed, match="level"):
                old.wait_until_serving()
        new.kill()
