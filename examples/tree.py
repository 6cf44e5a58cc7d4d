"""Whole subtrees, read and deleted request by request, as any ZooKeeper client can."""

import asyncio

from examples.client import Session
from examples.requests import children, create, delete, get, maybe


async def make_parents(session: Session, path: str) -> None:
    """Create every node above `path` that is not there."""
    names = path.split("/")[1:-1]
    for depth in range(1, len(names) + 1):
        above = "/" + "/".join(names[:depth])
        if await session.call(maybe(get(above))) is None:
            await session.call(create(above))


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
    """Delete a subtree that nobody else writes to any more."""
    for path in reversed(await paths_below(session, root)):
        await session.call(maybe(delete(path)))
