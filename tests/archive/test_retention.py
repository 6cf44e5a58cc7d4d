"""Retention when a host's clock is wrong: what is not old is kept."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from archive.archiver.archiver import Archiver
from archive.archiver.retention import Retention
from archive.files.catalog import Catalog
from archive.files.names import CLOCK, Point, Snapshot
from archive.files.store import Directory, Missing
from proxy.support.environment import HOST, Clock, clock_ms
from tests.proxy.log import trees
from tests.proxy.log.proxies import until

_RUN = "20261123T074501.123Z-cdf818194e3a8c32"
_HOUR = 3_600_000
_START = 1_795_420_800_000
_KEEP = 24 * _HOUR


class _Host(Clock):
    """A host: real time passes, and its clock may be ahead of it."""

    def __init__(self) -> None:
        self.hours = self.ahead = 0

    def monotonic(self) -> float:
        return self.hours * 3600.0

    def time(self) -> float:
        return _START / 1000 + (self.hours + self.ahead) * 3600.0


class _Ahead(Clock):
    """The clock of a host that is years ahead."""

    time = staticmethod(lambda: HOST.clock.time() + 1e8)


class _Memory(Directory):
    """Files that no disk has to take: there are many."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    def put(self, name: str, value: bytes) -> None:
        self._files[name] = value

    def get(self, name: str) -> bytes:
        if name not in self._files:
            raise Missing(name)
        return self._files[name]

    def list(self) -> dict[str, int]:
        return {name: len(value) for name, value in self._files.items()}

    def delete(self, name: str) -> None:
        self._files.pop(name, None)


class _Archive:
    """Snapshots that a proxy wrote, one an hour, with the clock of its own host."""

    def __init__(self, host: _Host, proxy: _Host | None = None) -> None:
        self.store = _Memory()
        self.host, self._proxy = host, proxy or host
        self._clock = 0
        self.archiver()

    def archiver(self) -> None:
        """Another process."""
        self.retention = Retention(self.store, _KEEP, self.host)
        self.retention.begin(Catalog(self.store.list()))

    def write(self) -> None:
        self._clock = max(self._clock, int(self._proxy.time() * 1000))
        at = Point(self.host.hours + 1, self.host.hours + 1, self.host.hours + 1, self._clock)
        self.store.put(f"{_RUN}/{Snapshot(at).name}", b"x")

    def go(self, hours: int) -> None:
        """Write, and delete what is old."""
        for _ in range(hours):
            self.host.hours += 1
            self._proxy.hours = self.host.hours
            self.write()
            assert self.retention.wait() == 0
            self.retention.run()
            assert self.retention.wait() == 3600

    def kept(self) -> int:
        """So many hours before now still have their snapshot."""
        (run,) = Catalog(self.store.list()).runs
        return self.host.hours + 1 - run.snapshots[0].at.entries


@pytest.mark.parametrize("is_another_process", [False, True])
def test_a_clock_that_jumps_ahead_deletes_no_history(
    caplog: pytest.LogCaptureFixture, *, is_another_process: bool
) -> None:
    """The only proxy archives: the times of the entries jump as well."""
    archive = _Archive(_Host())
    archive.go(40)
    assert archive.kept() == 24
    assert not caplog.records
    archive.host.ahead = 1000
    if is_another_process:
        archive.archiver()
    archive.go(8)
    assert archive.kept() >= 24 - 2
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert len(errors) == 8
    assert f"delete the archive's file `{CLOCK}` and" in errors[0]
    archive.host.ahead = 0
    archive.go(1)
    assert len(errors) == sum(each.levelno == logging.ERROR for each in caplog.records)
    assert archive.kept() >= 24 - 2


def test_the_clock_of_a_host_without_a_proxy_may_be_ahead_from_the_start() -> None:
    host = _Host()
    host.ahead = 1000
    archive = _Archive(host, proxy=_Host())
    archive.go(40)
    assert archive.kept() == 24


def test_an_archive_of_an_older_release_says_itself_how_late_it_is() -> None:
    archive = _Archive(_Host())
    for _ in range(20):
        archive.host.hours += 1
        archive.write()
    archive.host.ahead = 1000
    archive.archiver()
    archive.go(4)
    assert archive.kept() == 23


def test_what_became_old_while_no_archiver_ran_is_deleted_little_by_little() -> None:
    archive = _Archive(_Host())
    archive.go(40)
    archive.host.hours += 10
    archive.archiver()
    archive.go(1)
    assert archive.kept() > 24
    archive.go(44)
    assert archive.kept() == 24


def test_whoever_knows_better_has_it_deleted_at_once() -> None:
    archive = _Archive(_Host())
    archive.go(40)
    for _ in range(100):
        archive.host.hours += 1
        archive.write()
    archive.store.delete(CLOCK)
    archive.archiver()
    archive.go(1)
    assert archive.kept() == 24


async def _archived(archiver: Archiver, done: Callable[[], bool]) -> None:
    archiving = asyncio.create_task(archiver.run())
    await until(done)
    archiving.cancel()
    await asyncio.gather(archiving, return_exceptions=True)


async def test_an_archiver_that_starts_with_a_clock_ahead(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Directory(str(tmp_path / "archive"))
    monkeypatch.setattr(trees, "CLOCK", clock_ms())
    tree = await trees.Tree().make("a")
    await tree.snapshot("a")
    await tree.create("a", "/before")
    await _archived(
        Archiver(tree.etcd, tree.keys, store, keep_ms=_HOUR),
        lambda: CLOCK in store.list() and any(name.endswith(".log") for name in store.list()),
    )
    (run,) = Catalog(store.list()).runs
    old = f"20200101T000000.000Z-{run.cluster:016x}/{Snapshot(run.begin._replace(clock=1)).name}"
    await asyncio.to_thread(store.put, old, b"x")

    monkeypatch.setattr(trees, "CLOCK", clock_ms(_Ahead()))
    await tree.create("a", "/a")
    await _archived(
        Archiver(tree.etcd, tree.keys, store, keep_ms=_HOUR, clock=_Ahead()),
        lambda: "h ahead of the archive's" in caplog.text,
    )
    assert old in store.list()
