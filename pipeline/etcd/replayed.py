"""Replays zketcd's log between two marks, from the newest state before the first one."""

import gc

from pipeline.etcd.log import DataLost, Mark
from pipeline.etcd.read import NotReadable, record_of
from pipeline.traffic.outcomes import Recorder
from pipeline.traffic.table import TrafficRow
from proxy.etcd.interface import Etcd
from proxy.log.record import TreeNotServable
from proxy.log.replay import Execute
from proxy.log.start import NotInLog, Wanted, load
from schema.keys import Keyspace

_PATIENCE = 60.0  # seconds for an etcd that does not answer


async def replayed(
    etcd: Etcd, keys: Keyspace, start: Mark, end: Mark, *, lossy: bool = False
) -> list[TrafficRow]:
    """The rows of the requests behind `start`, up to `end`, with what came of them.

    The tree and all rows are in memory meanwhile. `lossy`: begin with what the log still holds, if that is
    later. Raises DataLost, NotReadable, EtcdError.
    """
    rows: list[TrafficRow] = []

    def again() -> Execute:
        rows.clear()
        return Recorder(start.applied, rows.append).execute

    # What is loaded stays until the end: to look through it again and again takes a third of the time.
    gc.disable()
    try:
        # A log from its beginning has no snapshot before it.
        wanted = Wanted(upto=end.revision, since=start.revision or 1)
        try:
            await load(etcd, keys, make=False, wanted=wanted, patience=_PATIENCE, executes=again)
        except NotInLog as error:
            _, record = await record_of(etcd, keys)
            imported = not start.revision and record.previous is None
            if not imported and not lossy:
                raise DataLost(
                    f"{error}, behind position {start.revision}, where the stream stood. Set"
                    " failOnDataLoss=false to go on without what is lost, or begin with a new checkpoint"
                ) from error
            oldest = record.previous or record.current
            assert oldest is not None  # else the log is whole
            wanted = Wanted(upto=end.revision, since=oldest.position)
            await load(etcd, keys, make=False, wanted=wanted, patience=_PATIENCE, executes=again)
    except TreeNotServable as error:
        raise NotReadable(str(error)) from error
    finally:
        gc.enable()
    return rows
