"""The replicated log: how a request of one proxy takes effect at all proxies, in one order.

etcd gives the order and knows nothing of znodes. A proxy puts requests into the log as they came. Each proxy
reads the log and evaluates its requests on its own copy of the state (`proxy.state`), with the same outcome.
So no request races with another, and a write costs etcd a part of one put, however many proxies write.

The path of a write, by the names to search for:

    Outbox.submit_all      a client's writes wait                      append/outbox.py
    Appender._pump         there is room for one more Txn              append/appender.py
    Outbox.cut             all that waits becomes one entry, numbered  append/outbox.py
    Incarnation.append     its Txn: two compares and one put           append/membership.py
      - - - etcd - - -     the entry has a revision now, its position
    Follow._take_message   the watch delivers it, to every proxy       follow/follow.py
    Follower.items_of      it takes its place in the order             follow/follower.py
    Log.deliver            what takes effect goes to the applier       log.py
    Applier._apply_own     request by request: the state changes       applier.py
    Pending.answer         the client's reply                          append/pending.py

At another proxy the path ends with `Applier._apply_foreign`. Its `_fire` passes each watch event to
`WatchTable.fire` (proxy.state.watches), which calls `Connection.notify` of each client that watches. There
`Order.event` makes the packet, which is sent at the end of the turn of the event loop (`Order.flush`).

The rules that everything here rests on:

1. Nothing is decided before a request is applied: neither versions nor sequence numbers nor errors. What is
   applied is the same everywhere, so it depends on the log alone: on no clock, and on no proxy's own data.
2. An entry's position is its revision in etcd. Entries take effect in this order; those of one incarnation in
   the order of their numbers, up to the first gap (see `follow`).
3. Only the stream shows the outcome of an append. Neither etcd's answer to the Txn nor a read of the key
   does: a Txn that got no answer may be executed later (see `append`).
4. If there is doubt whether an incarnation can append, it ends. That is always safe: the next one moves the
   sessions to itself by one request, and sends again what took no effect. Clients notice nothing.
5. A state that differs from what the log makes is shown to no client. The proxy loads the tree again.
6. Of one request, in this order: the watch events, the reply, the reads of its session that waited for it.
7. Snapshots and truncation never change what an entry means. A start loads the newest usable snapshot and
   applies the log since it. The one before it is kept with the log since then, so that a damaged page is not
   the end.

In which order to read:

append   from requests to entries in etcd
follow   from etcd's watch to items in the order in which they take effect
applier  applies items to the state, in slices; answers own requests
slices   long work in slices of 5 ms, and when clients may read the state
log      puts the parts together, and handles what the applier notices
load     from a snapshot and the log to a state
upkeep   snapshots, truncation, due nodes, the archive: what one proxy does for all
record   the tree's record in etcd, and whether this release can serve the tree
members  the other proxies: which live, by age; their clocks
status   what this end of the log says of itself: to sessions, to operators, for metrics
context  what each part works with; the settings
"""
