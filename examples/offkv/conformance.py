"""The list: each line uses an operation of the store in one way, and says what it must give.

A line gets a stage: the store that is judged, and that of another client of the same keys. It returns what it
saw, which must be what the list expects. No key is there when it begins.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from codec.constants import EventType, OpCode
from examples.offkv import store as kv
from examples.offkv.etcd_store import EtcdStore
from examples.offkv.store import Check, Create, Erase, Set, Store
from lab.client.session import Watch

SERVICE_ERROR = "ServiceError"

AnyStore = Store | EtcdStore


class Stage(NamedTuple):
    """What a line works with."""

    store: AnyStore
    other: AnyStore
    timeout_s: float = 60.0
    """How long an event is waited for that etcd does not bring."""


class Line(NamedTuple):
    """One line of the list."""

    operation: str
    promise: str
    requests: frozenset[OpCode]
    """What the store asks of ZooKeeper for it."""
    run: Callable[[Stage], Awaitable[Any]]
    expected: Any
    on_etcd: Any = None
    """What it gives instead directly on etcd, if that differs."""


async def _error(awaitable: Awaitable[Any]) -> str:
    """The name of the error that must come, with a transaction's index."""
    try:
        await awaitable
    except (kv.NoEntry, kv.EntryExists, kv.NoChildrenForEphemeral) as error:
        return type(error).__name__
    except kv.TxnFailed as error:
        return f"TxnFailed {error.index}"
    except kv.ServiceError:
        return SERVICE_ERROR
    return "no error"


async def _event(watch: Watch, limit_s: float = 60.0) -> str:
    """The event that a watch must bring."""
    if not await watch.wait(limit_s):
        return "nothing"
    return EventType(watch.event.type).name if watch.event is not None else "lost"


async def _value(store: AnyStore, key: str) -> tuple[int, bytes]:
    version, value, _ = await store.get(key)
    return version, value


async def _version(store: AnyStore, key: str) -> int:
    return (await store.exists(key))[0]


async def _create(stage: Stage) -> Any:
    version = await stage.store.create("/key", b"value")
    return version, await _value(stage.other, "/key")


async def _create_twice(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    return await _error(stage.store.create("/key", b"other")), await _value(stage.other, "/key")


async def _create_without_parent(stage: Stage) -> Any:
    return await _error(stage.store.create("/key/child", b"value")), await _version(stage.other, "/key")


async def _create_below_lease(stage: Stage) -> Any:
    await stage.other.create("/key", b"", lease=True)
    return await _error(stage.store.create("/key/child", b""))


async def _create_with_lease(stage: Stage) -> Any:
    await stage.store.create("/key", b"value", lease=True)
    before, gone = await stage.other.exists("/key")
    await stage.store.reopen()
    return before, await _event(gone), await _version(stage.other, "/key")


async def _create_without_lease(stage: Stage) -> Any:
    await stage.store.create("/key", b"value")
    await stage.store.reopen()
    return await _version(stage.other, "/key")


async def _exists(stage: Stage) -> Any:
    before = await _version(stage.store, "/key")
    await stage.other.create("/key", b"value")
    return before, await _version(stage.store, "/key")


async def _watch_coming(stage: Stage) -> Any:
    _, watch = await stage.store.exists("/key")
    await stage.other.create("/key", b"value")
    return await _event(watch)


async def _watch_going(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    _, watch = await stage.store.exists("/key")
    await stage.other.erase("/key")
    return await _event(watch), await _version(stage.store, "/key")


async def _get(stage: Stage) -> Any:
    await stage.other.create("/key", b"\0binary\xff")
    return await _value(stage.store, "/key")


async def _get_nothing(stage: Stage) -> Any:
    return await _error(stage.store.get("/key"))


async def _get_empty(stage: Stage) -> Any:
    await stage.other.create("/key", b"")
    return await _value(stage.store, "/key")


async def _watch_value(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    found = await stage.store.get("/key")
    await stage.other.set("/key", b"new")
    return await _event(found.watch), await _value(stage.store, "/key")


async def _watch_value_going(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    found = await stage.store.get("/key")
    await stage.other.erase("/key")
    return await _event(found.watch)


async def _watch_value_only(stage: Stage) -> Any:
    """A key below it does not end the watch, its own new value does."""
    await stage.other.create("/key", b"value")
    found = await stage.store.get("/key")
    await stage.other.create("/key/child", b"")
    await stage.other.set("/key", b"new")
    return await _event(found.watch)


async def _children(stage: Stage) -> Any:
    for key in ("/key", "/key/child", "/key/child/grandchild", "/key/z", "/keyword"):
        await stage.other.create(key, b"")
    return [(await stage.store.get_children(key))[0] for key in ("/key", "/key/child", "/key/z")]


async def _children_of_nothing(stage: Stage) -> Any:
    return await _error(stage.store.get_children("/key"))


async def _watch_children(stage: Stage) -> Any:
    await stage.other.create("/key", b"")
    _, coming = await stage.store.get_children("/key")
    await stage.other.create("/key/child", b"")
    came = await _event(coming)
    _, going = await stage.store.get_children("/key")
    await stage.other.erase("/key/child")
    return came, await _event(going), (await stage.store.get_children("/key"))[0]


async def _watch_children_only(stage: Stage) -> Any:
    """Neither a grandchild nor a child's value ends the watch; a child that goes does."""
    await stage.other.create("/key", b"")
    await stage.other.create("/key/child", b"")
    _, watch = await stage.store.get_children("/key")
    await stage.other.create("/key/child/grandchild", b"")
    await stage.other.set("/key/child", b"new")
    await stage.store.get_children("/key/child")
    early = watch.fired
    await stage.other.erase("/key/child")
    return early, await _event(watch)


async def _watch_children_of_one_that_goes(stage: Stage) -> Any:
    await stage.other.create("/key", b"")
    _, watch = await stage.store.get_children("/key")
    await stage.other.erase("/key")
    return await _event(watch, stage.timeout_s)


async def _set_new(stage: Stage) -> Any:
    return await stage.store.set("/key", b"value"), await _value(stage.other, "/key")


async def _set_again(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    versions = [await stage.store.set("/key", value) for value in (b"one", b"two")]
    return versions, await _value(stage.other, "/key")


async def _set_without_parent(stage: Stage) -> Any:
    return await _error(stage.store.set("/key/child", b"value"))


async def _cas(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    return await stage.store.cas("/key", b"new", 1), await _value(stage.other, "/key")


async def _cas_other_version(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    return await stage.store.cas("/key", b"new", 2), await _value(stage.other, "/key")


async def _cas_nothing(stage: Stage) -> Any:
    return await _error(stage.store.cas("/key", b"new", 42))


async def _cas_new(stage: Stage) -> Any:
    return await stage.store.cas("/key", b"value"), await _value(stage.other, "/key")


async def _cas_new_there(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    return await stage.store.cas("/key", b"new"), await _value(stage.other, "/key")


async def _cas_by_many(stage: Stage) -> Any:
    """Of all that expect one version, one wins."""
    await stage.other.create("/key", b"value")
    stores = [stage.store, stage.other] * 8
    versions = await asyncio.gather(
        *(store.cas("/key", str(number).encode(), 1) for number, store in enumerate(stores))
    )
    return sorted(versions), await _version(stage.other, "/key")


async def _erase(stage: Stage) -> Any:
    for key in ("/key", "/key/child", "/key/child/grandchild", "/keyword"):
        await stage.other.create(key, b"")
    await stage.store.erase("/key")
    return [await _version(stage.other, key) for key in ("/key", "/key/child", "/keyword")]


async def _erase_nothing(stage: Stage) -> Any:
    return await _error(stage.store.erase("/key"))


async def _erase_version(stage: Stage) -> Any:
    await stage.other.create("/key", b"")
    await stage.store.erase("/key", 2)
    kept = await _version(stage.other, "/key")
    await stage.store.erase("/key", 1)
    return kept, await _version(stage.other, "/key")


async def _erase_while_others_create(stage: Stage) -> Any:
    """The erasure is repeated until it got all that is below the key at one moment."""
    await stage.other.create("/key", b"")

    async def fill() -> None:
        for number in range(20):
            try:
                await stage.other.create(f"/key/{number}", b"")
            except kv.NoEntry:
                return

    await asyncio.gather(fill(), stage.store.erase("/key"))
    return await _version(stage.other, "/key")


async def _commit(stage: Stage) -> Any:
    for key in ("/key", "/foo", "/foo/bar"):
        await stage.other.create(key, b"value")
    versions = await stage.store.commit(
        [Check("/key", 1), Check("/foo", 1), Check("/foo/bar")],
        [Create("/key/child", b"value"), Set("/key", b"new"), Erase("/foo")],
    )
    left = [await _version(stage.other, key) for key in ("/key/child", "/foo", "/foo/bar")]
    return versions, left, await _value(stage.other, "/key")


async def _commit_bad_check(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    await stage.other.create("/foo", b"value")
    failed = await _error(
        stage.store.commit(
            [Check("/key", 1), Check("/foo", 2), Check("/no")], [Set("/key", b"new"), Erase("/foo")]
        )
    )
    return failed, await _value(stage.other, "/key"), await _version(stage.other, "/foo")


async def _commit_bad_operation(stage: Stage) -> Any:
    for key in ("/key", "/foo", "/foo/bar"):
        await stage.other.create(key, b"value")
    failed = await _error(
        stage.store.commit(
            [Check("/key", 1)],
            [Create("/key/child", b""), Erase("/foo"), Set("/key/child/none", b""), Erase("/none")],
        )
    )
    return failed, [await _version(stage.other, key) for key in ("/key/child", "/foo", "/foo/bar")]


async def _commit_set_nothing(stage: Stage) -> Any:
    return await _error(stage.store.commit([], [Set("/key", b"")]))


async def _commit_erase_nothing(stage: Stage) -> Any:
    return await _error(stage.store.commit([], [Erase("/key")]))


async def _commit_erase_and_create(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    failed = await _error(stage.store.commit([], [Create("/key/child", b""), Erase("/key")]))
    return failed, [await _version(stage.other, key) for key in ("/key", "/key/child")]


async def _commit_create_there(stage: Stage) -> Any:
    await stage.other.create("/key", b"value")
    return await _error(stage.store.commit([], [Create("/new", b""), Create("/key", b"")]))


async def _commit_lease(stage: Stage) -> Any:
    versions = await stage.store.commit([], [Create("/key", b"value", lease=True)])
    _, gone = await stage.other.exists("/key")
    await stage.store.reopen()
    return versions, await _event(gone)


async def _commit_chain(stage: Stage) -> Any:
    """Each operation sees those before it."""
    try:
        versions = await stage.store.commit(
            [], [Create("/key", b"1"), Create("/key/child", b""), Set("/key", b"2")]
        )
    except kv.ServiceError:
        return SERVICE_ERROR
    return versions, await _value(stage.other, "/key")


async def _commit_wakes(stage: Stage) -> Any:
    """A watch fires for what a transaction did, and for none that was rolled back."""
    await stage.other.create("/key", b"value")
    found = await stage.store.get("/key")
    rolled_back = await _error(stage.other.commit([], [Set("/key", b"new"), Set("/none", b"")]))
    await stage.store.exists("/key")  # an event would come before this answer
    early = found.watch.fired
    await stage.other.commit([], [Set("/key", b"new")])
    return rolled_back, early, await _event(found.watch)


_CREATE, _EXISTS, _GET, _LIST, _SET, _MULTI = (
    frozenset({code})
    for code in (
        OpCode.CREATE,
        OpCode.EXISTS,
        OpCode.GET_DATA,
        OpCode.GET_CHILDREN2,
        OpCode.SET_DATA,
        OpCode.MULTI,
    )
)
LINES = (
    Line("create", "makes a key of version 1", _CREATE, _create, (1, (1, b"value"))),
    Line("create", "refuses a key that is there", _CREATE, _create_twice, ("EntryExists", (1, b"value"))),
    Line("create", "refuses a key below none", _CREATE, _create_without_parent, ("NoEntry", 0)),
    Line(
        "create",
        "refuses a key below a leased one",
        _CREATE,
        _create_below_lease,
        "NoChildrenForEphemeral",
        "no error",
    ),
    Line("create", "with a lease ends with the session", _CREATE, _create_with_lease, (1, "NODE_DELETED", 0)),
    Line("create", "without a lease outlives the session", _CREATE, _create_without_lease, 1),
    Line("exists", "gives the version, 0 for none", _EXISTS, _exists, (0, 1)),
    Line("exists, watch", "tells that a key comes", _EXISTS, _watch_coming, "NODE_CREATED"),
    Line("exists, watch", "tells that a key goes", _EXISTS, _watch_going, ("NODE_DELETED", 0)),
    Line("get", "gives version and value, byte by byte", _GET, _get, (1, b"\0binary\xff")),
    Line("get", "gives an empty value", _GET, _get_empty, (1, b"")),
    Line("get", "refuses a key that is not there", _GET, _get_nothing, "NoEntry"),
    Line("get, watch", "tells of a new value", _GET, _watch_value, ("NODE_DATA_CHANGED", (2, b"new"))),
    Line("get, watch", "tells that the key goes", _GET, _watch_value_going, "NODE_DELETED"),
    Line("get, watch", "does not tell of keys below it", _GET, _watch_value_only, "NODE_DATA_CHANGED"),
    Line(
        "get_children",
        "gives the keys directly below, and no other with the same beginning",
        _LIST,
        _children,
        [["/key/child", "/key/z"], ["/key/child/grandchild"], []],
    ),
    Line("get_children", "refuses a key that is not there", _LIST, _children_of_nothing, "NoEntry"),
    Line(
        "get_children, watch",
        "tells that a child comes or goes",
        _LIST,
        _watch_children,
        ("NODE_CHILDREN_CHANGED", "NODE_CHILDREN_CHANGED", []),
    ),
    Line(
        "get_children, watch",
        "does not tell of grandchildren or values",
        _LIST,
        _watch_children_only,
        (False, "NODE_CHILDREN_CHANGED"),
    ),
    Line(
        "get_children, watch",
        "tells that the key goes",
        _LIST,
        _watch_children_of_one_that_goes,
        "NODE_DELETED",
        "nothing",
    ),
    Line("set", "makes a key that is not there", _CREATE, _set_new, (1, (1, b"value"))),
    Line("set", "gives each value the next version", _CREATE | _SET, _set_again, ([2, 3], (3, b"two"))),
    Line("set", "refuses a key below none", _CREATE, _set_without_parent, "NoEntry"),
    Line("cas", "sets a key of that version", _SET, _cas, (2, (2, b"new"))),
    Line("cas", "leaves a key of another version", _SET, _cas_other_version, (0, (1, b"value"))),
    Line("cas", "refuses a key that is not there", _SET, _cas_nothing, "NoEntry"),
    Line("cas", "with version 0 makes a key", _CREATE, _cas_new, (1, (1, b"value"))),
    Line("cas", "with version 0 leaves a key that is there", _CREATE, _cas_new_there, (0, (1, b"value"))),
    Line("cas", "lets one of many win", _SET, _cas_by_many, ([0] * 15 + [2], 2)),
    Line("erase", "takes a key with all below it, and no other", _LIST | _MULTI, _erase, [0, 0, 1]),
    Line("erase", "refuses a key that is not there", _LIST | _MULTI, _erase_nothing, "NoEntry"),
    Line("erase", "leaves a key of another version", _LIST | _MULTI, _erase_version, (1, 0)),
    Line("erase", "is whole while others create below", _LIST | _MULTI, _erase_while_others_create, 0),
    Line(
        "commit",
        "does all at once, and gives the versions",
        _LIST | _MULTI,
        _commit,
        ([1, 2], [1, 0, 0], (2, b"new")),
    ),
    Line(
        "commit",
        "names the first check that fails, and does nothing",
        _LIST | _MULTI,
        _commit_bad_check,
        ("TxnFailed 1", (1, b"value"), 1),
    ),
    Line(
        "commit",
        "names the first operation that fails, and does nothing",
        _LIST | _MULTI,
        _commit_bad_operation,
        ("TxnFailed 3", [0, 1, 1]),
    ),
    Line("commit", "refuses to set a key that is not there", _MULTI, _commit_set_nothing, "TxnFailed 0"),
    Line(
        "commit",
        "refuses to erase a key that is not there",
        _LIST | _MULTI,
        _commit_erase_nothing,
        "TxnFailed 0",
    ),
    Line(
        "commit",
        "refuses to erase a key below which it creates another",
        _LIST | _MULTI,
        _commit_erase_and_create,
        ("TxnFailed 1", [1, 0]),
        (SERVICE_ERROR, [1, 0]),
    ),
    Line("commit", "refuses to create a key that is there", _MULTI, _commit_create_there, "TxnFailed 1"),
    Line("commit", "creates with a lease", _MULTI, _commit_lease, ([1], "NODE_DELETED")),
    Line(
        "commit",
        "lets each operation see those before it",
        _MULTI,
        _commit_chain,
        ([1, 1, 2], (2, b"2")),
        SERVICE_ERROR,
    ),
    Line(
        "commit, watch",
        "fires for what was done, not for what was rolled back",
        _GET | _EXISTS,
        _commit_wakes,
        ("TxnFailed 1", False, "NODE_DATA_CHANGED"),
    ),
)
