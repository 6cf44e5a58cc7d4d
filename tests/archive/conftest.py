"""An archive of the tree that most of these tests write to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.servers import EtcdServer
from tests.archive.archives import Archive, Capture


@pytest.fixture
def archive(etcd_server: EtcdServer, etcd_prefix: str, tmp_path: Path, capsys: Capture) -> Iterator[Archive]:
    made = Archive(etcd_server, etcd_prefix, tmp_path, capsys)
    yield made
    made.kill()
