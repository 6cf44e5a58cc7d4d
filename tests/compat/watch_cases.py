"""Scripts about watches that last, their removal and return, and the reads that belong to a session."""

from collections.abc import Iterable

from lab.oracle.requests import (
    EPHEMERAL,
    EPHEMERAL_SEQUENTIAL,
    AddAuth,
    AddWatch,
    Check,
    CheckWatches,
    Create,
    Delete,
    Exists,
    GetAllChildrenNumber,
    GetChildren,
    GetData,
    GetEphemerals,
    Multi,
    MultiRead,
    Ping,
    Reconfig,
    RemoveWatches,
    Request,
    Sasl,
    SetAcl,
    SetData,
    SetWatches,
    SetWatches2,
    Sync,
    WhoAmI,
)
from tests.compat.building import AMY, ONLY_AMY, one
from tests.compat.script import Close, Drop, Expire, Open, Reopen, Script, call

PERSISTENT, RECURSIVE = 0, 1
KINDS = {"children": 1, "data": 2, "any": 3, "persistent": 4, "recursive": 5}


def _checks(*paths: str | None) -> list[Request]:
    """Return requests that tell which watches there are on the paths."""
    return [CheckWatches(path, kind) for path in paths for kind in KINDS.values()]


# Every kind of change, at three levels, some hidden in multis.
_CHANGES: tuple[Request, ...] = (
    Create("/a"),
    SetData("/a", b"1"),
    Create("/a/b"),
    SetData("/a/b", b"2"),
    Create("/a/b/c"),
    SetData("/a/b/c", b"3"),
    Create("/ab"),
    SetAcl("/a"),
    Multi((SetData("/a/b", b"4"), SetData("/a/b", b"5"), Delete("/a/b/c"), Create("/a/b/c"))),
    Multi((Create("/a/d"), Delete("/a/d"))),
    Multi((Create("/a/d"), Check("/missing"))),
    Delete("/a/b/c"),
    Multi((Delete("/a/b"), Delete("/a"), Create("/a"))),
    Delete("/a"),
    Delete("/ab"),
    SetData("", b"root"),
)


def _all_modes(path: str) -> list[Request]:
    """Return requests that leave every watch there is on a path."""
    return [
        Exists(path, True),
        GetChildren(path, True),
        AddWatch(path, PERSISTENT),
        AddWatch(path, RECURSIVE),
    ]


def _removal(kinds: Iterable[int]) -> Script:
    """Return a script that takes watches of these kinds off a path with all, and off one with each alone."""
    steps: Script = [Open(0), Open(1), *one(0, Create("/a"), Create("/a/b"))]
    for kind in kinds:
        steps += one(1, *_all_modes("/a"), RemoveWatches("/a", kind), *_checks("/a"))
        steps += one(1, RemoveWatches("/a", kind))
        steps += one(0, SetData("/a"), Create("/a/x"), SetData("/a/x"), Delete("/a/x"), SetData("/a"))
        steps += one(1, *_checks("/a"), RemoveWatches("/a"))
        for alone in _all_modes("/a"):
            steps += one(1, alone, RemoveWatches("/a", kind), *_checks("/a"), RemoveWatches("/a"))
    return steps


def _lasting(mode: int, *paths: str) -> Script:
    """Return a script of all changes under lasting watches, seen by other clients and by their maker."""
    add = [AddWatch(path, mode) for path in paths]
    return [
        *(Open(slot) for slot in range(3)),
        *one(1, *add),
        *one(0, *add[:1], *_CHANGES, *_CHANGES),
        *one(2, *_CHANGES),
        *one(1, *_checks(*paths)),
    ]


CASES: dict[str, Script] = {
    "persistent": _lasting(PERSISTENT, "/a", "/a/b", "/missing", ""),
    "recursive": _lasting(RECURSIVE, "/a"),
    "recursive_above_the_node": _lasting(RECURSIVE, ""),
    "recursive_at_two_levels": _lasting(RECURSIVE, "/a", "", "/a/b", "/ab/x"),
    "recursive_at_the_root": [
        Open(0),
        Open(1),
        *one(1, AddWatch("@/", RECURSIVE), AddWatch("@/", PERSISTENT), AddWatch("@/zookeeper", RECURSIVE)),
        *one(0, *_CHANGES),
        *one(1, RemoveWatches("@/", 5)),
        *one(0, *_CHANGES),
        *one(1, *_checks("@/", "@/zookeeper")),
    ],
    "persistent_and_recursive_on_one_path": [
        Open(0),
        Open(1),
        Open(2),
        *one(1, AddWatch("/a", PERSISTENT), AddWatch("/a", RECURSIVE), AddWatch("/a", PERSISTENT)),
        *one(2, AddWatch("/a", RECURSIVE), AddWatch("/a", PERSISTENT), *_checks("/a")),
        *one(0, *_CHANGES),
        *one(2, RemoveWatches("/a", 4), *_checks("/a")),
        *one(1, RemoveWatches("/a", 5), *_checks("/a")),
        *one(0, *_CHANGES),
    ],
    "one_shot_beside_persistent": [
        Open(0),
        Open(1),
        *one(0, Create("/a"), Create("/a/b")),
        *one(1, AddWatch("/a"), GetData("/a", True), GetChildren("/a", True), Exists("/a", True)),
        *one(0, SetData("/a")),
        *one(1, *_checks("/a")),
        *one(0, SetData("/a"), Create("/a/c")),
        *one(1, *_checks("/a")),
        *one(1, GetData("/a", True), GetChildren("/a", True)),
        *one(0, Delete("/a/c"), Delete("/a/b"), Delete("/a")),
        *one(1, *_checks("/a"), Exists("/a", True)),
        *one(0, Create("/a"), SetData("/a")),
    ],
    "one_shot_beside_recursive": [
        Open(0),
        Open(1),
        *one(0, Create("/a"), Create("/a/b"), Create("/a/b/c")),
        *one(1, AddWatch("/a", RECURSIVE), GetData("/a/b", True), GetChildren("/a/b", True)),
        *one(1, GetChildren("/a", True), GetChildren("/a/b/c", True)),
        *one(0, SetData("/a/b"), SetData("/a/b")),
        *one(1, *_checks("/a", "/a/b")),
        *one(0, Delete("/a/b/c"), Delete("/a/b"), Create("/a/b")),
        *one(1, *_checks("/a", "/a/b", "/a/b/c")),
    ],
    **{f"remove_{name}": _removal([kind]) for name, kind in KINDS.items()},
    "remove_between_changes": [
        Open(0),
        Open(1),
        *one(1, AddWatch("", RECURSIVE), AddWatch("/a", PERSISTENT)),
        *one(0, Create("/a"), SetData("/a")),
        *one(1, RemoveWatches("/a", 5), RemoveWatches("/a", 4), RemoveWatches("/a", 4)),
        *one(0, SetData("/a"), Create("/a/b")),
        *one(1, AddWatch("/a", RECURSIVE), RemoveWatches("", 3)),
        *one(0, SetData("/a/b"), SetData("")),
        *one(1, RemoveWatches("/a/b", 5), RemoveWatches("/a", 3)),
        *one(0, SetData("/a/b"), Delete("/a/b"), Delete("/a")),
    ],
    "remove_what_has_fired": [
        Open(0),
        *one(0, Create("/a"), GetData("/a", True), SetData("/a"), RemoveWatches("/a", 2)),
        *one(0, GetChildren("/a", True), Create("/a/b"), RemoveWatches("/a", 1), RemoveWatches("/a", 3)),
    ],
    "of_others": [
        Open(0),
        Open(1),
        *one(0, Create("/a"), *_all_modes("/a")),
        *one(1, *_checks("/a"), RemoveWatches("/a"), AddWatch("/a", RECURSIVE), RemoveWatches("/a")),
        *one(0, *_checks("/a"), SetData("/a")),
    ],
    "odd_paths_modes_and_types": [
        Open(0),
        *(
            step
            for path in (None, "@", "@a", "@/", "@null", "/", "/a/", "//", "/\0", "/missing")
            for step in one(
                0,
                *_checks(path),
                RemoveWatches(path),
                AddWatch(path, PERSISTENT),
                AddWatch(path, RECURSIVE),
                *_checks(path),
                SetData("", b"x"),
                RemoveWatches(path, 4),
                RemoveWatches(path, 3),
            )
        ),
        *one(0, *(AddWatch("/a", mode) for mode in (-1, 2, 3, 2**31 - 1, -(2**31)))),
        *one(0, *(CheckWatches("/a", kind) for kind in (-1, 0, 6, 2**31 - 1, -(2**31)))),
        *one(0, *(RemoveWatches(None, kind) for kind in (-1, 0, 6, 2**31 - 1, -(2**31)))),
    ],
    "own_changes_at_once": [
        Open(0),
        call(0, AddWatch("", RECURSIVE), AddWatch("/a"), *_CHANGES, Ping(), *_CHANGES),
        call(0, RemoveWatches("", 5), *_CHANGES, AddWatch("", RECURSIVE), Create("/a"), RemoveWatches("/a")),
        call(0, SetData("/a"), RemoveWatches(""), SetData("/a"), AddWatch("/a"), SetData("/a"), Delete("/a")),
    ],
    "others_changes_at_once": [
        Open(0),
        Open(1),
        *one(1, AddWatch("", RECURSIVE), AddWatch("/a"), GetChildren("/a/b", True)),
        call(0, *_CHANGES, *_CHANGES),
    ],
    "end_with_the_connection": [
        Open(0),
        Open(1),
        *one(1, *_all_modes("/a")),
        Reopen(1),
        *one(0, *_CHANGES),
        *one(1, *_checks("/a")),
    ],
    "end_of_a_session": [
        Open(0),
        Open(1),
        Open(2),
        *one(0, Create("/a")),
        *one(1, Create("/a/e", flags=EPHEMERAL), Create("/a/s", flags=EPHEMERAL_SEQUENTIAL)),
        *one(1, AddWatch("/a", RECURSIVE)),
        *one(2, Create("/e", flags=EPHEMERAL)),
        *one(0, AddWatch("", RECURSIVE), AddWatch("/a", PERSISTENT), GetData("/a/e", True)),
        Close(1),
        Expire(2),
        *one(0, *_checks("", "/a"), Create("/a/e")),
    ],
    "unreadable": [
        Open(0),
        Open(1),
        *one(0, AMY, AddWatch("", RECURSIVE)),
        *one(1, AddWatch("", RECURSIVE), AddWatch("/a", PERSISTENT), AddWatch("/a/b", PERSISTENT)),
        *one(0, Create("/a", acls=ONLY_AMY), SetData("/a"), Create("/a/b"), SetData("/a/b")),
        *one(0, Create("/a/b/c"), SetAcl("/a/b", ONLY_AMY), SetData("/a/b/c"), Delete("/a/b/c")),
        *one(0, SetAcl("/a"), SetData("/a"), Delete("/a/b"), SetAcl("/a", ONLY_AMY), Delete("/a")),
        *one(1, *_checks("/a", "/a/b")),
    ],
    "set_watches2": [
        Open(0),
        Open(1),
        *one(0, Create("/a"), Create("/b"), Create("/c"), Create("/d")),
        *one(1, AddWatch("/a"), AddWatch("", RECURSIVE), Exists("/a")),
        Drop(1),
        *one(0, SetData("/a"), Create("/a/x"), Delete("/b"), SetAcl("/c"), Create("/d/y"), Create("/e")),
        Reopen(1),
        *one(
            1,
            SetWatches2(
                "last",
                ("/a", "/b", "/c", "/d", "/missing"),
                ("/a", "/b", "/e", "/missing"),
                ("/a", "/b", "/c", "/d", "/missing"),
                ("/a", "/c", "/missing"),
                ("", "/d", "/a"),
            ),
        ),
        *one(1, *_checks("", "/a", "/b", "/c", "/d", "/missing")),
        *one(0, SetData("/c"), SetData("/a"), Create("/d/x"), Create("/missing"), Create("/b")),
        *one(0, Delete("/e"), *_CHANGES[2:6], Delete("/a/b/c"), Delete("/a/b"), Delete("/c")),
        *one(1, SetWatches2("zero", ("/a",), ("/b",), ("/c",), ("@", "@a"), ("@",))),
        *one(1, SetWatches2("future", recursive=("",)), SetWatches2("last"), SetWatches("last", ("/a",))),
        *one(0, SetData("/a"), SetData("/a")),
    ],
    "set_watches2_and_nulls": [
        Open(0),
        *one(0, Create("/a"), SetWatches2("zero", persistent=("/a", None), recursive=(None, "/a"))),
        *one(0, *_checks(None, "/a"), SetData("/a")),
    ],
    "restored_again_and_again": [
        Open(0),
        Open(1),
        *one(0, Create("/a")),
        *(
            step
            for _ in range(3)
            for step in (
                Reopen(1),
                call(1, SetWatches2("last", ("/a",), (), ("/a",), ("/a",), ("/a",))),
                *one(0, SetData("/a"), Create("/a/b"), SetData("/a/b"), Delete("/a/b")),
                *one(1, *_checks("/a"), RemoveWatches("/a", 5), Exists("/a")),
                Drop(1),
                *one(0, SetData("/a"), Create("/a/b"), Delete("/a/b")),
            )
        ),
    ],
    "multi_read": [
        Open(0),
        Open(1),
        *one(0, AMY, Create("/a", b"1"), Create("/a/b", None), Create("/secret", acls=ONLY_AMY)),
        *one(1, MultiRead()),
        *one(1, MultiRead((GetData("/a", True), GetChildren("/a", True), GetData("/a/b")))),
        *one(1, *_checks("/a")),
        *one(1, MultiRead((GetData("/missing", True), GetChildren("/secret"), GetData("/a")))),
        *one(1, MultiRead((GetData("/secret"), GetChildren("/missing")))),
        *one(0, MultiRead((GetData("/secret"), GetChildren("/secret"), GetData("@"), GetChildren("@a")))),
        *one(0, MultiRead((GetData("/a"), GetData(None), GetData("/a"))), MultiRead((GetChildren(None),))),
        *one(0, MultiRead((Delete("/a/b"),)), MultiRead((GetData("/a"), Delete("/a/b")))),
        *one(0, MultiRead((Create("/x"), Check("/a"))), MultiRead((Delete(None),))),
        *one(0, MultiRead((Exists("/a"),))),
        *one(0, MultiRead((Create("/x", acls=None),)), MultiRead((Create("/x", flags=9),))),
        *one(0, MultiRead((SetData("/a"), GetData("/a"))), Multi((GetData("/a"),)), Multi((Reconfig(),))),
        *one(0, MultiRead(tuple(GetData("/a") for _ in range(300)))),
        call(1, Create("/n"), MultiRead((GetData("/n"),)), Delete("/n"), MultiRead((GetData("/n"),))),
    ],
    "ephemerals_of_a_session": [
        Open(0),
        Open(1),
        *one(0, Create("/a"), Create("/e", flags=EPHEMERAL), Create("/a/e", flags=EPHEMERAL)),
        *one(0, Create("/a/f", flags=EPHEMERAL), Create("/ab", flags=EPHEMERAL)),
        *one(1, Create("/a/g", flags=EPHEMERAL)),
        *one(
            0,
            *(
                GetEphemerals(prefix)
                for prefix in (None, "", "@", "@/", "@ / ", "@\t", "@\0", "/a", "/a/", "/a/e", "/e/x", "@x")
            ),
            Delete("/a/f"),
            GetEphemerals(None),
        ),
        *one(1, GetEphemerals("/a")),
        Reopen(0),
        *one(0, GetEphemerals("@/")),
        call(0, Create("/late", flags=EPHEMERAL), GetEphemerals(None), Delete("/late"), GetEphemerals(None)),
    ],
    "number_of_all_children": [
        Open(0),
        Open(1),
        *one(0, AMY, *_CHANGES[:6], Create("/ab"), Create("/a/s", acls=ONLY_AMY), Create("/a/s/x")),
        *one(
            1,
            *(
                GetAllChildrenNumber(path)
                for path in ("", "/a", "/a/b/c", "/a/s", "/missing", "@/", "@", "@/zookeeper", "/a/", None)
            ),
        ),
        *one(0, GetAllChildrenNumber("/a/s")),
        call(0, Delete("/a/s/x"), GetAllChildrenNumber("/a"), Create("/a/y"), GetAllChildrenNumber("/a")),
    ],
    "who_am_i": [
        Open(0),
        *one(0, WhoAmI(), AMY, WhoAmI(), AMY, AddAuth("digest", b"bob"), AddAuth("digest", b":x"), WhoAmI()),
        *one(0, AddAuth("ip", b"1.2.3.4"), WhoAmI()),
        Reopen(0),
        *one(0, WhoAmI(), AddAuth("digest", b"super:test"), WhoAmI()),
    ],
    "reconfig_and_the_configuration": [
        Open(0),
        *one(0, Reconfig(), Reconfig("server.1=127.0.0.1:1:2", "2", None, 0), Reconfig(members="")),
        *one(0, GetData("@/zookeeper/config", True), SetData("@/zookeeper/config")),
        *one(0, GetChildren("@/zookeeper")),
        *one(0, Delete("@/zookeeper/config"), Create("@/zookeeper/config/x")),
        *one(0, AddWatch("@/zookeeper/config")),
        call(0, Create("/a"), Reconfig(), Sync("/a"), Reconfig(), Delete("/a")),
    ],
    "sasl_without_a_provider": [
        Open(0),
        *one(0, Sasl(b""), Sasl(b"token"), WhoAmI(), Create("/a"), AMY, Sasl(b"\0" * 1000), WhoAmI()),
        *one(0, Sasl(None)),
        Reopen(0),
        *one(0, Exists("/a")),
    ],
}
