"""`zketcd top`: which paths, sessions and clients are busiest, of all proxies together."""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cli.output import CommandFailed, Output, table, visible
from ctl.admin import ask, ask_all
from ctl.program import Program, Tree
from proxy.options import values

_CLEAR = "\x1b[H\x1b[J"
_RATES = ("reads", "writes")
# Each list of the answers, with the columns that name its rows, and those that only describe them.
_LISTS = {
    "paths": (("path",), ()),
    "operations": (("operation", "path"), ()),
    "sessions": (("session", "client"), ("path",)),
    "clients": (("client",), ()),
}

Documents = Mapping[str, dict[str, Any] | str]
"""The answer of each proxy, by its name, or why there is none."""


def _run(tree: Tree, given: Any) -> Output | None:
    """Show it once, or again and again until it is interrupted. Raises CommandFailed if no proxy answers."""
    while True:
        output = show(_answers(tree, given), given.sort, given.limit)
        if given.once or given.json or not sys.stdout.isatty():
            return output
        print(f"{_CLEAR}{visible(output.text(as_json=False))}", flush=True)
        try:
            time.sleep(given.delay)
        except KeyboardInterrupt:
            return None


def _answers(tree: Tree, given: Any) -> Documents:
    if given.admin:
        return {given.admin: ask(given.admin, "top")}
    homes = tree.homes()
    answers = ask_all(homes, "top")
    return {f"{name} on {homes[name].host or 'an unknown host'}": each for name, each in answers.items()}


def show(answers: Documents, sort: str, limit: int) -> Output:
    """The answers together. Raises CommandFailed if there is none."""
    documents = [each for each in answers.values() if not isinstance(each, str)]
    silent = [f"not counted: proxy {name}: {each}" for name, each in answers.items() if isinstance(each, str)]
    if not documents:
        raise CommandFailed("; ".join(silent) or "no proxy lives")
    try:
        total = {rate: round(sum(each[rate] for each in documents), 2) for rate in _RATES}
        lists = {name: _merged(documents, name, sort)[:limit] for name in _LISTS}
        off = sum(not each["one_in"] for each in documents)
        seconds = max(each["window_seconds"] for each in documents)
    except (LookupError, TypeError) as error:
        raise CommandFailed(
            f"a proxy answers in another form: {error!r}: is it of another release?"
        ) from error
    lines = [
        f"{len(documents)} of {len(answers)} proxies, last {seconds} s:"
        f" {_shown(total['reads'])} reads/s, {_shown(total['writes'])} writes/s",
        *silent,
        *([f"{off} of them with --top-sample 0, which counts nothing"] if off else ()),
    ]
    for name, rows in lists.items():
        key, more = _LISTS[name]
        head = (*_RATES, *key, *(f"most at {column}" for column in more))
        lines += ["", *table(head, [_cells(row, (*key, *more)) for row in rows])]
    data = {"proxies": len(documents), "silent": silent, "window_seconds": seconds, **total, **lists}
    return Output(data, lines)


def _cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    return [*(_shown(row[rate]) for rate in _RATES), *(str(row[column]) or "-" for column in columns)]


def _shown(rate: float) -> str:
    return f"{rate:.2f}" if rate < 10 else f"{rate:.0f}"


def _merged(documents: Sequence[Mapping[str, Any]], name: str, sort: str) -> list[dict[str, Any]]:
    """The rows of a list, those of several proxies with the same key as one."""
    key, _ = _LISTS[name]
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for document in documents:
        for row in document[name]:
            named = tuple(str(row[column]) for column in key)
            before = found.get(named)
            rates = {rate: round(row[rate] + (before[rate] if before else 0), 2) for rate in _RATES}
            found[named] = {**row, **(before or {}), **rates}
    return sorted(found.values(), key=_ORDERS[sort])


_ORDERS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "all": lambda row: -float(row["reads"] + row["writes"]),
    "reads": lambda row: -float(row["reads"]),
    "writes": lambda row: -float(row["writes"]),
}


def _arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("-b", "--once", action="store_true", help="print it once, as is done where stdout is no terminal")
    add("--admin", metavar="URL", help="ask only this admin port, such as http://127.0.0.1:8080; etcd is not")
    add("--sort", choices=("all", "reads", "writes"), default="all", help="what comes first in each list")
    add("--limit", type=values.positive, default=10, metavar="N", help="rows of each list, 200 at most")
    add("--delay", type=values.positive, default=3, metavar="SECONDS", help="time between two screens")


PROGRAMS = {"top": Program(_run, _arguments)}
