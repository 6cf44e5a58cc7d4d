"""The whole system in one process, on one seed, in simulated time.

`world`       the clock, the event loops of all hosts, the trace
`network`     latency, loss and cuts between hosts
`etcd`        a cluster of three members as its clients see it, on the tests' in-memory model
`proxies`     whole real servers, their snapshot writers, and their clients' connections
`clients`     sessions that roam between proxies; what they see is a history
`packets`     a history's requests and replies as bytes
`seams`       every place of `proxy/` that is replaced: clocks, chance, the snapshot writer's process
`nemesis`     the faults
`oracle`      the right order of the log and the right state, beside all proxies
`exactly_once`  whether each request is in the log once, and what became of those without an answer
`expiry`      whether sessions end too early
`simulation`  one world of a seed: faults, recovery, judgement
`planted`     faults in the code, planted on purpose, that must be found
`campaign`    many worlds
"""
