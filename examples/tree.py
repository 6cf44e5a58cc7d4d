"""Whole subtrees, read and deleted request by request, as any ZooKeeper client can."""

import asyncio

from codec.client import children, delete, get, maybe
from lab.client.session import MultiFailed, Session

BATCH = 100
"""How many operations a multi of ClickHouse has at most: its MULTI_BATCH_SIZE."""


async def paths_below(session: Session, root: str) -> list[str]:
    """Every path of a subtree, parents before their children, the root first; empty if there is none."""
    found = [root] if await session.call(maybe(get(root))) is not None else []
    level = found
    while level:
        listings = await asyncio.gather(*(session.send(maybe(children(path))) for path in level))
        level = [
            f"{path}/{name}"
            for path, listing in zip(level, listings, strict=True)
            if listing is not None
            for name in sorted(listing.names)
        ]
        found = found + level
    return found


async def delete_tree(session: Session, root: str) -> None:
    """Delete a subtree by multis, and node by node where a multi fails: ephemeral nodes may go meanwhile."""
    paths = list(reversed(await paths_below(session, root)))
    for start in range(0, len(paths), BATCH):
        chunk = paths[start : start + BATCH]
        try:
            await session.multi(*(delete(path) for path in chunk))
        except MultiFailed:
            for path in chunk:
                await session.call(maybe(delete(path)))
