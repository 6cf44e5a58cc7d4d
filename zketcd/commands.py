"""The commands of `zketcd`, declared once: name, summary, and the module of the program behind each.

A program's module has `main(arguments, command) -> exit code` and `parser(command) -> ArgumentParser`.
"""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import NamedTuple

from archive.commands import COMMANDS as ARCHIVE
from ctl.commands import COMMANDS as CTL
from pipeline.commands import COMMANDS as PIPELINE
from zketcd.online.commands import COMMANDS as ONLINE


class Command(NamedTuple):
    """One command."""

    summary: str
    module: str


ALL: Mapping[str, Command] = {
    "serve": Command("serve ZooKeeper clients, with all state in etcd", "serve.__main__"),
    "check": Command("check a configuration, this host and etcd, and change nothing", "serve.check.__main__"),
    "upgrade": Command("replace a running server without closing its clients", "proxy.handover.__main__"),
    **{name: Command(summary, "ctl.__main__") for name, summary in CTL.items()},
    **{name: Command(summary, "zketcd.online.__main__") for name, summary in ONLINE.items()},
    **{name: Command(each.summary, "pipeline.__main__") for name, each in PIPELINE.items()},
    **{name: Command(summary, "archive.__main__") for name, summary in ARCHIVE.items()},
    "console-user": Command("print the line of a user for --console-users", "console.__main__"),
    "bench": Command("compare zketcd with ZooKeeper and raw etcd (in a checkout)", "bench.__main__"),
    "completion": Command("print the completion for a shell", "zketcd.completion"),
    "help": Command("show this help, or that of a command", "zketcd.manual"),
}


def available() -> Mapping[str, Command]:
    """The commands whose program is part of this installation: a package has no bench."""
    return {name: command for name, command in ALL.items() if find_spec(command.module.partition(".")[0])}
