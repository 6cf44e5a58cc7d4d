"""Histories of what ZooKeeper's clients saw, and the checker of ZooKeeper's promises. Pure: no I/O, no clock.

    history = History()
    history.opened(time, session, timeout_ms)
    call = history.invoke(time, session, Create("/a", b"1"))
    history.reply(time, call, Reply(zxid=7, path="/a"))
    assert check(history) == []

`records`    requests, replies and the records of a history: the format
`recorder`   `History`, which clients write while they work
`lines`      a history as JSON lines, one record a line
`calls`      a history taken apart: calls, sessions, connections
`model`      ZooKeeper's tree, one request after another, each step undone at will
`partition`  which calls can be judged without which others
`search`     is there an order of the calls that explains all replies? Replay by zxid, and Wing and Gong's
             search
`order`      zxids beside real time: sessions' order, monotonic reads, sync, sequence numbers
`watches`    ZooKeeper's watch order: before newer data, none lost, none doubled, none without a change
`lifetime`   sessions and ephemerals do not end before their time
`checker`    `check`: all of them
"""

from proof.history.checker import check
from proof.history.recorder import History
from proof.history.records import (
    AddWatch,
    Check,
    CloseSession,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    Reply,
    SetData,
    SetWatches,
    Stat,
    Sync,
    Violation,
)

__all__ = [
    "AddWatch",
    "Check",
    "CloseSession",
    "Create",
    "Delete",
    "Exists",
    "GetChildren",
    "GetData",
    "History",
    "Multi",
    "Reply",
    "SetData",
    "SetWatches",
    "Stat",
    "Sync",
    "Violation",
    "check",
]
