#!/usr/bin/env python3
"""Figures of the code: `python tools/measure_code.py [ROOT]` prints those of a checkout, of any commit.

Words of the documents, lines by folder, the largest classes, the longest files, Protocol classes, methods
that only pass a call on, files with one small definition, names that the simulation patches, imports from
tests outside tests/, and files that build ZooKeeper's connect request by hand. Generated files do not count.
"""

import argparse
import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDERS = (
    "codec",
    "schema",
    "proxy",
    "console",
    "archive",
    "pipeline",
    "zketcd",
    "lab",
    "proof",
    "examples",
    "tests",
    "bench",
    "tools",
    "deploy",
)
GENERATED = re.compile(r"_pb2(_grpc)?\.pyi?$")
MOST_LINES_OF_A_FILE = 900
_TESTS_IMPORT = re.compile(r"^\s*(?:from|import) tests\b", re.MULTILINE)
_WRITTEN_BY_A_PROGRAM = re.compile(r"<!-- \w+: .*?<!-- end -->", re.DOTALL)
# The layout of a connect request: protocol version, zxid, timeout, session.
_CONNECT_REQUEST = re.compile(r">iqiq\b|records\.ConnectRequest\b")


class ClassSize(NamedTuple):
    """One class. Attributes are the distinct names that its methods assign as `self.name`."""

    place: str
    name: str
    attributes: int
    methods: int
    lines: int


def sources(root: Path, *folders: str) -> Iterator[Path]:
    """The Python files of the folders that exist, all folders of ours if none is named."""
    for folder in folders or FOLDERS:
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


def classes(root: Path, *folders: str) -> Iterator[ClassSize]:
    """All classes."""
    for path in sources(root, *folders):
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


def protocols(root: Path) -> list[str]:
    """Protocol classes, each as "place name"."""
    return [
        f"{path.relative_to(root).as_posix()} {node.name}"
        for path in sources(root)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(
            base.split("[")[0] in ("Protocol", "typing.Protocol") for base in map(ast.unparse, node.bases)
        )
    ]


def passed_on(root: Path, *folders: str) -> int:
    """How many methods and properties only return, or call, one of a part: `return self._part.name(...)`."""
    count = 0
    for path in sources(root, *folders):
        for node in ast.walk(ast.parse(path.read_text())):
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef):
                    body = [each for each in method.body if not _is_docstring(each)]
                    count += len(body) == 1 and _passes_on(body[0])
    return count


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _passes_on(node: ast.stmt) -> bool:
    value = node.value if isinstance(node, ast.Return | ast.Expr) else None
    names = ast.unparse(value.func if isinstance(value, ast.Call) else value).split(".") if value else []
    return len(names) == 3 and names[0] == "self" and all(name.isidentifier() for name in names)


def single_definitions(root: Path, *folders: str, most: int = 40) -> list[str]:
    """Files below so many lines with one class or function."""
    found = []
    for path in sources(root, *folders):
        kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        definitions = [each for each in ast.parse(path.read_text()).body if isinstance(each, kinds)]
        if len(definitions) == 1 and count_lines(path) < most:
            found.append(path.relative_to(root).as_posix())
    return found


def patched_names(root: Path) -> int:
    """How many names the simulation replaces: entries of the tables in seams.py and quiet.py."""
    count = 0
    for name in ("seams.py", "quiet.py"):
        path = root / "proof" / "simulation" / name
        if not path.is_file():
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
                is_table = all(
                    isinstance(target, ast.Name) and target.id.isupper() for target in node.targets
                )
                count += len(node.value.elts) if is_table else 0
            elif isinstance(node, ast.List):
                count += sum(isinstance(entry, ast.Tuple) and len(entry.elts) == 3 for entry in node.elts)
    return count


def files_with(root: Path, pattern: re.Pattern[str], *folders: str) -> dict[str, int]:
    """Files in which the pattern is found, and their lines."""
    return {
        path.relative_to(root).as_posix(): count_lines(path)
        for path in sources(root, *folders)
        if pattern.search(path.read_text())
    }


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
    ours = ("codec", "schema", "proxy", "cli", "ctl", "serve", "console", "archive", "pipeline", "zketcd")
    found = list(classes(root, *ours))
    for what in ("lines", "attributes"):
        print(f"\nlargest classes by {what}: attributes / methods / lines")
        for size in sorted(found, key=lambda size: -getattr(size, what))[:10]:
            print(f"{size.attributes:>5} {size.methods:>4} {size.lines:>5}  {size.place} {size.name}")
    others = tuple(folder for folder in FOLDERS if folder != "tests")
    for title, files in (
        (f"files over {MOST_LINES_OF_A_FILE} lines", long_files(root)),
        ("imports from tests outside tests/", files_with(root, _TESTS_IMPORT, *others)),
        ("files that build a connect request by hand", files_with(root, _CONNECT_REQUEST)),
    ):
        print(f"\n{title}: {len(files)}")
        for name, count in sorted(files.items(), key=lambda file: -file[1]):
            print(f"{count:>9,}  {name}")
    print(f"\nProtocol classes: {len(protocols(root))}")
    print(f"methods and properties of the product that pass on: {passed_on(root, *ours)}")
    print(f"files of the product below 40 lines with one definition: {len(single_definitions(root, *ours))}")
    print(f"names patched by the simulation: {patched_names(root)}")


if __name__ == "__main__":
    main()
