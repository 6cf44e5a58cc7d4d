"""Write zketcd(1), the man page, from the parsers of its commands: nothing in it can be out of date.

    PYTHONPATH=. python tools/make_man_page.py build/zketcd.1

The commands are those whose modules Python finds: make_packages.py lets it find a package's, without bench.
The page's date is that of SOURCE_DATE_EPOCH, or today.
"""

import os
import re
import sys
import time
from argparse import SUPPRESS, Action, ArgumentParser, HelpFormatter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from textwrap import wrap

from cli.commands import available
from proxy.version import VERSION

_ENVIRONMENT = """Each option of serve and of the commands that read a tree is also a variable: --tick-time is
ZKETCD_TICK_TIME. The command line overrides it, and it overrides the file that --config names."""
# What argparse says of an option without a default.
_NO_DEFAULT = re.compile(r" \(default: (None|False)?\)")
_STATUS = {
    "0": "Done; for serve: drained after SIGTERM or SIGINT.",
    "1": "Not done: the last line on standard error says why. For diff and verify: different."
    " For history: with a gap. For revert: with conflicts, or in part. For archive verify: damage."
    " For check: something is doubtful.",
    "2": "Wrong usage or configuration. For check: something is wrong."
    " For upgrade: also no process to replace."
    " For diff, import, export, follow, lost, verify and inspect: also failed, maybe halfway.",
    "3": "For follow and export: not level in time.",
    "70": "For serve: an error of its own.",
    "130": "Interrupted by Ctrl-C.",
    "143": "Terminated by SIGTERM.",
}
_FILES = {
    "/etc/zketcd/zketcd.toml": "Configuration of the service.",
    "/usr/share/doc/zketcd/docs/operating.md": "How to operate zketcd.",
}


def page(date: str) -> str:
    """The page, in the macros of man(7)."""
    lines = [
        f'.TH ZKETCD 1 "{date}" "zketcd {VERSION}" "User Commands"',
        *_section("NAME", "zketcd - a server for ZooKeeper clients that keeps all its state in etcd"),
        ".SH SYNOPSIS",
        *(".B zketcd", "serve [OPTION]...", ".br"),
        *(".B zketcd", "COMMAND [OPTION]... [ARGUMENT]...", ".br"),
        *(".B zketcd", _escaped("--version")),
        ".SH COMMANDS",
    ]
    for name, command in available().items():
        lines += _tagged(name, command.summary)
    for name, command in available().items():
        lines += _options(name, import_module(command.module).parser(name))
    lines += _section("ENVIRONMENT", _ENVIRONMENT)
    for title, entries in (("FILES", _FILES), ("EXIT STATUS", _STATUS)):
        lines.append(f".SH {title}")
        for tag, text in entries.items():
            lines += _tagged(tag, text)
    return "\n".join(lines) + "\n"


def _options(name: str, parser: ArgumentParser) -> Iterator[str]:
    """The section of one command."""
    yield from _section(f"ZKETCD {name}".upper(), parser.description or "")
    formatter = parser._get_formatter()
    for action in parser._actions:
        if action.help != SUPPRESS and "-h" not in action.option_strings:
            yield from _tagged(
                _invocation(formatter, action), formatter._expand_help(action) if action.help else ""
            )


def _invocation(formatter: HelpFormatter, action: Action) -> str:
    """`--listen HOST:PORT`, or an argument's name."""
    return formatter._format_action_invocation(action) if action.option_strings else _name(action)


def _name(action: Action) -> str:
    return str(action.metavar or action.dest)


def _section(title: str, text: str) -> list[str]:
    return [f".SH {title}", *_paragraph(text)]


def _tagged(tag: str, text: str) -> list[str]:
    return [".TP", f".B {_escaped(tag)}", *_paragraph(text)]


def _paragraph(text: str) -> list[str]:
    """Short lines, and a new one for each sentence, as man pages are written."""
    flat = " ".join(_NO_DEFAULT.sub("", text).split())
    sentences = re.split(r"(?<=[a-z)][.:]) (?=[A-Z])", flat)
    return [_escaped(line) for sentence in sentences for line in wrap(sentence, 70, break_long_words=False)]


def _escaped(text: str) -> str:
    """As roff prints it. A dot or apostrophe that begins a line would begin a macro."""
    plain = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def main() -> int:
    """Write the page."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="the page to write")
    parser.parse_args().file.write_text(page(time.strftime("%Y-%m-%d", time.gmtime(seconds))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
