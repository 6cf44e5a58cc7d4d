"""The changes behind a zxid, for one reader of /changes: `python -m archive.past.feed`, a child of a proxy.

It loads the tree as it was before, from etcd or, if the log does not reach back so far, from the archive,
applies the entries since, and writes what they change. It waits while its reader is slow.

On stdout: a line of JSON, {} or {"status", "error"}; then frames, each a line {"id", "bytes", "changes"} and
so many bytes of lines. `caught_up` in it: this is all that etcd had; a byte on stdin asks for more. `end`:
there is no more, and why. It ends when its stdin is closed.
"""

import asyncio
import gc
import json
import os
import sys
import threading
from typing import Any

import uvloop

from archive.files.catalog import ArchiveError, Catalog, Run, Way
from archive.files.moment import NOW
from archive.files.store import Missing, Store, existing
from archive.past import state as past
from proxy.etcd.access import Access
from proxy.etcd.interface import Etcd
from proxy.etcd.model import EtcdError
from proxy.log.follow.catch_up import Caught, Truncated, read_missed
from proxy.log.load import start
from proxy.log.load.replay import Place, Replay
from proxy.log.reads import MonotonicReads
from proxy.log.record import TreeNotServable, look, servable
from proxy.state.auth.scheme import Identity
from proxy.state.feed import Id, Selection, id_of, made_by
from proxy.state.level import KNOWN
from proxy.state.machine import Machine
from proxy.state.recording import Recorded, keep_changes
from proxy.support.child import begin
from schema.entry import Entry, Kind, Request
from schema.keys import Keyspace
from schema.record import SnapshotRef, is_incomplete_with_pages

_TIMEOUT = 30.0  # seconds for etcd
_RETRY = 0.5
_TRIES = 5
_FRAME = 1 << 16


class Gone(Exception):
    """What is wanted is not kept any more."""

    def __init__(self, error: str, oldest: int) -> None:
        super().__init__(error)
        self.oldest = oldest


_FAILURES = (Gone, ArchiveError, EtcdError, TreeNotServable, OSError, ValueError)


class Output:
    """The frames."""

    def __init__(self, after: Id) -> None:
        #: The id of the last line.
        self.id = after
        #: Something was sent.
        self.begun = False
        self._lines = bytearray()
        self._changes = 0

    def line(self, here: Id, line: bytes) -> None:
        """Another change."""
        self.id = here
        self._lines += line
        self._changes += 1
        if len(self._lines) >= _FRAME:
            self.frame()

    def frame(self, **more: Any) -> None:
        """Send what there is. Waits for the reader."""
        if not self.begun:
            self.begun = True
            say({})
        header = {"id": str(self.id), "bytes": len(self._lines), "changes": self._changes, **more}
        say(header, bytes(self._lines))
        self._lines.clear()
        self._changes = 0


def say(header: dict[str, Any], lines: bytes = b"") -> None:
    """A line of JSON, and what follows it."""
    sys.stdout.buffer.write(json.dumps(header).encode() + b"\n" + lines)
    sys.stdout.buffer.flush()


class Feed:
    """What one reader gets."""

    def __init__(self, etcd: Etcd, given: dict[str, Any], asked: threading.Semaphore) -> None:
        """`asked`: released when the reader wants more."""
        self._etcd = etcd
        self._keys = Keyspace(given["prefix"])
        self._url: str = given["url"]
        self._after = id_of(given["since"])
        identities = tuple([Identity(*each) for each in given["identities"]])
        self._wanted = Selection(given["path"], given["data"], identities, given["events"])
        self._asked = asked
        self._changes: list[Recorded] = []
        self._follows: SnapshotRef | None = None  # of a copy: what its entries follow
        self._out = Output(self._after)

    async def run(self) -> None:
        """Raises one of _FAILURES unless frames have begun: then the last frame says why they end."""
        machine, caught, store = await self._begin()
        self._changes = keep_changes(machine)
        gc.freeze()
        try:
            if caught is None:
                assert store is not None
                position = await asyncio.to_thread(self._from_archive, machine, store)
                caught = await self._caught(machine, position)
            while True:
                await self._replay(machine, caught)
                self._out.id = max(self._out.id, Id(machine.zxid))
                self._out.frame(caught_up=True)
                await asyncio.to_thread(self._asked.acquire)
                caught = await self._caught(machine, caught.revision)
        except Truncated as error:
            self._out.frame(end=f"the log was truncated before it was read: {error}")
        except _FAILURES as error:
            if not self._out.begun or isinstance(error, BrokenPipeError):
                raise
            self._out.frame(end=str(error))

    # -- where to begin --------------------------------------------------------------------------------------

    async def _begin(self) -> tuple[Machine, Caught | None, Store | None]:
        """A state before what is wanted, and what etcd has behind it; or else the archive that it is from."""
        oldest = 0
        for _ in range(_TRIES):
            there = await look(MonotonicReads(self._etcd), self._keys)
            found = servable(there, self._keys, KNOWN, even_copy=True)
            refs = [each for each in (found.current, found.previous) if each is not None]
            ref = next((each for each in refs if each.zxid <= self._after.whole), None)
            oldest = refs[-1].zxid if refs else 0
            if ref is None and found.previous is not None:
                break
            # No entry is as old as revision 1.
            wanted = start.Wanted(upto=ref.position if ref else 1)
            try:
                loaded = await start.load_as_of(
                    self._etcd, self._keys, wanted, timeout=_TIMEOUT, even_copy=True
                )
            except start.NotInLog:
                if ref is None:  # an imported tree
                    break
                continue  # the snapshot was replaced
            if loaded.machine.zxid <= self._after.whole:
                record = loaded.caught.record
                self._follows = record.current if is_incomplete_with_pages(record) else None
                return loaded.machine, loaded.caught, None
        store = await asyncio.to_thread(existing, self._url) if self._url else None
        if store is None:
            raise Gone(f"the log reaches back to 0x{oldest:x}, and not to {self._after}", oldest)
        return await asyncio.to_thread(self._archived, store, oldest), None, store

    def _archived(self, store: Store, oldest: int) -> Machine:
        run = _last_run(store)
        snapshots = (
            []
            if run is None
            else [each for each in reversed(run.snapshots) if each.at.zxid <= self._after.whole]
        )
        if run is None or not snapshots:
            oldest = oldest if run is None else min(oldest, run.begin.zxid)
            raise Gone(f"the archive reaches back to 0x{oldest:x}, and not to {self._after}", oldest)
        return past.base(store, Way(run, snapshots, []))

    # -- what follows ----------------------------------------------------------------------------------------

    def _from_archive(self, machine: Machine, store: Store) -> int:
        """Apply what the archive has; the position behind it. Raises ArchiveError, Gone."""
        for again in reversed(range(_TRIES)):
            run = _last_run(store)
            assert run is not None
            try:
                for each in run.segments:
                    if each.end.entries > machine.entries:
                        past.replay(machine, past.read(store, run, each), NOW, execute=self._execute)
                return run.end.position
            except Missing:  # the open segment has grown meanwhile
                if not again:
                    raise
        raise AssertionError

    async def _caught(self, machine: Machine, position: int) -> Caught:
        """What etcd has behind the state. Raises Truncated, EtcdError, TreeNotServable."""
        deadline = asyncio.get_running_loop().time() + _TIMEOUT
        while True:
            try:
                return await read_missed(
                    MonotonicReads(self._etcd), self._keys, machine.applied, position, self._follows
                )
            except EtcdError:
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_RETRY)

    async def _replay(self, machine: Machine, caught: Caught) -> None:
        replay = Replay(self._keys, machine, caught, lambda _count: None, self._execute)
        await replay.run(caught.revision)

    def _execute(self, machine: Machine, entry: Entry, request: Request, _place: Place) -> None:
        before, after = machine.zxid, self._after.zxid
        machine.execute(request)
        if before < after < machine.zxid and after >> 32 < machine.zxid >> 32:  # of a former epoch
            why = (
                "etcd was restored from a backup, or a move was called off by force"
                if request.kind == Kind.EPOCH
                else "the tree goes on without all that its source had"
            )
            raise Gone(
                f"{why}: what had changed behind 0x{before:x} is undone, also {self._after}", machine.zxid
            )
        if self._changes:
            made = made_by(request, machine.zxid, entry.clock, self._changes)
            self._changes.clear()
            if made is not None:
                for here, line in self._wanted.lines(made, self._after):
                    self._out.line(here, line)


def _last_run(store: Store) -> Run | None:
    """The part of the archive that reaches to now without a gap."""
    runs = Catalog(store.list()).runs
    return runs[-1] if runs else None


async def _run(given: dict[str, Any], asked: threading.Semaphore) -> None:
    etcd = Access.from_json(given).client()
    try:
        await Feed(etcd, given, asked).run()
    finally:
        await etcd.close()


def _listen(asked: threading.Semaphore) -> None:
    """Each byte on stdin asks for more."""
    while more := os.read(sys.stdin.fileno(), 1 << 10):
        asked.release(len(more))
    os._exit(0)


def main() -> int:
    """Write changes until stdin is closed: 0; 1 if there are none."""
    given = begin("feed")
    asked = threading.Semaphore(0)
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(given, asked))
    except BrokenPipeError:
        os._exit(1)
    except Gone as error:
        text = f"{error}: read the tree again, and go on from there"
        say({"status": 410, "error": text, "oldest": f"0x{error.oldest:x}"})
        return 1
    except _FAILURES as error:
        say({"status": 503, "error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
