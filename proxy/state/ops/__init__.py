"""The table of operations: every request that this server answers, by opcode. Those of a kind share a file.

Ping, auth and sasl concern the connection rather than the state: the frontend answers those. Besides the
operations there are:

steps       how long a read will take, as the state is now
expected    how long a part of a multiRead will take
read_only   for sessions that may only read
features    what a Keeper says of itself
unreadable  requests that cannot be decoded: what ZooKeeper answers
beginning   the parts of a multi before one that cannot be decoded
"""

from collections.abc import Mapping
from functools import partial

from codec.constants import KeeperFeature, KeeperOpCode, OpCode
from codec.keeper import read_filtered_list, read_list_with_stat_and_data
from codec.packets import read_path_watch
from proxy.state.node import PACKED_PER_STEP
from proxy.state.operation import (
    AnswerPart,
    AnswerRead,
    Cost,
    Operations,
    ReadOperation,
    ReadPart,
    Sees,
    WriteOperation,
)
from proxy.state.ops.checks import CHECK, CHECK_NOT_EXISTS, CHECK_STAT
from proxy.state.ops.close_session import CLOSE_SESSION
from proxy.state.ops.create import CREATE, CREATE2, CREATE_CONTAINER, CREATE_TTL
from proxy.state.ops.create_if_not_exists import CREATE_IF_NOT_EXISTS
from proxy.state.ops.delete import DELETE, TRY_REMOVE
from proxy.state.ops.delete_container import DELETE_CONTAINER
from proxy.state.ops.expected import expect_children, expect_data, expect_nothing
from proxy.state.ops.get_all_children_number import get_all_children_number
from proxy.state.ops.get_ephemerals import get_ephemerals
from proxy.state.ops.keeper_lists import (
    FILTERED_PER_STEP,
    expect_described,
    filtered_list,
    list_recursive,
    list_with_stat_and_data,
)
from proxy.state.ops.keeper_multi_read import KeeperMultiRead
from proxy.state.ops.multi import PartKinds, kinds_of, multi_of
from proxy.state.ops.multi_read import children_of, data_of
from proxy.state.ops.read_only import close_session, not_read_only
from proxy.state.ops.reads import exists, get_acl, get_children, get_children2, get_data
from proxy.state.ops.reconfig import RECONFIG
from proxy.state.ops.remove_recursive import REMOVE_RECURSIVE
from proxy.state.ops.set_acl import SET_ACL
from proxy.state.ops.set_data import SET_DATA
from proxy.state.ops.steps import of_acl, of_bytes, of_owned, of_part, of_subtree
from proxy.state.ops.sync import SYNC
from proxy.state.ops.watch_requests import add_watch, check_watches, remove_watches, set_watches, set_watches2
from proxy.state.ops.who_am_i import who_am_i

_alone = partial(ReadOperation, alone=True)


def _names(answer: AnswerRead, plain: AnswerPart | None = None, word: str = "") -> ReadOperation:
    """A list of the names of a node's children."""
    part = ReadPart(read_path_watch, expect_children(PACKED_PER_STEP), plain)
    return ReadOperation(answer, of_part(part), sees=Sees.NAMES, part=part, counted="get_children", word=word)


_SINGLE: Mapping[int, ReadOperation] = {
    OpCode.EXISTS: ReadOperation(
        exists, part=ReadPart(read_path_watch, expect_nothing), counted="exists", word="EXIS"
    ),
    OpCode.GET_DATA: ReadOperation(
        get_data, part=ReadPart(read_path_watch, expect_data, data_of), counted="get_data", word="GETD"
    ),
    OpCode.GET_CHILDREN: _names(get_children, children_of, word="GETC"),
    OpCode.GET_CHILDREN2: _names(get_children2, word="GETC"),
    OpCode.GET_ACL: _alone(get_acl, of_acl, counted="get_acl", word="GETA"),
    OpCode.CHECK_WATCHES: ReadOperation(check_watches, counted="check_watches", word="CHKW"),
    OpCode.REMOVE_WATCHES: ReadOperation(remove_watches, counted="remove_watches", word="REMW"),
    OpCode.SET_WATCHES: _alone(
        set_watches, of_bytes, sees=Sees.PIECES, has_path=False, counted="set_watches", word="SETW"
    ),
    OpCode.GET_EPHEMERALS: _alone(
        get_ephemerals, of_owned, cost=Cost.SEARCH, has_path=False, counted="get_ephemerals", word="GETE"
    ),
    OpCode.GET_ALL_CHILDREN_NUMBER: _alone(
        get_all_children_number,
        of_subtree,
        cost=Cost.SEARCH,
        counted="get_all_children_number",
        word="GETACN",
    ),
    OpCode.SET_WATCHES2: _alone(
        set_watches2, of_bytes, sees=Sees.PIECES, has_path=False, counted="set_watches", word="STW2"
    ),
    OpCode.ADD_WATCH: ReadOperation(add_watch, counted="add_watch", word="ADDW"),
    # It is short, since a client's identities are bounded; but not so short that very many are no load.
    OpCode.WHO_AM_I: _alone(who_am_i, has_path=False, counted="who_am_i", word="HOMI"),
}
_WRITES: Mapping[int, WriteOperation] = {
    OpCode.CREATE: CREATE,
    OpCode.CREATE2: CREATE2,
    OpCode.CREATE_CONTAINER: CREATE_CONTAINER,
    OpCode.CREATE_TTL: CREATE_TTL,
    OpCode.DELETE: DELETE,
    OpCode.DELETE_CONTAINER: DELETE_CONTAINER,
    OpCode.SET_DATA: SET_DATA,
    OpCode.SET_ACL: SET_ACL,
    OpCode.CHECK: CHECK,
    OpCode.SYNC: SYNC,
    OpCode.RECONFIG: RECONFIG,
    OpCode.CLOSE_SESSION: CLOSE_SESSION,
}

# What ClickHouse Keeper adds.

_FILTERED = ReadPart(read_filtered_list, expect_children(FILTERED_PER_STEP))
_DESCRIBED = ReadPart(read_list_with_stat_and_data, expect_described)
_KEEPER_SINGLE: Mapping[int, ReadOperation] = {
    KeeperOpCode.FILTERED_LIST: _alone(
        filtered_list,
        of_part(_FILTERED),
        sees=Sees.NAMES,
        cost=Cost.SEARCH,
        part=_FILTERED,
        counted="get_children",
    ),
    KeeperOpCode.LIST_WITH_STAT_AND_DATA: _alone(
        list_with_stat_and_data,
        of_part(_DESCRIBED),
        cost=Cost.SEARCH,
        part=_DESCRIBED,
        counted="get_children",
    ),
    KeeperOpCode.LIST_RECURSIVE: _alone(list_recursive, of_subtree, cost=Cost.SEARCH, counted="get_children"),
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
PARTS: PartKinds = kinds_of(_WRITES)
EXTENDED_PARTS: PartKinds = kinds_of({**_WRITES, **_KEEPER_WRITES})

MULTI_READ = KeeperMultiRead({**_SINGLE, **_KEEPER_SINGLE}, PARTS)
_ROW_OF_MULTI_READ = _alone(
    MULTI_READ.plain.answer, MULTI_READ.steps, has_path=False, counted="multi_read", word="MLTR"
)

READS: dict[int, ReadOperation] = {**_SINGLE, OpCode.MULTI_READ: _ROW_OF_MULTI_READ}
_KEEPER_READS: Mapping[int, ReadOperation] = {
    **_KEEPER_SINGLE,
    OpCode.MULTI_READ: _ROW_OF_MULTI_READ._replace(answer=MULTI_READ.answer, cost=Cost.SEARCH),
}

WRITES: dict[int, WriteOperation] = {
    **{opcode: write for opcode, write in _WRITES.items() if not write.only_part},
    OpCode.MULTI: multi_of(PARTS),
}

PLAIN = Operations(READS, WRITES, keeper=False)
EXTENDED = Operations(
    {**READS, **_KEEPER_READS},
    {**WRITES, **_KEEPER_WRITES, OpCode.MULTI: multi_of(EXTENDED_PARTS)},
    keeper=True,
)

#: All that clients send, those that can only be parts of a multi too.
ROWS: Mapping[int, ReadOperation | WriteOperation] = {**EXTENDED.reads, **_WRITES, **EXTENDED.writes}


def for_read_only_session(operations: Operations) -> Operations:
    """The same for a session that may only read: its writes are treated as reads that are refused."""
    refused = dict.fromkeys(operations.writes, ReadOperation(not_read_only))
    reads = {**operations.reads, **refused, OpCode.CLOSE_SESSION: _alone(close_session)}
    return Operations(reads, {}, keeper=operations.keeper)
