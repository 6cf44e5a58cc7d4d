"""The names of the commands, and what each does. Imports nothing, so that a list of them is cheap."""

COMMANDS = {
    "ls": "list the children of a node",
    "get": "show a node's data, ACL and Stat",
    "stat": "show a node's Stat",
    "find-big": "list the largest and the widest nodes",
    "sessions": "list the sessions, with their clients",
    "top": "show which paths, sessions and clients read and write most",
    "session": "show the life of one session: opened, moved, silent since, ended by whom and why",
    "kill-session": "end a session: its ephemerals go, and its client is disconnected",
    "clickhouse": "list what ClickHouse servers that are gone have left in the tree, and remove it: replicas,"
    " backups, locks (docs/clickhouse.md)",
    "budget": "list, set or remove budgets: how much clients may write below a path each second"
    " (docs/budgets.md)",
    "replay": "show the tree as it was at a position: `replay --to POSITION ls /`. The command `log` shows"
    " positions",
    "proxies": "list the living proxies, the eldest first",
    "log": "show the log's entries: position, proxy, number, clock and requests",
    "sizes": "show the sizes of the log and of the snapshots",
    "backup": "write the tree into a directory, and keep the newest backups there",
    "snapshot": "write a snapshot now, and delete from the log what the snapshot before it holds",
    "void": "replace a log entry that no proxy can read by an empty one. Its requests have no effect. Stop"
    " all proxies first",
    "unseal": "call off a move to another etcd: the tree that `zketcd follow --finish` has sealed may be"
    " served again. It is refused if the tree is complete where it was moved to",
    "raise-level": "raise the tree's level, after all proxies have been upgraded (docs/upgrading.md)",
}
