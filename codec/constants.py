"""The numbers of ZooKeeper 3.9's client protocol under their names. Only numbers live here."""

from enum import IntEnum, IntFlag


class OpCode(IntEnum):
    """Request types: ZooKeeper's ZooDefs.OpCode."""

    NOTIFICATION = 0
    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    SASL = 102
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CREATE_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


class KeeperOpCode(IntEnum):
    """Request types that ClickHouse Keeper adds to ZooKeeper's, by its own names."""

    FILTERED_LIST = 500
    CHECK_NOT_EXISTS = 501
    CREATE_IF_NOT_EXISTS = 502
    REMOVE_RECURSIVE = 503
    CHECK_STAT = 504
    TRY_REMOVE = 505
    LIST_WITH_STAT_AND_DATA = 506
    LIST_RECURSIVE = 507


class KeeperFeature(IntEnum):
    """Bits of Keeper's /keeper/feature_flags, counted from the highest bit of the first byte."""

    FILTERED_LIST = 0
    MULTI_READ = 1
    CHECK_NOT_EXISTS = 2
    CREATE_IF_NOT_EXISTS = 3
    REMOVE_RECURSIVE = 4
    MULTI_WATCHES = 5
    CHECK_STAT = 6
    PERSISTENT_WATCHES = 7
    CREATE_WITH_STATS = 8
    TRY_REMOVE = 9
    LIST_WITH_STAT_AND_DATA = 10
    GET_CHILDREN_RECURSIVE = 11
    CREATE_TTL = 12
    CREATE_CONTAINER = 13
    MAX_REQUEST_SIZE = 14


class ListFilter(IntEnum):
    """Which children FILTERED_LIST and LIST_WITH_STAT_AND_DATA return: Keeper's ListRequestType."""

    ALL = 0
    PERSISTENT = 1
    EPHEMERAL = 2


class ProtocolVersion(IntEnum):
    """`protocolVersion` of the handshake: ZooKeeper knows 0 alone, the others are Keeper's."""

    ZOOKEEPER = 0
    COMPRESSION = 10
    WIDE_XIDS = 11
    TRACING = 12
    REJECTED = 42  # in a response only: try another server


class ErrorCode(IntEnum):
    """Values of a reply's `err`: ZooKeeper's KeeperException.Code."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    UNKNOWN_SESSION = -12
    NEW_CONFIG_NO_QUORUM = -13
    RECONFIG_IN_PROGRESS = -14
    API_ERROR = -100
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118
    NOT_READ_ONLY = -119
    EPHEMERAL_ON_LOCAL_SESSION = -120
    NO_WATCHER = -121
    REQUEST_TIMEOUT = -122
    RECONFIG_DISABLED = -123
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124
    QUOTA_EXCEEDED = -125
    THROTTLED_OP = -127


class EventType(IntEnum):
    """What a watch event reports: Watcher.Event.EventType."""

    NONE = -1
    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4
    DATA_WATCH_REMOVED = 5
    CHILD_WATCH_REMOVED = 6
    PERSISTENT_WATCH_REMOVED = 7


class KeeperState(IntEnum):
    """The session state that a watch event carries: Watcher.Event.KeeperState."""

    UNKNOWN = -1
    DISCONNECTED = 0
    NO_SYNC_CONNECTED = 1
    SYNC_CONNECTED = 3
    AUTH_FAILED = 4
    CONNECTED_READ_ONLY = 5
    SASL_AUTHENTICATED = 6
    CLOSED = 7
    EXPIRED = -112


class WatcherType(IntEnum):
    """Which watches CHECK_WATCHES and REMOVE_WATCHES mean: Watcher.WatcherType."""

    CHILDREN = 1
    DATA = 2
    ANY = 3
    PERSISTENT = 4
    PERSISTENT_RECURSIVE = 5


class AddWatchMode(IntEnum):
    """The mode of ADD_WATCH: ZooDefs.AddWatchModes."""

    PERSISTENT = 0
    PERSISTENT_RECURSIVE = 1


class Perms(IntFlag):
    """Permission bits of an ACL entry: ZooDefs.Perms."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class CreateMode(IntEnum):
    """The `flags` of a create: ZooKeeper's CreateMode. They are numbers, not bits, from CONTAINER on."""

    PERSISTENT = 0
    EPHEMERAL = 1
    PERSISTENT_SEQUENTIAL = 2
    EPHEMERAL_SEQUENTIAL = 3
    CONTAINER = 4
    PERSISTENT_WITH_TTL = 5
    PERSISTENT_SEQUENTIAL_WITH_TTL = 6


EPHEMERAL_MODES = frozenset(int(mode) for mode in CreateMode if mode.name.startswith("EPHEMERAL"))
SEQUENTIAL_MODES = frozenset(int(mode) for mode in CreateMode if "SEQUENTIAL" in mode.name)


class Xid(IntEnum):
    """Request ids with a fixed meaning: ClientCnxn's *_XID."""

    NOTIFICATION = -1
    PING = -2
    AUTH = -4
    SET_WATCHES = -8
