"""The tree as people read it: `ls`, `get`, `stat` and `find-big`."""

import heapq
from argparse import ArgumentParser
from typing import Any

from cli.output import CommandFailed, Output, stat_lines, table
from codec.packets import STAT, STAT_NAMES
from ctl.program import Program
from proxy.options.values import positive
from proxy.state.machine import Machine
from proxy.state.node import Node, child_names
from schema.paths import ROOT, parent_of


def ls(machine: Machine, path: str, recursive: bool) -> Output:
    """The names of the children, or the paths of the subtree."""
    _find(machine, path)
    nodes = machine.tree.nodes
    if recursive:
        below = path.rstrip("/") + "/"
        found = sorted(each for each in nodes if each == path or each.startswith(below))
    else:
        found = sorted(child_names(nodes[path]))
    return Output(found, found)


def get(machine: Machine, path: str, as_hex: bool) -> Output:
    """Data, ACL and Stat."""
    node = _find(machine, path)
    data = node.data
    try:
        text = None if data is None else data.decode()
    except UnicodeDecodeError:
        as_hex = True
        text = None
    values = _stat(node)
    acl = [each.text for each in node.acl]
    document: dict[str, Any] = {"path": path, "acl": acl, "stat": values}
    if data is None:
        document["data"] = None
        shown = "(null)"
    elif as_hex:
        document["hex"] = data.hex()
        shown = data.hex(" ")
    else:
        document["data"] = text
        shown = text or ""
    return Output(document, [*shown.split("\n"), "", f"acl = {', '.join(acl)}", *stat_lines(values)])


def find_big(machine: Machine, path: str, limit: int) -> Output:
    """The nodes with most data, those with most children, and the subtrees with most nodes."""
    _find(machine, path)
    below = path.rstrip("/") + "/"
    nodes = {
        each: node for each, node in machine.tree.nodes.items() if each == path or each.startswith(below)
    }
    sizes = {each: node.size for each, node in nodes.items()}
    widths = {each: len(node.children or ()) for each, node in nodes.items()}
    totals = dict.fromkeys(nodes, 1)
    for each in sorted(nodes, reverse=True):  # children before their parents
        if each != path:
            totals[parent_of(each)] += totals[each]
    document: dict[str, list[dict[str, Any]]] = {}
    lines: list[str] = []
    for name, key, counts in (
        ("data", "bytes", sizes),
        ("children", "children", widths),
        ("subtrees", "nodes", totals),
    ):
        most = heapq.nsmallest(limit, [(-count, each) for each, count in counts.items() if count])
        document[name] = [{"path": each, key: -count} for count, each in most]
        if lines:
            lines.append("")
        lines += table((key, f"largest {name}"), [(-count, each) for count, each in most])
    return Output(document, lines)


def stat(machine: Machine, path: str) -> Output:
    """The Stat alone."""
    values = _stat(_find(machine, path))
    return Output(values, stat_lines(values))


def _find(machine: Machine, path: str) -> Node:
    node = machine.tree.nodes.get(path)
    if node is None:
        hint = "" if path.startswith(ROOT) else " (a path begins with /)"
        raise CommandFailed(f"there is no node {path}{hint}")
    return node


def _stat(node: Node) -> dict[str, int]:
    return dict(zip(STAT_NAMES, STAT.unpack(node.stat()), strict=True))


def _of_ls(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("-R", "--recursive", action="store_true", help="list the whole subtree")


def _of_get(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")
    parser.add_argument("--hex", action="store_true", help="show the data as hexadecimal numbers")


def _of_stat(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH")


def _of_find_big(parser: ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", default="/", metavar="PATH", help="only this node and those below it"
    )
    parser.add_argument("--limit", type=positive, default=10, metavar="N", help="how many of each")


PROGRAMS = {
    "ls": Program(lambda tree, given: ls(tree.machine(), given.path, given.recursive), _of_ls),
    "get": Program(lambda tree, given: get(tree.machine(), given.path, given.hex), _of_get),
    "stat": Program(lambda tree, given: stat(tree.machine(), given.path), _of_stat),
    "find-big": Program(lambda tree, given: find_big(tree.machine(), given.path, given.limit), _of_find_big),
}
