"""The whole system in one process, on one seed, in simulated time.

`world`       the clock, the event loops of all hosts, the trace
`network`     latency, loss and cuts between hosts
`older_backup`  the end of some worlds: etcd is restored from a backup that lacks the newest writes
`fresh_start`  the state that a proxy has that starts now
`etcd`        a cluster of three members as its clients see it, on the tests' in-memory model
`proxies`     whole real servers, their snapshot writers, and their clients' connections
`clients`     sessions that roam between proxies; what they see is a history
`packets`     a history's requests and replies as bytes
`environment`  a simulated host's clocks and randomness, as the server takes them
`seams`       what else of `proxy/` is replaced
`nemesis`     the faults
`aimed_faults`  those that wait for a moment that chance seldom meets
`oracle`      the right order of the log and the right state, beside all proxies
`exactly_once`  whether each request is in the log once, and what became of those without an answer
`hot_restart` a new process takes over from a simulated proxy
`expiry`      whether sessions end too early
`simulation`  one stormy world of a seed: faults, recovery, judgement
`calm`        one calm world: many hours, few requests, a fault now and then
`following`   worlds whose tree follows a ZooKeeper, and is followed by its files
`expiring_nodes`  TTL nodes and containers: a client that uses them, and when they must be deleted
`census`      how much each part of a server keeps
`bounds`      what may be left at the end of a calm world
`planted`     faults in the source, planted on purpose, that must be found
`hunt`        simulates seeds until something is wrong, for a planted fault in a process of its own
`campaign`    many worlds
"""
