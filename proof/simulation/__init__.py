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
`simulation`  one stormy world of a seed: faults, recovery, judgement
`calm`        one calm world: many hours, few requests, a fault now and then
`quiet`       stretches without faults, in which periodic looks are rare
`mortals`     TTL nodes and containers: a client that uses them, and when they must go
`census`      how much each part of a server keeps
`bounds`      what may be left at the end of a calm world
`planted`     faults in the code, planted on purpose, that must be found
`campaign`    many worlds
"""
