"""Evidence that zketcd keeps ZooKeeper's promises: histories of what clients saw, and their checker.

`history`     what clients saw, as records; the checker that finds a broken promise in them. Pure
`check`       `python -m proof.check FILE...`: the checker for recorded files

A *history* is the sequence of requests, replies and watch events that clients saw. A *call* is one request
with what became of it: a reply, or nothing (its outcome is unknown). docs/reliability.md says what is
promised and shown.
"""
