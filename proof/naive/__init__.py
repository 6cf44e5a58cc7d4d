"""A naive ZooKeeper: what its tree does, in the plainest way, to judge the state machine by.

Written from ZooKeeper's PrepRequestProcessor, DataTree and ZooKeeperServer, not from proxy/. It knows no log.

It is given all requests in order, and has all that zketcd has. proof.history.model is another one, for a
search that does not know the order: it can go back, takes zxids that are not known, and has less.

`requests`   what clients ask for, and answers
`znode`      a node
`zookeeper`  the tree, the sessions, and what each request does
`rules`      who may do what: ACLs and quotas
`budgets`    how much clients may write: zketcd's own, from docs/budgets.md
"""

from proof.naive.requests import Acls, Answer, Asked, MultiAnswer, Refused, Stat
from proof.naive.znode import Znode
from proof.naive.zookeeper import NaiveZooKeeper

__all__ = ["Acls", "Answer", "Asked", "MultiAnswer", "NaiveZooKeeper", "Refused", "Stat", "Znode"]
