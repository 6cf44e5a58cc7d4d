"""The table of operations: every opcode of the protocol is answered, or known not to be. And its rows."""

from collections.abc import Mapping

import pytest

from codec.constants import KeeperOpCode, OpCode
from lab.oracle import requests as oracle
from pipeline.follow import applying
from pipeline.formats import transactions
from proxy.admin.clients import lop_name
from proxy.admin.facts import OPERATIONS
from proxy.state.effect import Effect
from proxy.state.operation import Cost, ReadOperation, WriteOperation
from proxy.state.ops import EXTENDED, PLAIN, READS, ROWS, WRITES
from proxy.support.latency import Latency
from tests.table import one_by_one

# The connection's own business.
_CONNECTION = {OpCode.PING, OpCode.AUTH, OpCode.SASL}
# No request of a client.
_NO_REQUEST = {OpCode.NOTIFICATION, OpCode.CREATE_SESSION, OpCode.ERROR}
# Part of a multi only.
_MULTI_ONLY = {OpCode.CHECK}


def test_every_opcode_has_its_place() -> None:
    places = (READS, WRITES, _CONNECTION, _NO_REQUEST, _MULTI_ONLY)
    assert sorted(int(opcode) for place in places for opcode in place) == sorted(map(int, OpCode))


def test_every_opcode_of_keeper_is_answered_with_its_extensions_alone() -> None:
    ours = {int(opcode) for opcode in KeeperOpCode}
    assert EXTENDED.reads.keys() | EXTENDED.writes.keys() == READS.keys() | WRITES.keys() | ours
    assert PLAIN.reads is READS
    assert PLAIN.writes is WRITES


_TABLES: Mapping[str, Mapping[int, ReadOperation | WriteOperation]] = {
    "rows": ROWS,
    "plain": {**PLAIN.reads, **PLAIN.writes},
}
_EVERY = [
    pytest.param(opcode, row, id=f"{name}-{opcode}")
    for name, rows in _TABLES.items()
    for opcode, row in rows.items()
]


@one_by_one(("opcode", "row"), _EVERY)
def test_each_row_says_what_operators_see(opcode: int, row: ReadOperation | WriteOperation) -> None:
    """A reconfig never succeeds, so it has no counter; requests of Keeper's own have no word."""
    assert row.counted in OPERATIONS if row.counted else opcode == OpCode.RECONFIG, "`counted` in its row"
    assert lop_name(opcode) == (row.word or str(opcode))
    assert bool(row.word) is (opcode not in list(KeeperOpCode))


def test_who_else_knows_all_writes() -> None:
    """The oracle which change something; the pipeline which transactions ZooKeeper logs."""
    writes = {opcode for opcode, row in ROWS.items() if isinstance(row, WriteOperation)}
    made = {opcode: getattr(oracle._MAKE[opcode], "func", oracle._MAKE[opcode]) for opcode in writes}
    unknown = {opcode for opcode in writes if made[opcode] not in oracle._WRITES}
    assert unknown == {OpCode.RECONFIG, OpCode.SYNC}
    zookeepers = writes & set(map(int, OpCode)) - {OpCode.SYNC, OpCode.MULTI}
    assert zookeepers <= transactions._BODIES.keys()
    assert zookeepers - applying._TYPES.keys() == {OpCode.CHECK, OpCode.RECONFIG}


_WRITES = [(opcode, row) for opcode, row in ROWS.items() if isinstance(row, WriteOperation)]


@one_by_one(("opcode", "row"), _WRITES)
def test_each_write_says_what_it_changes(opcode: int, row: WriteOperation) -> None:
    assert (row.effect is Effect.CREATES) is (row.audited == "create")
    # What changes nodes costs more than its bytes, and is in the audit log: a multi by its parts.
    if row.effect is not Effect.NOTHING:
        assert Cost.CHANGES in row.cost
        assert bool(row.audited) is (row.effect is not Effect.OF_PARTS)
    else:
        assert not row.audited or opcode == OpCode.RECONFIG
        assert row.cost is Cost.BYTES or opcode == OpCode.CLOSE_SESSION


def test_the_tables_are_those_of_the_rows() -> None:
    latency = Latency(EXTENDED.updates)
    assert latency.updates[OpCode.SET_DATA]
    reads = {opcode for opcode, is_update in latency.updates.items() if not is_update}
    assert reads == {*EXTENDED.reads, OpCode.SYNC, OpCode.PING}, "as ServerStats.updateLatency"
