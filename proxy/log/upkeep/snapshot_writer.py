"""Writes a snapshot, then truncates the log: `python -m proxy.log.upkeep.snapshot_writer`, a proxy's child.

It gets what it needs as one line of JSON on stdin (no secrets on a command line), prints one line of JSON on
stdout, and ends when its stdin is closed, that is, with the proxy.
"""

import asyncio
import gc
import json
import logging
import os
import sys
from contextlib import suppress
from typing import Any

import uvloop

from proxy.etcd.access import Access
from proxy.etcd.interface import Etcd, Reads
from proxy.etcd.model import Compare, EtcdError, Put, Txn
from proxy.etcd.repeating import until_known
from proxy.log.follow.catch_up import Loaded
from proxy.log.load.start import NotInLog, Wanted, load_as_of
from proxy.log.reads import Compacted, ReadsAsOf
from proxy.log.record import TIMEOUT, Registered, TreeNotServable, incarnation_of, look
from proxy.log.upkeep.snapshot_job import PACE, Answer, DigestAnswer, Failed, Job, Written, job_of
from proxy.log.upkeep.truncation import Overtaken, applied_in, delete_pages, drop_incarnation, truncate_log
from proxy.state import capture
from proxy.support import child
from schema.keys import Keyspace, snapshot_name
from schema.record import SnapshotRef, encode_record

log = logging.getLogger(__name__)

_TIMEOUT = 60.0  # seconds that etcd may be out of reach
_ORPHANED = Failed("stdin was closed: the proxy has ended")


class WriteFailed(Exception):
    """The snapshot was not written; the tree is as it was."""


class WriterGone(WriteFailed):
    """The proxy that the snapshot is written for stopped, or has lost its lease."""


async def write(
    etcd: Etcd, keys: Keyspace, writer: Registered, *, as_of: int = 0, pace: float = PACE
) -> Written:
    """Write a snapshot of the state as of now, and truncate.

    `as_of`: of the state as of this revision. Raises WriteFailed, Overtaken, TreeNotServable, EtcdError.
    """
    now = asyncio.get_running_loop().time
    began = now()
    reads: Reads = ReadsAsOf(etcd, as_of) if as_of else etcd
    try:
        loaded = await load_as_of(reads, keys, timeout=_TIMEOUT)
        if loaded.disagreements:
            await _judge_disagreements(reads, keys, loaded)
    except Compacted as error:
        raise Overtaken(str(error)) from error
    caught = loaded.caught
    guard = Compare(keys.tree, caught.pair.mod_revision)
    pages = await delete_pages(etcd, keys, caught.record, guard, writer.incarnation)
    current = caught.record.current
    ref = None
    if loaded.fell_back or current is None or loaded.log_requests or loaded.log_bytes:
        ref, state_revision = await _write_pages(etcd, keys, writer, loaded, pace)
        guard = await _publish(etcd, keys, loaded, ref, state_revision)
    entries, more_pages = await _truncate(etcd, keys, guard, writer, loaded)
    return Written(
        ref,
        entries,
        pages + more_pages,
        loaded.log_bytes,
        loaded.log_requests,
        len(loaded.disagreements),
        round(now() - began, 3),
    )


async def _judge_disagreements(etcd: Reads, keys: Keyspace, loaded: Loaded) -> None:
    """Digests of entries differ from the replay's: find out whether senders or the snapshot is wrong."""
    for each in loaded.disagreements[:10]:
        log.error(
            "the digest after %d entries is %016x by %s, and %016x by the snapshot writer's replay",
            each.checkpoint,
            each.theirs,
            each.incarnation,
            each.ours,
        )
    if loaded.base is None or loaded.caught.record.previous is None or loaded.fell_back:
        return
    machine = loaded.machine
    try:
        wanted = Wanted(upto=loaded.caught.revision, previous=True)
        other = (await load_as_of(etcd, keys, wanted, timeout=_TIMEOUT)).machine
    except NotInLog:
        return
    if other.compute_digest() != machine.compute_digest():
        raise WriteFailed(
            f"a replay from the snapshot {loaded.base.name} and one from the snapshot before it make"
            " different trees. No snapshot is written, and nothing is truncated"
        )
    log.error("replays from two snapshots make the same tree: the senders of these entries are wrong")


async def _write_pages(
    etcd: Etcd, keys: Keyspace, writer: Registered, loaded: Loaded, pace: float
) -> tuple[SnapshotRef, int]:
    """Put all pages; returns their entry in the record, and the state page's mod_revision."""
    machine = loaded.machine
    position = loaded.caught.revision
    name = snapshot_name(position, writer.incarnation)
    captured = capture.pages(machine)
    alive = Compare(keys.proxy(writer.incarnation), writer.revision)
    size = 0

    async def put(key: bytes, value: bytes) -> int:
        nonlocal size
        began = asyncio.get_running_loop().time()
        # In an inner Txn, which etcd's quota check ignores: a snapshot leads to free space.
        txn = Txn((alive,), (Txn((), (Put(key, value),)),))
        answer = await until_known(etcd.txn, txn, TIMEOUT)
        if not answer.succeeded:
            raise WriterGone(f"the incarnation {writer.incarnation} that the snapshot is written for is over")
        size += len(value)
        await asyncio.sleep(max(0.0, len(value) / pace - (asyncio.get_running_loop().time() - began)))
        return answer.revision

    state_revision = await put(keys.state_page(name), captured.state)
    node_pages = session_pages = 0
    for page in captured.session_pages:
        await put(keys.session_page(name, session_pages), page)
        session_pages += 1
    for page in captured.node_pages:
        await put(keys.node_page(name, node_pages), page)
        node_pages += 1
    ref = SnapshotRef(
        name=name,
        position=position,
        writer=writer.incarnation,
        node_pages=node_pages,
        session_pages=session_pages,
        bytes=size,
        nodes=len(machine.tree.nodes),
        sessions=len(machine.sessions),
        zxid=machine.zxid,
        digest=captured.digest,
    )
    return ref, state_revision


async def _publish(
    etcd: Etcd, keys: Keyspace, loaded: Loaded, ref: SnapshotRef, state_revision: int
) -> Compare:
    """Name the snapshot in the record; returns the compare that holds from now on. Raises Overtaken."""
    caught = loaded.caught
    # A snapshot that cannot be loaded must not become the previous one.
    previous = loaded.base if loaded.fell_back else caught.record.current
    record = caught.record._replace(current=ref, previous=previous)
    compares = (
        Compare(keys.tree, caught.pair.mod_revision),
        Compare(keys.state_page(ref.name), state_revision),  # else another process has deleted these pages
    )
    txn = Txn(compares, (Txn((), (Put(keys.tree, encode_record(record)),)),))
    answer = await until_known(etcd.txn, txn, TIMEOUT)
    found = await look(etcd, keys)
    # If the answer to the first try was lost, the second try finds the record changed by the first.
    if found.record != record or found.pair is None:
        raise Overtaken(
            "another snapshot was published at the same time"
            if not answer.succeeded
            else "another snapshot was published since"
        )
    log.info("the snapshot %s is written", ref.name)
    return Compare(keys.tree, found.pair.mod_revision)


async def _truncate(
    etcd: Etcd, keys: Keyspace, guard: Compare, writer: Registered, loaded: Loaded
) -> tuple[int, int]:
    """Delete what the record makes unnecessary; returns how many entries and pages were deleted."""
    found = await look(etcd, keys)
    record = found.record
    if record is None or found.pair is None or found.pair.mod_revision != guard.mod_revision:
        raise Overtaken("the tree's record has changed")
    entries = 0
    if record.previous is not None:
        applied = await applied_in(etcd, keys, record.previous.name)
        if applied is not None:
            entries = await truncate_log(etcd, keys, guard, applied)
    # The later entries of a proxy that died before its first entry arrived never count.
    living = {incarnation_of(keys, proxy) for proxy in found.proxies}
    left = {keys.parse(kv.key).incarnation for kv in loaded.caught.entries}
    for incarnation in sorted(left - living - loaded.machine.applied.keys()):
        await drop_incarnation(etcd, keys, incarnation, 0)
    return entries, await delete_pages(etcd, keys, record, guard, writer.incarnation)


async def digest_at(etcd: Etcd, keys: Keyspace, entries: int) -> int:
    """The digest of the state after so many entries. Raises NotInLog, TreeNotServable, EtcdError."""
    loaded = await load_as_of(etcd, keys, Wanted(entries=entries), timeout=_TIMEOUT)
    return loaded.machine.compute_digest()


# -- the process ---------------------------------------------------------------------------------------------


async def run(etcd: Etcd, job: Job) -> Answer:
    """Do the job, and close the client."""
    keys = Keyspace(job.prefix)
    try:
        if job.digest_after is not None:
            return DigestAnswer(await digest_at(etcd, keys, job.digest_after))
        writer = Registered(job.incarnation, job.revision)
        return await write(etcd, keys, writer, as_of=job.as_of, pace=job.pace)
    except (WriteFailed, Overtaken, TreeNotServable, EtcdError) as error:
        return Failed(
            str(error), is_overtaken=isinstance(error, Overtaken), is_gone=isinstance(error, WriterGone)
        )
    finally:
        await etcd.close()


async def reported(etcd: Etcd, job: Job) -> Answer:
    """As `run`. An error of this program's own is logged, and is the answer."""
    try:
        return await run(etcd, job)
    except Exception as error:
        log.exception("the snapshot writer has met an error of its own")
        return Failed(f"{type(error).__name__}: {error}")


async def _run(line: dict[str, Any]) -> Answer:
    try:
        etcd = Access.from_json(line).client()
    except (OSError, ValueError) as error:
        return Failed(str(error))
    return await reported(etcd, job_of(line))


def main() -> int:
    """One run: 0 if it did what was asked, 1 if not, 2 for a line on stdin that cannot be read."""
    # The loaded objects live until the end: garbage collection of them would take a third of the time.
    gc.disable()
    try:
        line = child.begin("snapshot writer")
    except ValueError as error:
        print(json.dumps(Failed(f"stdin: {error}").as_json()), flush=True)
        return 2
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        answer = runner.run(child.until_orphaned(_run(line))) or _ORPHANED
    with suppress(BrokenPipeError):  # the proxy has died
        os.write(sys.stdout.fileno(), json.dumps(answer.as_json()).encode() + b"\n")
    return 1 if isinstance(answer, Failed) else 0


if __name__ == "__main__":
    sys.exit(main())
