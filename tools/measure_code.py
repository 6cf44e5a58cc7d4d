#!/usr/bin/env python3
"""Figures of the code: `python tools/measure_code.py [ROOT]` prints those of a checkout, of any commit.

Words of the documents, lines by folder, the largest classes, the longest files. Generated files do not count.
"""

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools import folders

GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
MOST_LINES_OF_A_FILE = 900
_WRITTEN_BY_A_PROGRAM = re.compile(r"<!-- \w+: .*?<!-- end -->", re.DOTALL)


class ClassSize(NamedTuple):
    """One class. Attributes are the distinct names that its methods assign as `self.name`."""

    place: str
    name: str
    attributes: int
    methods: int
    lines: int


def sources(root: Path, *packages: str) -> Iterator[Path]:
    """The Python files of the packages that exist, of all folders if none is named."""
    for folder in packages or folders.sources(root):
        yield from sorted(path for path in (root / folder).rglob("*.py") if not GENERATED.search(path.name))


def count_lines(path: Path) -> int:
    """Lines of a file."""
    return path.read_bytes().count(b"\n")


def lines_by_folder(root: Path) -> Counter[str]:
    """Lines of each folder, and of each room of proxy/ and tests/."""
    found: Counter[str] = Counter()
    for path in sources(root):
        parts = path.relative_to(root).parts
        lines = count_lines(path)
        found[parts[0]] += lines
        if parts[0] in ("proxy", "tests") and len(parts) > 2:
            found["/".join(parts[:2])] += lines
    return found


def long_files(root: Path, most: int = MOST_LINES_OF_A_FILE) -> dict[str, int]:
    """Files with more lines than `most`, and their lines."""
    counted = {path.relative_to(root).as_posix(): count_lines(path) for path in sources(root)}
    return {name: lines for name, lines in counted.items() if lines > most}


def words(root: Path) -> dict[str, int]:
    """Words of each document, without what programs have written between two marks."""
    tracked = subprocess.check_output(["git", "-C", root, "ls-files", "*.md"], text=True).split()
    return {name: len(_WRITTEN_BY_A_PROGRAM.sub("", (root / name).read_text()).split()) for name in tracked}


def classes(root: Path, *packages: str) -> Iterator[ClassSize]:
    """All classes."""
    for path in sources(root, *packages):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                yield _measured(node, path.relative_to(root).as_posix())


def _measured(node: ast.ClassDef, place: str) -> ClassSize:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    attributes = {
        target.attr
        for method in methods
        for target in ast.walk(method)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    return ClassSize(place, node.name, len(attributes), len(methods), lines)


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    root = parser.parse_args().root
    counted = words(root)
    print(f"words of {len(counted)} documents: {sum(counted.values()):,}")
    for name, count in sorted(counted.items(), key=lambda file: -file[1])[:10]:
        print(f"{count:>9,}  {name}")
    lines = lines_by_folder(root)
    print("\nlines by folder")
    for folder, count in sorted(lines.items()):
        print(f"{count:>9,}  {folder}")
    print(f"{sum(count for folder, count in lines.items() if '/' not in folder):>9,}  all")
    ours = folders.product()
    found = list(classes(root, *ours))
    for what in ("lines", "attributes"):
        print(f"\nlargest classes by {what}: attributes / methods / lines")
        for size in sorted(found, key=lambda size: -getattr(size, what))[:10]:
            print(f"{size.attributes:>5} {size.methods:>4} {size.lines:>5}  {size.place} {size.name}")
    files = long_files(root)
    print(f"\nfiles over {MOST_LINES_OF_A_FILE} lines: {len(files)}")
    for name, count in sorted(files.items(), key=lambda file: -file[1]):
        print(f"{count:>9,}  {name}")


if __name__ == "__main__":
    main()
