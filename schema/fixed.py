"""The nodes that every ZooKeeper has from the start.

Zxids and times are 0, and no child was ever created: DataTree's constructor puts the children in without
counting them. DataTree.addConfigNode sets the ACL of `/zookeeper/config`, which leaves aversion -1.
"""

from codec.jute import OPEN_ACL, Acl
from schema.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER
from schema.znode import Znode

_READ_ONLY_ACL = (Acl(1, "world", "anyone"),)


def fixed_nodes() -> dict[str, Znode]:
    """New znodes for `/`, `/zookeeper`, `/zookeeper/config` and `/zookeeper/quota`, parents first."""
    return {
        ROOT: Znode(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        ZOOKEEPER: Znode(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        CONFIG: Znode(b"", _READ_ONLY_ACL, 0, 0, 0, 0, 0, 0, 0, 0, -1),
        QUOTA: Znode(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    }
