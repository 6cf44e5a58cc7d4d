"""What large entries cost etcd's memory while a proxy is stopped and takes nothing from its watch.

ZKETCD_TEST_MEGABYTES makes it longer. The bounds are those of docs/etcd.md.
"""

import os
import re
from pathlib import Path

from codec.client import set_data
from lab.client.blocking import Client
from lab.servers import EtcdServer
from lab.servers.operator import compact
from tests.faults.conftest import Start

_MEGABYTES = int(os.environ.get("ZKETCD_TEST_MEGABYTES", "120"))
_ENTRY = 400 << 10
_SNAPSHOT_COUNT = 100
_LONG_MS = 600_000
#: What a watcher that takes nothing holds back in etcd: the messages of its channel, and some on their way.
_STOPPED_WATCHER = 160 * _ENTRY


def anonymous_bytes(pid: int) -> int:
    """Resident memory without the pages of etcd's database file, which the kernel may drop at any time."""
    found = re.search(r"^RssAnon:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    assert found is not None
    return int(found[1]) << 10


def test_a_stopped_watcher_and_large_entries(start: Start) -> None:
    with EtcdServer(f"--snapshot-count={_SNAPSHOT_COUNT}") as etcd:
        # However slow the disk is, the session of the proxy that is stopped lives on.
        stopped, other = (start(etcd, max_session_timeout=_LONG_MS) for _ in range(2))
        with Client(stopped.port, _LONG_MS) as reader, Client(other.port) as writer:
            writer.create("/n")
            reader.sync()
            reader.read("/n", watch=True)
            stopped.pause()
            before = anonymous_bytes(etcd.pid)
            count = (_MEGABYTES << 20) // _ENTRY
            highest = before
            data = b""
            for number in range(count):
                data = os.urandom(_ENTRY)
                writer.call(set_data("/n", data, number))
                if number % 20 == 0:
                    highest = max(highest, anonymous_bytes(etcd.pid))
            compact(etcd)
            written = count * _ENTRY
            # etcd keeps the requests since its last snapshot but one and 5,000 more, here all of them. Go
            # collects garbage when the heap has doubled.
            allowed = 2 * (written + _STOPPED_WATCHER) + (64 << 20)
            print(f"{written >> 20} MiB written: from {before >> 20} to {highest >> 20} MiB")
            assert highest - before < allowed, f"{highest >> 20} MiB after {written >> 20} MiB"
            stopped.resume()
            reader.sync()
            assert reader.read("/n")[0] == data
            assert reader.events
