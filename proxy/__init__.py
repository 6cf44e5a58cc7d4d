"""The server: ZooKeeper clients on one side, etcd on the other.

The words used here, and the way of data:

    socket -> connection -> requests -> operation on a draft -> batch -> plan -> etcd Txn
                                                                                    |
    socket <- outlet <- requests <- reply, after the watch events <- mirror <- watch stream

tree        every znode in memory, as of one etcd revision
mirror      the tree, sessions and proxies as the one watch stream of this proxy tells them
draft       what the writes of one batch would make of the tree: an overlay, with what they looked at
footprint   the paths and sessions that one request looked at or changed
batch       requests evaluated on one draft and sent as one Txn; its components share no path or session
plan        a batch's components as nested Txns: the guards (compares) and the net effect (puts, deletes)
flight      a batch under way: its lane, its sessions, and who waits for it
lane        a marker key of this proxy; each Txn in flight uses one, so that a lost one can be fenced off
marker      the key that every Txn puts: its event tells the mirror that the Txn's revision has arrived
incarnation the random name of one run of one proxy
refusal     an error code that ZooKeeper answers; guarded like a success, so that it is true
session     as in ZooKeeper; its id is an etcd lease, its record hangs on that lease
caller      who asks: the session and the identities (auth) of its connection

`tree`, `quotas`, `acl`, `draft`, `batch`, `plan`, `flights`, `ahead`, `mirror`, `watches`, `sessions`,
`overtaking`, `reaping` and `ops` are pure: no I/O, no clock, no asyncio.
"""
