"""Who may do what in the naive ZooKeeper: ACLs and quotas."""

import ipaddress
from collections.abc import Mapping, Sequence

from codec.constants import ErrorCode
from codec.jute import Acl
from lab.oracle.requests import AclList
from proof.naive.requests import Acls, Refused
from proof.naive.znode import Znode

#: Scheme and id of each.
Identities = Sequence[tuple[str, str]]


def permit(identities: Identities, node: Znode, permission: int) -> None:
    """ZooKeeperServer.checkACL."""
    if ("super", "") in identities:
        return
    for entry in node.acl:
        if entry.perms & permission and (
            entry.scheme == "world" or any(_is(entry, *each) for each in identities)
        ):
            return
    raise Refused(ErrorCode.NO_AUTH)


def stored(identities: Identities, acls: AclList | None) -> Acls:
    """PrepRequestProcessor.fixupACL."""
    kept: list[Acl] = []
    for perms, entry_scheme, entry_id in dict.fromkeys(acls or ()):
        entry = Acl(perms, str(entry_scheme), str(entry_id))
        proven = [each for each in identities if each[0] in ("digest", "sasl")]
        if entry.scheme == "auth" and proven:
            kept += [Acl(entry.perms, *each) for each in proven]
        elif _is_valid(entry):
            kept.append(entry)
        else:
            raise Refused(ErrorCode.INVALID_ACL)
    if not kept:
        raise Refused(ErrorCode.INVALID_ACL)
    return tuple(kept)


def counted(nodes: Mapping[str, Znode], path: str) -> bytes:
    """What the quota of a path has counted: all nodes from it on, and their bytes."""
    inside = [node for other, node in nodes.items() if f"{other}/".startswith(f"{path}/")]
    return b"count=%d,bytes=%d" % (len(inside), sum(len(node.data or b"") for node in inside))


def check_quota(nodes: Mapping[str, Znode], path: str, count: int, size: int) -> None:
    """ZooKeeperServer.checkQuota: only the nearest limits above count. `nodes`: before the request."""
    while path and _limits_of(path) not in nodes:
        path = path[: path.rfind("/")]
    if not path or _stats_of(path) not in nodes:
        return
    limits = _numbers(nodes[_limits_of(path)].data)
    now = _numbers(counted(nodes, path))
    for more, name, limit in ((count, "count", "countHardLimit"), (size, "bytes", "byteHardLimit")):
        if more and -1 < limits.get(limit, -1) < now[name] + more:
            raise Refused(ErrorCode.QUOTA_EXCEEDED)


def _is(entry: Acl, scheme: str, name: str) -> bool:
    """Whether an entry of an ACL means this client."""
    if entry.scheme != scheme:
        return False
    if scheme == "ip":
        return ipaddress.ip_address(name) in ipaddress.ip_network(entry.id, strict=False)
    return entry.id == name


def _is_valid(entry: Acl) -> bool:
    if entry.scheme == "digest":
        return entry.id.count(":") == 1
    return (entry.scheme, entry.id) == ("world", "anyone") or entry.scheme in ("ip", "sasl")


def _limits_of(path: str) -> str:
    return f"/zookeeper/quota{path}/zookeeper_limits"


def _stats_of(path: str) -> str:
    return f"/zookeeper/quota{path}/zookeeper_stats"


def _numbers(data: bytes | None) -> dict[str, int]:
    """What limits or stats of a quota say: `name=number,name=number`."""
    pairs = [pair.split("=") for pair in (data or b"").decode().split(",") if pair]
    return {name: int(number) for name, number in pairs}
