"""The replicated log: how a request of one proxy takes effect at all proxies, in one order.

etcd gives the order and knows nothing of znodes. A proxy puts requests into the log as they came. Each proxy
reads the log and evaluates its requests on its own copy of the state (`proxy.state`), with the same outcome.
So no request races with another, and a write costs etcd a part of one put, however many proxies write.

The path of a write, by the names to search for:

    Outbox.submit_all          a client's writes wait                      append/outbox.py
    Appender._pump             there is room for one more Txn              append/appender.py
    Outbox.cut                 all that waits becomes one entry, numbered  append/outbox.py
    Combining.begin            alone, or with other proxies' entries       combine/combining.py
    Incarnation.txn_of         its Txn: two compares and one put           append/registration.py
      - - - etcd - - -         the entry has a revision now, its position
    LogFollower._take_message  the watch delivers it, to every proxy       follow/log_follower.py
    LogOrder.items_of          it takes its place in the order             follow/log_order.py
    Log.deliver                what takes effect goes to the applier       log.py
    StateWorker.run            in slices, which end where the work pauses  slices.py
    Applier._apply_own         request by request: the state changes       applier.py
    Pending.answer             the client's reply                          append/pending.py

At another proxy the path ends with `Applier._apply_other`. Its `_fire` passes the watch events to
`WatchTable.fire` (proxy.state.watches), which calls `Connection.notify` of each client that watches.
`Notifications` makes the packets, once for all clients. At the end of the slice `FlushQueue` calls
`Connection.flush`, by which `Outbound.send` gets all packets of the connection, the replies too.

The rules that everything here rests on are in docs/architecture.md: rule 2.3 is point 3 of its section 2.

In which order to read:

append   from requests to entries in etcd
combine  entries of several proxies in one Txn, if an operator wants that
follow   from etcd's watch to items in the order in which they take effect
applier  applies items to the state, in slices; answers own requests
recent   the last changes of requests, while somebody reads them
slices   long work in slices of 5 ms, and when clients may read the state
log      puts the parts together, and handles what the applier notices
load     from a snapshot and the log to a state
upkeep   snapshots, truncation, due nodes: what one proxy does for all
foreign  keys under the prefix that are not zketcd's
record   the tree's record in etcd, and whether this release can serve the tree
reads    of which none is older than one before it, or all are as of one revision
seal     ends a tree that has moved: where it has gone, and at which position
living   the other proxies: which live, by age; their clocks
status   what this end of the log says of itself: to sessions, to operators, for metrics
context  what each part works with; the settings
"""
