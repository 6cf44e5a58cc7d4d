"""Evidence that zketcd keeps ZooKeeper's promises: histories with their checker, and a simulation.

`history`     what clients saw, as records; the checker that finds a broken promise in them. Pure
`check`       `python -m proof.check FILE...`: the checker for recorded files
`torture`     `python -m proof.torture`: real processes under real faults, judged by the same checker
`simulation`  `python -m proof.simulation`: the whole system in one process, in simulated time, from one seed

A *history* is the sequence of requests, replies and watch events that clients saw. A *call* is one request
with what became of it: a reply, or nothing (its outcome is unknown). docs/reliability.md says what is
promised and shown.
"""
