"""Followers wait for an etcd that is out of reach, also while a base is written, longer than a load would."""

import asyncio
from pathlib import Path
from unittest import mock

import pytest

from lab.fakes.etcd import FakeEtcd
from pipeline.etcd import requests
from pipeline.follow import retrying
from pipeline.follow.output import DONE, NOT_LEVEL
from pipeline.follow.target import position_of
from proxy.etcd.model import EtcdNoSpace, EtcdUnknown, Get
from tests.pipeline.follow.histories import creates
from tests.pipeline.follow.running import Failing
from tests.pipeline.follow.test_inward import KEYS, TREE
from tests.pipeline.follow.test_inward import followed as following
from tests.pipeline.trees import write_log, write_snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_snapshot(tmp_path / "version-2", 0, TREE[:-1])
    write_log(tmp_path / "version-2", *creates(1, 50))  # larger than the tree before them
    return tmp_path


async def followed(folder: Path, at: int) -> Failing:
    """Follow with an outage from the request `at` on, and a new base at the end."""
    etcd = Failing(FakeEtcd(), at)
    with mock.patch.object(requests, "_LONGEST_OUTAGE", 0.0), mock.patch.object(retrying, "RETRY", 0.0):
        assert await following(etcd, folder, until_level=True, log_bytes=0) == DONE
    return etcd


@pytest.mark.long
async def test_an_outage_at_every_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever it begins, and however long it lasts, the tree is the same afterwards."""
    most = (await followed(folder, 0)).requests
    assert "out of reach" not in capsys.readouterr().err
    for at in range(1, most + 1):
        etcd = await followed(folder, at)
        told = capsys.readouterr()
        assert told.err.count("etcd is out of reach, trying again: no member answers") == 1
        assert told.err.count("etcd answers again") == 1
        assert "level at zxid 0x32 (0 behind)" in told.out
        position = await position_of(etcd, KEYS)
        assert position is not None
        assert position.zxid == 50
        assert not (await etcd.range(Get(KEYS.log, KEYS.log_end), 1.0)).kvs  # the base holds it all


async def test_a_limit_ends_it_during_an_outage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for error, reason in ((EtcdUnknown("silent"), "out of reach"), (EtcdNoSpace("exceeded"), "full")):
        etcd = Failing(FakeEtcd(), 1, length=1 << 30)
        etcd.error = error
        late = following(etcd, folder, until_level=True, timeout=0.05)
        assert await asyncio.wait_for(late, 60) == NOT_LEVEL
        told = capsys.readouterr().err
        assert "not level within 0.05 s" in told
        assert f"etcd is {reason}" in told
