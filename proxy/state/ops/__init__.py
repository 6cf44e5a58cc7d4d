"""The table of operations: every request that this server answers, by opcode. Those of a kind share a file.

Ping, auth and sasl concern the connection rather than the state: the frontend answers those.
"""

from collections.abc import Mapping

from codec.constants import KeeperFeature, KeeperOpCode, OpCode
from proxy.state.node import PACKED_PER_STEP
from proxy.state.operation import Cost, Operations, ReadOperation, WriteOperation
from proxy.state.ops.checks import CHECK_NOT_EXISTS, CHECK_STAT
from proxy.state.ops.close_session import CLOSE_SESSION
from proxy.state.ops.create import CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL
from proxy.state.ops.create_if_not_exists import CREATE_IF_NOT_EXISTS
from proxy.state.ops.delete import DELETE, TRY_REMOVE
from proxy.state.ops.delete_container import DELETE_CONTAINER
from proxy.state.ops.get_all_children_number import get_all_children_number
from proxy.state.ops.get_ephemerals import get_ephemerals
from proxy.state.ops.keeper_lists import filtered_list, list_recursive, list_with_stat_and_data
from proxy.state.ops.keeper_multi_read import keeper_multi_read, of_parts
from proxy.state.ops.multi import MULTI, PARTS, multi_of
from proxy.state.ops.multi_read import multi_read
from proxy.state.ops.read_only import close_session, not_read_only
from proxy.state.ops.reads import exists, get_acl, get_children, get_children2, get_data
from proxy.state.ops.reconfig import RECONFIG
from proxy.state.ops.remove_recursive import REMOVE_RECURSIVE
from proxy.state.ops.set_acl import SET_ACL
from proxy.state.ops.set_data import SET_DATA
from proxy.state.ops.steps import of_acl, of_bytes, of_children, of_owned, of_subtree
from proxy.state.ops.sync import SYNC
from proxy.state.ops.watch_requests import (
    add_watch,
    check_watches,
    remove_watches,
    set_watches,
    set_watches2,
)
from proxy.state.ops.who_am_i import who_am_i

_NAMES = of_children(PACKED_PER_STEP)

READS: dict[int, ReadOperation] = {
    OpCode.EXISTS: ReadOperation(exists, counted="exists", word="EXIS"),
    OpCode.GET_DATA: ReadOperation(get_data, counted="get_data", word="GETD"),
    OpCode.GET_CHILDREN: ReadOperation(get_children, steps=_NAMES, counted="get_children", word="GETC"),
    OpCode.GET_CHILDREN2: ReadOperation(get_children2, steps=_NAMES, counted="get_children", word="GETC"),
    OpCode.GET_ACL: ReadOperation(get_acl, heavy=True, steps=of_acl, counted="get_acl", word="GETA"),
    OpCode.CHECK_WATCHES: ReadOperation(check_watches, counted="check_watches", word="CHKW"),
    OpCode.REMOVE_WATCHES: ReadOperation(remove_watches, counted="remove_watches", word="REMW"),
    OpCode.MULTI_READ: ReadOperation(
        multi_read, heavy=True, steps=of_parts, has_path=False, counted="multi_read", word="MLTR"
    ),
    OpCode.SET_WATCHES: ReadOperation(
        set_watches,
        heavy=True,
        in_pieces=True,
        steps=of_bytes,
        has_path=False,
        counted="set_watches",
        word="SETW",
    ),
    OpCode.GET_EPHEMERALS: ReadOperation(
        get_ephemerals,
        Cost.SEARCH,
        heavy=True,
        steps=of_owned,
        has_path=False,
        counted="get_ephemerals",
        word="GETE",
    ),
    OpCode.GET_ALL_CHILDREN_NUMBER: ReadOperation(
        get_all_children_number,
        Cost.SEARCH,
        heavy=True,
        steps=of_subtree,
        counted="get_all_children_number",
        word="GETACN",
    ),
    OpCode.SET_WATCHES2: ReadOperation(
        set_watches2,
        heavy=True,
        in_pieces=True,
        steps=of_bytes,
        has_path=False,
        counted="set_watches",
        word="STW2",
    ),
    OpCode.ADD_WATCH: ReadOperation(add_watch, counted="add_watch", word="ADDW"),
    OpCode.WHO_AM_I: ReadOperation(who_am_i, has_path=False, counted="who_am_i", word="HOMI"),
}

WRITES: dict[int, WriteOperation] = {
    OpCode.CREATE: CREATE,
    OpCode.CREATE2: CREATE2,
    OpCode.CREATE_CONTAINER: CREATE_CONTAINER,
    OpCode.CREATE_TTL: CREATE_TTL,
    OpCode.DELETE: DELETE,
    OpCode.DELETE_CONTAINER: DELETE_CONTAINER,
    OpCode.SET_DATA: SET_DATA,
    OpCode.SET_ACL: SET_ACL,
    OpCode.MULTI: MULTI,
    OpCode.SYNC: SYNC,
    OpCode.RECONFIG: RECONFIG,
    OpCode.CLOSE_SESSION: CLOSE_SESSION,
}

# What ClickHouse Keeper adds.

_KEEPER_READS: Mapping[int, ReadOperation] = {
    OpCode.MULTI_READ: ReadOperation(
        keeper_multi_read,
        Cost.SEARCH,
        heavy=True,
        steps=of_parts,
        has_path=False,
        counted="multi_read",
        word="MLTR",
    ),
    KeeperOpCode.FILTERED_LIST: ReadOperation(
        filtered_list, Cost.SEARCH, heavy=True, steps=of_children(4), counted="get_children"
    ),
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: ReadOperation(
        list_with_stat_and_data, Cost.SEARCH, heavy=True, steps=of_children(2), counted="get_children"
    ),
    KeeperOpCode.LIST_RECURSIVE: ReadOperation(
        list_recursive, Cost.SEARCH, heavy=True, steps=of_subtree, counted="get_children"
    ),
}
_KEEPER_WRITES: Mapping[int, WriteOperation] = {
    KeeperOpCode.CHECK_NOT_EXISTS: CHECK_NOT_EXISTS,
    KeeperOpCode.CREATE_IF_NOT_EXISTS: CREATE_IF_NOT_EXISTS,
    KeeperOpCode.REMOVE_RECURSIVE: REMOVE_RECURSIVE,
    KeeperOpCode.CHECK_STAT: CHECK_STAT,
    KeeperOpCode.TRY_REMOVE: TRY_REMOVE,
}

# The content of /keeper/feature_flags: all extensions of Keeper.
FEATURES: frozenset[KeeperFeature] = frozenset(KeeperFeature)

#: What may be a part of a multi.
EXTENDED_PARTS: Mapping[int, WriteOperation] = {**PARTS, **_KEEPER_WRITES}

PLAIN = Operations(READS, WRITES, extended=False)
EXTENDED = Operations(
    {**READS, **_KEEPER_READS},
    {**WRITES, **_KEEPER_WRITES, OpCode.MULTI: multi_of(EXTENDED_PARTS)},
    extended=True,
)

#: All that clients send, those that can only be parts of a multi too.
ROWS: Mapping[int, ReadOperation | WriteOperation] = {**EXTENDED.reads, **PARTS, **EXTENDED.writes}


def reads_alone(operations: Operations) -> Operations:
    """The same for a session that may only read: its writes are treated as reads that are refused."""
    refused = dict.fromkeys(operations.writes, ReadOperation(not_read_only))
    # The end of a connection is never answered together with other reads.
    closing = ReadOperation(close_session, heavy=True)
    return Operations(
        {**operations.reads, **refused, OpCode.CLOSE_SESSION: closing},
        {},
        extended=operations.extended,
    )
