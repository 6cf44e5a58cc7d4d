"""The nodes that every ZooKeeper has from the start, as they lie in etcd.

Zxids and times are 0, and none has a counter: DataTree's constructor and addConfigNode, whose setACL leaves
aversion -1.
"""

from codec.jute import Acl
from schema.paths import CONFIG, QUOTA, ROOT, ZOOKEEPER
from schema.values import OPEN_ACL, encode_node

_READ_ONLY_ACL = (Acl(1, "world", "anyone"),)

#: path -> value
FIXED_NODES = {
    ROOT: encode_node(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0),
    ZOOKEEPER: encode_node(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0),
    QUOTA: encode_node(b"", OPEN_ACL, 0, 0, 0, 0, 0, 0, 0),
    CONFIG: encode_node(b"", _READ_ONLY_ACL, 0, 0, 0, 0, -1, 0, 0),
}
