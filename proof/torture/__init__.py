"""Real processes under real faults, with a verdict: zketcd on etcd, or ZooKeeper, and recorded clients.

`real`          real sockets and a real clock for the simulation's client
`system`        what a round asks of a system: zketcd, or ZooKeeper
`script`        which faults come, by the seed
`rounds`        one history: clients, faults, the audit of all trees
`judge`         whether history, log and trees agree
`torture`       the whole run
`availability`  gaps and recovery times
`compare`       those of several systems in one table
`acts`          what faults are made of: processes that end and links that change
`host`          the clock and the disk of a process

zketcd:
`cluster`       three members of etcd, several proxies, and relays between all of them
`observer`      the log in etcd, followed beside the proxies
`faults`        the faults
`maintenance`   those that are an operator's work
`zketcd`        all of it as a system

ZooKeeper:
`ensemble`         three servers, and relays between all of them
`ensemble_faults`  the counterparts of zketcd's faults
`zookeeper`        all of it as a system
"""
