"""Jargon and empty praise that stay out of comments, docstrings, messages and documents.

Each rule has what to write instead. Common words are free: a rule that makes a sentence worse goes.

`python -m tests.test_prose proxy/log docs/etcd.md` prints what is found; without arguments, everywhere. Code
does not count, nor what a program has written into a document.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools import folders

REPOSITORY = Path(__file__).resolve().parents[1]
ROOMS = (*folders.sources(), "docs", "README.md", "CONTRIBUTING.md", "SECURITY.md")


class Rule(NamedTuple):
    """A pattern and what to write instead."""

    pattern: re.Pattern[str]
    instead: str


def _rule(pattern: str, instead: str) -> Rule:
    return Rule(re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE), instead)


RULES = (
    # Words that zketcd once coined, where the field has a name or a plain word does.
    _rule("lets? go|letting go", "release, delete, drop"),
    _rule("laborious(?:ly)?", "slow, long"),
    _rule("patience", "timeout"),
    _rule("mortals?", "expiring nodes (containers and TTL nodes)"),
    _rule("courtesy|flight of", "a plain word"),
    # What is not English.
    _rule("what is there", "name the thing that exists"),
    _rule("is there no more|no more there", "no longer exists"),
    _rule("for what it is|as it is there", "name the property"),
    _rule("(?:is|are) let in", "is admitted"),
    _rule("the like of", "such as"),
    _rule("beside (?:that|it|them|which)", "besides, also; compared with"),
    _rule("(?:process|proxy|server|client|proxies|member|etcd|node|host|clients|servers) who", "that, which"),
    # What promises without saying what.
    _rule(
        "blazing(?:ly)?|seamless(?:ly)?|robust(?:ly)?|effortless(?:ly)?|cutting-edge", "a figure, or nothing"
    ),
)
#: Anything that a rule may find: most files have none of it, and need no look at their parts.
_ANY = re.compile("|".join(rule.pattern.pattern for rule in RULES), re.IGNORECASE)
_CODE = re.compile(r"``?[^`]*``?")
#: Of a document: fenced blocks, and what a program writes between two marks.
_BLOCK = re.compile(r"^```.*?^```$|^<!-- \w+: .*?^<!-- end -->$", re.MULTILINE | re.DOTALL)
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})


class Finding(NamedTuple):
    """One place."""

    line: int
    words: str
    instead: str


def prose_of(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each comment, docstring line, log message, and message of a raised error."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        match node:
            # A string that stands alone: a docstring, of an attribute as well.
            case ast.Expr(value=ast.Constant(value=str() as text)):
                for offset, line in enumerate(text.splitlines()):
                    yield node.lineno + offset, line
            case ast.Call(func=ast.Attribute(attr=name), args=arguments) if name in _LOG_METHODS:
                yield from _texts(arguments)
            case ast.Raise(exc=ast.Call(args=arguments)):
                yield from _texts(arguments)


def prose_of_document(text: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each line of a Markdown file that is no code."""
    without = _BLOCK.sub(lambda block: "\n" * block.group().count("\n"), text)
    for number, line in enumerate(without.splitlines(), 1):
        if not line.startswith("    "):
            yield number, line


def _texts(arguments: list[ast.expr]) -> Iterator[tuple[int, str]]:
    for argument in arguments:
        for node in ast.walk(argument):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.lineno, node.value


def findings(prose: Iterable[tuple[int, str]]) -> list[Finding]:
    """What the rules find, by line."""
    found = {
        Finding(line, match.group(), rule.instead)
        for line, text in prose
        for rule in RULES
        for match in rule.pattern.finditer(_CODE.sub("", text))
    }
    return sorted(found)


def in_files(*roots: Path) -> Iterator[str]:
    """The findings of files and folders."""
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            # This file's own examples are what the rules find.
            if re.search(r"_pb2(_grpc)?\.py$", path.name) or path == Path(__file__):
                continue
            if path.suffix in (".py", ".md") and _ANY.search(text := path.read_text()):
                prose = prose_of if path.suffix == ".py" else prose_of_document
                for line, words, instead in findings(prose(text)):
                    yield f"{path}:{line}: {words!r}: {instead}"


def test_no_listed_word() -> None:
    assert list(in_files(*(REPOSITORY / room for room in ROOMS))) == []


def main() -> None:
    """Print the findings of the files and folders named, by default of all rooms."""
    found = list(in_files(*map(Path, sys.argv[1:] or [str(REPOSITORY / room) for room in ROOMS])))
    print(*found, f"{len(found)} found", sep="\n")


if __name__ == "__main__":
    main()
