"""etcd is restored from a backup with the former cluster's token, below proxies that run."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from lab.client.blocking import EPHEMERAL, Client, Disconnected
from lab.servers import EtcdServer, ZketcdServer, wait_until
from lab.servers.etcd import VERSIONS, etcd_program
from lab.servers.operator import ctl, etcdctl
from tests.faults.conftest import Start, comes_back

_VERSION = VERSIONS[-1]  # the oldest ones have no etcdutl

pytestmark = pytest.mark.real


def test_proxies_find_by_a_missing_entry_that_etcd_was_restored(start: Start) -> None:
    """Neither etcd's cluster id nor its revision shows it."""
    with EtcdServer(version=_VERSION) as etcd:
        pair = start(etcd), start(etcd)
        with Client(pair[0].port) as early, Client(pair[0].port) as client, Client(pair[1].port) as other:
            early.create("/kept", b"", EPHEMERAL)
            client.create("/lock", b"", EPHEMERAL)
            assert early.children("/")[0] >= {"kept", "lock"}
            backup = etcd.folder / "backup"
            etcdctl(etcd, "snapshot", "save", str(backup))
            before = _header(etcd)
            client.create("/undone")
            other.sync()
            _restore(etcd, backup)
            after = _header(etcd)
            assert after["cluster_id"] == before["cluster_id"]
            assert after["revision"] > before["revision"] + 1
            for each, proxy in zip((client, other), pair, strict=True):
                wait_until(lambda: _found(proxy) == 1, "the restore is found")  # noqa: B023
                with pytest.raises(Disconnected, match="closed"):
                    each.children("/")
                wait_until(lambda: _has_expired(each, proxy.port), "its client is told")  # noqa: B023
            wait_until(lambda: comes_back(early, pair[1].port), "who has seen nothing of it goes on")
            assert early.children("/")[0] == {"zookeeper", "kept"}
            assert early.owner("/kept") == early.id
            early.create("/after")
            # The same backup again: it knows nothing of the epoch that has begun since.
            _restore(etcd, backup)
            wait_until(lambda: _found(pair[1]) == 2, "the restore is found")
            wait_until(lambda: _has_expired(early, pair[1].port), "its client is told")
            with Client(pair[1].port) as new:
                new.create("/after")
                assert new.zxid >> 32 > early.zxid >> 32 > 0
        ctl(etcd, "snapshot")
        late = start(etcd)
        with Client(late.port) as new:
            assert new.children("/")[0] == {"zookeeper", "lock", "after"}  # of a client that has not come
            assert _has_expired(client, late.port), "a proxy that has not seen the restore tells it"
            assert "lock" not in new.children("/")[0]


def _found(proxy: ZketcdServer) -> int:
    """How many restores a proxy has found."""
    return proxy.log_text().count("etcd was restored from a backup, as of")


def _has_expired(client: Client, port: int) -> bool:
    """Whether a client is told so; it has seen what the restore has undone."""
    with pytest.raises(Disconnected) as answer:
        client.reconnect(port)
    return answer.value.expired


def _header(etcd: EtcdServer) -> dict[str, int]:
    (status,) = json.loads(etcdctl(etcd, "endpoint", "status", "--write-out=json"))
    header: dict[str, int] = status["Status"]["header"]
    return header


def _restore(etcd: EtcdServer, backup: Path) -> None:
    etcd.stop()
    shutil.rmtree(etcd.data_dir)
    peer = f"http://127.0.0.1:{etcd.peer_port}"
    subprocess.run(
        [
            Path(etcd_program(_VERSION)).with_name("etcdutl"),
            *("snapshot", "restore", backup, "--bump-revision=1000000", "--mark-compacted"),
            *(f"--data-dir={etcd.data_dir}", "--name=test"),
            *(f"--initial-cluster=test={peer}", f"--initial-advertise-peer-urls={peer}"),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    etcd.start()
