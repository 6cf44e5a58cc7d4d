"""Budgets: `budget list`, `budget set` and `budget remove`."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from cli.output import CommandFailed, Output, WrongUsage, table
from ctl.program import Program, Tree
from ctl.visitor import append
from proxy.etcd.interface import Etcd
from proxy.log.load.start import load_as_of
from proxy.log.record import look, servable
from proxy.state.budgets import MOST_BUDGETS
from proxy.state.level import KNOWN
from proxy.state.machine import Machine
from proxy.support.rates import rates_text, rule_of
from schema.budgets import Rule, encode_rule
from schema.entry import Kind
from schema.keys import Keyspace


def show(machine: Machine) -> Output:
    """All budgets, and what is left of each as of the log's newest entry."""
    left = machine.budgets.left()
    rows = [
        {
            "path": rule.path,
            "writes": rule.writes or None,
            "bytes": rule.bytes or None,
            "writes_left": left[rule.path][0] // 1000 if rule.writes else None,
            "bytes_left": left[rule.path][1] // 1000 if rule.bytes else None,
        }
        for rule in machine.budgets.rules
    ]
    if not rows:
        return Output(rows, ["there are no budgets"])
    head = ("path", "writes/s", "bytes/s", "writes left", "bytes left")
    cells = [["-" if value is None else value for value in row.values()] for row in rows]
    return Output(rows, table(head, cells))


async def change(etcd: Etcd, keys: Keyspace, action: str, texts: list[str]) -> Output:
    """Set or remove budgets by entries of the log."""
    rules = [_rule(text) for text in texts] if action == "set" else [Rule(path, 0, 0) for path in texts]
    servable(await look(etcd, keys), keys, KNOWN)
    there = {rule.path for rule in (await load_as_of(etcd, keys)).machine.budgets.rules}
    if action == "remove":
        for path in texts:
            if path not in there:
                raise CommandFailed(f"there is no budget of {path}; `zketcd budget list` lists them")
    elif len(there | {rule.path for rule in rules}) > MOST_BUDGETS:
        raise CommandFailed(f"a tree has at most {MOST_BUDGETS} budgets")
    lines: list[str] = []
    for rule in rules:
        if not await append(etcd, keys, (Kind.BUDGET, 0, encode_rule(*rule))):
            slow = f"the budget of {rule.path} is as before: this command was too slow. Run it again"
            raise CommandFailed("; ".join([*lines, slow]))
        now = f"is {rates_text(rule)} now" if rule.writes or rule.bytes else "is removed"
        lines.append(f"the budget of {rule.path} {now}")
    there = {rule.path for rule in (await load_as_of(etcd, keys)).machine.budgets.rules}
    if action == "set" and (left := [rule.path for rule in rules if rule.path not in there]):
        raise CommandFailed(
            f"another command has changed budgets meanwhile: there is none of {', '.join(left)}."
            f" A tree has at most {MOST_BUDGETS}" + (". The others are set" if len(left) < len(rules) else "")
        )
    return Output([rule._asdict() for rule in rules], lines)


def _rule(text: str) -> Rule:
    try:
        return rule_of(text)
    except ValueError as error:
        raise WrongUsage(str(error)) from error


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "set", "remove"), help="what to do")
    parser.add_argument(
        "budgets",
        nargs="*",
        metavar="BUDGET",
        help="set: a path and its rates, such as /app=500/s,10MB/s; remove: a path",
    )


def _run(tree: Tree, given: Any) -> Output:
    if (given.action == "list") == bool(given.budgets):
        tree.parser.error(
            "budget list takes no BUDGET" if given.budgets else f"budget {given.action} needs a BUDGET"
        )
    if given.action == "list":
        return show(tree.machine())
    return tree.ask(partial(change, action=given.action, texts=given.budgets))


PROGRAMS = {"budget": Program(_run, _arguments)}
