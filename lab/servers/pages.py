"""Run the commands of a page of docs/ as they stand there, and compare what they print with the page.

A block that is indented by four spaces or more and begins with `$ ` holds commands, each followed by what it
prints.
`export` sets variables for the commands after it. A line `...` stands for any lines, `...` in a line for any
text. Numbers are compared by their form only: they differ from run to run.
Standard error (progress) may be left out, or stands after what was printed.
"""

import re
import shlex
import subprocess
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_NUMBER = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{15,16}\b|\d+(?:\.\d+)?")
_ANYTHING = "..."

# What a test does in the place of a program that changes the machine; it gets the words after the program.
Action = Callable[[list[str]], None]


class Command(NamedTuple):
    """A command of a page, and the lines that it should print."""

    line: str
    printed: list[str]


def commands(page: str) -> Iterator[Command]:
    """The commands of a page, in their order."""
    # As in Markdown, empty lines do not end a block.
    for block in re.findall(r"(?:^    .*\n(?:\n+(?=    ))?)+", f"{page}\n", re.MULTILINE):
        lines = textwrap.dedent(block).splitlines()
        starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
        if not starts:
            continue
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            printed = lines[start + 1 : end]
            while printed and not printed[-1]:
                del printed[-1]
            yield Command(lines[start].removeprefix("$ "), printed)


def matches(expected: list[str], printed: list[str]) -> bool:
    """Whether what was printed is what the page shows, by the rules above."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == _ANYTHING else re.escape(_form(line)).replace(r"\.\.\.", ".*") + r"\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(_form(line) + "\n" for line in printed)) is not None


def _form(line: str) -> str:
    return re.sub(r"\s+", " ", _NUMBER.sub("0", line)).strip()


def section(page: str, title: str) -> str:
    """What stands under a heading of the second level. Raises IndexError."""
    return page.split(f"\n## {title}\n")[1].partition("\n## ")[0]


def run(
    page: Path | str,
    real: Mapping[str, str],
    actions: Mapping[str, Action],
    path: str,
    environment: dict[str, str] | None = None,
) -> list[tuple[str, list[str]]]:
    """Run the commands of a page, or of a text; the lines that each printed.

    `real` gives what this test uses in the place of what the page names. A program of `actions` becomes
    a call of it. `path` is the PATH. `environment` has the variables that were exported before, and gets
    those that are exported here. Raises AssertionError for another exit code than 0, and for output that
    differs. `zketcd check` may end with 1: something is doubtful, such as the port of the zketcd that runs.
    """
    done = []
    environment = {} if environment is None else environment
    for command in commands(page.read_text() if isinstance(page, Path) else page):
        words = shlex.split(command.line)
        if words[0] in actions:
            actions[words[0]](words[1:])
            assert not command.printed
            continue
        line = command.line
        for named, used in real.items():
            line = line.replace(named, used)
        exports = words[0] == "export"
        ended = subprocess.run(
            ["/bin/sh", "-c", f"{line} && env -0" if exports else line],
            env={"PATH": path, "ETCDCTL_API": "3", **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        allowed = (0, 1) if words[:2] == ["zketcd", "check"] else (0,)
        assert ended.returncode in allowed, (
            f"{line} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
        )
        if exports:
            variables = dict(each.split("=", 1) for each in ended.stdout.split("\0") if each)
            environment.update({name: variables[name] for name in variables if f"{name}=" in line})
            continue
        printed, progress = (_as_on_the_page(text, real) for text in (ended.stdout, ended.stderr))
        # Some programs print their results, or what to do next, to standard error.
        assert any(matches(command.printed, shown) for shown in (printed, [*printed, *progress])), (
            f"{line} printed\n{ended.stdout}\nbut the page shows\n" + "\n".join(command.printed)
        )
        done.append((command.line, printed))
    return done


def _as_on_the_page(text: str, real: Mapping[str, str]) -> list[str]:
    for named, used in real.items():
        if used:
            text = text.replace(used, named)
    return text.splitlines()
