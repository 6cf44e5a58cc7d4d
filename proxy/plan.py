"""From a batch to the one etcd Txn that commits it: guards, net effect, marker.

Pure. The shape is that of DESIGN 4.3: an outer Txn whose compare fences the lane, then the marker and one
nested Txn for each component, so that a conflict fails only its own.
"""

from collections.abc import Sequence

from proxy.batch import WIDTH, Batch, Component, events_of
from proxy.draft import CHANGE, GUARD_COUNTER, GUARD_NODE, PENDING, Entry
from proxy.etcd.model import DEFAULT_MAX_TXN_OPS, Compare, Delete, Get, Op, Put, Txn
from schema.keys import Keyspace
from schema.paths import ROOT, is_valid, parent_of
from schema.values import OPEN_ACL, encode_counter, encode_events, encode_loss, encode_node, encode_session

# Of a component that loses its race, as many paths are told.
_PATHS_TOLD = 8


def build(
    batch: Batch,
    keys: Keyspace,
    marker: bytes,
    marker_mod: int,
    marker_value: bytes,
    *,
    metered: bool = True,
    loser: str = "",
    rivals: bool = False,
) -> tuple[Txn, dict[bytes, Entry]]:
    """The Txn of a batch: responses are the marker's, then one nested result for each component in order.

    With it what it puts at the keys of nodes, as the mirror will show it: new ones, and others' new data.

    `marker_mod`: the mod_revision that the lane's marker has unless this proxy was fenced off. With `metered`
    an etcd whose quota is used up refuses it; else not (see `unmetered`). `loser` is the proxy's incarnation,
    for components that lose their race: they say so if they leave no other trace, and with `rivals` all do
    (see `proxy.courtesy`).
    """
    components = batch.components
    outer: list[Op] = [Put(marker, marker_value) if metered else unmetered(Put(marker, marker_value))]
    room = DEFAULT_MAX_TXN_OPS - 1 - len(components)
    own: dict[bytes, Entry] = {}
    for index, component in enumerate(components):
        guards = _guards(component, keys)
        if batch.wide:
            guards = _widened(component, keys, guards, batch.revision, room // 2)
        writes = _writes(component, keys, index, own)
        failure = _loss(component, keys, index, loser) if rivals or not writes else ()
        outer.append(Txn(guards, _nested(writes, len(guards), room), failure))
    return Txn((Compare(marker, marker_mod),), outer, (Get(marker),)), own


def _loss(component: Component, keys: Keyspace, index: int, loser: str) -> Sequence[Op]:
    """What a component puts if its guards do not hold: the paths of others that it wanted to change.

    Without any it puts nothing, unless nothing else would tell that they did not.
    """
    paths = [entry.path for entry in component.entries if entry.flags & CHANGE and entry.mod]
    if not paths and not component.changes_nothing:
        return ()
    return (Put(keys.loss(index), encode_loss(loser, paths[:_PATHS_TOLD])),)


def unmetered(put: Put) -> Txn:
    """A put in a form that etcd takes even if its quota is used up.

    The quota looks only at the puts of the outermost Txn (costTxn in etcd's server/etcdserver/quota.go). For
    the few small ones without which a full etcd could not be read through this proxy, nor anything end.
    """
    return Txn((), (put,))


def witness(component: Component, keys: Keyspace) -> Put | Delete | None:
    """A write that tells afterwards whether the component was applied; None if it writes nothing."""
    # The key of an event list says nothing: other components of other Txns put the same one.
    writes = [write for write in _writes(component, keys, 0, {}) if not write.key.startswith(keys.events)]
    puts = [write for write in writes if isinstance(write, Put)]
    deletes = [write for write in writes if isinstance(write, Delete)]
    return puts[0] if puts else deletes[0] if deletes else None


def _nested(ops: Sequence[Op], guards: int, room: int) -> Sequence[Op]:
    """The operations in as few levels of nested Txns as keep the chain within `room`."""
    if max(guards, len(ops)) <= room:
        return ops
    levels = 2
    while True:
        # The top level has as many places as there are guards in any case.
        top = max(guards, room // levels)
        below = (room - top) // (levels - 1)
        if below < 1:
            return ops  # cannot fit; etcd refuses it with a clear error
        if top * below ** (levels - 1) >= len(ops):
            break
        levels += 1
    return _chunked(ops, top, below, levels)


def _chunked(ops: Sequence[Op], width: int, below: int, levels: int) -> Sequence[Op]:
    if levels == 1 or len(ops) <= width:
        return ops
    share = -(-len(ops) // width)
    chunks = [ops[start : start + share] for start in range(0, len(ops), share)]
    return [Txn((), _chunked(chunk, below, below, levels - 1)) for chunk in chunks]


def _guards(component: Component, keys: Keyspace) -> list[Compare]:
    guards = [Compare(keys.session(session_id), mod) for session_id, mod in component.session_guards.items()]
    for entry in component.entries:
        flags = entry.flags
        if not entry.mod:
            # A node created here is absent by its parent's counter; no node is there under an invalid path.
            if flags & GUARD_NODE and not flags & CHANGE and is_valid(entry.path):
                guards.append(Compare(keys.node(entry.path), 0))
            continue
        if flags & GUARD_NODE:
            guards.append(Compare(keys.node(entry.path), entry.mod))
        if flags & GUARD_COUNTER:
            guards.append(Compare(keys.counter(entry.path), entry.counter_mod))
    return guards


def _widened(
    component: Component, keys: Keyspace, guards: list[Compare], revision: int, room: int
) -> list[Compare]:
    """Fewer guards that say more: ranges of keys in which nothing has changed since `revision`.

    A range cannot tell of a deleted key. But whoever deletes a node puts its parent's counter, or deletes the
    parent too and puts the grandparent's, and the root stays: so the counters of all ancestors come along.
    """
    if len(guards) <= min(room, WIDTH):
        return guards
    sessions = [guard for guard in guards if guard.key.startswith(keys.sessions)]
    guarded = {guard.key for guard in guards} - {guard.key for guard in sessions}
    for entry in component.entries:
        path = entry.path
        while path != ROOT and "/" in path:
            path = parent_of(path)
            guarded.add(keys.counter(path))
    ordered = sorted(guarded)
    share = -(-len(ordered) // max(1, room - len(sessions)))
    # A range must not span the node and the counter space, between which other keys lie.
    for space in (keys.counters, keys.nodes):
        of_space = [key for key in ordered if key.startswith(space)]
        for start in range(0, len(of_space), share):
            part = of_space[start : start + share]
            sessions.append(Compare(part[0], revision + 1, part[-1] + b"\0", less=True))
    return sessions


def _writes(component: Component, keys: Keyspace, index: int, own: dict[bytes, Entry]) -> list[Put | Delete]:
    """The component's net effect, in the order of its events so that every mirror fires them so.

    `own` gets the nodes that the mirror may take over as they are: not those whose ACL is to be shared with
    that of other nodes, or whose czxid the key does not say.
    """
    writes: list[Put | Delete] = []
    changed = [entry for entry in component.entries if entry.flags & CHANGE]
    if any(entry.event_count > 1 for entry in changed):
        writes.append(Put(keys.event_list(index), encode_events(events_of(component.events))))
    for entry in dict.fromkeys((*(entry for _, entry, _ in component.events), *changed)):
        if entry.node_changed:
            write = _node_write(entry, keys)
            if write is not None:
                writes.append(write)
                if entry.exists and entry.acl is OPEN_ACL and not (entry.czxid == PENDING and entry.mod):
                    own[write.key] = entry
    for entry in changed:
        if entry.counter_changed or entry.counter_mod:
            write = _counter_write(entry, keys)
            if write is not None:
                writes.append(write)
    for session_id, value in dict(component.session_changes).items():
        key = keys.session(session_id)
        writes.append(Delete(key) if value is None else Put(key, encode_session(value), session_id))
    return writes


def _node_write(entry: Entry, keys: Keyspace) -> Put | Delete | None:
    if not entry.exists:
        return Delete(keys.node(entry.path)) if entry.mod else None
    created_here = entry.czxid == PENDING
    czxid = entry.czxid if entry.explicit_czxid and not created_here else None
    value = encode_node(
        entry.data,
        entry.acl,
        entry.owner,
        entry.ctime,
        entry.mtime,
        entry.version,
        entry.aversion,
        czxid,
        None if entry.mzxid == PENDING else entry.mzxid,
        # etcd keeps the create_revision of a key that one Txn deletes and creates
        created_here and entry.mod != 0,
    )
    return Put(keys.node(entry.path), value)


def _counter_write(entry: Entry, keys: Keyspace) -> Put | Delete | None:
    if entry.exists and entry.counter_changed:
        return Put(keys.counter(entry.path), encode_counter(entry.created))
    gone = not entry.exists or entry.czxid == PENDING
    if gone and entry.counter_mod:
        return Delete(keys.counter(entry.path))
    return None
