"""Real processes under real faults, with a verdict: three members of etcd, several proxies, recorded clients.

`cluster`       the processes and what they are started with
`relay`         the links between all of them, which stop and become slow
`real`          real sockets and a real clock for the simulation's client
`observer`      the log in etcd, followed beside the proxies
`faults`        the faults
`maintenance`   those that are an operator's work on etcd
`availability`  gaps and recovery times
`rounds`        one history: clients, faults, the audit of all trees
`judge`         whether history, log and trees agree
`torture`       the whole run
"""
