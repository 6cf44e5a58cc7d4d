"""Steps that several of the fixed scripts need."""

from __future__ import annotations

from lab.oracle.requests import (
    EPHEMERAL,
    SEQUENTIAL,
    AddAuth,
    Check,
    Create,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Request,
    SetAcl,
    SetData,
    Sync,
)
from tests.compat.generate import digest
from tests.compat.script import Open, Script, call

AMY = AddAuth("digest", b"amy:secret")
BOB = AddAuth("digest", b"bob:x:y")
ONLY_AMY = ((31, "digest", digest("amy:secret")),)
BIG = 2**31 - 1


def watched(*paths: str) -> list[Request]:
    """Return reads that leave every kind of one-shot watch on the paths."""
    reads: list[Request] = []
    for path in paths:
        reads += [Exists(path, True), GetData(path, True), GetChildren(path, True)]
    return reads


def one(slot: int, *requests: Request) -> Script:
    """Return one step for each request."""
    return [call(slot, request) for request in requests]


def state(slot: int, *paths: str) -> Script:
    """Return steps that read everything about the paths."""
    steps: Script = []
    for path in paths:
        steps += one(slot, GetData(path), GetChildren(path, with_stat=True), GetAcl(path))
    return steps


def with_stats(quota: str, *requests: Request) -> Script:
    """Return one step for each request, and what the quota's stats say after it."""
    stats = f"~{quota}/zookeeper_stats"
    return one(0, *(step for request in requests for step in (request, GetData(stats))))


def multi_script(
    *ops: Request, before: tuple[Request, ...] = (), look: tuple[str, ...] = ("", "/a")
) -> Script:
    """Return a script with one multi, watched from another session, and the state before and after."""
    return [
        Open(0),
        Open(1),
        *one(0, *before),
        *one(1, *watched("", "/a", "/a/b", "/b")),
        call(0, Multi(ops)),
        *state(0, *look),
        *one(1, *watched("", "/a", "/a/b", "/b")),
    ]


def failing_at(place: int) -> Script:
    ops: list[Request] = [
        Create("/a", b"1"),
        SetData("/a", b"2"),
        Create("/a/b", with_stat=True),
        Check("/a", 1),
        Delete("/a/b"),
    ]
    ops.insert(place, Check("/missing"))
    return multi_script(*ops)


def paths_script(*paths: str | None) -> Script:
    steps: Script = [Open(0), *one(0, Create("/a"))]
    for path in paths:
        steps += one(
            0,
            Exists(path),
            Exists(path, True),
            GetData(path),
            GetChildren(path),
            GetChildren(path, with_stat=True),
            GetAcl(path),
            Sync(path),
            SetData(path, b"x"),
            SetAcl(path),
            Delete(path, 77),
            Multi((Check(path),)),
            Multi((Delete(path, 77),)),
            Multi((SetData(path, b"x", 77),)),
        )
        for flags in (0, EPHEMERAL, SEQUENTIAL):
            steps += one(0, Create(path, flags=flags), Create(path, flags=flags, with_stat=True))
            steps += one(0, Multi((Create(path, flags=flags),)))
    return [*steps, *state(0, "", "/a")]
