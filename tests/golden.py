"""Golden scripts: text files of inputs and outputs, as etcd/raft's.

A script consists of cases. Each begins with a line `# title`; further lines with `#` are comments. A line
`> words` is an input, and the lines below it are what has to come out. With `GOLDEN=write` in the environment
a test writes into the script what comes out now: read the difference before you commit it.
"""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests import table


class Case(NamedTuple):
    """One case of a script."""

    title: str
    lines: list[str]


def cases(script: Path) -> list[Case]:
    """The cases of a script, in order."""
    found: list[Case] = []
    for line in script.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and (not found or found[-1].lines[-1:] == [""]):
            found.append(Case(line[2:], []))
        elif found:
            found[-1].lines.append(line)
    assert found, f"there is no case in {script}"
    return found


def parametrized(script: Path) -> pytest.MarkDecorator:
    """A test with this mark gets each case as its argument `case`."""
    return pytest.mark.parametrize("case", cases(script), ids=lambda case: case.title)


def one_by_one(script: Path) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A test with this is one for all cases, if it needs no fixture that is clean for each of them."""
    return table.one_by_one("case", cases(script), ids=lambda case: case.title)


def check(script: Path, case: Case, answer: Callable[[Sequence[str]], Sequence[str]]) -> None:
    """Feed the inputs of a case to `answer`, and compare what comes out for the words of each."""
    _compare(script, case, {line: answer(words) for line, words in _inputs(case)})


async def check_async(
    script: Path, case: Case, answer: Callable[[Sequence[str]], Awaitable[Sequence[str]]]
) -> None:
    """As `check`."""
    _compare(script, case, {line: await answer(words) for line, words in _inputs(case)})


def _inputs(case: Case) -> Iterator[tuple[int, list[str]]]:
    """Each input: the number of its line, and its words."""
    for number, line in enumerate(case.lines):
        if line.startswith(">"):
            yield number, line[1:].split()


def _compare(script: Path, case: Case, outputs: Mapping[int, Sequence[str]]) -> None:
    came: list[str] = []
    for number, line in enumerate(case.lines):
        if not line or line.startswith((">", "#")):
            came += [line, *outputs.get(number, ())]
    if os.environ.get("GOLDEN") == "write":
        title, text = f"# {case.title}", script.read_text(encoding="utf-8")
        text = text.replace("\n".join([title, *case.lines]), "\n".join([title, *came]))
        script.write_text(text, encoding="utf-8")
    else:
        assert came == case.lines
