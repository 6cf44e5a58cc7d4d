"""Faults planted on purpose: a simulation that does not find them proves nothing.

Each is a small change of the real code while a simulation runs, as a mistake of a programmer would be. Each
names the faults of the environment under which it shows, so that it is found within a few seeds. A fault of
the machine (`common`) is in the oracle as well: then only what clients saw can show it.
"""

import asyncio
import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import proxy.state.ops as ops
from codec.constants import OpCode
from proof.simulation.oracle import is_oracle
from proxy.etcd.model import Compare, Delete, EtcdError, Txn
from proxy.frontend.order import Order
from proxy.frontend.sessions import Contact, Session, Sessions
from proxy.log.applier import Applier
from proxy.log.follower import Apply, Follower, Item
from proxy.log.log import Log
from proxy.log.membership import Membership
from proxy.log.record import look
from proxy.log.replay import Replay
from proxy.log.staleness import Staleness
from proxy.log.translator import Translator
from proxy.state import capture
from proxy.state.expiry import Expiry
from proxy.state.machine import Machine
from proxy.state.pieces import Work
from proxy.state.transaction import Transaction
from proxy.state.watches import WatchTable
from schema.znode import CONTAINER_OWNER

# By their names: what is replaced there are names that they import.
appender: Any = importlib.import_module("proxy.log.appender")
catch_up: Any = importlib.import_module("proxy.log.catch_up")
levels: Any = importlib.import_module("proxy.log.levels")
snapshot_writer: Any = importlib.import_module("proxy.log.snapshot_writer")
create_operation: Any = importlib.import_module("proxy.state.ops.create")
set_watches: Any = importlib.import_module("proxy.state.ops.set_watches")

_PROXIES = ("kill a proxy", "pause a proxy", "stop a proxy")
_UNSURE = ("lose answers", "lose requests", "new leader", "break streams")
_LEASES = ("end a lease early", "pause a proxy", "lose keep-alives", "cut a proxy from etcd")


class Planted(NamedTuple):
    """One planted fault."""

    name: str
    what: str
    #: Called with a function that replaces an attribute, or an item.
    plant: Callable[[Callable[[Any, Any, Any], None]], None]
    kinds: Sequence[str]  # faults of the environment that show it
    common: bool = False  # the oracle has it as well
    calm: bool = False  # it shows only after hours: a calm world has to find it


@contextmanager
def planted(fault: Planted) -> Iterator[None]:
    """Have a fault in the code."""
    with ExitStack() as undo:

        def replace(owner: Any, name: Any, replacement: Any) -> None:
            if isinstance(owner, dict):
                undo.callback(owner.__setitem__, name, owner[name])
                owner[name] = replacement
            else:
                undo.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, replacement)

        fault.plant(replace)
        yield


def plant(name: str) -> None:
    """Have a fault in this process from now on. Raises KeyError."""
    fault = {fault.name: fault for fault in PLANTED}[name]
    # Held for the life of the process.
    _kept.enter_context(planted(fault))


_kept = ExitStack()
_Replace = Callable[[Any, Any, Any], None]

# -- appending ----------------------------------------------------------------------------------------------


def _append_txn(*, proxy: bool, absent: bool) -> Callable[..., Txn]:
    whole = appender.append_txn

    def append(proxy_key: bytes, revision: int, entry_key: bytes, value: bytes, *, nested: bool) -> Txn:
        txn: Txn = whole(proxy_key, revision, entry_key, value, nested=nested)
        kept = [Compare(proxy_key, revision)] if proxy else []
        kept += [Compare(entry_key, 0)] if absent else []
        return txn._replace(compares=kept)

    return append


def _without_proxy_guard(replace: _Replace) -> None:
    replace(appender, "append_txn", _append_txn(proxy=False, absent=True))


def _without_absence_guard(replace: _Replace) -> None:
    replace(appender, "append_txn", _append_txn(proxy=True, absent=False))


def _number_left_empty(replace: _Replace) -> None:
    def no_space(self: Translator, sent: Any) -> None:
        self.full = True
        self.unanswered -= 1
        sent.over = True

    replace(Translator, "no_space", no_space)


def _no_carry_over(replace: _Replace) -> None:
    def carry_over(self: Log, _old: str) -> None:
        translator = self._translator
        translator.queue.extendleft(reversed(translator.ended(translator.applied_number)))

    replace(Log, "_carry_over", carry_over)


def _sent_again_twice(replace: _Replace) -> None:
    ended = Translator.ended

    def twice(self: Translator, applied_number: int) -> list[Any]:
        again = ended(self, applied_number)
        return again + again

    replace(Translator, "ended", twice)


def _incarnation_never_ends(replace: _Replace) -> None:
    replace(Membership, "end", lambda self, incarnation, why: None)


# -- applying -----------------------------------------------------------------------------------------------


def _late_copies_count(replace: _Replace) -> None:
    entry = Follower._entry

    def either(
        self: Follower, items: list[Item], position: int, incarnation: str, number: int, value: bytes
    ) -> None:
        if number <= self._delivered.get(incarnation, 0):
            items.append(Apply(position, incarnation, number, value))
            return
        entry(self, items, position, incarnation, number, value)

    _without_check_of_numbers(replace)
    replace(Follower, "_entry", either)


def _without_check_of_numbers(replace: _Replace) -> None:
    begin = Machine.begin

    def lenient(self: Machine, incarnation: str, number: int, *rest: Any) -> Any:
        if not is_oracle(self):
            self.applied[incarnation] = number - 1
        return begin(self, incarnation, number, *rest)

    replace(Machine, "begin", lenient)


def _gaps_ignored(replace: _Replace) -> None:
    entry = Follower._entry

    def impatient(
        self: Follower, items: list[Item], position: int, incarnation: str, number: int, value: bytes
    ) -> None:
        if number > self._delivered.get(incarnation, 0):
            self._delivered[incarnation] = number - 1
        entry(self, items, position, incarnation, number, value)

    _without_check_of_numbers(replace)
    replace(Follower, "_entry", impatient)


def _twice_after_a_break(replace: _Replace) -> None:
    taken = Follower.catching_up

    def again(self: Follower, *arguments: Any) -> Work[list[Item]]:
        items = yield from taken(self, *arguments)
        applies = [item for item in items if isinstance(item, Apply)]
        return items + applies[-1:]

    _without_check_of_numbers(replace)
    replace(Follower, "catching_up", again)


def _events_after_replies(replace: _Replace) -> None:
    fire = WatchTable.fire

    def late(self: WatchTable, *arguments: Any) -> None:
        asyncio.get_running_loop().call_later(0.02, fire, self, *arguments)

    replace(WatchTable, "fire", late)


def _event_lost(replace: _Replace) -> None:
    fire = WatchTable.fire

    def forgetful(self: WatchTable, event: Any, zxid: int) -> None:
        if zxid % 16:
            fire(self, event, zxid)

    replace(WatchTable, "fire", forgetful)


def _missed_events_forgotten(replace: _Replace) -> None:
    one_shot = set_watches._set_one_shot
    replace(
        set_watches,
        "_set_one_shot",
        lambda reading, client, _last_seen, *paths: one_shot(reading, client, 1 << 62, *paths),
    )


def _replacement_ignored(replace: _Replace) -> None:
    mine = Applier._mine
    replace(Applier, "_mine", lambda self, item, sent: mine(self, item._replace(value=sent.original), sent))


def _digest_ignored(replace: _Replace) -> None:
    replace(Log, "disagreed", lambda self, disagreement: None)


# -- the machine --------------------------------------------------------------------------------------------


def _old_holder_accepted(replace: _Replace) -> None:
    execute = Machine.execute

    def lenient(self: Machine, request: Any, *rest: Any) -> Any:
        session = self.sessions.get(request[1])
        former = self._incarnation
        if session is not None and request[0] == 0:
            self._incarnation = session.incarnation
        try:
            return execute(self, request, *rest)
        finally:
            self._incarnation = former

    replace(Machine, "execute", lenient)


def _zxid_skipped(replace: _Replace) -> None:
    execute = Machine.execute

    def skipping(self: Machine, request: Any, fields: Any = None, own: bool = False) -> Any:
        outcome = execute(self, request, fields, own)
        if own and outcome[0] and not self.zxid % 8 and not is_oracle(self):
            self.zxid += 1
        return outcome

    replace(Machine, "execute", skipping)


def _ephemerals_stay(replace: _Replace) -> None:
    replace(Transaction, "delete_ephemerals", lambda self, session_id: iter(()))


def _no_rollback(replace: _Replace) -> None:
    def forget(self: Transaction) -> None:
        self.commit()

    replace(Transaction, "rollback", forget)


def _sequence_by_children(replace: _Replace) -> None:
    replace(create_operation, "seq_delta", lambda parent: len(parent.children or ()))


def _versions_unchecked(replace: _Replace) -> None:
    for table in (ops.PLAIN.writes, ops.EXTENDED.writes):
        whole = table[OpCode.SET_DATA]

        def apply(tx: Transaction, fields: Any, apply: Callable[..., Any] = whole.apply) -> Any:
            return apply(tx, (fields[0], fields[1], -1))

        replace(table, OpCode.SET_DATA, whole._replace(apply=apply))


# -- sessions -----------------------------------------------------------------------------------------------


def _served_without_lease(replace: _Replace) -> None:
    replace(Sessions, "_close_connections", lambda self, now, contact, actions: None)


def _orphans_end_at_once(replace: _Replace) -> None:
    end = Sessions._end_orphans

    def hasty(self: Sessions, now: float, contact: Contact, actions: Any) -> None:
        for orphan in self._orphans.values():
            orphan.timeout = 0.0
            orphan.whole = True
        end(self, now, contact, actions)

    replace(Sessions, "_end_orphans", hasty)


def _orphans_forgotten(replace: _Replace) -> None:
    replace(Sessions, "_end_orphans", lambda self, now, contact, actions: None)


def _half_a_timeout(replace: _Replace) -> None:
    due = Session.is_due
    replace(Session, "is_due", lambda self, now: due(self, now + self.timeout_ms / 2000))


def _always_fresh(replace: _Replace) -> None:
    judge = Staleness.judge

    def sure(self: Staleness) -> None:
        judge(self)
        if self.caught_up_at > 0 and not self.serving:
            self.serving = True
            self._changed(True)

    def asked(self: Staleness) -> None:
        if not self.serving:
            sure(self)

    replace(Staleness, "judge", asked)


# -- snapshots ----------------------------------------------------------------------------------------------


def _truncates_too_much(replace: _Replace) -> None:
    applied_in = snapshot_writer.applied_in

    async def of_the_current(etcd: Any, keys: Any, name: str) -> Any:
        record = (await look(etcd, keys)).record
        current = name if record is None or record.current is None else record.current.name
        return await applied_in(etcd, keys, current)

    replace(snapshot_writer, "applied_in", of_the_current)


def _pending_part_dropped(replace: _Replace) -> None:
    replace(Replay, "rest", lambda self: [])


def _reach_unchecked(replace: _Replace) -> None:
    async def unchecked(*_arguments: Any) -> None:
        """Whatever was truncated."""

    replace(catch_up, "_check_reach", unchecked)


def _snapshot_without_numbers(replace: _Replace) -> None:
    pages = capture.pages

    def forgetful(machine: Machine) -> Any:
        applied = machine.applied
        machine.applied = {name: number - 1 for name, number in applied.items()}
        try:
            return pages(machine)
        finally:
            machine.applied = applied

    replace(snapshot_writer.capture, "pages", forgetful)


def _level_unchecked(replace: _Replace) -> None:
    def unguarded(compares: Any, *rest: Any) -> Txn:
        kept = [compare for compare in compares if not compare.less]
        return Txn(kept, *rest)

    replace(levels, "_check", lambda incarnation, value, level: None)
    replace(levels, "Txn", unguarded)


# -- long requests -------------------------------------------------------------------------------------------


def _gate_open(replace: _Replace) -> None:
    replace(Order, "goes_on_beside", lambda self, frames, changing: True)


def _nothing_held(replace: _Replace) -> None:
    replace(Applier, "hold", lambda self: None)
    replace(Applier, "release", lambda self: None)


# -- what only time shows -----------------------------------------------------------------------------------


def _sessions_kept(replace: _Replace) -> None:
    changed = Sessions.changed

    def keeping(self: Sessions, change: Any, attached: Any, now: float) -> Any:
        connection = changed(self, change, attached, now)
        self._came[change[0]] = now
        return connection

    replace(Sessions, "changed", keeping)


def _watches_kept(replace: _Replace) -> None:
    replace(WatchTable, "drop", lambda self, watcher, most=0: True)


def _leases_kept(replace: _Replace) -> None:
    """Each lease that a proxy ever had is kept alive, and none is revoked."""
    tried = Membership._try
    leases: dict[Any, list[int]] = {}

    async def trying(self: Membership) -> bool:
        taken = await tried(self)
        kept = leases.setdefault(self, [])
        kept.append(self._lease)
        for lease in kept:
            self._keeper.send(lease)
        return taken

    async def kept_alive(self: Membership) -> None:
        while True:
            for lease in leases.get(self, ()):
                self._keeper.send(lease)
            await asyncio.sleep(self.granted / 3)

    async def unrevoked(self: Membership, lease: int) -> bool:
        key = self._keys.proxy(self.incarnation)
        try:
            await self._etcd.txn(Txn((), (Delete(key),)), 2.0)
        except EtcdError:
            return False
        return True

    replace(Membership, "_try", trying)
    replace(Membership, "keep_alive", kept_alive)
    replace(Membership, "_revoked", unrevoked)


def _ttl_from_creation(replace: _Replace) -> None:
    age = Expiry._age

    def since_creation(self: Expiry, node: Any, now: int) -> int:
        written, node.mzxid = node.mzxid, node.czxid
        try:
            return age(self, node, now)
        finally:
            node.mzxid = written

    replace(Expiry, "_age", since_creation)


def _timer_drifts(replace: _Replace) -> None:
    due = Session.is_due
    # One second in a hundred, from the start of the simulated hosts on, which is 1,000 to 2,000 s.
    replace(Session, "is_due", lambda self, now: due(self, now - max(0.0, now - 2000.0) / 100))


def _containers_stay(replace: _Replace) -> None:
    is_over = Expiry._is_over
    replace(
        Expiry,
        "_is_over",
        lambda self, node, now: node.owner != CONTAINER_OWNER and is_over(self, node, now),
    )


def _never_truncated(replace: _Replace) -> None:
    async def nothing(*_arguments: Any, **_options: Any) -> int:
        return 0

    replace(snapshot_writer, "truncate_log", nothing)


PLANTED: tuple[Planted, ...] = (
    Planted(
        "append without the proxy's guard",
        "an entry is appended after its incarnation's end",
        _without_proxy_guard,
        (*_LEASES, "double requests", "lose answers"),
    ),
    Planted(
        "append without the entry's guard",
        "an entry is overwritten by its own copy",
        _without_absence_guard,
        (*_PROXIES, "double requests", "lose answers"),
    ),
    Planted(
        "a refused number stays empty",
        "nothing fills the number of an entry that etcd refused",
        _number_left_empty,
        ("no space",),
    ),
    Planted("no carry-over", "a new incarnation does not take over its sessions", _no_carry_over, _LEASES),
    Planted(
        "sent again twice",
        "requests of the old incarnation are sent twice by the new one",
        _sent_again_twice,
        (*_LEASES, *_UNSURE),
    ),
    Planted(
        "the incarnation never ends",
        "a proxy goes on after the end of its lease",
        _incarnation_never_ends,
        _LEASES,
    ),
    Planted(
        "late copies count",
        "the applied number of an entry is not looked at",
        _late_copies_count,
        ("double requests", "want snapshots", "lose answers"),
    ),
    Planted(
        "gaps ignored",
        "an entry is applied before its predecessor",
        _gaps_ignored,
        ("lose requests", "slow disk", "lose answers"),
    ),
    Planted(
        "applied twice after a break",
        "the last entry of a catch-up is applied twice",
        _twice_after_a_break,
        ("break streams", "compact"),
    ),
    Planted(
        "events after replies",
        "a watch event comes after newer data",
        _events_after_replies,
        ("want snapshots",),
    ),
    Planted("an event lost", "one watch event in sixteen is not sent", _event_lost, ("want snapshots",)),
    Planted(
        "missed events forgotten",
        "watches that are set again do not tell what they missed",
        _missed_events_forgotten,
        ("reset connections",),
    ),
    Planted(
        "replacement ignored",
        "a proxy applies what it sent, not what is in the log",
        _replacement_ignored,
        ("no space",),
    ),
    Planted("digest ignored", "a proxy whose state is wrong goes on", _digest_ignored, ("memory",)),
    Planted(
        "the old holder is heard",
        "requests of a proxy that the session has left are applied",
        _old_holder_accepted,
        ("cut a proxy from etcd", "cut clients from a proxy", "slow network", "pause a proxy"),
        True,
    ),
    Planted(
        "a zxid skipped",
        "the sender of a failed request counts one zxid more",
        _zxid_skipped,
        ("want snapshots",),
    ),
    Planted(
        "ephemerals stay",
        "the end of a session leaves its ephemeral nodes",
        _ephemerals_stay,
        ("client dies",),
        True,
    ),
    Planted(
        "no rollback", "a multi that fails leaves its first parts", _no_rollback, ("want snapshots",), True
    ),
    Planted(
        "sequence by children",
        "sequence numbers count the children, not those there ever were",
        _sequence_by_children,
        ("want snapshots",),
        True,
    ),
    Planted(
        "versions unchecked",
        "setData does not compare the version",
        _versions_unchecked,
        ("want snapshots",),
        True,
    ),
    Planted(
        "served without a lease",
        "connections stay open although others may have ended their sessions",
        _served_without_lease,
        ("cut a proxy from etcd", "lose keep-alives"),
    ),
    Planted(
        "orphans end at once",
        "sessions of a dead proxy do not get their time",
        _orphans_end_at_once,
        ("kill a proxy", "kill all proxies"),
    ),
    Planted(
        "orphans forgotten",
        "sessions of a dead proxy never end",
        _orphans_forgotten,
        ("client dies", "kill a proxy", "kill all proxies"),
    ),
    Planted(
        "half a timeout",
        "a session ends after half of its timeout",
        _half_a_timeout,
        ("client dies", "kill a proxy", "cut clients from a proxy"),
    ),
    Planted(
        "always fresh",
        "a proxy does not look how old its state is, and serves",
        _always_fresh,
        ("stall a watch",),
    ),
    Planted(
        "truncated too far",
        "the log is truncated up to the current snapshot",
        _truncates_too_much,
        ("want snapshots", "cut a proxy from etcd"),
    ),
    Planted(
        "the pending part dropped",
        "a load drops entries that wait for a predecessor",
        _pending_part_dropped,
        ("lose requests", "load anew"),
    ),
    Planted(
        "truncation overlooked",
        "a catch-up does not see that entries are gone",
        _reach_unchecked,
        ("want snapshots", "cut a proxy from etcd"),
    ),
    Planted(
        "a snapshot with wrong numbers",
        "a snapshot's applied numbers are one too low",
        _snapshot_without_numbers,
        ("want snapshots", "kill a proxy"),
    ),
    Planted(
        "level raised too early",
        "the level is raised while a proxy lives that does not know it",
        _level_unchecked,
        ("want snapshots",),
    ),
    Planted(
        "half a write is seen",
        "clients read what a long write has changed so far",
        _gate_open,
        ("lag", "slow network"),
    ),
    Planted(
        "a long read is not one moment",
        "the log is applied while a long read goes on",
        _nothing_held,
        ("lag", "slow network"),
    ),
    Planted(
        "ended sessions are kept",
        "a server remembers each session that ever came to another one",
        _sessions_kept,
        ("lag", "new leader"),
        calm=True,
    ),
    Planted(
        "watches are kept",
        "the watches of a connection outlive it",
        _watches_kept,
        ("lag", "new leader"),
        calm=True,
    ),
    Planted(
        "leases are kept",
        "a proxy keeps the leases of its former incarnations alive",
        _leases_kept,
        ("slow disk", "cut a proxy from etcd", "pause a proxy", "lose keep-alives"),
        calm=True,
    ),
    Planted(
        "TTL from creation",
        "a TTL counts from the node's creation, not from its last write",
        _ttl_from_creation,
        ("lag", "new leader"),
        calm=True,
    ),
    Planted(
        "a timer that drifts",
        "the clock of sessions loses a second in a hundred",
        _timer_drifts,
        ("lag", "new leader"),
        calm=True,
    ),
    Planted(
        "containers stay",
        "no empty container is deleted",
        _containers_stay,
        ("lag", "new leader"),
        calm=True,
    ),
    Planted(
        "never truncated",
        "the log is never truncated",
        _never_truncated,
        ("lag", "new leader"),
        calm=True,
    ),
)
"""All of them."""
