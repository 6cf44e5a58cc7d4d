"""Which znodes zketcd can store. Pure."""

from proxy.etcd.model import DEFAULT_MAX_REQUEST_BYTES
from schema.paths import is_valid

# What a request needs besides a znode's data: its key or path, the compares, the head of a page or an entry.
_ROOM = 4096


def obstacle_to(
    path: str, data_size: int, acl_size: int = 0, max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES
) -> str | None:
    """Why zketcd cannot store a znode, in words; None if it can. Sizes in bytes."""
    if not is_valid(path):
        return "ZooKeeper allows no such path"
    if data_size + acl_size + len(path.encode(errors="replace")) + _ROOM > max_request_bytes:
        return f"its {data_size} bytes of data exceed etcd's limit of {max_request_bytes} bytes a request"
    return None
