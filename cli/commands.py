"""The commands of `zketcd`, declared once. The modules behind them are not imported."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

from proxy.support.usage import Parser

_ARCHIVE, _ONLINE, _PIPELINE = "archive.main", "zketcd.online.main", "pipeline.main"


class Command(NamedTuple):
    """One command. Its module has main(arguments, command) -> exit code, and parser(command)."""

    summary: str
    module: str
    part: str = ""  # the module whose PROGRAMS has a command of ctl


def _ctl(summary: str, part: str) -> Command:
    return Command(summary, "ctl.main", f"ctl.{part}")


COMMANDS: Mapping[str, Command] = {
    "serve": Command("serve ZooKeeper clients, with all state in etcd", "serve.__main__"),
    "check": Command("check a configuration, this host and etcd, and change nothing", "serve.check.main"),
    "upgrade": Command("replace a running server without closing its clients", "proxy.handover.main"),
    "ls": _ctl("list the children of a node", "reading"),
    "get": _ctl("show a node's data, ACL and Stat", "reading"),
    "stat": _ctl("show a node's Stat", "reading"),
    "find-big": _ctl("list the largest and the widest nodes", "reading"),
    "sessions": _ctl("list the sessions, with their clients", "sessions"),
    "top": _ctl("show which paths, sessions and clients read and write most", "top"),
    "session": _ctl(
        "show the life of one session: opened, moved, silent since, ended by whom and why", "life"
    ),
    "kill-session": _ctl("end a session: its ephemerals go, and its client is disconnected", "changes"),
    "clickhouse": _ctl(
        "list what ClickHouse servers that are gone have left in the tree, and remove it: replicas, tables"
        " (docs/clickhouse.md)",
        "clickhouse",
    ),
    "budget": _ctl(
        "list, set or remove budgets: how much clients may write below a path each second (docs/budgets.md)",
        "budgets",
    ),
    "replay": _ctl(
        "show the tree as it was at a position: `replay --to POSITION ls /`. The command `log` shows"
        " positions",
        "replay",
    ),
    "proxies": _ctl("list the living proxies, the eldest first", "history"),
    "log": _ctl("show the log's entries: position, proxy, number, clock and requests", "history"),
    "sizes": _ctl("show the sizes of the log and of the snapshots", "history"),
    "backup": _ctl("write the tree into a directory, and keep the newest backups there", "backup"),
    "snapshot": _ctl(
        "write a snapshot now, and delete from the log what the snapshot before it holds", "changes"
    ),
    "void": _ctl(
        "replace a log entry that no proxy can read by an empty one. Its requests have no effect. Stop all"
        " proxies first",
        "changes",
    ),
    "unseal": _ctl(
        "call off a move to another etcd: the tree that `zketcd follow --finish` has sealed may be served"
        " again. It is refused if the tree is complete where it was moved to",
        "unseal",
    ),
    "raise-level": _ctl(
        "raise the tree's level, after all proxies have been upgraded (docs/upgrading.md)", "levels"
    ),
    "create": Command("create a node, as a client of a proxy", _ONLINE),
    "set": Command("set a node's data, as a client of a proxy", _ONLINE),
    "delete": Command("delete a node without children, as a client of a proxy", _ONLINE),
    "rmr": Command("delete a node and all below it, as a client of a proxy", _ONLINE),
    "acl": Command("change the ACLs of a subtree, as a client of a proxy; shows the changes first", _ONLINE),
    "shell": Command("look at the tree and change it interactively, as a client of a proxy", _ONLINE),
    "import": Command("copy a tree of ZooKeeper into etcd", _PIPELINE),
    "export": Command("write a tree in etcd as a snapshot for ZooKeeper, or as a table", _PIPELINE),
    "follow": Command(
        "keep a tree in etcd level with a running ZooKeeper, or with another zketcd", _PIPELINE
    ),
    "lost": Command("list what a lost source has and its copy has not, as lines of JSON", _PIPELINE),
    "verify": Command("compare two trees, node by node and field by field", _PIPELINE),
    "inspect": Command("report what a tree contains, and what its logs show about writes", _PIPELINE),
    "archive": Command(
        "keep every change of a tree outside etcd; also `archive list` and `archive verify`", _ARCHIVE
    ),
    "diff": Command("show what differs between two moments of an archive, or a moment and now", _ARCHIVE),
    "revert": Command("bring a subtree back to a moment of an archive, by ordinary writes", _ARCHIVE),
    "history": Command("show what has happened to a node or a subtree, from an archive", _ARCHIVE),
    "console-user": Command("print the line of a user for --console-users", "console.main"),
    "bench": Command("compare zketcd with ZooKeeper and raw etcd (in a checkout)", "bench.__main__"),
    "completion": Command("print the completion for a shell", "zketcd.completion"),
    "help": Command("show this help, or that of a command", "zketcd.manual"),
}


def available() -> Mapping[str, Command]:
    """The commands whose module is part of this installation: a package has no bench."""
    packages = {command.module.partition(".")[0] for command in COMMANDS.values()}
    there = {package for package in packages if find_spec(package)}
    return {name: command for name, command in COMMANDS.items() if command.module.partition(".")[0] in there}


def description_of(command: str) -> str:
    """The summary as a sentence."""
    summary = COMMANDS[command].summary
    return f"{summary[0].upper()}{summary[1:]}."


def parser_of(command: str, description: str = "") -> Parser:
    """A parser without options. By default the description is the summary."""
    return Parser(prog=f"zketcd {command}", description=description or description_of(command))
