"""The state machine: ZooKeeper's semantics, without network and log. Pure.

    entries of the log ──> Machine.begin / execute / end ──> outcomes, tree events, session changes

`machine` evaluates the requests of the log one after another. Every server evaluates the same requests in the
same order and reaches the same state. So nothing here uses the time, randomness or anything outside, and no
outcome depends on the order in which a set is iterated.

- `tree` with `node`, `rights`, `subtree`; `sessions`: the state. `transaction` changes it, and undoes one
  request's changes; `recording` also keeps them, for `feed` and for copies.
- `operation`, `ops/`: the requests of clients, one file each. `proxy_requests`, `followed`: those of proxies.
- `auth/`, `acl`, `quotas`, `budgets`: what they use. `effect`, `outcome`: what they do, and what comes of it.
- `pause`, `bounded`: long work in pieces, and up to a limit.
- `digest`: a number that two servers compare. `capture`: the `state` as pages of a snapshot, and back.
- `watches`: which connections get an event. `notifications`: what they get.
- `expiry`: which containers and TTL nodes are due.
- `by_path`: which recursive watches, quotas and budgets a path is below.
- `level`: the version of all these rules. `difference`: what a client missed while a state was loaded.

Compared with ZooKeeper: `ops` is PrepRequestProcessor, `transaction` and `tree` are DataTree, reads are
FinalRequestProcessor.
"""
