"""`follow --check`: both sides at the zxid that the tree has come to, while the log grows."""

from pathlib import Path

import pytest

from lab.fakes.etcd import FakeEtcd, FakeEtcdClient
from pipeline.errors import Failure
from pipeline.follow.checking import DIFFERENT, EQUAL, check
from pipeline.follow.output import DONE
from pipeline.table import SessionRow
from schema.keys import Keyspace
from tests.pipeline.follow.histories import creates
from tests.pipeline.follow.test_inward import KEYS, TREE, followed
from tests.pipeline.trees import node, write_log, write_snapshot


@pytest.fixture
async def etcd(tmp_path: Path) -> FakeEtcdClient:
    """A tree that follows a directory, and has come to zxid 5 of 9, behind which there is a snapshot."""
    folder = tmp_path / "version-2"
    write_snapshot(folder, 0, TREE, [SessionRow(7, 4000)])
    write_log(folder, *creates(1, 5))
    etcd = FakeEtcdClient(FakeEtcd())
    assert await followed(etcd, tmp_path, until_level=True) == DONE
    write_log(folder, *creates(6, 4))
    write_snapshot(folder, 8, TREE)
    return etcd


async def test_equal_at_the_followed_zxid(
    etcd: FakeEtcdClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = etcd.store.revision
    assert await check(etcd, KEYS, str(tmp_path), None) == EQUAL
    assert "equal at zxid 0x5: 10 znodes, 1 sessions" in capsys.readouterr().out
    assert etcd.store.revision == before


async def test_each_difference_is_shown(
    etcd: FakeEtcdClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = [*TREE[:-1], node("/mine", 0, owner=7, data=b"other"), node("/more", 0)]
    write_snapshot(tmp_path / "version-2", 0, other, [SessionRow(7, 5000)])
    assert await check(etcd, KEYS, str(tmp_path), None) == DIFFERENT
    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["/mine: data", "/more: only in the source", "session 0x7"]
    assert "different at zxid 0x5: 3 of 10 znodes" in shown.out


async def test_what_cannot_be_compared(etcd: FakeEtcdClient, tmp_path: Path) -> None:
    with pytest.raises(Failure, match="follows no other tree"):
        await check(etcd, Keyspace("/other"), str(tmp_path), None)
    write_snapshot(tmp_path / "late" / "version-2", 0, TREE)
    with pytest.raises(Failure, match="ends at zxid 0x0, before 0x5"):
        await check(etcd, KEYS, str(tmp_path / "late"), None)
