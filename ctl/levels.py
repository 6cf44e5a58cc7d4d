"""Raises the level of a tree, if all living proxies know the new level.

The level is that of the state machine's semantics. From the entry that raises it on, every proxy evaluates
requests by the new rules. The Txn that appends the entry compares that no proxy has started since the levels
of all proxies were read. A proxy that starts later reads the level in the record, and refuses to start if it
does not know it.
"""

from argparse import ArgumentParser
from collections.abc import Collection
from functools import partial
from typing import Any

from cli.output import CommandFailed, Output
from ctl.program import Program, Tree
from ctl.visitor import visit
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Put, Txn
from proxy.etcd.repeating import until_known
from proxy.log.record import TIMEOUT, TreeNotServable, incarnation_of, look, servable
from proxy.options import values
from proxy.state.level import KNOWN
from proxy.support.environment import clock_ms
from schema.entry import EntryWriter, Kind, encode_level
from schema.errors import BadValue
from schema.keys import Keyspace
from schema.record import decode_proxy, encode_record


async def raise_level(
    etcd: Etcd, keys: Keyspace, level: int, *, levels: Collection[int] = KNOWN, version: str = "ctl"
) -> bool:
    """Raise the tree to `level`; False if it has it already. `levels` are those that this release applies.

    Raises CommandFailed, TreeNotServable, EtcdError.
    """
    prefix = keys.prefix.decode()
    record = servable(await look(etcd, keys), keys, levels)
    if level == record.level:
        return False
    if level < record.level:
        raise CommandFailed(f"the tree under {prefix} has level {record.level}; a level is never lowered")
    if level not in levels:
        raise CommandFailed(
            f"this release of zketcd applies level {', '.join(map(str, sorted(levels)))}, not {level}."
            f" Use the command of a release that applies level {level}"
        )
    if record.current is None:
        raise CommandFailed(
            f"the tree under {prefix} has no snapshot yet. Write one first: `zketcd snapshot`"
        )
    async with visit(etcd, keys, levels, version) as visitor:
        found = await look(etcd, keys)
        record = servable(found, keys, levels)
        if found.pair is None:
            raise TreeNotServable(f"the tree under {prefix} is gone")
        for proxy in found.proxies:
            _check(incarnation_of(keys, proxy), proxy.value, level)
        writer = EntryWriter()
        for each in range(record.level + 1, level + 1):  # so the log tells at which level it began
            writer.add(Kind.LEVEL, 0, 0, (), encode_level(each))
        key = keys.entry(visitor.incarnation, 1)
        raised = record._replace(level=level)
        txn = Txn(
            (
                Compare(keys.proxy(visitor.incarnation), visitor.revision),
                Compare(keys.proxies, found.revision + 1, keys.proxies_end, less=True),
                Compare(keys.tree, found.pair.mod_revision),
                Compare(key, 0),
            ),
            (Put(key, writer.finish(clock_ms(), 0, 0, 0)), Put(keys.tree, encode_record(raised))),
        )
        answer = await until_known(etcd.txn, txn, TIMEOUT)
        if not answer.succeeded and (await look(etcd, keys)).record != raised:
            raise CommandFailed(
                "a proxy was started, or a snapshot was published, at the same moment. Run the command again"
            )
    return True


def _check(incarnation: str, value: bytes, level: int) -> None:
    try:
        proxy = decode_proxy(value)
    except BadValue as error:
        raise CommandFailed(
            f"the levels that the proxy {incarnation} applies are unknown: {error}"
        ) from error
    if level not in proxy.levels:
        raise CommandFailed(
            f"the proxy {incarnation} (release {proxy.version or 'unknown'}) does not apply level {level}."
            " Upgrade it first"
        )


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("level", type=values.positive, metavar="N", help="the new level")


def _run(tree: Tree, given: Any) -> Output:
    raised = tree.ask(partial(raise_level, level=given.level))
    what = f"the tree's level is {given.level} now" if raised else f"the tree has level {given.level} already"
    return Output({"level": given.level, "raised": raised}, [what])


PROGRAMS = {"raise-level": Program(_run, _arguments)}
