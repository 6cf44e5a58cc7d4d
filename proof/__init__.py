"""Evidence that zketcd keeps ZooKeeper's promises: histories and their checker, workloads, faults.

`history`     what clients saw, as records; the checker that finds a broken promise in them. Pure
`check`       `python -m proof.check FILE...`: the checker for recorded files
`workloads`   programs of zketcd's users (DDL queues, replicated tables, shared parts), with invariants; they
              run on any ZooKeeper address
`torture`     `python -m proof.torture`: real servers, real faults, a recorded history, the checker

A *history* is the sequence of requests, replies and watch events that clients saw. A *call* is one request
with what became of it: a reply, or nothing (its outcome is unknown). docs/reliability.md says what is
promised and shown.
"""
