"""The state machine: ZooKeeper's semantics, without network and log. Pure.

    entries of the log ──> Machine.begin / execute / end ──> outcomes, tree events, session changes

`machine` evaluates the requests of the log one after another. Every server evaluates the same requests in the
same order and reaches the same state. So nothing here uses the time, randomness or anything outside, and no
outcome depends on the order in which a set is iterated.

In which order to read:

machine        evaluates a request
operation      what an operation is
ops            the operations, and their table
outcome        what a request may end in
transaction    the tree as one request sees it: changes it, and undoes one request's changes
tree, node     the tree, and the two forms of a node
sessions       a session
rights, acl    what an ACL permits; how clients send and see it
auth           who a client is
java_numbers   how Java reads them, in ACLs and quotas
quotas, budgets, effect  what bounds writes, and what a write does
by_path        which recursive watches, quotas and budgets a path is below
watches        which connections get an event
notifications  what they get
expiry         which containers and TTL nodes are due
proxy_requests  the requests of proxies and operators
followed       those that carry a source's changes into its copy
level          the version of all these rules
digest         a number that two servers compare
state, capture  the state as data; as pages of a snapshot, and back
recording      records what requests change
feed           that as lines
difference     what a client missed while a state was loaded
pause          where long work may pause
bounded, subtree, sparse  long replies, large subtrees, what was large once

Compared with ZooKeeper: `ops` is PrepRequestProcessor, `transaction` and `tree` are DataTree, reads are
FinalRequestProcessor.
"""
