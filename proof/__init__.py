"""Evidence that zketcd keeps ZooKeeper's promises.

`history` has what clients saw, as records, and the checker that finds a broken promise in them; `check` is
that for files. `naive` is a ZooKeeper that shares no code with the state machine. `simulation` runs the whole
system in one process, in simulated time, from one seed; `torture` runs real processes under real faults. Both
are judged by the checker. `fuzzing` feeds changed bytes to all that reads bytes.

A *history* is the sequence of requests, replies and watch events that clients saw. A *call* is one request
with what became of it: a reply, or nothing (its outcome is unknown). docs/reliability.md says what is
promised and shown.
"""
