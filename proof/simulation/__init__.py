"""The whole system in one process, on one seed, in simulated time.

`Simulation` puts a world together, makes its faults, and hands what happens to its judges. A judge hears of
each commit of etcd when it is made (`Cluster.on_commit`), of what the oracle makes of it (`Listeners`), of
what servers do (proxy/support/probe.py, `_Probe`), of what clients are answered (`Client.on_reply`), or looks
once, at the end (`_settle`). It calls `violate` with what no fault explains.

The world:
world           the clock, and the event loops of all hosts
environment     clocks and randomness of a host
seams           what of proxy/ is replaced
network         what is between hosts
etcd            a cluster as its clients see it; its connections (etcd_channel) and known bugs (etcd_bugs)
proxies         whole real servers; their connections to clients (transports) and to each other (peers)
hot_restart     a new process takes over from one of them
followers       `zketcd follow`, with a copy in another etcd
clients         sessions that roam between proxies, what they ask for (mix), and how that is sent (packets)
features        clients with ACLs, quotas and Keeper's operations
syncing_readers clients that let others know of their writes, which send a sync and read
knobs           settings and limits, drawn from the seed

Faults:
nemesis         all that a world may have; those in files of their own are aimed_faults, snapshot_faults,
                bug_faults, and spoiling (exceptions at any line)
rolling_upgrade a rolling upgrade of the servers, and the raise of the level
sealing         the tree moves away, and the move is called off
losing          the source of a copy is lost
older_backup    etcd is restored without the newest writes

Judges, and what each hears of:
oracle          commits; machines of all servers after each entry. It has the order and state that are right
naive_judge     requests that the oracle has applied: their outcomes are the naive ZooKeeper's, and its nodes
                are what reads under ACLs see (acl_reads)
reserve         the same, and requests that servers refuse
expiry          commits, attached and ended sessions, and what servers heard
answers         what clients are answered; at the end the history, once the log says what became of each
                request (exactly_once). Events of states that were loaded anew are excused (loads)
wrong_servers   servers that a bug of etcd's deceives: for how long they answer
expiring_nodes  in calm worlds: when TTL nodes and containers go
bounds          at the end of calm worlds: what servers (census) and etcd still keep
copies          in standby worlds: commits to the copy's etcd, and the source's states
fresh_start     at the end: the state that a fresh start loads
sometimes       which branches that matter were taken

Kinds of worlds, and many of them:
simulation      a stormy world, the base of the others
calm            many hours with few faults
standby         a stormy one with a second etcd and followers
kinds           all kinds, and how each is run; `outcome` is the result
campaign        many worlds, their figures, and the search for planted faults (planted, hunt)
record          the file with which a campaign continues
"""
