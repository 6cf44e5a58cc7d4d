"""Calls a move off: a sealed tree may be served again, unless it is complete where it has gone."""

import asyncio
from argparse import ArgumentParser
from dataclasses import replace
from functools import partial
from typing import Any

from cli.connection import tree_in
from cli.output import CommandFailed, Output
from ctl.program import Program, Tree
from ctl.visitor import append
from proxy.etcd.access import Access
from proxy.etcd.interface import Etcd
from proxy.etcd.model import Compare, Delete, EtcdError, Put, Txn
from proxy.etcd.repeating import until_known
from proxy.log.load.start import load_as_of
from proxy.log.record import TIMEOUT, Look, TreeNotServable, look
from proxy.log.seal import seal
from proxy.support.environment import clock_ms
from schema.entry import Kind, encode_epoch
from schema.keys import Keyspace
from schema.record import Seal, encode_record
from schema.zxids import zxid_to_exceed


async def sealed(etcd: Etcd, keys: Keyspace) -> Seal:
    """Where the tree has gone. Raises CommandFailed for one that is not sealed."""
    record = (await look(etcd, keys)).record
    if record is None or record.seal is None:
        raise CommandFailed(f"the tree under {keys.prefix.decode()} is not sealed")
    return record.seal


async def unseal(etcd: Etcd, keys: Keyspace, there: Etcd | None) -> Output:
    """Remove the seal. `there`: the etcd that the tree has gone to; None: it is not asked.

    If it is not asked, clients may have used the tree there, so zxids go on in a new epoch.
    A follower that is about to complete the tree there is stopped: its fence is moved before the seal goes,
    and if another follower has taken that over since, it may have seen the seal, so the tree is sealed again.
    """
    found = await look(etcd, keys)
    where = await sealed(etcd, keys)
    target = Keyspace(where.prefix)
    fence = 0 if there is None else await _stop_follower(there, target, where)
    # Before the seal goes: proxies that start then may give zxids of the former epoch until a new one begins.
    epoch = await _epoch(etcd, keys) if there is None else b""
    assert found.record is not None
    assert found.pair is not None
    open_again = encode_record(found.record._replace(complete=True, seal=None))
    put = Txn((), (Put(keys.tree, open_again),))
    txn = Txn((Compare(keys.tree, found.pair.mod_revision),), (put, Delete(keys.proxies, keys.proxies_end)))
    answer = await until_known(etcd.txn, txn, TIMEOUT)
    if not answer.succeeded and (await look(etcd, keys)).record != found.record._replace(
        complete=True, seal=None
    ):
        raise CommandFailed("the tree's record was put at the same moment. Run the command again")
    if there is not None:
        why = await _why_sealed(there, target, where, fence)
        if why:
            position = await seal(etcd, keys, where)
            raise CommandFailed(f"{why}. The tree is sealed again, at position {position}")
    else:
        await _begin_epoch(etcd, keys, where, epoch)
    prefix = keys.prefix.decode()
    return Output(
        {"prefix": prefix, "was_moved_to": where._asdict()},
        [
            f"the tree under {prefix} is not sealed any more: start the zketcd that serve it",
            f"do not complete the tree under {where.prefix} in the etcd at {where.etcd}",
        ],
    )


async def _epoch(etcd: Etcd, keys: Keyspace) -> bytes:
    """The request for zxids above all of the other tree."""
    machine = (await load_as_of(etcd, keys, even_sealed=True)).machine
    return encode_epoch(machine.cluster_id, zxid_to_exceed(clock_ms() / 1000, machine.zxid))


async def _begin_epoch(etcd: Etcd, keys: Keyspace, where: Seal, epoch: bytes) -> None:
    """Continue in the epoch. The sessions of clients that have seen zxids of the other tree end then.

    Raises CommandFailed.
    """
    why = "this command was too slow"
    try:
        if await append(etcd, keys, (Kind.EPOCH, 0, epoch)):
            return
    except EtcdError as error:
        why = str(error)
    raise CommandFailed(
        f"the tree is not sealed any more, but zxids do not go on in a new epoch: {why}. Restart the clients"
        f" that have used the tree under {where.prefix} in the etcd at {where.etcd}"
    )


async def _why_sealed(there: Etcd, target: Keyspace, where: Seal, fence: int) -> str:
    """Why the tree has to be sealed again; "": it has not."""
    try:
        if _fence_of(await _look_there(there, target, where)) == fence:
            return ""
    except CommandFailed as error:
        return str(error)
    return (
        f"a follower has begun to work on {where.prefix} in the etcd at {where.etcd} meanwhile. Stop it, then"
        " run the command again"
    )


async def _stop_follower(there: Etcd, target: Keyspace, where: Seal) -> int:
    """Move the fence of the tree that the source has gone to. Raises CommandFailed if it may be served."""
    found = await _look_there(there, target, where)
    if found.record is None or found.pair is None:
        return 0
    if found.record.complete or found.record.seal is not None:
        raise CommandFailed(
            f"the tree under {where.prefix} in the etcd at {where.etcd} is complete, so it may have been"
            " served: two trees would take writes. To move back, let this prefix follow that one"
        )
    # A follower compares the record's mod_revision in each of its Txns (docs/decisions/0024).
    # Put within a Txn, which etcd's quota lets pass: a full etcd is a reason to call a move off.
    put = Txn((), (Put(target.tree, found.pair.value),))
    txn = Txn((Compare(target.tree, found.pair.mod_revision),), (put,))
    try:
        answer = await there.txn(txn, TIMEOUT)
    except EtcdError as error:
        raise _unreachable(where, error) from error
    if not answer.succeeded:
        raise CommandFailed(
            f"the tree under {where.prefix} changes at the same moment. Run the command again"
        )
    return answer.revision


async def _look_there(there: Etcd, target: Keyspace, where: Seal) -> Look:
    try:
        cluster = (await there.status(TIMEOUT)).cluster_id
        found = await look(there, target)
    except (EtcdError, TreeNotServable) as error:
        raise _unreachable(where, error) from error
    if cluster != where.cluster_id:
        raise CommandFailed(
            f"the etcd at {where.etcd} is not the one that the tree was moved to: its cluster id is"
            f" {cluster:x}, not {where.cluster_id:x}"
        )
    return found


def _fence_of(found: Look) -> int:
    return 0 if found.pair is None else found.pair.mod_revision


def _unreachable(where: Seal, error: Exception) -> CommandFailed:
    return CommandFailed(
        f"it is unknown whether the tree is served under {where.prefix} in the etcd at {where.etcd}: {error}."
        " If it has users, or other certificates, use --moved-to; if no zketcd can ever serve it, --force"
    )


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--force",
        action="store_true",
        help="do not ask the etcd that the tree was moved to. If the tree is served there, or will be,"
        " clients write to two trees, and what one of them has is lost",
    )
    parser.add_argument(
        "--moved-to",
        metavar="FILE",
        help="TOML file of a server of the tree that it was moved to, which has that etcd's addresses, user"
        " and certificates (default: the addresses of the move, with this tree's certificates, and with its"
        " user if they are among those of --etcd)",
    )


def _run(tree: Tree, given: Any) -> Output:
    return tree.ask(partial(_call_off, tree, given))


async def _call_off(tree: Tree, given: Any, etcd: Etcd, keys: Keyspace) -> Output:
    if given.force:
        return await unseal(etcd, keys, None)
    where = await sealed(etcd, keys)
    if given.moved_to is not None:
        access, _ = await asyncio.to_thread(tree_in, given.moved_to)
    else:
        addresses, options = tuple(where.etcd.split(",")), tree.access.options
        if not set(addresses) <= set(tree.access.etcd):
            # Who may write the tree's keys can put any address there: it gets no password.
            options = replace(options, user="", password="", password_file="")
        access = Access(addresses, options)
    there = access.client(await asyncio.to_thread(access.tls))
    try:
        return await unseal(etcd, keys, there)
    finally:
        await there.close()


PROGRAMS = {"unseal": Program(_run, _arguments)}
