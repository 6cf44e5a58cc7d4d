"""Each table that a module keeps is in docs/decisions/0045, with its bound."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools import folders

pytestmark = pytest.mark.long

_ROOT = Path(__file__).parents[2]
_DECISION = _ROOT / "docs/decisions/0045-what-is-kept-has-a-bound.md"
_MUTABLE = re.compile(r"(dict|list|set|deque|defaultdict|OrderedDict|Counter|bytearray|Weak\w+|_\w+Lists)\b")


def _kept(source: str) -> Iterator[str]:
    """The names of a module's caches, and of its tables that begin empty or weak."""
    tree = ast.parse(source)
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=value)
                | ast.AnnAssign(target=ast.Name(name), value=value)
            ) if value is not None:
                match value:
                    case ast.Dict(keys=[]) | ast.List(elts=[]):
                        yield name
                    case ast.Call(func=ast.Call(func=made)) if "cache" in ast.unparse(made):
                        yield name
                    case ast.Call(func=made, args=arguments) if _MUTABLE.fullmatch(ast.unparse(made)):
                        if not arguments or ast.unparse(made).startswith("Weak"):
                            yield name
    for each in ast.walk(tree) if "cache" in source else ():
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            re.match(r"(functools\.)?(lru_)?cache\b", ast.unparse(made)) for made in each.decorator_list
        ):
            yield each.name


def _found() -> set[tuple[str, str]]:
    return {
        (name, path.relative_to(_ROOT).as_posix())
        for package in folders.product()
        for path in (_ROOT / package).rglob("*.py")
        for name in _kept(path.read_text())
    }


def _listed() -> dict[tuple[str, str], str]:
    """The test of each table that the decision lists, by its name and its module."""
    tables = {}
    for line in _DECISION.read_text().splitlines():
        if line.startswith("| `"):
            what, where, _, test = line.strip("| ").split(" | ")
            names = re.findall(r"`(\w+)`", what.partition(":")[0])
            tables.update(dict.fromkeys([(name, where.strip("`")) for name in names], test.strip("`")))
    return tables


def test_every_table_of_a_module_is_listed_with_its_bound() -> None:
    listed = _listed()
    assert _found() - listed.keys() == set(), "give it a bound, and a row in docs/decisions/0045"
    assert all((_ROOT / where).exists() and (_ROOT / test).exists() for (_, where), test in listed.items())
    for name, where in listed:
        assert re.search(rf"\b{name}\b", (_ROOT / where).read_text()), (name, where)


def test_tables_are_found() -> None:
    source = """
import functools
from weakref import WeakValueDictionary
_table: dict[int, str] = {}
_shared = WeakValueDictionary({1: 2})
_seen = set()
_short = functools.lru_cache(maxsize=2)(len)
_CONSTANT = {1: 2}
_NAMES = frozenset()
@functools.cache
def _settings(rules): return rules
class Object:
    def __init__(self): self.kept = {}
"""
    assert set(_kept(source)) == {"_table", "_shared", "_seen", "_short", "_settings"}
