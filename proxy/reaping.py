"""Which container and TTL nodes are due to go: ZooKeeper's ContainerManager, as far as it decides.

Pure; time is an argument. `reaper` is the shell that asks every so often.
"""

from proxy.draft import Entry
from proxy.tree import CONTAINER_OWNER, Tree, ttl_of


def candidates(tree: Tree, now: int, max_never_used: int) -> list[str]:
    """Paths of the empty containers and TTL nodes that are due at `now` (ms since 1970)."""
    due = []
    for path in tree.mortal:
        node = tree.nodes[path]
        if not node.children and _is_over(node.owner, node.created, node.mtime, now, max_never_used):
            due.append(path)
    return due


def is_due(entry: Entry, now: int, max_never_used: int) -> bool:
    """Whether an empty node of a draft is still a container or TTL node that is due."""
    return _is_over(entry.owner, entry.created, entry.mtime, now, max_never_used)


def _is_over(owner: int, created: int, mtime: int, now: int, max_never_used: int) -> bool:
    """A container once it has had a child, or never got one in `max_never_used` ms (0: it may wait for ever).

    A TTL node when its data have not been set for longer than its TTL.
    """
    if owner == CONTAINER_OWNER:
        return created > 0 or (max_never_used > 0 and now - mtime > max_never_used)
    ttl = ttl_of(owner)
    return ttl > 0 and now - mtime > ttl
