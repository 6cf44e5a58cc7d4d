"""The command line of `python -m proxy.ctl`: options as those of the server, then a command."""

from typing import Any

import configargparse

from proxy import option_values as values
from proxy.etcd.transport import HTTP2, TRANSPORTS

_DESCRIPTION = """Read or repair a tree of zketcd in etcd. The commands read etcd directly and need no
running proxy. Exit codes: 0 done, 1 not done, 2 wrong usage."""


def parser() -> Any:
    """The parser."""
    made = configargparse.ArgumentParser(
        prog="python -m proxy.ctl",
        description=_DESCRIPTION,
        auto_env_var_prefix="ZKETCD_",
        config_file_parser_class=configargparse.TomlConfigParser(["zketcd"]),
        formatter_class=configargparse.ArgumentDefaultsHelpFormatter,
        ignore_unknown_config_file_keys=True,
        allow_abbrev=False,
    )
    _add_connection(made.add_argument)
    made.add_argument("--json", action="store_true", help="print JSON instead of text")
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_reading(commands)
    _add_history(commands)
    _add_changes(commands)
    return made


def _add_connection(add: Any) -> None:
    add(
        "--config",
        is_config_file=True,
        env_var="ZKETCD_CONFIG",
        metavar="FILE",
        help="the server's TOML file; options that only the server has are ignored",
    )
    add(
        "--etcd",
        type=values.endpoints,
        default="http://127.0.0.1:2379",
        metavar="ENDPOINTS",
        help="etcd's client URLs, separated by commas",
    )
    add("--prefix", type=values.prefix, default="/zketcd", help="etcd prefix of the tree")
    values.add_etcd_access(add)
    add("--etcd-transport", choices=TRANSPORTS, default=HTTP2, help="implementation of gRPC")
    add(
        "--patience",
        type=values.positive,
        default=10,
        metavar="SECONDS",
        help="time to wait for an etcd that does not answer",
    )


def _add_reading(commands: Any) -> None:
    _add_ls(commands)
    _add_get(commands)
    _add_stat(commands)
    _add(commands, "sessions", "list the sessions")
    replay = _add(
        commands,
        "replay",
        "show the tree as it was at a position: `replay --to POSITION ls /`. The command `log` shows"
        " positions",
    )
    replay.add_argument(
        "--to", type=values.positive, required=True, metavar="POSITION", help="the last position to apply"
    )
    inner = replay.add_subparsers(dest="inner", metavar="COMMAND", required=True)
    _add_ls(inner)
    _add_get(inner)
    _add_stat(inner)
    _add(inner, "sessions", "list the sessions")


def _add_ls(commands: Any) -> None:
    ls = _add(commands, "ls", "list the children of a node")
    ls.add_argument("path", metavar="PATH")
    ls.add_argument("-R", "--recursive", action="store_true", help="list the whole subtree")


def _add_get(commands: Any) -> None:
    get = _add(commands, "get", "show a node's data, ACL and Stat")
    get.add_argument("path", metavar="PATH")
    get.add_argument("--hex", action="store_true", help="show the data as hexadecimal numbers")


def _add_stat(commands: Any) -> None:
    stat = _add(commands, "stat", "show a node's Stat")
    stat.add_argument("path", metavar="PATH")


def _add_history(commands: Any) -> None:
    _add(commands, "proxies", "list the living proxies, the eldest first")
    log = _add(commands, "log", "show the log's entries: position, proxy, number, clock and requests")
    log.add_argument(
        "--tail",
        type=values.positive,
        default=20,
        metavar="N",
        help="number of entries to show, counted from the end",
    )
    _add(commands, "sizes", "show the sizes of the log and of the snapshots")


def _add_changes(commands: Any) -> None:
    _add(
        commands,
        "snapshot",
        "write a snapshot now, and delete from the log what the snapshot before it holds",
    )
    void = _add(
        commands,
        "void",
        "replace a log entry that no proxy can read by an empty one. Its requests have no effect. Stop all"
        " proxies first",
    )
    void.add_argument(
        "incarnation",
        metavar="INCARNATION",
        help="incarnation that appended the entry, from the proxy's error message",
    )
    void.add_argument("number", type=values.positive, metavar="NUMBER", help="the entry's number")
    void.add_argument(
        "--force",
        action="store_true",
        help="do it even while proxies live. A proxy that has already applied the entry then has a different"
        " tree",
    )
    level = _add(
        commands,
        "raise-level",
        "raise the tree's level, after all proxies have been upgraded (docs/upgrading.md)",
    )
    level.add_argument("level", type=values.positive, metavar="N", help="the new level")


def _add(commands: Any, name: str, text: str) -> Any:
    # A plain parser: one of configargparse's would read the environment and the file again.
    return commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", allow_abbrev=False
    )
